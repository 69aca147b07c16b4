//! The Git directory that the snapshots are in. It has a configuration of its own and nothing of anybody else's, so that
//! no hook, filter or monitor of the workspace runs: a filter that `.gitattributes` names does nothing unless it is
//! configured. Line endings are converted as the repository's attributes say, which takes no program.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{Error, index};
use crate::{
    git::{Git, OWN_CONFIG},
    keep::quoted,
};

const LIMIT: Duration = Duration::from_secs(120);
const EXCLUDE_BYTES_MAX: u64 = 256 * 1024;
/// Whatever attributes say, a diff shows what is in a file.
const ATTRIBUTES: &str = "* -filter !diff !merge\n";
/// Later lines win over those that `git init` wrote. Nothing is flushed to disk: whoever loses the machine loses
/// the workspace as well.
const CONFIG: &str = "\
[core]
	safecrlf = false
	quotePath = false
	bigFileThreshold = 20m
	fsync = none
[index]
	skipHash = true
";

pub struct Shadow {
    /// Looks at the work tree with an index of ours.
    pub git: Git,
    pub workspace: PathBuf,
    pub dir: PathBuf,
    /// As above, with the workspace's own repository. Asks where things are and runs nothing.
    own: Git,
}

/// Of the workspace's own repository.
struct Own {
    objects: PathBuf,
    index: PathBuf,
    format: String,
}

impl Shadow {
    pub fn new(workspace: &Path, dir: &Path, env: &BTreeMap<String, String>) -> Result<Self, Error> {
        fs::create_dir_all(dir).map_err(|source| Error::Scratch { path: dir.to_owned(), source })?;
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let (workspace, dir) = (real(workspace), real(dir));
        if dir.starts_with(&workspace) {
            return Err(Error::Inside(dir));
        }
        let mut env: BTreeMap<_, _> = env.clone();
        env.retain(|name, _| !name.starts_with("GIT_"));
        let text = |path: &Path| path.display().to_string();
        for (name, value) in [
            ("HOME", text(&dir)),
            ("XDG_CONFIG_HOME", text(&dir)),
            ("LC_ALL", "C".to_owned()),
            ("GIT_CONFIG_NOSYSTEM", "1".to_owned()),
            ("GIT_CONFIG_GLOBAL", "/dev/null".to_owned()),
            ("GIT_ATTR_NOSYSTEM", "1".to_owned()),
            ("GIT_NO_REPLACE_OBJECTS", "1".to_owned()),
            ("GIT_NO_LAZY_FETCH", "1".to_owned()),
            ("GIT_TERMINAL_PROMPT", "0".to_owned()),
            ("GIT_CEILING_DIRECTORIES", workspace.parent().map(text).unwrap_or_default()),
        ] {
            env.insert(name.to_owned(), value);
        }
        let own = Git { dir: workspace.clone(), env, limit: LIMIT };
        let mut git = own.clone();
        git.env.insert("GIT_DIR".to_owned(), text(&dir.join("git")));
        git.env.insert("GIT_WORK_TREE".to_owned(), text(&workspace));
        Ok(Self { git, workspace, dir, own })
    }

    pub fn is_there(&self) -> bool {
        self.git_dir().join("HEAD").is_file() && self.git_dir().join("index").is_file()
    }

    /// Made anew. With the index of the workspace, nothing is read that Git knows to be unchanged.
    pub async fn make(&self, with_index: bool) -> Result<(), Error> {
        let dir = self.git_dir();
        match fs::remove_dir_all(&dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(self.failed(error)),
            _ => {}
        }
        let own = self.own().await;
        let format = own.as_ref().map_or("sha1", |own| own.format.as_str());
        let init = Git { dir: self.dir.clone(), ..self.git.clone() };
        let mut init = init;
        init.env.remove("GIT_WORK_TREE");
        init.run(&["init", "--quiet", "--bare", "--template=", "--object-format", format]).await?;
        self.furnish(own.as_ref()).map_err(|source| self.failed(source))?;
        if let Some(own) = own.filter(|_| with_index) {
            self.seed(&own).await;
        }
        Ok(())
    }

    /// Nobody else works here, so that a lock is one of a Git that was killed. What the repository itself leaves out
    /// by its `info/exclude` is left out here.
    pub fn tidy(&self) -> Result<(), Error> {
        let dir = self.git_dir();
        let _ = fs::remove_file(dir.join("index.lock"));
        let mut exclude = Vec::new();
        let theirs = self.workspace.join(".git/info/exclude");
        if theirs.symlink_metadata().is_ok_and(|meta| meta.is_file())
            && let Ok(file) = File::open(theirs)
        {
            let _ = file.take(EXCLUDE_BYTES_MAX).read_to_end(&mut exclude);
        }
        fs::write(dir.join("info/exclude"), exclude).map_err(|source| self.failed(source))
    }

    pub async fn write_tree(&self) -> Result<String, Error> {
        Ok(self.git.text(&["write-tree"]).await?)
    }

    fn furnish(&self, own: Option<&Own>) -> io::Result<()> {
        let dir = self.git_dir();
        let config = fs::read_to_string(dir.join("config"))?;
        fs::write(dir.join("config"), config + OWN_CONFIG + CONFIG)?;
        fs::create_dir_all(dir.join("info"))?;
        fs::write(dir.join("info/attributes"), ATTRIBUTES)?;
        if let Some(own) = own {
            fs::create_dir_all(dir.join("objects/info"))?;
            let line = [quoted(own.objects.as_os_str().as_bytes()), b"\n".to_vec()].concat();
            fs::write(dir.join("objects/info/alternates"), line)?;
        }
        Ok(())
    }

    /// Whatever cannot be taken over is read from the work tree.
    async fn seed(&self, own: &Own) {
        let index = self.git_dir().join("index");
        let id_bytes = if own.format == "sha256" { 32 } else { 20 };
        // An older Git wants the sum that is missing where owners were changed.
        for as_owned_here in [true, false] {
            let copied = index::copy(&own.index, &index, id_bytes, as_owned_here);
            if copied.is_ok() && self.is_whole().await {
                return;
            }
        }
        let _ = fs::remove_file(&index);
        if let Ok(head) = self.own.text(&["rev-parse", "--quiet", "--verify", "HEAD^{tree}"]).await {
            let _ = self.git.run(&["read-tree", &head]).await;
        }
    }

    /// Nothing in the index waits to be merged or lies in another file.
    async fn is_whole(&self) -> bool {
        self.git.bytes(&["ls-files", "--unmerged", "-z"]).await.is_ok_and(|unmerged| unmerged.is_empty())
    }

    async fn own(&self) -> Option<Own> {
        self.workspace.join(".git").symlink_metadata().ok()?;
        let args = ["-c", "safe.directory=*", "rev-parse", "--git-path", "objects", "--git-path", "index"];
        let args = [&args[..], &["--show-object-format"]].concat();
        let text = self.own.text(&args).await.ok()?;
        let mut lines = text.lines();
        let (objects, index, format) = (lines.next()?, lines.next()?, lines.next()?);
        Some(Own {
            objects: self.workspace.join(objects),
            index: self.workspace.join(index),
            format: format.to_owned(),
        })
    }

    fn git_dir(&self) -> PathBuf {
        self.dir.join("git")
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::Scratch { path: self.dir.clone(), source }
    }
}
