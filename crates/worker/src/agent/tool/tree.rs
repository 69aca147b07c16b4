//! Everything that one command has started, wherever it went: its process group, groups and sessions that came from it,
//! what descends from it, and what carries its mark in the environment.

use std::{
    collections::{HashMap, HashSet},
    fs::File,
    io::Read,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{group::Group, proc};

/// The variable that marks the processes of one call.
pub const MARK: &str = "OMOI_TOOL_CALL";
/// How long processes have to leave on being asked to.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long they are killed again and again.
const KILLING: Duration = Duration::from_millis(1000);
const LOOK: Duration = Duration::from_millis(20);
const ENVIRON_BYTES_MAX: u64 = 4 * 1024 * 1024;

static NUMBER: AtomicU64 = AtomicU64::new(0);

#[derive(Debug, Clone)]
pub struct Tree {
    mark: String,
    leader: i32,
    /// Processes, groups and sessions that belonged to it at some time, with when they began.
    known: Arc<Mutex<HashMap<i32, u64>>>,
}

/// A name for the processes of one call. Some models number their calls anew in each answer, so the call's own id is
/// not enough.
pub fn mark(id: &str) -> String {
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("{}:{}.{number}", id.replace('\0', ""), std::process::id())
}

impl Tree {
    pub fn new(mark: String, leader: i32) -> Self {
        let tree = Self { mark, leader, known: Arc::default() };
        if let Some(process) = proc::read(leader) {
            tree.known().insert(leader, process.started);
        }
        tree
    }

    /// Those that run. Blocks a little.
    pub fn find(&self) -> Vec<proc::Process> {
        let (own, all) = (std::process::id().cast_signed(), proc::all());
        let parents: HashMap<i32, i32> = all.iter().map(|one| (one.pid, one.parent)).collect();
        let mut known = self.known();
        // A number that was given again is somebody else's.
        for one in &all {
            if known.get(&one.pid).is_some_and(|started| *started != one.started) {
                known.remove(&one.pid);
            }
        }
        let marked: HashSet<i32> =
            all.iter().map(|one| one.pid).filter(|pid| is_marked(*pid, &self.mark)).collect();
        let mut found: HashSet<i32> = HashSet::new();
        loop {
            let belongs = |one: &&proc::Process| {
                !found.contains(&one.pid)
                    && !proc::is_below(own, one.pid, &parents)
                    && (known.contains_key(&one.pid)
                        || known.contains_key(&one.parent)
                        || known.contains_key(&one.group)
                        || known.contains_key(&one.session)
                        || marked.contains(&one.pid))
            };
            let more: Vec<_> = all.iter().filter(belongs).map(|one| (one.pid, one.started)).collect();
            if more.is_empty() {
                break;
            }
            found.extend(more.iter().map(|(pid, _)| *pid));
            known.extend(more);
        }
        drop(known);
        all.into_iter().filter(|one| found.contains(&one.pid) && !one.ended).collect()
    }

    /// Ends them all, the polite way first. How many are left that nothing ends.
    pub async fn end(&self) -> usize {
        self.signal(Signal::TERM, Some(Signal::CONT)).await;
        if self.gone_within(PATIENCE).await {
            return 0;
        }
        let until = Instant::now() + KILLING;
        loop {
            let left = self.signal(Signal::KILL, None).await;
            if left == 0 || Instant::now() >= until {
                return left;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    pub async fn gone_within(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        loop {
            if self.look().await.is_empty() {
                return true;
            }
            if Instant::now() >= until {
                return false;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    pub async fn look(&self) -> Vec<proc::Process> {
        let tree = self.clone();
        tokio::task::spawn_blocking(move || tree.find()).await.unwrap_or_default()
    }

    /// At once and without waiting, for somebody who cannot.
    pub fn kill_now(&self) {
        self.strike(&self.find(), Signal::KILL);
    }

    /// To how many it went.
    async fn signal(&self, first: Signal, then: Option<Signal>) -> usize {
        let found = self.look().await;
        self.strike(&found, first);
        if let Some(then) = then {
            self.strike(&found, then);
        }
        found.len()
    }

    fn strike(&self, found: &[proc::Process], signal: Signal) {
        // The group first: it is struck as one, so none of it can have a child in between.
        if found.iter().any(|one| one.group == self.leader)
            && let Some(group) = Group::of(self.leader)
        {
            group.signal(signal);
        }
        let others = found.iter().filter(|one| one.group != self.leader);
        for pid in others.filter_map(|one| Pid::from_raw(one.pid)) {
            let _ = kill_process(pid, signal);
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<i32, u64>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_marked(pid: i32, mark: &str) -> bool {
    let Ok(file) = File::open(format!("/proc/{pid}/environ")) else { return false };
    let mut environ = Vec::new();
    if file.take(ENVIRON_BYTES_MAX).read_to_end(&mut environ).is_err() {
        return false;
    }
    let named = |variable: &[u8]| {
        variable.strip_prefix(MARK.as_bytes()).and_then(|rest| rest.strip_prefix(b"="))
            == Some(mark.as_bytes())
    };
    environ.split(|byte| *byte == 0).any(named)
}
