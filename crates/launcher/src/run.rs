//! `omoi-launcher run`: makes the sandbox of a plan, layer by layer, or nothing.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use omoi_launcher::directory::{DISK_DIR, DISK_IMAGE, INTENT, STATE};
use omoi_launcher::wire::{Error, Inbox, send};
use omoi_launcher::{Answer, Bind, Cgroups, Directory, Door, Layer, Plan, Report, State};
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};

use crate::host::cgroup::{self, Groups};
use crate::host::claim::{self, Claim, Files, Intent};
use crate::host::disk::{self, Disk};
use crate::host::ids::{self, Mode};
use crate::host::trees::{Maps, Trees, image_path, lowers};
use crate::host::upper;
use crate::inside::setup::{Inheritance, Word, live};
use crate::refuse::{OrRefuse as _, Reports, Result, refusal};
use crate::sys::{self, Child};

/// An init that says nothing for so long is stuck in the kernel, or copies a very large workspace.
const WORD_TIMEOUT: Duration = Duration::from_secs(120);

pub fn run(plan: Plan) -> Answer {
    let refused = |refusal| Answer::Refused(refusal);
    if let Err(refusal) = check(&plan) {
        return refused(refusal);
    }
    let lock = match claim::claim(&plan.dir) {
        Ok(Claim::Ours(lock)) => lock,
        Ok(Claim::Theirs(state)) => return Answer::Exists(*state),
        Err(refusal) => return refused(refusal),
    };
    let mut made = Made::default();
    match make(&plan, lock, &mut made) {
        Ok(state) => Answer::Started(state),
        Err(refusal) => {
            made.undo(&plan);
            refused(refusal)
        }
    }
}

/// What has to be undone when a later step is refused.
#[derive(Default)]
struct Made {
    intent: Option<Intent>,
    disk: Option<Mode>,
    child: Option<Child>,
    files: bool,
    /// Kept until all is undone.
    lock: Option<File>,
}

impl Made {
    fn undo(self, plan: &Plan) {
        if let Some(child) = self.child {
            end(&child);
        }
        if let Some(intent) = self.intent {
            cgroup::wait_empty(&intent.cgroups);
            cgroup::remove(&intent.cgroups);
        }
        if let Some(mode) = self.disk {
            // The refusal that is on its way says more than a second one would.
            let _ = disk::remove(plan, mode);
        }
        if self.files {
            Files::remove(&plan.dir);
            // As long as there is a disk, somebody must know whose it is.
            if !plan.dir.join(DISK_DIR).exists() && !plan.dir.join(DISK_IMAGE).exists() {
                let _ = std::fs::remove_file(plan.dir.join(INTENT));
            }
        }
        drop(self.lock);
    }
}

fn make(plan: &Plan, lock: File, made: &mut Made) -> Result<State> {
    made.lock = lock.try_clone().ok();
    clear_earlier(&plan.dir)?;
    for layer in [
        Layer::UserNamespace,
        Layer::MountNamespace,
        Layer::PidNamespace,
        Layer::NetworkNamespace,
        Layer::Capabilities,
    ] {
        if plan.deny.contains(&layer) {
            return Err(refusal(layer, "denied by the plan", format_args!("take {layer} out of `deny`")));
        }
    }
    let mut reports = Reports::default();
    let heir = prepare(plan, lock, made, &mut reports)?;
    bring_up(plan, heir, made, reports)
}

/// All that is made outside, before there is a process inside.
fn prepare(plan: &Plan, lock: File, made: &mut Made, reports: &mut Reports) -> Result<Inheritance> {
    let own = |what: &str, result: std::io::Result<()>| {
        result.or_refuse(Layer::Directory, what, "see that the directory belongs to the server")
    };
    let mode = ids::choose(plan, reports)?;
    made.files = true;
    let delegated = (mode == Mode::Delegated).then_some(plan.ids);
    let intent = made.intent.insert(Intent { cgroups: cgroup::planned(plan), delegated });
    own("write down the intent", claim::write(&plan.dir, INTENT, intent))?;
    let mut groups = Groups::default();
    cgroup::make(plan, &mut groups, reports)?;
    let plan = &with_counter(plan, &groups.paths);
    let disk = disk::make(plan, mode, reports)?;
    made.disk = disk.new.then_some(mode);
    own("clear what was said before", Files::clear(&plan.dir))?;
    let files =
        Files::open(&plan.dir, lock, plan.fresh).or_broken(Layer::Directory, "open what the init writes")?;
    inherit(plan, mode, disk, groups, files, reports)
}

