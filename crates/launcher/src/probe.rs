//! What this machine can do, found out by doing it: each namespace by itself, then a whole sandbox that is thrown away.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use omoi_launcher::{Allow, Answer, Ids, Image, Layer, Limits, Plan, Refusal, Report};
use rustix::process::{WaitId, WaitIdOptions, geteuid, waitid};

use crate::host::ids::own_ranges;
use crate::refuse::{Reports, refusal};
use crate::{remove, run, sys};

const NAMESPACES: [(Layer, u64); 4] = [
    (Layer::UserNamespace, 0),
    (Layer::MountNamespace, sys::NEW_MOUNT),
    (Layer::PidNamespace, sys::NEW_PID),
    (Layer::NetworkNamespace, sys::NEW_NET),
];

/// Every layer that a probe speaks of, in the order that a person reads them.
const LAYERS: [Layer; 16] = [
    Layer::UserNamespace,
    Layer::IdRanges,
    Layer::MountNamespace,
    Layer::PidNamespace,
    Layer::NetworkNamespace,
    Layer::Overlay,
    Layer::IdmappedMounts,
    Layer::MemoryLimit,
    Layer::PidsLimit,
    Layer::CpuLimit,
    Layer::CgroupKill,
    Layer::DiskCap,
    Layer::Capabilities,
    Layer::NoNewPrivs,
    Layer::Seccomp,
    Layer::Landlock,
];

/// Far above what accounts have, for root; others have what they are given.
const ROOT_IDS: Ids = Ids { base: 4_000_000_000, count: 65_536 };

pub fn probe(cache: &Path) -> Vec<Report> {
    let dir = cache.join(format!("probe-{}", std::process::id()));
    let mut reports = Reports::default();
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir);
    match made.map(|()| run::run(plan(cache, &dir))) {
        Ok(Answer::Started(state) | Answer::Exists(state)) => reports.0 = state.layers,
        Ok(Answer::Refused(refused)) => without(&refused, &mut reports),
        Err(error) => {
            let detail = format!("{} cannot be written to: {error}", cache.display());
            let fix = "make it writable for this user, or name another directory";
            without(&refusal(Layer::Directory, detail, fix), &mut reports);
        }
    }
    // What cannot be removed is reported by the next thing that fails over it.
    let _ = remove::remove(&dir);
    LAYERS
        .iter()
        .filter_map(|layer| reports.0.iter().find(|report| report.layer == *layer).cloned())
        .collect()
}

/// Which of the namespaces it was that could not be made.
pub fn diagnose(error: &io::Error) -> Refusal {
    let fails = NAMESPACES.into_iter().find_map(|(layer, flag)| Some((layer, try_namespace(flag).err()?)));
    let (layer, detail) = match fails {
        Some((layer, error)) => (layer, format!("cannot be made: {error}")),
        None => (Layer::PidNamespace, format!("cannot start the init: {error}")),
    };
    refusal(layer, detail, fix(layer))
}

/// One layer stopped the sandbox: the namespaces are tried by themselves, and of the others nothing is known.
fn without(refused: &Refusal, reports: &mut Reports) {
    for (layer, flag) in NAMESPACES {
        match try_namespace(flag) {
            Ok(()) => reports.yes(layer, "made"),
            Err(error) => reports.no(layer, format_args!("cannot be made: {error}"), fix(layer)),
        }
    }
    reports.0.retain(|report| report.layer != refused.layer);
    reports.no(refused.layer, &refused.detail, &refused.fix);
    for layer in LAYERS {
        if !reports.0.iter().any(|report| report.layer == layer) {
            let detail = format!("not reached: {} ({})", refused.layer, refused.detail);
            reports.no(layer, detail, &refused.fix);
        }
    }
}

fn try_namespace(flag: u64) -> io::Result<()> {
    match sys::clone_into(sys::NEW_USER | flag, None)? {
        None => sys::exit_now(0),
        Some(child) => {
            waitid(WaitId::PidFd(child.pidfd.as_fd()), WaitIdOptions::EXITED)?;
            Ok(())
        }
    }
}

/// Accepts what an administrator could accept, so that a probe sees behind the first thing that is missing.
pub fn plan(cache: &Path, dir: &Path) -> Plan {
    let given = own_ranges(&fs::read_to_string("/etc/subuid").unwrap_or_default()).into_iter().next();
    let given = given
        .and_then(|(base, count)| Some(Ids { base: base.try_into().ok()?, count: count.try_into().ok()? }));
    Plan {
        id: format!("probe-{}", std::process::id()),
        dir: dir.to_owned(),
        cache: cache.to_owned(),
        labels: BTreeMap::new(),
        image: Image::Host { opt: false },
        workspace: None,
        binds: vec![],
        files: vec![],
        ids: if geteuid().is_root() { ROOT_IDS } else { given.unwrap_or(ROOT_IDS) },
        limits: Limits {
            memory_bytes: 256 << 20,
            pids: 16,
            cpu_millis: 1000,
            disk_bytes: 32 << 20,
            disk_hard: false,
            tmp_bytes: 1 << 20,
            log_bytes: 1 << 16,
        },
        doors: vec![],
        argv: vec!["true".to_owned()],
        env: BTreeMap::new(),
        cwd: "/".into(),
        uid: 1000,
        gid: 1000,
        root_inside: false,
        oom_score_adj: 0,
        linger: true,
        fresh: true,
        cgroup: None,
        allow: Allow { soft_limits: true, shared_id: true },
        deny: vec![],
    }
}

pub fn fix(layer: Layer) -> &'static str {
    match layer {
        Layer::UserNamespace => {
            "allow user namespaces: sysctl user.max_user_namespaces and kernel.unprivileged_userns_clone; on Ubuntu an AppArmor \
             profile with `userns,` for this program; in a container a seccomp profile that allows clone3 and unshare"
        }
        _ => "see the limits below /proc/sys/user, and in a container its seccomp profile",
    }
}
