//! The least that a sandbox costs on this machine: `omoi-launcher` alone makes one of the same shape that the server asks
//! for, over the very checkout that the server has made, and its command puts the checkout on a branch. Nobody fetches,
//! stores or listens.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use omoi_launcher::{
    Allow, Answer, Bind, Directory, Door, File, Ids, Image, Launcher, Limits, Plan, Workspace,
};

use crate::sandboxes::Programs;

const FIRST_BYTE_WITHIN: Duration = Duration::from_secs(30);
const LOOK_PERIOD: Duration = Duration::from_micros(50);
const WORKSPACE: &str = "/workspace";
const GIB: u64 = 1 << 30;
/// Beyond what the server gives to its sandboxes.
const IDS: Ids = Ids { base: 4_100_000_000, count: 65_536 };
const COMMAND: &str = "git checkout -q -b bench && echo ready";

pub struct Launch {
    launcher: Launcher,
    worker: PathBuf,
    dir: PathBuf,
    lower: PathBuf,
}

impl Launch {
    /// Over the newest checkout of a project in a server's data directory.
    pub fn new(programs: &Programs, data: &Path, project: &str) -> anyhow::Result<Self> {
        let checkouts = data.join("checkouts").join(project);
        let mut trees = fs::read_dir(&checkouts)?.filter_map(|entry| Some(entry.ok()?.path().join("tree")));
        let lower = trees.find(|tree| tree.is_dir());
        let lower = lower.with_context(|| format!("no checkout in {}", checkouts.display()))?;
        Ok(Self {
            launcher: Launcher::new(&programs.launcher),
            worker: programs.worker.clone(),
            dir: data.join("launch"),
            lower,
        })
    }

    /// From the start of the launcher to the first byte that the command in the sandbox has written. It blocks: nothing
    /// else is to happen meanwhile, and what it makes is removed before anybody can be interrupted.
    pub fn time(&self) -> anyhow::Result<Duration> {
        let place = self.dir.join("sandbox");
        fs::create_dir_all(&place)?;
        let plan = self.plan(&place);
        let begun = Instant::now();
        let took = match self.launcher.run(&plan)? {
            Answer::Started(_) => first_word(&place, begun),
            Answer::Exists(_) => bail!("{} is in use", place.display()),
            Answer::Refused(refusal) => bail!("{refusal}"),
        };
        self.launcher.remove(&place)?;
        took
    }

    fn plan(&self, place: &Path) -> Plan {
        let door = |name: &str, port| Door { name: name.to_owned(), port };
        Plan {
            id: "bench-launch".to_owned(),
            dir: place.to_owned(),
            cache: self.dir.join("cache"),
            labels: Default::default(),
            image: Image::Host { opt: false },
            workspace: Some(Workspace { lower: self.lower.clone(), at: WORKSPACE.into(), copy: false }),
            binds: vec![Bind { from: self.worker.clone(), to: "/omoi/worker".into() }],
            files: vec![File { path: "launch.json".into(), mode: 0o400, content: "{}".to_owned() }],
            ids: IDS,
            limits: Limits {
                memory_bytes: GIB,
                pids: 2048,
                cpu_millis: 1000,
                disk_bytes: GIB,
                disk_hard: false,
                tmp_bytes: GIB / 4,
                log_bytes: 8 << 20,
            },
            doors: vec![door("api", 7080), door("proxy", 7128)],
            argv: ["/bin/sh", "-c", COMMAND].map(str::to_owned).to_vec(),
            env: [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/home/agent")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            cwd: WORKSPACE.into(),
            uid: 1000,
            gid: 1000,
            root_inside: false,
            oom_score_adj: 0,
            linger: false,
            fresh: false,
            cgroup: None,
            allow: Allow::default(),
            deny: Vec::new(),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "nothing else is to happen while this is timed")]
fn first_word(place: &Path, begun: Instant) -> anyhow::Result<Duration> {
    let path = Directory::new(place).log();
    let (mut log, mut said) = (fs::File::open(&path)?, String::new());
    while !said.ends_with('\n') {
        ensure!(begun.elapsed() < FIRST_BYTE_WITHIN, "the command in the sandbox says nothing");
        std::thread::sleep(LOOK_PERIOD);
        log.read_to_string(&mut said)?;
    }
    let took = begun.elapsed();
    ensure!(said == "ready\n", "the command in the sandbox said {said:?}");
    Ok(took)
}
