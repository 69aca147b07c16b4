//! Limits: control groups of version 2 where memory and pids can be had there, else of version 1, each controller by itself.
//!
//! Only the commands are under the limits. The init stays outside of them, so that it can still answer, and start a command
//! that looks around, when a fork bomb or a full memory has everything else stuck.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use omoi_launcher::{Cgroups, Layer, Plan, Usage};

use crate::refuse::{OrRefuse as _, Reports, Result, refusal};

const CONTROLLERS: [&str; 4] = ["memory", "pids", "cpu", "cpuacct"];
const EMPTY_WITHIN: Duration = Duration::from_secs(10);
const SOFT_FIX: &str = "run omoi as root, or with cgroup v2 under `systemd-run --user --scope -p Delegate=yes`; or accept \
                        limits that hold for each process by itself: sandbox.allow_soft_limits \
                        (OMOI_SANDBOX_ALLOW_SOFT_LIMITS=true)";

/// The control groups of one sandbox, with what its init needs of them.
#[derive(Debug, Default)]
pub struct Groups {
    pub paths: Cgroups,
    /// `cgroup.procs` of each group that a command joins.
    pub joins: Vec<File>,
    /// The group of version 2 that the init is born into.
    pub init: Option<File>,
    pub meters: Meters,
    /// Limits that only hold for each process by itself.
    pub soft: bool,
}

/// Open files of the groups, which the init reads when it has no path to them any more.
#[derive(Debug, Default)]
pub struct Meters {
    memory: Option<File>,
    pids: Option<File>,
    cpu: Option<File>,
    events: Option<File>,
}

/// Where hierarchies are mounted on this machine.
#[derive(Debug, Default)]
struct Hierarchies {
    unified: Option<PathBuf>,
    legacy: Vec<(String, PathBuf)>,
}

pub fn make(plan: &Plan, groups: &mut Groups, reports: &mut Reports) -> Result<()> {
    let machine = Hierarchies::find();
    let parent = parent(plan);
    let denied = |layer| plan.deny.contains(&layer);
    let both = !denied(Layer::MemoryLimit) && !denied(Layer::PidsLimit);
    let unified = machine.unified.as_deref().filter(|root| both && has_controllers(root));

    let made = match machine.unified.as_deref() {
        None => Err(io::Error::other("no cgroup v2 hierarchy")),
        Some(_) if denied(Layer::CgroupKill) => Err(denied_by_plan()),
        Some(root) => make_unified(&root.join(&parent), &plan.id, unified.is_some(), groups),
    };
    let limited = match (&made, unified) {
        (Ok(group), Some(_)) => limit_unified(plan, &group.join("run"), groups),
        _ => limit_legacy(plan, &machine, &parent, groups),
    };
    match made {
        Ok(_) => reports.yes(Layer::CgroupKill, "cgroup.kill"),
        Err(error) => no_kill(reports, &error.to_string()),
    }
    report_limits(plan, limited, groups, reports)
}

/// Kills everything in the groups. Says whether there was a way to.
pub fn kill(paths: &Cgroups) -> bool {
    paths.unified.as_ref().is_some_and(|group| fs::write(group.join("cgroup.kill"), "1").is_ok())
}

/// Waits until nothing lives in the groups.
pub fn wait_empty(paths: &Cgroups) -> bool {
    let deadline = Instant::now() + EMPTY_WITHIN;
    let groups = || paths.legacy.values().cloned().chain(paths.unified.iter().map(|group| group.join("run")));
    while groups().any(|group| !is_empty(&group)) {
        if Instant::now() > deadline {
            return false;
        }
        kill(paths);
        crate::pause(Duration::from_millis(2));
    }
    true
}

/// Removes the groups' directories. What is not there is well.
pub fn remove(paths: &Cgroups) {
    let unified =
        paths.unified.iter().flat_map(|group| [group.join("run"), group.join("init"), group.clone()]);
    for group in unified.chain(paths.legacy.values().cloned()) {
        let deadline = Instant::now() + Duration::from_secs(2);
        // A group stays busy for a moment after its last process has gone.
        while fs::remove_dir(&group).is_err_and(|error| error.raw_os_error() == Some(libc::EBUSY)) {
            if Instant::now() > deadline {
                break;
            }
            crate::pause(Duration::from_millis(2));
        }
    }
}

