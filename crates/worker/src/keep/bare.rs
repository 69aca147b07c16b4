//! A Git directory of our own, away from the workspace, that lives as long as the keeping takes.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::ffi::OsStrExt,
    path::Path,
    time::Duration,
};

use tempfile::TempDir;
use tokio::io::AsyncWriteExt;

use super::{Error, import::quoted, objects};
use crate::git::{self, Feed, Git, OWN_CONFIG, is_real_dir};

const LIMIT: Duration = Duration::from_secs(300);
const FILES_SCANNED: &str = "* -text -filter -ident -diff -merge -working-tree-encoding\n";
const CONFIG: &str = "\
[core]
	repositoryformatversion = 0
[fetch]
	recurseSubmodules = false
[push]
	recurseSubmodules = no
";

pub struct Bare {
    git: Git,
    /// Deleted with this.
    dir: TempDir,
}

impl Bare {
    pub async fn make(
        scratch: &Path,
        env: &BTreeMap<String, String>,
        workspace: &Path,
        with_objects: bool,
    ) -> Result<Self, Error> {
        let failed = |source| Error::Scratch { path: scratch.to_owned(), source };
        let dir = tempfile::Builder::new().prefix("omoi-keep-").tempdir_in(scratch).map_err(failed)?;
        let git_dir = dir.path().join("git");
        let mut env = env.clone();
        let path = |path: &Path| path.display().to_string();
        for (name, value) in [
            ("GIT_DIR", path(&git_dir)),
            ("HOME", path(dir.path())),
            ("LC_ALL", "C".to_owned()),
            ("GIT_CONFIG_NOSYSTEM", "1".to_owned()),
            ("GIT_CONFIG_GLOBAL", "/dev/null".to_owned()),
            ("GIT_ATTR_NOSYSTEM", "1".to_owned()),
            ("GIT_NO_REPLACE_OBJECTS", "1".to_owned()),
            ("GIT_OPTIONAL_LOCKS", "0".to_owned()),
            ("GIT_TERMINAL_PROMPT", "0".to_owned()),
            ("GIT_ALLOW_PROTOCOL", "http:https:file".to_owned()),
        ] {
            env.insert(name.to_owned(), value);
        }
        let git = Git { dir: dir.path().to_owned(), env, limit: LIMIT };
        git.run(&["init", "--quiet", "--bare", "--template="]).await?;
        fs::create_dir_all(git_dir.join("info")).map_err(failed)?;
        fs::write(git_dir.join("config"), [OWN_CONFIG, CONFIG].concat()).map_err(failed)?;
        fs::write(git_dir.join("info/attributes"), FILES_SCANNED).map_err(failed)?;
        if with_objects && is_real_dir(&workspace.join(".git")) {
            let plain = dir.path().join("plain");
            objects::show(&workspace.join(".git/objects"), &plain).map_err(failed)?;
            fs::create_dir_all(git_dir.join("objects/info")).map_err(failed)?;
            fs::write(git_dir.join("objects/info/alternates"), alternate(&plain)).map_err(failed)?;
        }
        Ok(Self { git, dir })
    }

    pub fn git(&self) -> &Git {
        &self.git
    }

    /// Git that looks at the work tree, with an index of its own.
    pub fn looking_at(&self, workspace: &Path) -> Git {
        let mut git = Git { dir: workspace.to_owned(), ..self.git.clone() };
        git.env.insert("GIT_WORK_TREE".to_owned(), workspace.display().to_string());
        git.env.insert("GIT_INDEX_FILE".to_owned(), self.dir.path().join("index").display().to_string());
        git
    }

    /// All refs that the mirror has, by name.
    pub async fn tips_at(&self, url: &str) -> Result<BTreeMap<String, String>, Error> {
        let text = self.git.text(&["ls-remote", "--quiet", "--refs", url]).await?;
        let tip = |line: &str| line.split_once('\t').map(|(tip, name)| (name.to_owned(), tip.to_owned()));
        Ok(text.lines().filter_map(tip).collect())
    }

    /// The commit that the work began with, fetched if it is not here. None if the mirror does not have it either.
    pub async fn find_base(&self, url: &str, base: &str) -> Result<Option<String>, Error> {
        if let Some(found) = self.commit(base).await? {
            return Ok(Some(found));
        }
        self.git.run(&["fetch", "--quiet", "--no-tags", url, "+refs/heads/*:refs/omoi/*"]).await?;
        self.commit(base).await
    }

