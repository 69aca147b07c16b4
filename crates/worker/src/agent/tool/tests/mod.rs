//! The tools as the loop uses them, on real files and real processes.

mod change;
mod ending;
mod place;
mod search;
mod shell;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Mutex,
    time::Duration,
};

use omoi_protocol::launch::{ExecutionMode, PermissionMode};
use omoi_redact::Secrets;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{sync::watch, time::timeout};

use super::{Around, Call, Done, Piece, Setup, Tools};
use crate::proc;

/// Longer than anything here may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A workspace, a temporary directory and a place for outputs, side by side.
struct Desk {
    dir: TempDir,
    tools: Tools,
    stop: watch::Sender<bool>,
    group: watch::Sender<Option<i32>>,
}

impl Desk {
    fn new() -> Self {
        Self::with(ExecutionMode::Implementation, PermissionMode::AcceptEdits)
    }

    fn with(mode: ExecutionMode, permission: PermissionMode) -> Self {
        Self::within(tempfile::tempdir().unwrap(), mode, permission)
    }

    /// In memory where there is a place for that: a disk takes long to make many files.
    fn in_memory() -> Self {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        Self::within(dir, ExecutionMode::Implementation, PermissionMode::AcceptEdits)
    }

    fn within(dir: TempDir, mode: ExecutionMode, permission: PermissionMode) -> Self {
        for name in ["work", "tmp", "else"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let env = BTreeMap::from([
            ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned()),
            ("TMPDIR".to_owned(), dir.path().join("tmp").display().to_string()),
        ]);
        let tools = Tools::new(Setup {
            workspace: dir.path().join("work"),
            outputs: dir.path().join("outputs"),
            env,
            secrets: Secrets::new::<&str>([]),
            mode,
            permission,
            allowed: None,
            disallowed: Vec::new(),
        });
        Self { dir, tools, stop: watch::Sender::new(false), group: watch::Sender::new(None) }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn put(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap()
    }

    async fn run(&self, name: &str, input: Value) -> Done {
        self.hear(name, input, &|_| {}).await
    }

    async fn hear(&self, name: &str, input: Value, listen: &(dyn Fn(Piece<'_>) + Send + Sync)) -> Done {
        self.call(&self.tools, name, input, listen).await
    }

    async fn call(
        &self,
        tools: &Tools,
        name: &str,
        input: Value,
        listen: &(dyn Fn(Piece<'_>) + Send + Sync),
    ) -> Done {
        let around = Around { stop: self.stop.subscribe(), group: &self.group, listen };
        let call = Call { id: "call_1", name, input: &input };
        timeout(PATIENCE, tools.run(&call, &around)).await.expect("a tool ends")
    }

    async fn read(&self, path: &str) -> Done {
        self.run("Read", json!({ "file_path": path })).await
    }

    async fn write(&self, path: &str, content: &str) -> Done {
        self.run("Write", json!({ "file_path": path, "content": content })).await
    }

    async fn edit(&self, path: &str, old: &str, new: &str) -> Done {
        self.run("Edit", json!({ "file_path": path, "old_string": old, "new_string": new })).await
    }

    async fn bash(&self, command: &str) -> Done {
        self.run("Bash", json!({ "command": command })).await
    }

    /// The processes that a command wrote down, one in each file.
    fn pids(&self, names: &[&str]) -> Vec<i32> {
        let pid = |name: &&str| self.text(&format!("work/{name}")).trim().parse().unwrap();
        names.iter().map(pid).collect()
    }
}

fn good(done: Done) -> String {
    assert!(!done.is_error, "{done:?}");
    done.content
}

/// What a refusal says, which has `part` in it.
fn refused(done: Done, part: &str) -> String {
    assert!(done.is_error && done.content.contains(part), "{part:?} is not in {done:?}");
    done.content
}

fn runs(pid: i32) -> bool {
    proc::read(pid).is_some_and(|process| !process.ended)
}

/// Tells when all that was heard so far has `word` in it.
fn when<'a>(word: &'a str, then: impl Fn() + Send + Sync + 'a) -> impl Fn(Piece<'_>) + Send + Sync + 'a {
    let heard = Mutex::new(String::new());
    move |piece| {
        if let Piece::Output { text, .. } = piece {
            let mut heard = heard.lock().unwrap();
            heard.push_str(text);
            if heard.contains(word) {
                then();
            }
        }
    }
}

fn link(to: impl AsRef<Path>, at: impl AsRef<Path>) {
    std::os::unix::fs::symlink(to, at).unwrap();
}
