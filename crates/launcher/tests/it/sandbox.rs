//! A sandbox for a test, in a directory of its own, removed with everything when the test ends.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use omoi_launcher::{
    Allow, Answer, Control, Directory, Door, Exec, Exit, How, Ids, Image, Launcher, Layer, Limits, Plan,
    Refusal, State, Status, Workspace,
};
use tempfile::TempDir;

pub const MIB: u64 = 1 << 20;

/// Ends a test where it cannot be had, and says so.
#[macro_export]
macro_rules! needs {
    ($condition:expr, $what:literal) => {
        if !$condition {
            eprintln!("SKIPPED: {} needs {}", module_path!(), $what);
            return;
        }
    };
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

pub fn has_python() -> bool {
    Path::new("/usr/bin/python3").exists()
}

pub fn launcher() -> Launcher {
    Launcher::new(env!("CARGO_BIN_EXE_omoi-launcher"))
}

/// A place for sandboxes: a cache, a checkout, and directories.
pub struct Place {
    pub temp: TempDir,
}

impl Place {
    pub fn new() -> Self {
        let temp = tempfile::Builder::new().prefix("launcher-").tempdir_in("/var/tmp").unwrap();
        fs::set_permissions(temp.path(), Permissions::from_mode(0o755)).unwrap();
        let checkout = temp.path().join("checkout");
        fs::create_dir(&checkout).unwrap();
        fs::write(checkout.join("README"), "of the checkout\n").unwrap();
        Self { temp }
    }

    pub fn path(&self) -> &Path {
        self.temp.path()
    }

    /// A plan whose command does nothing for ever.
    pub fn plan(&self) -> Plan {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let id = format!("test-{}-{count}", std::process::id());
        let dir = self.path().join(&id);
        fs::create_dir(&dir).unwrap();
        fs::set_permissions(&dir, Permissions::from_mode(0o700)).unwrap();
        let slot = (std::process::id() * 8 + count % 8) % 48_000;
        Plan {
            id,
            dir,
            cache: self.path().join("cache"),
            labels: BTreeMap::from([("task".to_owned(), "t-1".to_owned())]),
            image: Image::Host { opt: false },
            workspace: Some(Workspace {
                lower: self.path().join("checkout"),
                at: "/workspace".into(),
                copy: false,
            }),
            binds: vec![],
            files: vec![],
            ids: Ids { base: 1_000_000_000 + slot * 65_536, count: 65_536 },
            limits: Limits {
                memory_bytes: 256 * MIB,
                pids: 64,
                cpu_millis: 2000,
                disk_bytes: 96 * MIB,
                disk_hard: false,
                tmp_bytes: 64 * MIB,
                log_bytes: MIB,
            },
            doors: vec![Door { name: "api".to_owned(), port: 8080 }],
            argv: command("exec sleep infinity"),
            env: environment(),
            cwd: "/workspace".into(),
            uid: 1000,
            gid: 1000,
            root_inside: false,
            oom_score_adj: 500,
            linger: true,
            fresh: false,
            cgroup: None,
            allow: Allow::default(),
            deny: vec![],
        }
    }

    pub fn start(&self, plan: &Plan) -> Sandbox {
        match launcher().run(plan).unwrap() {
            Answer::Started(state) => Sandbox { plan: plan.clone(), state },
            other => panic!("not started: {other:?}"),
        }
    }

    pub fn refused(&self, plan: &Plan) -> Refusal {
        match launcher().run(plan).unwrap() {
            Answer::Refused(refusal) => refusal,
            other => panic!("not refused: {other:?}"),
        }
    }
}

/// A running sandbox.
pub struct Sandbox {
    pub plan: Plan,
    pub state: State,
}

#[derive(Debug)]
pub struct Said {
    pub exit: Exit,
    pub text: String,
}

impl Sandbox {
    pub fn control(&self) -> Control {
        Control::open(&self.plan.dir).unwrap()
    }

    pub fn directory(&self) -> Directory {
        Directory::new(&self.plan.dir)
    }

    /// Runs a script in the sandbox and returns what it said.
    pub fn sh(&self, script: &str) -> Said {
        self.exec(command(script))
    }

    /// The same, for scripts that must succeed.
    pub fn ok(&self, script: &str) -> String {
        let said = self.sh(script);
        assert_eq!(said.exit.how, How::Code(0), "{script}: {}", said.text);
        said.text
    }

    pub fn python(&self, script: &str) -> Said {
        self.exec(vec!["/usr/bin/python3".to_owned(), "-c".to_owned(), script.to_owned()])
    }

    fn exec(&self, argv: Vec<String>) -> Said {
        let null = File::open("/dev/null").unwrap();
        let (mut reader, writer) = std::io::pipe().unwrap();
        let exec = self.exec_of(argv);
        let running = self.control().exec(&exec, [null.as_fd(), writer.as_fd(), writer.as_fd()]).unwrap();
        drop(writer);
        let mut text = Vec::new();
        reader.read_to_end(&mut text).unwrap();
        Said { exit: running.wait().unwrap(), text: String::from_utf8_lossy(&text).into_owned() }
    }

    pub fn exec_of(&self, argv: Vec<String>) -> Exec {
        Exec { argv, env: environment(), cwd: "/workspace".into(), uid: self.plan.uid, gid: self.plan.gid }
    }

    pub fn layer(&self, layer: Layer) -> Status {
        self.state.layers.iter().find(|report| report.layer == layer).unwrap().status
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.directory().log()).unwrap()
    }

    pub fn cgroup_paths(&self) -> Vec<PathBuf> {
        self.state.cgroups.legacy.values().chain(self.state.cgroups.unified.iter()).cloned().collect()
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        if let Err(error) = launcher().remove(&self.plan.dir) {
            let _ = writeln!(std::io::stderr(), "cannot remove {}: {error}", self.plan.dir.display());
        }
    }
}

pub fn command(script: &str) -> Vec<String> {
    vec!["/bin/sh".to_owned(), "-c".to_owned(), script.to_owned()]
}

pub fn environment() -> BTreeMap<String, String> {
    let pairs = [("HOME", "/home/agent"), ("PATH", "/usr/local/bin:/usr/bin:/bin"), ("LANG", "C.UTF-8")];
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}
