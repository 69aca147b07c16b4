//! The layers of isolation that sandboxes on this machine can have, tried by the launcher in one that is thrown away, and
//! what becomes of a sandbox where one is missing.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use omoi_launcher::{Launcher, Layer, Report, Status};
use omoi_server::config::Sandbox;
use serde::Serialize;
use tokio::sync::oneshot;

use super::{Check, Need, scratch_name, store::nearest};

pub const AREA: &str = "isolation";
const PROBE_TIMEOUT: Duration = Duration::from_secs(60);

/// What `omoi sandbox create` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Create {
    Runs,
    RunsReduced,
    Refuses,
}

/// Tries each layer on the disk that sandboxes would be on.
pub async fn checks(launcher: &Path, data_dir: &Path, config: &Sandbox) -> Vec<Check> {
    let failed = |detail: String| {
        let fix = "see that omoi-launcher is of the same version as omoi, and try it as the user that runs the server";
        vec![Check::missing(AREA, "probe", detail, fix).needed_by(Need::Sandboxes)]
    };
    let Some(beside) = nearest(data_dir) else {
        return failed(format!("{} has no directory above it", data_dir.display()));
    };
    let scratch = fs::canonicalize(&beside).unwrap_or(beside).join(format!("{}.p", scratch_name()));
    match probe(launcher.to_owned(), scratch).await {
        Ok(reports) if reports.is_empty() => failed("the launcher tells of no layer".to_owned()),
        Ok(reports) => reports.iter().map(|report| check(report, config)).collect(),
        Err(error) => failed(error),
    }
}

/// Sandboxes are tried where they would be: without that place every layer would fail for the same reason.
pub fn not_tried() -> Check {
    let detail = "not tried: sandboxes would be in the data directory, which cannot be used";
    Check::missing(AREA, "probe", detail, "see to the data directory first").needed_by(Need::Sandboxes)
}

/// On a thread of its own: one that hangs must not keep the program from ending.
async fn probe(launcher: PathBuf, scratch: PathBuf) -> Result<Vec<Report>, String> {
    let (tell, told) = oneshot::channel();
    std::thread::spawn(move || {
        let probed = Launcher::new(launcher).probe(&scratch).map_err(|error| error.to_string());
        // It holds what the launcher made for all of its sandboxes.
        let _ = fs::remove_dir_all(&scratch);
        let _ = tell.send(probed);
    });
    match tokio::time::timeout(PROBE_TIMEOUT, told).await {
        Ok(Ok(probed)) => probed,
        Ok(Err(_)) => Err("the probe broke off".to_owned()),
        Err(_) => Err(format!("the probe takes longer than {} s", PROBE_TIMEOUT.as_secs())),
    }
}

fn check(report: &Report, config: &Sandbox) -> Check {
    let name = name(report.layer);
    let denied = config.deny_layers.contains(&report.layer);
    let (status, detail, fix) = if denied {
        (Status::No, "counts as missing by sandbox.deny_layers", "take it out of sandbox.deny_layers")
    } else {
        (report.status, report.detail.as_str(), report.fix.as_str())
    };
    let create = create(report.layer, status, config);
    let fix = match accepted_by(report.layer).filter(|_| create == Create::Refuses && !denied) {
        Some(key) if !fix.contains(key) => format!("{fix}; or accept it with {key}"),
        _ => fix.to_owned(),
    };
    let check = match (status, create) {
        (Status::Yes, _) => Check::ok(AREA, name, detail),
        (_, Create::Refuses) => Check::missing(AREA, name, detail, fix),
        (_, Create::Runs | Create::RunsReduced) => Check::warn(AREA, name, detail, fix),
    };
    Check { status: Some(status), create: Some(create), ..check.needed_by(Need::Sandboxes) }
}

/// What is missing is refused, unless what stays is isolation all the same or an administrator has accepted it.
fn create(layer: Layer, status: Status, config: &Sandbox) -> Create {
    let unless = |accepted: bool| if accepted { Create::RunsReduced } else { Create::Refuses };
    match (layer, status) {
        (_, Status::Yes) => Create::Runs,
        (Layer::MemoryLimit | Layer::PidsLimit, _) => unless(config.allow_soft_limits),
        (Layer::IdRanges, _) => unless(config.allow_shared_id),
        (Layer::DiskCap, _) => unless(!config.require_disk_cap),
        (_, Status::Reduced) => Create::RunsReduced,
        (
            Layer::CpuLimit | Layer::CgroupKill | Layer::Landlock | Layer::Overlay | Layer::IdmappedMounts,
            Status::No,
        ) => Create::RunsReduced,
        (
            Layer::UserNamespace
            | Layer::MountNamespace
            | Layer::PidNamespace
            | Layer::NetworkNamespace
            | Layer::Capabilities
            | Layer::NoNewPrivs
            | Layer::Seccomp
            | Layer::Plan
            | Layer::Directory
            | Layer::Image
            | Layer::Workspace
            | Layer::Doors
            | Layer::Command,
            Status::No,
        ) => Create::Refuses,
    }
}

