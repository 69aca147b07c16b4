//! From a newborn process to the init: everything is made here, told to the launcher that waits outside, and only then is the
//! main command started. Until then the launcher's end is the sandbox's end.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use omoi_launcher::wire::{Inbox, send};
use omoi_launcher::{Door, Exec, Layer, Plan, Refusal, Report};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{DumpableBehavior, set_dumpable_behavior, setsid};
use serde::{Deserialize, Serialize};

use crate::host::cgroup::Groups;
use crate::host::claim::Files;
use crate::host::disk::Disk;
use crate::host::ids::Mode;
use crate::host::trees::Trees;
use crate::host::upper::Lowers;
use crate::inside::init::Init;
use crate::inside::log::Log;
use crate::inside::restrict::Rules;
use crate::inside::spawn::Spawner;
use crate::inside::{doors, root};
use crate::refuse::{OrRefuse as _, Reports, Result};
use crate::sys;

/// What the launcher and the newborn init say to each other.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// The ids are mapped.
    Mapped,
    /// All is made but the command.
    Ready {
        doors: Vec<Door>,
        reports: Vec<Report>,
    },
    /// The state is written down.
    Start,
    Started,
    Refused(Refusal),
}

/// All that the launcher has made ready for the init.
#[derive(Debug)]
pub struct Inheritance {
    pub plan: Plan,
    pub mode: Mode,
    pub image: PathBuf,
    pub lowers: Lowers,
    pub disk: Disk,
    /// Made outside by root; an ordinary user makes them inside.
    pub trees: Option<Trees>,
    pub groups: Groups,
    pub files: Files,
}

/// The newborn's life. Returns when the sandbox is over.
pub fn live(inheritance: Inheritance, launcher: UnixStream) {
    let mut inbox = Inbox::default();
    match begin(inheritance, &launcher, &mut inbox) {
        Ok(Some(init)) => {
            let _ = send(&launcher, &Word::Started, &[]);
            drop(launcher);
            init.run();
        }
        Ok(None) => {}
        Err(refused) => {
            let _ = send(&launcher, &Word::Refused(refused), &[]);
        }
    }
}

/// `None` when the launcher has gone before the sandbox was complete.
fn begin(mut from: Inheritance, launcher: &UnixStream, inbox: &mut Inbox) -> Result<Option<Init>> {
    let plan = from.plan.clone();
    detach().or_broken(Layer::PidNamespace, "leave the launcher's session")?;
    if !matches!(inbox.take(launcher), Ok((Word::Mapped, _))) {
        return Ok(None);
    }
    let trees = match from.trees.take() {
        Some(trees) => trees,
        None => Trees::open(&plan, &from.image, &from.lowers, &mut from.disk, None)?,
    };
    from.mode.become_root()?;
    let _ = rustix::system::sethostname(b"sandbox");
    let disk = root::build(&plan, from.mode, &from.lowers, trees)?;
    root::write_files(&plan, from.mode).or_broken(Layer::Plan, "write the plan's files below /run/omoi")?;
    let doors = doors::open(&plan.doors).or_refuse(
        Layer::Doors,
        "listen inside",
        "give each door a port of its own",
    )?;
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);

    let spawner = Spawner {
        rules: Rules::new(&plan, from.mode, from.groups.soft),
        joins: from.groups.joins,
        oom_score_adj: plan.oom_score_adj,
    };
    spawner.rules.apply_landlock()?;
    // The launcher tells of the sandbox once it is ready, and whoever reads that may ask it to end.
    let signals =
        sys::signals(&[libc::SIGCHLD, libc::SIGTERM]).or_broken(Layer::PidNamespace, "take signals")?;
    let ready = Word::Ready {
        doors: doors.iter().map(|(door, _)| door.clone()).collect(),
        reports: reports(&plan, &spawner.rules)?,
    };
    if send(launcher, &ready, &[]).is_err() || !matches!(inbox.take(launcher), Ok((Word::Start, _))) {
        return Ok(None);
    }
    let (log, main) = start(&plan, &spawner, &from.files)?;
    Ok(Some(Init {
        spawner,
        control: from.files.control,
        signals,
        doors,
        log,
        exit_file: from.files.exit,
        meters: from.groups.meters,
        disk,
        disk_kind: from.disk.kind,
        linger: plan.linger,
        main,
        lock: from.files.lock,
        connections: Vec::new(),
        exit: None,
        stop_at: None,
    }))
}

fn start(plan: &Plan, spawner: &Spawner, files: &Files) -> Result<(Log, i32)> {
    let layer = Layer::Command;
    let null = File::open("/dev/null").or_broken(layer, "open /dev/null")?;
    let (output, input) = pipe_with(PipeFlags::CLOEXEC).or_broken(layer, "make a pipe")?;
    rustix::io::ioctl_fionbio(&output, true).or_broken(layer, "prepare the log")?;
    let exec = Exec {
        argv: plan.argv.clone(),
        env: plan.env.clone(),
        cwd: plan.cwd.clone(),
        uid: plan.uid,
        gid: plan.gid,
    };
    let mut spawned = spawner.spawn(&exec, [null.as_fd(), input.as_fd(), input.as_fd()])?;
    drop(input);
    spawned.wait_started()?;
    let copy = |file: &File| file.try_clone().or_broken(layer, "open the log");
    Ok((Log::new(output, copy(&files.log)?, copy(&files.log_old)?, plan.limits.log_bytes), spawned.pid))
}

/// The launcher's standard output must end with the launcher, for somebody reads it to its end.
fn detach() -> std::io::Result<()> {
    setsid()?;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(rustix::stdio::dup2_stderr(&null)?)
}

fn reports(plan: &Plan, rules: &Rules) -> Result<Vec<Report>> {
    let mut reports = Reports::default();
    for layer in [Layer::UserNamespace, Layer::MountNamespace, Layer::PidNamespace, Layer::NetworkNamespace] {
        reports.yes(layer, "made");
    }
    let denied = |layer: Layer| match plan.deny.contains(&layer) {
        true => Err("denied by the plan"),
        false => Ok(()),
    };
    let kept =
        if plan.root_inside { "all dropped but eight, inside the user namespace" } else { "all dropped" };
    reports.yes(Layer::Capabilities, kept);
    denied(Layer::NoNewPrivs).or_refuse(
        Layer::NoNewPrivs,
        "give up new privileges",
        "use Linux 3.5 or newer",
    )?;
    reports.yes(Layer::NoNewPrivs, "set");
    let filter = denied(Layer::Seccomp)
        .and_then(|()| if sys::seccomp_available() { Ok(()) } else { Err("the kernel has no filters") });
    filter.or_refuse(Layer::Seccomp, "filter system calls", "use a kernel with CONFIG_SECCOMP_FILTER")?;
    reports.yes(Layer::Seccomp, "deny-list");
    match rules.landlock {
        true if plan.root_inside => reports.reduced(
            Layer::Landlock,
            "does not restrict where root inside writes",
            "do without `root_inside`",
        ),
        true => reports.yes(Layer::Landlock, format_args!("version {}", sys::landlock_version())),
        false => reports.no(
            Layer::Landlock,
            "not in this kernel, or denied",
            "enable `landlock` among the kernel's security modules",
        ),
    }
    Ok(reports.0)
}