    /// Those of `commits` that are here. A mirror may have many, so all are asked for at once.
    pub async fn present(&self, commits: &BTreeSet<String>) -> Result<Vec<String>, Error> {
        let feed = async |feed: &mut Feed| {
            for commit in commits {
                feed.write_all(format!("{commit}^{{commit}}\n").as_bytes()).await?;
            }
            Ok(())
        };
        match self.git.feed(&["cat-file", "--batch-check=%(objectname)"], feed).await {
            Ok(said) => {
                let said = String::from_utf8_lossy(&said).into_owned();
                // The others are named with a word on what is the matter.
                return Ok(said.lines().filter(|line| !line.contains(' ')).map(str::to_owned).collect());
            }
            // One that is broken ends the answer for all.
            Err(git::Error::Failed { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let mut present = Vec::new();
        for commit in commits {
            present.extend(self.commit(commit).await?);
        }
        Ok(present)
    }

    /// The sizes of those of `blobs` that are here.
    pub async fn sizes(&self, blobs: &BTreeSet<&str>) -> Result<BTreeMap<String, u64>, Error> {
        let feed = async |feed: &mut Feed| {
            for blob in blobs {
                feed.write_all(format!("{blob}\n").as_bytes()).await?;
            }
            Ok(())
        };
        let args = ["cat-file", "--buffer", "--batch-check=%(objectname) %(objecttype) %(objectsize)"];
        let said = match self.git.feed(&args, feed).await {
            Ok(said) => said,
            // One that is broken ends the answer for all.
            Err(git::Error::Failed { .. }) => return Ok(BTreeMap::new()),
            Err(error) => return Err(error.into()),
        };
        let said = String::from_utf8_lossy(&said).into_owned();
        let size = |line: &str| {
            let (id, rest) = line.split_once(' ')?;
            Some((id.to_owned(), rest.strip_prefix("blob ")?.parse().ok()?))
        };
        Ok(said.lines().filter_map(size).collect())
    }

    /// Whether the commit is here with everything that it is made of, up to commits that are `known`.
    pub async fn is_whole(&self, commit: &str, known: &[String]) -> Result<bool, Error> {
        let mut args = vec!["rev-list", "--objects", "--quiet", commit, "--not"];
        args.extend(known.iter().map(String::as_str));
        answer(self.git.run(&args).await)
    }

    /// Whether it is part of the history of one of `tips`.
    pub async fn is_below(&self, commit: &str, tips: &[String]) -> Result<bool, Error> {
        let mut args = vec!["rev-list", "--max-count=1", commit, "--not"];
        args.extend(tips.iter().map(String::as_str));
        Ok(self.git.text(&args).await?.is_empty())
    }

    pub async fn is_same_tree(&self, one: &str, other: &str) -> Result<bool, Error> {
        let tree = async |commit: &str| self.git.text(&["rev-parse", &format!("{commit}^{{tree}}")]).await;
        Ok(tree(one).await? == tree(other).await?)
    }

    /// How many files are not as they were in `base`.
    pub async fn count_changes(&self, base: Option<&str>, commit: &str) -> Result<u64, Error> {
        let names = match base {
            Some(base) => self.git.bytes(&["diff-tree", "-r", "-z", "--name-only", base, commit]).await?,
            None => self.git.bytes(&["ls-tree", "-r", "-z", "--name-only", commit]).await?,
        };
        Ok(names.iter().filter(|byte| **byte == 0).count() as u64)
    }

    /// Whatever was kept under this name before is less than what is here now.
    pub async fn push(&self, url: &str, commit: &str, name: &str) -> Result<(), Error> {
        Ok(self.git.run(&["push", "--quiet", "--no-verify", url, &format!("+{commit}:{name}")]).await?)
    }

    async fn commit(&self, name: &str) -> Result<Option<String>, Error> {
        let name = format!("{name}^{{commit}}");
        match self.git.text(&["rev-parse", "--quiet", "--verify", "--end-of-options", &name]).await {
            Ok(found) => Ok(Some(found)),
            Err(git::Error::Failed { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Git answers by its exit code; everything else is an error.
fn answer(worked: Result<(), git::Error>) -> Result<bool, Error> {
    match worked {
        Ok(()) => Ok(true),
        Err(git::Error::Failed { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Quoted, since the path may hold what Git takes for the end of it.
fn alternate(objects: &Path) -> Vec<u8> {
    [quoted(objects.as_os_str().as_bytes()), b"\n".to_vec()].concat()
}
