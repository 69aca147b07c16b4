//! The worker's own program, started as whoever runs it would.

use std::{
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::Duration,
};

use omoi_protocol::{
    ProviderKind, SandboxId,
    launch::{Door, LaunchSpec, SandboxToken},
    sandbox::SandboxAttached,
};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use crate::house::House;

const LIMIT: Duration = Duration::from_secs(60);
const NOBODY: u32 = 65534;

pub struct Worker(Child);

impl Worker {
    /// Joins with an operator's token.
    pub fn attach(house: &House, args: &[&str], command: &[&str]) -> Self {
        let token = house.dir.path().join("token");
        std::fs::write(&token, &house.token).unwrap();
        let token = token.to_str().unwrap();
        let mut all = vec!["--attach", house.url(), "--token-file", token];
        all.extend(args);
        all.push("--");
        all.extend(command);
        Self::start(house.dir.path(), &all)
    }

    /// Runs a launch.
    pub fn run(home: &Path, launch: &LaunchSpec) -> Self {
        let file = write_launch(home, launch);
        Self::start(home, &["run", "--launch", file.to_str().unwrap()])
    }

    /// As a user who owns nothing but `home`. It takes root to become somebody else.
    pub fn run_as_nobody(home: &Path, launch: &LaunchSpec) -> Self {
        let (file, copy) = (write_launch(home, launch), home.join("omoi-worker"));
        std::fs::copy(program(), &copy).unwrap();
        for path in [home, &file, &copy, Path::new(&launch.workspace_path)] {
            std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let mut command = Self::command(&copy, home, &["run", "--launch", file.to_str().unwrap()]);
        Self(command.uid(NOBODY).gid(NOBODY).spawn().unwrap())
    }

    /// In a control group.
    pub fn run_in(group: &Path, home: &Path, launch: &LaunchSpec) -> Self {
        let (file, program) = (write_launch(home, launch), program());
        let join = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", group.display());
        let args = ["-c", &join, "sh", program.to_str().unwrap(), "run", "--launch", file.to_str().unwrap()];
        Self(Self::command(Path::new("/bin/sh"), home, &args).spawn().unwrap())
    }

    fn start(home: &Path, args: &[&str]) -> Self {
        Self(Self::command(&program(), home, args).spawn().unwrap())
    }

    #[expect(clippy::disallowed_methods, reason = "the worker is what is tested")]
    fn command(program: &Path, home: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", home);
        command.env("OF_THE_HOST", "stays there");
        command.current_dir(home).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// The sandbox that an attached worker says it has joined as, read from the line in which it says so.
    pub async fn joined(&mut self) -> SandboxId {
        let mut line = String::new();
        let mut stderr = BufReader::new(self.0.stderr.take().expect("it is piped"));
        let read = tokio::time::timeout(LIMIT, stderr.read_line(&mut line)).await;
        read.expect("it joins in time").unwrap();
        // What it says besides must not end it.
        tokio::spawn(async move { tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await });
        line.split_whitespace().last().and_then(|id| id.parse().ok()).unwrap_or_else(|| panic!("{line}"))
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.0.id().expect("it runs").cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// `kill -9`, and wait until it is gone.
    pub async fn kill(mut self) {
        self.0.kill().await.unwrap();
    }

    pub fn is_alive(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    pub async fn end(self) -> Output {
        let waited = tokio::time::timeout(LIMIT, self.0.wait_with_output()).await;
        waited.expect("the worker ends").unwrap()
    }

    /// The code it leaves with.
    pub async fn code(self) -> i32 {
        let output = self.end().await;
        output.status.code().unwrap_or_else(|| panic!("{output:?}"))
    }
}

/// Runs a rescue to its end.
pub async fn rescue(home: &Path, launch: &LaunchSpec, scratch: &Path) -> Output {
    let file = write_launch(home, launch);
    let args = ["rescue", "--launch", file.to_str().unwrap(), "--scratch", scratch.to_str().unwrap()];
    Worker::start(home, &args).end().await
}

/// Runs a rescue to its end, as a user who owns all of `home` and nothing else.
pub async fn rescue_as_nobody(
    home: &Path,
    launch: &LaunchSpec,
    scratch: &Path,
    before: impl FnOnce(),
) -> Output {
    let (file, copy) = (write_launch(home, launch), home.join("omoi-worker"));
    std::fs::copy(program(), &copy).unwrap();
    give(home, NOBODY).await;
    before();
    let args = ["rescue", "--launch", file.to_str().unwrap(), "--scratch", scratch.to_str().unwrap()];
    let mut command = Worker::command(&copy, home, &args);
    let output = Worker(command.uid(NOBODY).gid(NOBODY).spawn().unwrap()).end().await;
    // Git reads no repository of another.
    give(home, 0).await;
    output
}

/// Changes the owner of a tree. The program changes directories on its way, so no path is too long for it.
#[expect(clippy::disallowed_methods, reason = "the standard library has nothing for a whole tree")]
async fn give(home: &Path, owner: u32) {
    let owner = format!("{owner}:{owner}");
    let done = Command::new("chown").args(["-Rh", &owner]).arg(home).status().await.unwrap();
    assert!(done.success());
}

/// A launch as the local provider would make it, for a sandbox that the server knows.
pub fn launch(house: &House, attached: &SandboxAttached, command: &[&str]) -> LaunchSpec {
    let (sandbox, token) = (&attached.sandbox, SandboxToken::new(attached.token.clone()));
    let workspace = house.dir.path().join("workspace");
    std::fs::create_dir_all(&workspace).unwrap();
    LaunchSpec {
        task_id: sandbox.task_id.clone(),
        project_id: sandbox.project_id.clone(),
        workspace_path: workspace.display().to_string(),
        spool_path: Some(house.dir.path().join("spool").display().to_string()),
        command: Some(command.iter().map(ToString::to_string).collect()),
        ..LaunchSpec::new(sandbox.id.clone(), ProviderKind::Local, Door::new(house.url(), None), token)
    }
}

pub fn write_launch(home: &Path, launch: &LaunchSpec) -> PathBuf {
    let path = home.join("launch.json");
    let file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o400).open(&path);
    serde_json::to_writer(file.unwrap(), launch).unwrap();
    path
}

/// Beside the tests, where Cargo puts it when it is told to build it.
pub fn program() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let built = tests.parent().and_then(Path::parent).unwrap().join("omoi-worker");
    assert!(built.exists(), "{} is not there; build it with `cargo build -p omoi-worker`", built.display());
    built
}
