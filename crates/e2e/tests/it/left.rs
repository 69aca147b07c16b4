//! What a dead sandbox has left.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Output,
};

use omoi_protocol::{
    ProviderKind,
    launch::{Door, LaunchSpec, SandboxToken},
};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::Value;

use crate::{
    repo::Mirror,
    worker::{rescue, rescue_as_nobody},
};

/// A workspace that a dead sandbox has left, and the mirror it came from.
pub struct Left {
    pub dir: tempfile::TempDir,
    pub workspace: PathBuf,
    pub mirror: Mirror,
}

impl Left {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self::at(dir.path().join("workspace"), dir)
    }

    pub fn at(workspace: PathBuf, dir: tempfile::TempDir) -> Self {
        let mirror = Mirror::make(dir.path());
        mirror.clone_to(&workspace);
        Self { workspace, mirror, dir }
    }

    pub fn launch(&self) -> LaunchSpec {
        let (door, token) = (Door::new("http://127.0.0.1:9", None), SandboxToken::new("omoi_sbx_none"));
        LaunchSpec {
            workspace_path: self.workspace.display().to_string(),
            repository: Some(self.mirror.repository("feature/new")),
            spool_path: Some(self.dir.path().join("no-spool").display().to_string()),
            ..LaunchSpec::new("sbx-dead".parse().unwrap(), ProviderKind::Local, door, token)
        }
    }

    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.workspace.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub fn scratch(&self) -> PathBuf {
        let scratch = self.dir.path().join("scratch");
        fs::create_dir_all(&scratch).unwrap();
        scratch
    }

    pub async fn try_rescue(&self) -> Output {
        rescue(self.dir.path(), &self.launch(), &self.scratch()).await
    }

    /// Rescued by an ordinary user whose everything is, with a mirror that takes so many bytes in one push.
    pub async fn rescue_as_nobody(&self, push_bytes_max: u64) -> Value {
        self.rescue_as_nobody_after(push_bytes_max, |_| {}).await
    }

    /// In between, the workspace is changed.
    pub async fn rescue_as_nobody_after(&self, push_bytes_max: u64, change: impl FnOnce(&Path)) -> Value {
        let mut launch = self.launch();
        launch.repository.as_mut().unwrap().push_bytes_max = Some(push_bytes_max);
        let scratch = self.scratch();
        let change = || change(&self.workspace);
        self.reported(rescue_as_nobody(self.dir.path(), &launch, &scratch, change).await)
    }

    pub async fn rescue(&self) -> Value {
        self.reported(self.try_rescue().await)
    }

    fn reported(&self, output: Output) -> Value {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(fs::read_dir(self.scratch()).unwrap().count(), 0, "nothing stays behind");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Rescues, and gives the commit that is in the mirror for it.
    pub async fn kept(&self) -> (String, Value) {
        let report = self.rescue().await;
        assert_eq!(
            (&report["kept"], &report["ref"]),
            (&Value::Bool(true), &"refs/preserved/sbx-dead".into()),
            "{report}"
        );
        let commit = self.mirror.git(&["rev-parse", "refs/preserved/sbx-dead"]);
        assert_eq!(report["commit"], commit.as_str());
        self.mirror.git(&["fsck", "--strict", "--no-dangling", &commit]);
        (commit, report)
    }

    pub fn pipe(&self, path: &str) {
        let path = self.workspace.join(path);
        let _ = fs::remove_file(&path);
        mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    }
}

pub fn notes(report: &Value) -> String {
    report["notes"].to_string()
}