/// Lets those inside read how often their memory ran out, and nothing else of their control groups.
fn with_counter(plan: &Plan, groups: &Cgroups) -> Plan {
    let unified =
        groups.unified.iter().map(|group| (group.join("run/memory.events"), "/sys/fs/cgroup/memory.events"));
    let legacy = groups.legacy.get("memory").into_iter();
    let legacy =
        legacy.map(|group| (group.join("memory.oom_control"), "/sys/fs/cgroup/memory/memory.oom_control"));
    let mut plan = plan.clone();
    let counter = unified.chain(legacy).find(|(counter, _)| counter.exists());
    plan.binds.extend(counter.map(|(from, to)| Bind { from, to: to.into() }));
    plan
}

/// From the first process inside to the command that runs.
fn bring_up(plan: &Plan, heir: Inheritance, made: &mut Made, mut reports: Reports) -> Result<State> {
    let (mode, cgroups, disk) = (heir.mode, heir.groups.paths.clone(), heir.disk.kind);
    let (ours, theirs) = UnixStream::pair().or_broken(Layer::PidNamespace, "make a socket")?;
    ours.set_read_timeout(Some(WORD_TIMEOUT)).or_broken(Layer::PidNamespace, "prepare a socket")?;
    let (child, ours) = born(heir, theirs, ours)?;
    let pid = child.pid;
    made.child = Some(child);
    mode.map(plan, pid)?;
    let mut inbox = Inbox::default();
    let (doors, inside) = tell(&ours, &Word::Mapped).and_then(|()| ready(&ours, &mut inbox))?;
    reports.0.extend(inside);
    let state = State {
        id: plan.id.clone(),
        labels: plan.labels.clone(),
        pid,
        start_ticks: claim::start_ticks(pid).or_broken(Layer::PidNamespace, "look at the init")?,
        ids: plan.ids,
        cgroups,
        disk,
        doors,
        layers: reports.0,
    };
    claim::write(&plan.dir, STATE, &state).or_broken(Layer::Directory, "write the state")?;
    tell(&ours, &Word::Start)?;
    match hear(&ours, &mut inbox)? {
        Word::Started => Ok(state),
        word => Err(strange(&word)),
    }
}

fn inherit(
    plan: &Plan,
    mode: Mode,
    mut disk: Disk,
    groups: Groups,
    files: Files,
    reports: &mut Reports,
) -> Result<Inheritance> {
    let image = image_path(plan)?;
    let maps = Maps::make(plan, mode, &image, reports);
    let overlay = overlay(plan, reports);
    let lowers = lowers(plan, &image, overlay, maps.is_some(), mode)?;
    let owners = mode.owners(plan);
    mode.with_files(plan.ids, || match &disk.mount {
        Some(mount) => upper::prepare(mount, plan, owners, &lowers),
        None => {
            let dir = File::open(plan.dir.join(DISK_DIR));
            upper::prepare(dir.or_broken(Layer::DiskCap, "open the disk")?, plan, owners, &lowers)
        }
    })?;
    let trees = match mode {
        Mode::Root => Some(Trees::open(plan, &image, &lowers, &mut disk, maps.as_ref())?),
        Mode::Delegated | Mode::Shared => None,
    };
    Ok(Inheritance { plan: plan.clone(), mode, image, lowers, disk, trees, groups, files })
}

fn overlay(plan: &Plan, reports: &mut Reports) -> bool {
    let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let missing = match plan.deny.contains(&Layer::Overlay) {
        true => "denied by the plan",
        false if known.split_whitespace().any(|name| name == "overlay") => {
            reports.yes(Layer::Overlay, "image and workspace");
            return true;
        }
        false => "the kernel has no overlay file system",
    };
    reports.reduced(
        Layer::Overlay,
        format_args!("{missing}; image and workspace are copied"),
        "load the module `overlay`",
    );
    false
}