/// The groups that a plan may have on this machine, known before any is made.
pub fn planned(plan: &Plan) -> Cgroups {
    let machine = Hierarchies::find();
    let below = |root: &Path| root.join(parent(plan)).join(&plan.id);
    let legacy =
        CONTROLLERS.iter().filter_map(|name| Some(((*name).to_owned(), below(machine.legacy(name)?))));
    Cgroups { unified: machine.unified.as_deref().map(below), legacy: legacy.collect() }
}

fn parent(plan: &Plan) -> PathBuf {
    plan.cgroup.clone().unwrap_or_else(|| "omoi".into())
}

impl Meters {
    pub fn usage(&mut self) -> Usage {
        Usage {
            memory_bytes: number(&mut self.memory, ""),
            pids: number(&mut self.pids, ""),
            // cpuacct.usage counts nanoseconds and has no names; cpu.stat counts microseconds.
            cpu_micros: number(&mut self.cpu, "usage_usec")
                .or_else(|| number(&mut self.cpu, "").map(|ns| ns / 1000)),
            oom_kills: self.oom_kills(),
            ..Usage::default()
        }
    }

    pub fn oom_kills(&mut self) -> Option<u64> {
        number(&mut self.events, "oom_kill")
    }
}

/// The number behind a name, or the only number of a file that has no names.
fn number(file: &mut Option<File>, name: &str) -> Option<u64> {
    let file = file.as_mut()?;
    let mut text = String::new();
    file.seek(SeekFrom::Start(0)).ok()?;
    file.take(64 * 1024).read_to_string(&mut text).ok()?;
    if name.is_empty() {
        return text.trim().parse().ok();
    }
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.trim().parse().ok()
}

impl Hierarchies {
    fn find() -> Self {
        let mut found = Self::default();
        for line in fs::read_to_string("/proc/self/mountinfo").unwrap_or_default().lines() {
            let Some((left, right)) = line.split_once(" - ") else { continue };
            let Some(at) = left.split(' ').nth(4).map(PathBuf::from) else { continue };
            let mut right = right.split(' ');
            match right.next() {
                Some("cgroup2") => {
                    found.unified.get_or_insert(at);
                }
                Some("cgroup") => {
                    for controller in right.nth(1).unwrap_or_default().split(',') {
                        found.legacy.push((controller.to_owned(), at.clone()));
                    }
                }
                _ => {}
            }
        }
        found
    }

    fn legacy(&self, controller: &str) -> Option<&Path> {
        self.legacy.iter().find(|(name, _)| name == controller).map(|(_, at)| at.as_path())
    }
}

fn has_controllers(root: &Path) -> bool {
    let text = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
    ["memory", "pids"].iter().all(|wanted| text.split_whitespace().any(|have| have == *wanted))
}

fn make_unified(parent: &Path, id: &str, controllers: bool, groups: &mut Groups) -> io::Result<PathBuf> {
    let group = parent.join(id);
    make_dirs(parent)?;
    make_dir(&group)?;
    groups.paths.unified = Some(group.clone());
    if controllers {
        let above = parent.parent().unwrap_or(parent);
        for dir in [above, parent, &group] {
            let enabled = fs::write(dir.join("cgroup.subtree_control"), "+memory +pids");
            // What is above a delegated place is not ours to change, and need not be.
            if dir != above || !has_controllers(parent) {
                enabled?;
            }
            // The cpu controller may be missing where the others are not.
            let _ = fs::write(dir.join("cgroup.subtree_control"), "+cpu");
        }
    }
    make_dir(&group.join("init"))?;
    make_dir(&group.join("run"))?;
    groups.init = Some(File::open(group.join("init"))?);
    groups.joins.push(File::options().write(true).open(group.join("run/cgroup.procs"))?);
    Ok(group)
}

type Limited = [(Layer, io::Result<String>); 3];

fn limit_unified(plan: &Plan, run: &Path, groups: &mut Groups) -> Limited {
    let limits = &plan.limits;
    let memory = fs::write(run.join("memory.max"), limits.memory_bytes.to_string()).map(|()| {
        // Absent where the kernel counts no swap.
        let _ = fs::write(run.join("memory.swap.max"), "0");
        "cgroup v2".to_owned()
    });
    let pids = fs::write(run.join("pids.max"), limits.pids.to_string()).map(|()| "cgroup v2".to_owned());
    let cpu = match plan.deny.contains(&Layer::CpuLimit) {
        true => Err(denied_by_plan()),
        false => {
            let quota = format!("{} 100000", u64::from(limits.cpu_millis) * 100);
            fs::write(run.join("cpu.max"), quota).map(|()| "cgroup v2".to_owned())
        }
    };
    let open = |name: &str| File::open(run.join(name)).ok();
    groups.meters = Meters {
        memory: open("memory.current"),
        pids: open("pids.current"),
        cpu: open("cpu.stat"),
        events: open("memory.events"),
    };
    [(Layer::MemoryLimit, memory), (Layer::PidsLimit, pids), (Layer::CpuLimit, cpu)]
}

