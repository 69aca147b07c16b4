//! Builds one checkout: a repository that stands alone, with the commit's files in its work tree and an index that
//! holds wherever the tree is mounted. Nothing that the repository's content says is run: there are no hooks, no
//! filters and no submodules.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    time::Duration,
};

use omoi_protocol::ProjectId;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_OMIT};
use tokio::io::{AsyncBufReadExt, BufReader};

use super::{Error, Failure, file::blocking, mirror::Mirrors};
use crate::{config, domain::commit::CommitId};

/// Git looks into each file that is as new as its index, so the files are made to look older than that.
const FILES_BEFORE_INDEX: Duration = Duration::from_secs(10);

pub struct Build<'a> {
    pub mirrors: &'a Mirrors,
    pub settings: &'a config::Git,
    pub project: &'a ProjectId,
    pub commit: &'a CommitId,
    /// Where the work tree is to be; not there yet.
    pub tree: PathBuf,
}

impl Build<'_> {
    pub async fn run(&self) -> Result<(), Error> {
        let mirror = self.mirrors.existing(self.project)?;
        if !self.mirrors.has_commit(self.project, self.commit).await? {
            return Err(Error::NoCommit { project: self.project.clone(), commit: self.commit.clone() });
        }
        self.measure(&mirror).await?;
        let (git, git_dir) = (self.mirrors.git(), self.tree.join(".git"));
        let init = git.call_nowhere("init").args(["--quiet", "--template=", "--object-format=sha1"]);
        init.arg(&self.tree).run().await?;
        let refs = self.remote_refs().await?;
        let (to, config) = (git_dir.clone(), repository_config(self.project));
        blocking(move || fill(&mirror, &to, &config, &refs)).await?;
        let checkout =
            git.call(&git_dir, "checkout").work_tree(&self.tree).config("core.logAllRefUpdates=false");
        checkout.args(["--quiet", "--force", "--detach", self.commit.as_str(), "--"]).run().await?;
        let tree = self.tree.clone();
        blocking(move || make_older(&tree).map_err(|source| Error::io(&tree, source))).await?;
        git.call(&git_dir, "update-index").work_tree(&self.tree).args(["-q", "--refresh"]).run().await?;
        Ok(())
    }

    /// A few bytes can unfold into more files, or larger ones, than any disk holds.
    async fn measure(&self, mirror: &Path) -> Result<(), Error> {
        let (bytes_max, files_max) =
            (self.settings.checkout_bytes_max as u64, self.settings.checkout_files_max);
        let call = self.mirrors.git().call(mirror, "ls-tree").args(["-r", "--format=%(objectsize)"]);
        let mut listing = call.arg(self.commit.as_str()).start()?;
        let broken = |source| Error::Git(Failure::Broken { name: "ls-tree".to_owned(), source });
        let counting = async {
            drop(listing.stdin());
            let Some(stdout) = listing.stdout() else { return Ok(()) };
            let (mut lines, mut files, mut bytes) = (BufReader::new(stdout).lines(), 0, 0u64);
            while let Some(line) = lines.next_line().await.map_err(broken)? {
                files += 1;
                // A submodule has no size.
                bytes = bytes.saturating_add(line.trim().parse().unwrap_or(0));
                if files > files_max {
                    return Err(self.too_large(format!("{files_max} files"), "git.checkout_files_max"));
                }
                if bytes > bytes_max {
                    return Err(self.too_large(format!("{bytes_max} bytes"), "git.checkout_bytes_max"));
                }
            }
            let status = listing.wait().await.map_err(broken)?;
            if status.success() {
                return Ok(());
            }
            Err(Failure::Exit { name: "ls-tree".to_owned(), status, stderr: String::new() }.into())
        };
        let limit = self.settings.timeout;
        tokio::time::timeout(limit, counting)
            .await
            .unwrap_or_else(|_| Err(Failure::TimedOut { name: "ls-tree".to_owned(), limit }.into()))
    }

    fn too_large(&self, limit: String, key: &'static str) -> Error {
        Error::TooLarge { commit: self.commit.clone(), limit, key }
    }

    /// As a clone would have them: the mirror's branches as those of `origin`, and the tags.
    async fn remote_refs(&self) -> Result<String, Error> {
        let heads = self.mirrors.ref_list(self.project, "refs/heads/").await?;
        let tags = self.mirrors.ref_list(self.project, "refs/tags/").await?;
        let line = |(name, id): (String, CommitId)| match name.strip_prefix("refs/heads/") {
            Some(branch) => format!("{id} refs/remotes/origin/{branch}\n"),
            None => format!("{id} {name}\n"),
        };
        Ok(heads.into_iter().chain(tags).map(line).collect())
    }
}

/// Where `origin` is, only the sandbox knows. Owner, device, inode and time of change differ with how the tree is
/// mounted, so they are not looked at.
fn repository_config(project: &ProjectId) -> String {
    format!(
        "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogAllRefUpdates = true\n\
         \tcheckStat = minimal\n\ttrustctime = false\n[gc]\n\tauto = 0\n[remote \"origin\"]\n\
         \turl = http://omoi.invalid/git/{project}.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n"
    )
}

/// What the mirror has, hard-linked where that is possible: so nothing that happens to the mirror hurts the checkout.
fn fill(mirror: &Path, git_dir: &Path, config: &str, refs: &str) -> Result<(), Error> {
    let written =
        fs::write(git_dir.join("config"), config).and_then(|()| fs::write(git_dir.join("packed-refs"), refs));
    written.map_err(|source| Error::io(git_dir, source))?;
    let (from, to) = (mirror.join("objects"), git_dir.join("objects"));
    let listed = fs::read_dir(&from).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let mut dirs: Vec<_> =
        listed.map_err(|source| Error::io(&from, source))?.iter().map(fs::DirEntry::file_name).collect();
    // Objects move into packs and never out of them: so packs come last, or what moves meanwhile would be missed.
    dirs.sort_by_key(|name| name == "pack");
    for dir in dirs.iter().filter(|name| *name == "pack" || name.len() == 2) {
        link_all(&from.join(dir), &to.join(dir)).map_err(|source| Error::io(from.join(dir), source))?;
    }
    Ok(())
}

fn link_all(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        // Somebody is still writing it.
        if name.to_string_lossy().starts_with("tmp_") {
            continue;
        }
        let linked = fs::hard_link(&path, to.join(&name)).or_else(|error| match error.kind() {
            ErrorKind::CrossesDevices | ErrorKind::TooManyLinks | ErrorKind::PermissionDenied => {
                fs::copy(&path, to.join(&name)).map(|_| ())
            }
            _ => Err(error),
        });
        match linked {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Gives all files the same time, a little before now. Symbolic links are not followed.
fn make_older(tree: &Path) -> std::io::Result<()> {
    let index = fs::metadata(tree.join(".git/index"))?.modified()?;
    let seconds =
        (index - FILES_BEFORE_INDEX).duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs();
    let last_modification = Timespec { tv_sec: seconds.cast_signed(), tv_nsec: 0 };
    let times = Timestamps { last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }, last_modification };
    let mut dirs = vec![tree.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir)? {
            let entry = entry?;
            if dir == tree && entry.file_name() == ".git" {
                continue;
            }
            if entry.file_type()?.is_dir() {
                dirs.push(entry.path());
            } else {
                rustix::fs::utimensat(CWD, entry.path(), &times, AtFlags::SYMLINK_NOFOLLOW)?;
            }
        }
    }
    Ok(())
}
