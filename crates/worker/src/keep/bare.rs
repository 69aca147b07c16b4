//! A Git directory of our own, away from the workspace, that lives as long as the keeping takes.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::Duration,
};

use tempfile::TempDir;
use tokio::io::AsyncWriteExt;

use omoi_protocol::git::SLIPS;

use super::{Error, import::quoted, objects, tree::parts};
use crate::git::{self, Feed, Git, OWN_CONFIG, is_real_dir};

const LIMIT: Duration = Duration::from_secs(300);
const FILES_SCANNED: &str = "* -text -filter -ident -diff -merge -working-tree-encoding\n";
const CONFIG: &str = "\
[core]
	repositoryformatversion = 0
	bigFileThreshold = 8m
[fastimport]
	unpackLimit = 0
[fetch]
	recurseSubmodules = false
[push]
	recurseSubmodules = no
";

/// Where objects are that are not in the repository yet, by the directory's name in ours.
const NEW: &str = "new";
const JUDGE: &str = "judge";
const OBJECTS: &str = "GIT_OBJECT_DIRECTORY";
const ALTERNATES: &str = "GIT_ALTERNATE_OBJECT_DIRECTORIES";

pub struct Bare {
    /// New objects go to a directory of their own, so that they can be told from all others.
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
        let mut git = Git { dir: dir.path().to_owned(), env, limit: LIMIT };
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
        let new = dir.path().join(NEW);
        fs::create_dir_all(&new).map_err(failed)?;
        git.env.insert(OBJECTS.to_owned(), path(&new));
        let there = quoted(git_dir.join("objects").as_os_str().as_bytes());
        git.env.insert(ALTERNATES.to_owned(), String::from_utf8_lossy(&there).into_owned());
        git.bytes(&["init", "--quiet", "--bare", "--template=", &path(&dir.path().join(JUDGE))]).await?;
        Ok(Self { git, dir })
    }

    pub fn git(&self) -> &Git {
        &self.git
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn new_objects(&self) -> PathBuf {
        self.dir.path().join(NEW)
    }

    /// Git that sees the objects in one directory alone, and has the mirror's opinion of what is harmless.
    pub fn judge(&self, objects: &Path) -> Git {
        let mut git = self.git.clone();
        git.env.remove(ALTERNATES);
        git.env.insert(OBJECTS.to_owned(), objects.display().to_string());
        git.env.insert("GIT_DIR".to_owned(), self.dir.path().join(JUDGE).display().to_string());
        git.env.insert("GIT_CONFIG_COUNT".to_owned(), SLIPS.len().to_string());
        for (n, slip) in SLIPS.iter().enumerate() {
            git.env.insert(format!("GIT_CONFIG_KEY_{n}"), format!("fsck.{slip}"));
            git.env.insert(format!("GIT_CONFIG_VALUE_{n}"), "ignore".to_owned());
        }
        git
    }

    /// A judge of objects that are made for it.
    pub fn singles(&self) -> Result<Git, Error> {
        let objects = self.dir.path().join("singles");
        // What an earlier round has made is judged already.
        let _ = fs::remove_dir_all(&objects);
        self.make_dir(&objects)?;
        Ok(self.judge(&objects))
    }

    /// A directory of objects for commits that are only here, and how the pack in it begins.
    pub fn history(&self) -> Result<(PathBuf, PathBuf), Error> {
        let objects = self.dir.path().join("history");
        // A pack that failed halfway is no part of the next.
        let _ = fs::remove_dir_all(&objects);
        let packs = objects.join("pack");
        self.make_dir(&packs)?;
        Ok((objects, packs.join("pack")))
    }

    fn make_dir(&self, dir: &Path) -> Result<(), Error> {
        fs::create_dir_all(dir).map_err(|source| Error::Scratch { path: dir.to_owned(), source })
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
        let text = self.git.text(&["ls-remote", "--quiet", "--refs", url]).await.map_err(Error::Door)?;
        let tip = |line: &str| line.split_once('\t').map(|(tip, name)| (name.to_owned(), tip.to_owned()));
        Ok(text.lines().filter_map(tip).collect())
    }

    /// The commit that the work began with, fetched if it is not here. None if the mirror does not have it either.
    pub async fn find_base(&self, url: &str, base: &str) -> Result<Option<String>, Error> {
        if let Some(found) = self.commit(base).await? {
            return Ok(Some(found));
        }
        let mut git = self.git.clone();
        git.env.remove(OBJECTS);
        git.env.remove(ALTERNATES);
        git.run(&["fetch", "--quiet", "--no-tags", url, "+refs/heads/*:refs/omoi/*"]).await?;
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

    /// The files that are not as they were in `base`.
    pub async fn changes(&self, base: Option<&str>, commit: &str) -> Result<Vec<Vec<u8>>, Error> {
        let names = match base {
            Some(base) => self.git.bytes(&["diff-tree", "-r", "-z", "--name-only", base, commit]).await?,
            None => self.git.bytes(&["ls-tree", "-r", "-z", "--name-only", commit]).await?,
        };
        Ok(parts(&names).map(<[u8]>::to_owned).collect())
    }

    /// Whatever was kept under this name before is less than what is here now.
    pub async fn push(&self, url: &str, commit: &str, name: &str) -> Result<(), Error> {
        match self.git.run(&["push", "--quiet", "--no-verify", url, &format!("+{commit}:{name}")]).await {
            Ok(()) => Ok(()),
            // The mirror was heard, and does not take it.
            Err(refused @ git::Error::Failed { code: Some(1), .. }) => Err(Error::Refused(refused)),
            Err(broken) => Err(Error::Door(broken)),
        }
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
