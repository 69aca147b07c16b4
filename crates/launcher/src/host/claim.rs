//! Who owns a sandbox's directory: whoever holds its lock. `run` takes the lock, and the init it makes keeps it for life.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, Instant};

use omoi_launcher::directory::{CONTROL, EXIT, INTENT, LOCK, LOG, LOG_OLD, STATE};
use omoi_launcher::{Cgroups, Directory, Ids, Layer, State};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use serde::{Deserialize, Serialize};

use crate::host::cgroup;
use crate::refuse::{OrRefuse as _, Result, refusal};

const OTHER_READY_WITHIN: Duration = Duration::from_secs(30);
const GONE_WITHIN: Duration = Duration::from_secs(20);

/// The outcome of trying to take a directory.
#[derive(Debug)]
pub enum Claim {
    Ours(File),
    /// A sandbox lives there.
    Theirs(Box<State>),
}

/// What the init writes to for life. It may write to these and to nothing else of the directory.
#[derive(Debug)]
pub struct Files {
    pub lock: File,
    pub control: UnixListener,
    pub log: File,
    pub log_old: File,
    pub exit: File,
}

/// Takes the lock, or waits until the one who has it has made its sandbox.
pub fn claim(dir: &Path) -> Result<Claim> {
    let fix = "make the directory first, with mode 0700";
    let path = dir.join(LOCK);
    let lock = File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
    let lock = lock.or_refuse(Layer::Directory, format_args!("open {}", path.display()), fix)?;
    let deadline = Instant::now() + OTHER_READY_WITHIN;
    loop {
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Claim::Ours(lock)),
            Err(Errno::WOULDBLOCK) => {}
            Err(error) => return Err(error).or_broken(Layer::Directory, "lock the directory"),
        }
        // A state that was left by a dead sandbox names no living init.
        if let Ok(Some(state)) = Directory::new(dir).state()
            && find_init(&state).is_some()
        {
            return Ok(Claim::Theirs(Box::new(state)));
        }
        if Instant::now() > deadline {
            let detail = format!("{} is locked by somebody who makes no sandbox", dir.display());
            return Err(refusal(Layer::Directory, detail, "see who holds the file `lock` open"));
        }
        crate::pause(Duration::from_millis(5));
    }
}

impl Files {
    /// Removes what an earlier sandbox said of itself.
    pub fn clear(dir: &Path) -> io::Result<()> {
        for name in [STATE, EXIT, CONTROL] {
            match fs::remove_file(dir.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Opens what the new one will say. The log goes on, unless all is fresh.
    pub fn open(dir: &Path, lock: File, fresh: bool) -> io::Result<Self> {
        let open = |name: &str| {
            File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(fresh)
                .mode(0o600)
                .open(dir.join(name))
        };
        let place = File::open(dir)?;
        // By descriptor: a socket's own path may be no longer than 107 bytes.
        let control = UnixListener::bind(format!("/proc/self/fd/{}/{CONTROL}", place.as_raw_fd()))?;
        control.set_nonblocking(true)?;
        Ok(Self { lock, control, log: open(LOG)?, log_old: open(LOG_OLD)?, exit: open(EXIT)? })
    }

    /// Takes back what [`Files::open`] has made. The lock file stays, as others may wait on it, and so does an earlier log.
    pub fn remove(dir: &Path) {
        let _ = Self::clear(dir);
        for name in [LOG, LOG_OLD] {
            if dir.join(name).metadata().is_ok_and(|meta| meta.len() == 0) {
                let _ = fs::remove_file(dir.join(name));
            }
        }
    }
}

/// Writes a file so that a reader finds all of it or nothing.
pub fn write(dir: &Path, name: &str, content: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec(content)?;
    text.push(b'\n');
    let draft = dir.join(format!("{name}.draft"));
    let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(&text)?;
    file.sync_data()?;
    fs::rename(draft, dir.join(name))
}

/// What a directory's sandbox has beside the directory, or would have had if it had been completed.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Intent {
    pub cgroups: Cgroups,
    /// The range that an ordinary user's files have.
    pub delegated: Option<Ids>,
}

impl Intent {
    pub fn read(dir: &Path) -> Self {
        let text = fs::read(dir.join(INTENT)).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }
}

/// Kills the sandbox that a state describes and waits until nothing of it runs.
pub fn end(state: &State) -> Result<()> {
    let fix = "see in the kernel log what its processes wait for";
    let init = find_init(state);
    if let Some(init) = &init {
        let _ = pidfd_send_signal(init, Signal::KILL);
    }
    cgroup::kill(&state.cgroups);
    // The init is a zombie only when the kernel has ended every process of its namespace.
    if let Some(init) = init {
        let timeout = rustix::event::Timespec { tv_sec: GONE_WITHIN.as_secs() as i64, tv_nsec: 0 };
        let mut waits = [PollFd::new(&init, PollFlags::IN)];
        if poll(&mut waits, Some(&timeout)).or_broken(Layer::PidNamespace, "wait for the init")? == 0 {
            return Err(refusal(Layer::PidNamespace, format_args!("init {} does not end", state.pid), fix));
        }
    }
    if cgroup::wait_empty(&state.cgroups) {
        return Ok(());
    }
    Err(refusal(Layer::CgroupKill, "processes in its control groups do not end", fix))
}

/// The init of a state, if the process id is still its own.
fn find_init(state: &State) -> Option<OwnedFd> {
    let pidfd = pidfd_open(Pid::from_raw(state.pid)?, PidfdFlags::empty()).ok()?;
    // Asked after the descriptor was had: what it names cannot change any more.
    (start_ticks(state.pid).ok()? == state.start_ticks).then_some(pidfd)
}

/// When a process began, by which it differs from a later one with the same id.
pub fn start_ticks(pid: i32) -> io::Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name in parentheses may contain anything, even parentheses.
    let fields: Vec<&str> =
        stat.rsplit_once(')').map(|(_, fields)| fields.split_whitespace().collect()).unwrap_or_default();
    match fields[..] {
        // Ended, though nobody has asked yet how.
        ["Z" | "X", ..] => Err(io::ErrorKind::NotFound.into()),
        _ => fields.get(19).and_then(|ticks| ticks.parse().ok()).ok_or(io::ErrorKind::InvalidData.into()),
    }
}
