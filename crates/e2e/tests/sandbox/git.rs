//! Repositories that projects are made of.

use std::{
    os::unix::fs::{PermissionsExt, lchown},
    path::{Path, PathBuf},
};

use tempfile::TempDir;

pub struct Repository {
    dir: TempDir,
}

impl Repository {
    /// One commit with a few files.
    pub fn small() -> Self {
        let own = Self { dir: tempfile::tempdir().unwrap() };
        std::fs::set_permissions(own.path(), PermissionsExt::from_mode(0o755)).unwrap();
        own.git(&["init", "-q", "-b", "main", "."]);
        own.write("README.md", "# A project\n");
        own.write("src/lib.rs", "pub fn answer() -> u32 { 42 }\n");
        own.write(".gitignore", "target/\n");
        own.commit("Begin");
        own
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub fn commit(&self, message: &str) -> String {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", message]);
        self.git(&["rev-parse", "HEAD"])
    }

    pub fn git(&self, args: &[&str]) -> String {
        git(self.path(), args)
    }

    /// Another user may read it, and Git lets only its owner.
    pub fn give_to(&self, user: u32) {
        give(self.path(), user);
    }
}

fn give(path: &Path, user: u32) {
    lchown(path, Some(user), Some(user)).unwrap();
    if path.is_dir() && !path.is_symlink() {
        for entry in std::fs::read_dir(path).unwrap() {
            give(&entry.unwrap().path(), user);
        }
    }
}

/// What the mirror of a project has, as its owner sees it.
pub struct Mirror(pub PathBuf);

impl Mirror {
    pub fn of(data: &Path, project: &omoi_protocol::ProjectId) -> Self {
        Self(data.join("mirrors").join(format!("{project}.git")))
    }

    pub fn git(&self, args: &[&str]) -> String {
        git(&self.0, args)
    }

    /// The content of a file at a commit or ref.
    pub fn file(&self, at: &str, path: &str) -> String {
        self.git(&["show", &format!("{at}:{path}")])
    }

    pub fn refs(&self, below: &str) -> Vec<String> {
        let all = self.git(&["for-each-ref", "--format=%(refname)", below]);
        all.lines().map(str::to_owned).collect()
    }
}

pub fn git(dir: &Path, args: &[&str]) -> String {
    #[expect(clippy::disallowed_methods, reason = "what a person does with a repository")]
    let output = std::process::Command::new("git")
        .args(["-c", "user.name=A Person", "-c", "user.email=person@omoi.invalid", "-c", "safe.directory=*"])
        .args(args)
        .current_dir(dir)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    assert!(output.status.success(), "git {args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}