fn limit_legacy(plan: &Plan, machine: &Hierarchies, parent: &Path, groups: &mut Groups) -> Limited {
    let limits = &plan.limits;
    let mut group = |controller: &str, layer: Layer| -> io::Result<PathBuf> {
        if plan.deny.contains(&layer) {
            return Err(denied_by_plan());
        }
        let root = machine.legacy(controller).ok_or_else(|| {
            io::Error::other(format!(
                "no cgroup v1 hierarchy has {controller}, and v2 does not offer it here"
            ))
        })?;
        let path = root.join(parent).join(&plan.id);
        make_dirs(&root.join(parent))?;
        make_dir(&path)?;
        groups.paths.legacy.insert(controller.to_owned(), path.clone());
        groups.joins.push(File::options().write(true).open(path.join("cgroup.procs"))?);
        Ok(path)
    };
    let memory = group("memory", Layer::MemoryLimit).and_then(|path| {
        // A group that is used again may only be changed in the order that keeps memory below memory and swap.
        let bytes = limits.memory_bytes.to_string();
        let _ = fs::write(path.join("memory.memsw.limit_in_bytes"), "-1");
        fs::write(path.join("memory.limit_in_bytes"), &bytes)?;
        let _ = fs::write(path.join("memory.memsw.limit_in_bytes"), &bytes);
        Ok("cgroup v1".to_owned())
    });
    let pids = group("pids", Layer::PidsLimit).and_then(|path| {
        fs::write(path.join("pids.max"), limits.pids.to_string())?;
        Ok("cgroup v1".to_owned())
    });
    let cpu = group("cpu", Layer::CpuLimit).and_then(|path| {
        fs::write(path.join("cpu.cfs_period_us"), "100000")?;
        fs::write(path.join("cpu.cfs_quota_us"), (u64::from(limits.cpu_millis) * 100).to_string())?;
        Ok("cgroup v1".to_owned())
    });
    let accounts = group("cpuacct", Layer::CpuLimit).ok();
    let open =
        |controller: &str, name: &str| File::open(groups.paths.legacy.get(controller)?.join(name)).ok();
    groups.meters = Meters {
        memory: open("memory", "memory.usage_in_bytes"),
        pids: open("pids", "pids.current"),
        cpu: accounts.and_then(|path| File::open(path.join("cpuacct.usage")).ok()),
        events: open("memory", "memory.oom_control"),
    };
    [(Layer::MemoryLimit, memory), (Layer::PidsLimit, pids), (Layer::CpuLimit, cpu)]
}

fn report_limits(plan: &Plan, limited: Limited, groups: &mut Groups, reports: &mut Reports) -> Result<()> {
    for (layer, result) in limited {
        match result {
            Ok(detail) => reports.yes(layer, detail),
            Err(error) if layer == Layer::CpuLimit => {
                reports.no(layer, error, "give the cpu controller to the server");
            }
            Err(error) if plan.allow.soft_limits => {
                groups.soft = true;
                reports.reduced(layer, format_args!("{error}; limited for each process by itself"), SOFT_FIX);
            }
            Err(error) => return Err(refusal(layer, format_args!("cannot be set: {error}"), SOFT_FIX)),
        }
    }
    Ok(())
}

fn no_kill(reports: &mut Reports, why: &str) {
    let detail = format!("{why}; everything is killed by ending the init of the pid namespace");
    reports.reduced(Layer::CgroupKill, detail, "mount cgroup v2 and let the server make groups in it");
}

fn denied_by_plan() -> io::Error {
    io::Error::other("denied by the plan")
}

fn is_empty(group: &Path) -> bool {
    fs::read_to_string(group.join("cgroup.procs")).is_ok_and(|text| text.is_empty()) || !group.exists()
}

fn make_dirs(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

fn make_dir(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// Moves the calling process into the groups.
pub fn join(joins: &[File]) -> Result<()> {
    for group in joins {
        let mut group = group;
        group.write_all(b"0").or_broken(Layer::MemoryLimit, "join a control group")?;
    }
    Ok(())
}