/// The setting with which an administrator does without.
fn accepted_by(layer: Layer) -> Option<&'static str> {
    match layer {
        Layer::MemoryLimit | Layer::PidsLimit => Some("sandbox.allow_soft_limits"),
        Layer::IdRanges => Some("sandbox.allow_shared_id"),
        _ => None,
    }
}

/// As it is spelt in answers and in sandbox.deny_layers.
fn name(layer: Layer) -> &'static str {
    match layer {
        Layer::UserNamespace => "user_namespace",
        Layer::IdRanges => "id_ranges",
        Layer::MountNamespace => "mount_namespace",
        Layer::PidNamespace => "pid_namespace",
        Layer::NetworkNamespace => "network_namespace",
        Layer::Overlay => "overlay",
        Layer::IdmappedMounts => "idmapped_mounts",
        Layer::MemoryLimit => "memory_limit",
        Layer::PidsLimit => "pids_limit",
        Layer::CpuLimit => "cpu_limit",
        Layer::CgroupKill => "cgroup_kill",
        Layer::DiskCap => "disk_cap",
        Layer::Capabilities => "capabilities",
        Layer::NoNewPrivs => "no_new_privs",
        Layer::Seccomp => "seccomp",
        Layer::Landlock => "landlock",
        Layer::Plan => "plan",
        Layer::Directory => "directory",
        Layer::Image => "image",
        Layer::Workspace => "workspace",
        Layer::Doors => "doors",
        Layer::Command => "command",
    }
}

#[cfg(test)]
mod tests {
    use Create::{Refuses, Runs, RunsReduced};
    use omoi_server::config::Config;

    use super::*;
    use crate::doctor::Level;

    fn report(layer: Layer, status: Status) -> Report {
        Report { layer, status, detail: "as it is".to_owned(), fix: "change it".to_owned() }
    }

    #[test]
    fn what_is_missing_is_refused_unless_it_may_be_done_without() {
        let strict = Config::default().sandbox;
        let accepting = Sandbox { allow_soft_limits: true, allow_shared_id: true, ..strict.clone() };
        let capped = Sandbox { require_disk_cap: true, ..strict.clone() };
        for (layer, status, config, expected) in [
            (Layer::Seccomp, Status::Yes, &strict, Runs),
            (Layer::Seccomp, Status::No, &accepting, Refuses),
            (Layer::NoNewPrivs, Status::No, &accepting, Refuses),
            (Layer::UserNamespace, Status::No, &accepting, Refuses),
            (Layer::MountNamespace, Status::No, &accepting, Refuses),
            (Layer::PidNamespace, Status::No, &accepting, Refuses),
            (Layer::NetworkNamespace, Status::No, &accepting, Refuses),
            (Layer::MemoryLimit, Status::No, &strict, Refuses),
            (Layer::MemoryLimit, Status::Reduced, &strict, Refuses),
            (Layer::MemoryLimit, Status::Reduced, &accepting, RunsReduced),
            (Layer::PidsLimit, Status::Reduced, &strict, Refuses),
            (Layer::IdRanges, Status::Reduced, &strict, Refuses),
            (Layer::IdRanges, Status::Reduced, &accepting, RunsReduced),
            (Layer::DiskCap, Status::Reduced, &strict, RunsReduced),
            (Layer::DiskCap, Status::Reduced, &capped, Refuses),
            (Layer::CpuLimit, Status::No, &strict, RunsReduced),
            (Layer::Landlock, Status::No, &strict, RunsReduced),
            (Layer::Overlay, Status::No, &strict, RunsReduced),
        ] {
            assert_eq!(create(layer, status, config), expected, "{layer:?} {status:?}");
        }
    }

    #[test]
    fn a_layer_that_is_refused_names_the_fix_and_the_setting() {
        let config = Config::default().sandbox;
        let found = check(&report(Layer::MemoryLimit, Status::Reduced), &config);
        assert_eq!(found.level, Level::Missing);
        assert_eq!(found.fix.as_deref(), Some("change it; or accept it with sandbox.allow_soft_limits"));
        let found = check(&report(Layer::Landlock, Status::No), &config);
        assert_eq!((found.level, found.create), (Level::Warn, Some(RunsReduced)));
        let denying = Sandbox { deny_layers: vec![Layer::Seccomp], ..config };
        let found = check(&report(Layer::Seccomp, Status::Yes), &denying);
        assert_eq!((found.level, found.status), (Level::Missing, Some(Status::No)));
    }

    #[test]
    fn layers_are_spelt_as_everywhere_else() {
        for layer in
            [Layer::UserNamespace, Layer::IdRanges, Layer::CgroupKill, Layer::NoNewPrivs, Layer::DiskCap]
        {
            assert_eq!(name(layer), serde_json::to_value(layer).unwrap());
        }
    }
}