/// The child runs in here for as long as the sandbox lives.
fn born(heir: Inheritance, theirs: UnixStream, ours: UnixStream) -> Result<(Child, UnixStream)> {
    let group = heir.groups.init.as_ref().map(|group| group.as_fd());
    match sys::clone_into(sys::NAMESPACES, group).map_err(|error| crate::probe::diagnose(&error))? {
        Some(child) => Ok((child, ours)),
        None => {
            // So that the launcher's end is seen as the end of the conversation.
            drop(ours);
            live(heir, theirs);
            sys::exit_now(0)
        }
    }
}

fn ready(socket: &UnixStream, inbox: &mut Inbox) -> Result<(Vec<Door>, Vec<Report>)> {
    match hear(socket, inbox)? {
        Word::Ready { doors, reports } => Ok((doors, reports)),
        word => Err(strange(&word)),
    }
}

fn tell(socket: &UnixStream, word: &Word) -> Result<()> {
    send(socket, word, &[]).or_broken(Layer::PidNamespace, "speak to the init")
}

fn hear(socket: &UnixStream, inbox: &mut Inbox) -> Result<Word> {
    match inbox.take(socket) {
        Ok((Word::Refused(refused), _)) => Err(refused),
        Ok((word, _)) => Ok(word),
        Err(Error::Closed) => {
            Err(refusal(Layer::PidNamespace, "the init ended while it was set up", "see the kernel log"))
        }
        Err(error) => Err(error).or_broken(Layer::PidNamespace, "hear from the init"),
    }
}

fn strange(word: &Word) -> omoi_launcher::Refusal {
    refusal(Layer::PidNamespace, format_args!("the init said {word:?} out of turn"), "report this")
}

/// A directory whose sandbox has died may still have processes for a moment, and has control groups for ever.
fn clear_earlier(dir: &Path) -> Result<()> {
    if let Ok(Some(state)) = Directory::new(dir).state() {
        claim::end(&state)?;
    }
    cgroup::remove(&Intent::read(dir).cgroups);
    Ok(())
}

fn end(child: &Child) {
    let _ = pidfd_send_signal(&child.pidfd, Signal::KILL);
    let _ = waitid(WaitId::PidFd(child.pidfd.as_fd()), WaitIdOptions::EXITED);
}

fn check(plan: &Plan) -> Result<()> {
    let wrong = |detail: String, fix: &str| Err(refusal(Layer::Plan, detail, fix));
    let plain =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    if plan.id.is_empty() || plan.id.len() > 64 || !plain(&plan.id) {
        return wrong(
            format!("id {:?} names no control group", plan.id),
            "use letters, digits, `-` and `_`, at most 64",
        );
    }
    if !plan.dir.is_absolute() || !plan.cache.is_absolute() {
        return wrong("dir or cache is relative".to_owned(), "name them from the root on");
    }
    let last = plan.uid.max(plan.gid);
    if last >= plan.ids.count || plan.ids.base.checked_add(plan.ids.count).is_none() || plan.ids.base == 0 {
        let detail = format!("ids {:?} do not hold user {} and group {}", plan.ids, plan.uid, plan.gid);
        return wrong(detail, "give a range of 65536 ids above the host's own");
    }
    if plan.doors.len() > omoi_launcher::wire::FDS_MAX {
        return wrong(format!("{} doors", plan.doors.len()), "have at most 16");
    }
    let paths = plan
        .binds
        .iter()
        .map(|bind| &bind.to)
        .chain(plan.workspace.iter().map(|it| &it.at))
        .chain([&plan.cwd]);
    for path in paths {
        let odd = |part| matches!(part, std::path::Component::ParentDir);
        if !path.is_absolute() || path.components().any(odd) {
            return wrong(
                format!("{} is no plain absolute path", path.display()),
                "name it from the root on, without `..`",
            );
        }
    }
    Ok(())
}
