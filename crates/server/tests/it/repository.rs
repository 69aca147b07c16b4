//! Real repositories, made with the real Git, for tests to fetch from and to push with.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use jiff::Timestamp;
use omoi_protocol::{RepositoryReach, project::Project};

/// A work tree with its repository.
pub struct Repository {
    pub path: PathBuf,
    _dir: tempfile::TempDir,
}

impl Repository {
    /// Without a commit.
    pub fn empty() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let repository = Self { path: dir.path().join("work"), _dir: dir };
        git(Path::new("/"), &["init", "-q", "-b", "main", repository.path.to_str().unwrap()]);
        repository
    }

    /// With one commit on `main`.
    pub fn new() -> Self {
        let repository = Self::empty();
        repository.commit("README.md", "hello\n");
        repository
    }

    pub fn git(&self, args: &[&str]) -> String {
        git(&self.path, args)
    }

    pub fn try_git(&self, args: &[&str]) -> Output {
        try_git(&self.path, args)
    }

    /// A file that no compression makes smaller.
    pub fn commit_noise(&self, file: &str, bytes: usize) -> String {
        let mut noise = vec![0u8; bytes];
        getrandom::fill(&mut noise).unwrap();
        self.commit(file, noise)
    }

    /// A file with this content, committed; answers with the commit.
    pub fn commit(&self, file: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        self.git(&["add", "--", file]);
        self.git(&["commit", "-q", "-m", file]);
        self.head()
    }

    pub fn head(&self) -> String {
        self.git(&["rev-parse", "HEAD"])
    }

    /// A project that is fetched from here.
    pub fn project(&self, id: &str) -> Project {
        project(id, Some(self.path.to_str().unwrap()))
    }
}

pub fn project(id: &str, repository_url: Option<&str>) -> Project {
    Project {
        id: id.parse().unwrap(),
        name: id.to_owned(),
        description: String::new(),
        repository_url: repository_url.map(str::to_owned),
        repository_reach: RepositoryReach::Any,
        default_branch: "main".to_owned(),
        max_concurrent: None,
        settings: serde_json::Map::new(),
        archived: false,
        paused: false,
        created_at: Timestamp::UNIX_EPOCH,
        updated_at: Timestamp::UNIX_EPOCH,
    }
}

#[track_caller]
pub fn git(dir: &Path, args: &[&str]) -> String {
    let output = try_git(dir, args);
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

pub fn try_git(dir: &Path, args: &[&str]) -> Output {
    command(dir, args).output().unwrap()
}

/// Git as in a clean account.
#[expect(clippy::disallowed_methods, reason = "tests act as people with Git do")]
pub fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.args(args).current_dir(dir).env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
    command.env("HOME", "/nonexistent").env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    command.env("GIT_TERMINAL_PROMPT", "0").env("LC_ALL", "C").stdin(Stdio::null());
    for who in ["AUTHOR", "COMMITTER"] {
        command
            .env(format!("GIT_{who}_NAME"), "A Person")
            .env(format!("GIT_{who}_EMAIL"), "person@example.com");
    }
    command
}
