//! A shell with one command: started in a process group of its own with a mark on all its processes, and waited for
//! until it ends or is made to.

use std::{
    collections::BTreeMap,
    io,
    path::Path,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use tokio::{
    process::{Child, Command},
    sync::watch,
    time::{sleep, timeout},
};

use super::tree::{self, MARK, Tree};

const SHELLS: [&str; 2] = ["/bin/bash", "/bin/sh"];
/// How long what a shell has left behind may take to leave by itself.
const LINGER: Duration = Duration::from_millis(100);
/// How long the shell itself may take to be gone once it was killed.
const REAP: Duration = Duration::from_millis(300);
const LOOK: Duration = Duration::from_millis(250);
const NAMES_MAX: usize = 5;

#[derive(Debug, thiserror::Error)]
#[error("cannot start {shell} in {cwd}: {source}")]
pub struct Error {
    shell: String,
    cwd: String,
    source: io::Error,
}

#[derive(Debug)]
pub struct Shell {
    pub child: Child,
    pub tree: Tree,
    pub argv: Vec<String>,
}

/// What made a command end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    Itself,
    Late,
    Stopped,
}

#[derive(Debug)]
pub struct Course {
    pub why: Why,
    /// None for one that nothing could end.
    pub status: Option<ExitStatus>,
    /// What the shell left running, which was ended.
    pub left: Vec<String>,
    /// How many processes could not be ended.
    pub stuck: usize,
}

impl Shell {
    #[expect(clippy::disallowed_methods, reason = "running commands is what the tool is for")]
    pub fn spawn(id: &str, command: &str, cwd: &Path, env: &BTreeMap<String, String>) -> Result<Self, Error> {
        let shell = SHELLS.into_iter().find(|shell| Path::new(shell).exists()).unwrap_or(SHELLS[1]);
        let argv = vec![shell.to_owned(), "-c".to_owned(), command.to_owned()];
        let mark = tree::mark(id);
        let mut program = Command::new(shell);
        program.args(&argv[1..]).env_clear();
        // Nobody is there to answer.
        program.env("GIT_TERMINAL_PROMPT", "0").envs(env).env(MARK, &mark);
        program.current_dir(cwd).process_group(0).kill_on_drop(true);
        // A pipe that ends at once, since an empty image has no /dev/null.
        program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let failed = |source| Error { shell: shell.to_owned(), cwd: cwd.display().to_string(), source };
        let mut child = program.spawn().map_err(failed)?;
        drop(child.stdin.take());
        let leader = child.id().map_or(0, u32::cast_signed);
        Ok(Self { child, tree: Tree::new(mark, leader), argv })
    }
}

/// Waits for the end, or brings it about. Nothing of the command is left then.
pub async fn see_through(
    child: &mut Child,
    tree: &Tree,
    limit: Duration,
    stop: &mut watch::Receiver<bool>,
) -> Course {
    let why = tokio::select! {
        _ = child.wait() => Why::Itself,
        () = sleep(limit) => Why::Late,
        () = stopped(stop) => Why::Stopped,
        () = keep_in_sight(tree) => Why::Itself,
    };
    let mut left = Vec::new();
    let mut stuck = 0;
    if why != Why::Itself {
        stuck = tree.end().await;
    } else if !tree.gone_within(LINGER).await {
        left = tree.look().await.into_iter().map(|process| process.name).collect();
        stuck = tree.end().await;
    }
    let status = timeout(REAP, child.wait()).await.ok().and_then(Result::ok);
    Course { why, status, left, stuck }
}

/// Looks now and then, for as long as it is let: what was seen once is known, though it may hide its mark and lose its
/// parents later, as daemons do.
async fn keep_in_sight(tree: &Tree) {
    loop {
        sleep(LOOK).await;
        tree.look().await;
    }
}

/// Never, when nobody is there any more who could want it.
pub async fn stopped(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// `sleep`, `sleep and make`, `a, b and 3 more`.
pub fn list(names: &[String]) -> String {
    let mut names = names.to_vec();
    let more = names.len().saturating_sub(NAMES_MAX);
    names.truncate(NAMES_MAX);
    if more > 0 {
        names.push(format!("{more} more"));
    }
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, first)) => format!("{} and {last}", first.join(", ")),
        None => String::new(),
    }
}
