//! Keeping work: whatever is in the workspace becomes a commit outside, whoever left it there in whatever state.
//!
//! Nothing in the workspace is trusted. Git runs with a directory and a configuration of our own; of the
//! workspace's own it is shown the objects alone. Files are read by us, byte by byte as they are, and no link is
//! followed. So no hook, filter, attribute or setting of the workspace takes part, and new objects need no room
//! on its disk.
//!
//! Everything that can be kept is. What the mirror would refuse under its name is set aside under another; what is too large
//! for a push, or cannot be read, is left out and named. Each step is bounded in size and time.

mod aside;
mod bare;
mod commit;
mod import;
mod judge;
mod left;
mod objects;
mod open;
mod refs;
mod root;
mod size;
mod tree;
mod walk;
mod work;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use omoi_protocol::{
    launch::{LaunchSpec, Repository},
    sandbox::{self, KEEP_LIMIT, SetAside},
};
use tokio::time::timeout_at;

use self::{
    bare::Bare,
    left::Notes,
    root::Root,
    size::{Limits, PUSH_BYTES},
    work::Work,
};
pub use self::{import::quoted, left::Losses};
use crate::git;

/// How many branches besides the one that is checked out are kept with it.
const OTHER_TIPS_MAX: usize = 16;
/// What is left of the time for pushes when reading ends, and for the report when pushes end.
const PUSH_RESERVE: Duration = Duration::from_secs(150);
const REPORT_RESERVE: Duration = Duration::from_secs(30);
/// How long looking around may take, and how long reading. What is not looked at or read by then is left out.
const WALK_LIMIT: Duration = Duration::from_secs(90);
const READ_LIMIT: Duration = Duration::from_secs(240);

const NOT_PUSHED: &str = "there was no time left to push it";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the workspace {0} is not a directory")]
    NoWorkspace(PathBuf),
    #[error("{path} cannot be opened: {source}")]
    Workspace { path: PathBuf, source: io::Error },
    #[error("cannot make room for the work in {path}: {source}")]
    Scratch { path: PathBuf, source: io::Error },
    #[error("the server's mirror of the repository cannot be reached: {0}")]
    Door(git::Error),
    #[error("the server's mirror refused the push: {0}")]
    Refused(git::Error),
    #[error("Git still refuses file names after {0} attempts to set them aside")]
    Rounds(usize),
    #[error("the work could not be kept within {} s", KEEP_LIMIT.as_secs())]
    TimedOut,
    #[error(transparent)]
    Git(#[from] git::Error),
    #[error("{first}; the fallback failed as well: {second}")]
    Twice { first: Box<Error>, second: Box<Error> },
}

impl Error {
    /// Whether another way to keep the work may do.
    fn allows_another_way(&self) -> bool {
        match self {
            Self::Refused(_) | Self::Rounds(_) | Self::Git(_) => true,
            Self::NoWorkspace(_)
            | Self::Workspace { .. }
            | Self::Scratch { .. }
            | Self::Door(_)
            | Self::TimedOut
            | Self::Twice { .. } => false,
        }
    }
}

pub struct Keep<'a> {
    launch: &'a LaunchSpec,
    repository: &'a Repository,
    workspace: PathBuf,
    scratch: &'a Path,
    env: BTreeMap<String, String>,
}

/// What is outside now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    pub commit: String,
    /// Where it is to be found; None when it is part of a branch there already.
    pub ref_name: Option<String>,
    pub base_commit: Option<String>,
    /// How many files differ from the commit that the work began with.
    pub files: u64,
    pub set_aside: Option<SetAside>,
    /// What holds data and is not outside.
    pub losses: Losses,
    /// What was changed in taking it along, and what holds no data, one line each.
    pub notes: Vec<String>,
}

/// In which way the work is kept; each does without something that the one before uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// With the commits that are in the workspace alone.
    Whole,
    /// On the commit that the work began with. Objects of the workspace that are broken, or made to break Git, take no part.
    Files,
    /// Every changed file set aside, so that no name and no rule of the repository takes part.
    Aside,
}

impl<'a> Keep<'a> {
    /// None when there is no repository to keep it in. Of `env` the search path alone is used.
    pub fn new(launch: &'a LaunchSpec, env: &BTreeMap<String, String>, scratch: &'a Path) -> Option<Self> {
        let mut own = launch.git_environment();
        own.extend(env.get_key_value("PATH").map(|(name, path)| (name.clone(), path.clone())));
        let workspace = PathBuf::from(&launch.workspace_path);
        Some(Self { launch, repository: launch.repository.as_ref()?, workspace, scratch, env: own })
    }

    /// The files are what counts: commits that stand in their way are done without, and named as losses.
    pub async fn keep(&self) -> Result<Kept, Error> {
        if !git::is_real_dir(&self.workspace) {
            return Err(Error::NoWorkspace(self.workspace.clone()));
        }
        let until = Instant::now() + KEEP_LIMIT;
        let whole = match self.keep_until(until, Way::Whole, None).await {
            Err(error) if error.allows_another_way() => error,
            kept => return kept,
        };
        let files = match self.keep_until(until, Way::Files, Some(&whole)).await {
            Err(error) if error.allows_another_way() => error,
            kept => return kept,
        };
        let twice = |first: Error, second| Error::Twice { first: Box::new(first), second: Box::new(second) };
        let before = twice(whole, files);
        self.keep_until(until, Way::Aside, Some(&before)).await.map_err(|third| twice(before, third))
    }

    /// One deadline holds for all ways together: the server waits a little longer than that.
    async fn keep_until(&self, until: Instant, way: Way, before: Option<&Error>) -> Result<Kept, Error> {
        match timeout_at(until.into(), self.keep_by(until, way, before)).await {
            Ok(kept) => kept,
            Err(_) => Err(Error::TimedOut),
        }
    }

    /// `before` is why the way before this one failed.
    async fn keep_by(&self, until: Instant, way: Way, before: Option<&Error>) -> Result<Kept, Error> {
        let began = Instant::now();
        let (mut notes, mut losses) = (Notes::default(), Losses::default());
        let opened = Root::open(&self.workspace);
        let mut root = opened.map_err(|source| Error::Workspace { path: self.workspace.clone(), source })?;
        let is_whole = way == Way::Whole;
        if is_whole {
            open::repository(&mut root, began + WALK_LIMIT, &mut notes);
        }
        let bare = Bare::make(self.scratch, &self.env, &self.workspace, is_whole).await?;
        let url = &self.repository.url;
        let outside = bare.tips_at(url).await?;
        let base = bare.find_base(url, &self.repository.base_commit).await?;
        let push_bytes = self.repository.push_bytes_max.unwrap_or(PUSH_BYTES);
        let history = match way {
            Way::Whole => self.history(&bare, base.as_deref(), &outside, push_bytes, &mut losses).await?,
            Way::Files | Way::Aside => {
                if let Some(why) = before {
                    notes.push(format!("commits that are in the workspace alone are not kept: {why}"));
                    self.lose_commits(&bare, &outside, why, &mut losses).await?;
                }
                History::default()
            }
        };
        let parent = history.head.clone().or_else(|| base.clone());
        let read_until = (began + READ_LIMIT).min(until - PUSH_RESERVE);
        let walk_until = (began + WALK_LIMIT).min(read_until);
        let said = (&mut notes, &mut losses);
        let tree = tree::list(&bare, &self.workspace, &mut root, parent.as_deref(), walk_until, said).await?;
        let work = Work {
            bare: &bare,
            way,
            name: format!("refs/preserved/{}", self.launch.sandbox_id),
            aside_name: format!("refs/set-aside/{}", self.launch.sandbox_id),
            parent,
            history,
            limits: Limits::new(push_bytes, self.scratch, read_until),
        };
        let made = work.make(&mut root, tree, &mut notes, &mut losses).await?;
        let is_outside =
            base.as_ref() == Some(&made.commit) || outside.values().any(|tip| *tip == made.commit);
        let push_until = until - REPORT_RESERVE;
        let (ref_name, commit) = if is_outside {
            (outside.into_iter().find(|(_, tip)| *tip == made.commit).map(|(name, _)| name), made.commit)
        } else {
            let pushed = push_all(&bare, url, &made.pushes, &work.name, push_until).await?;
            let pushed = pushed.ok_or(Error::TimedOut)?;
            for path in bare.changes(Some(&pushed), &made.commit).await? {
                losses.add(&path, 0, NOT_PUSHED);
            }
            (Some(work.name.clone()), pushed)
        };
        let aside_pushed = push_all(&bare, url, &made.aside_pushes, &work.aside_name, push_until).await?;
        let set_aside = aside_pushed.filter(|pushed| made.aside_pushes.last() == Some(pushed));
        if set_aside.is_none() {
            made.asides.keys().for_each(|path| losses.add(path, 0, NOT_PUSHED));
        }
        let set_aside = set_aside.map(|commit| SetAside {
            reference: work.aside_name.clone(),
            commit,
            files: made.asides.len() as u64,
            listed: aside::listed(&made.asides),
        });
        let files = bare.changes(base.as_deref(), &commit).await?.len() as u64
            + set_aside.as_ref().map_or(0, |aside| aside.files);
        if root.made_readable() > 0 {
            let count = root.made_readable();
            notes.push(format!(
                "{count} files or directories that their owner could not read were made readable"
            ));
        }
        Ok(Kept { commit, ref_name, base_commit: base, files, set_aside, losses, notes: notes.into_lines() })
    }

    /// The commits that are in the workspace alone, as far as they can be read and the mirror takes them. Each tip that is not
    /// kept is a loss.
    async fn history(
        &self,
        bare: &Bare,
        base: Option<&str>,
        outside: &BTreeMap<String, String>,
        push_bytes: u64,
        losses: &mut Losses,
    ) -> Result<History, Error> {
        let mut known: BTreeSet<String> = outside.values().cloned().collect();
        known.extend(base.map(str::to_owned));
        let mut known = bare.present(&known).await?;
        let tips = self.tips(bare, &known, losses).await;
        let new = tips.iter().map(|tip| tip.commit.as_str()).filter(|tip| !known.iter().any(|at| at == tip));
        let new: Vec<&str> = new.collect();
        let mut history = History::default();
        if !new.is_empty() {
            match judge::history(bare, &new, &known, push_bytes).await {
                Ok(Ok(bytes)) => {
                    history.bytes = bytes;
                    known.extend(new.into_iter().map(str::to_owned));
                }
                Err(error @ Error::Scratch { .. }) => return Err(error),
                // What one of them has must not take the others with it.
                Ok(Err(_)) | Err(_) => {}
            }
        }
        for tip in tips {
            if !known.contains(&tip.commit) {
                let left = push_bytes - history.bytes;
                let why = match judge::history(bare, &[&tip.commit], &known, left).await {
                    Ok(Ok(bytes)) => {
                        history.bytes += bytes;
                        known.push(tip.commit.clone());
                        None
                    }
                    Ok(Err(why)) => Some(why),
                    Err(error) => Some(error.to_string()),
                };
                if let Some(why) = why {
                    tip.lose(&why, losses);
                    continue;
                }
            }
            match tip.is_head {
                true => history.head = Some(tip.commit),
                false => history.others.push(tip.commit),
            }
        }
        Ok(history)
    }

    /// Every commit of the workspace that has a name, and whether there are more than were read.
    fn named(&self) -> (Vec<Tip>, bool) {
        let found = refs::read(&self.workspace.join(".git"));
        let head = found.head.map(|commit| Tip { name: "HEAD".to_owned(), commit, is_head: true });
        let others = found.branches.into_iter();
        let others = others.map(|(name, commit)| Tip { name, commit, is_head: false });
        let mut tips: Vec<Tip> = head.into_iter().collect();
        for tip in others {
            if tips.iter().all(|other| other.commit != tip.commit) {
                tips.push(tip);
            }
        }
        (tips, found.is_cut)
    }

    /// The commit that is checked out, and the tips of other branches that are not outside and not below it. Those whose
    /// history cannot be read are losses.
    async fn tips(&self, bare: &Bare, known: &[String], losses: &mut Losses) -> Vec<Tip> {
        let (named, is_cut) = self.named();
        lose_unread(is_cut, losses);
        let (mut tips, mut below) = (Vec::new(), known.to_vec());
        let mut others = 0;
        for tip in named {
            if !tip.is_head && matches!(bare.is_below(&tip.commit, &below).await, Ok(true)) {
                continue;
            }
            let why = match bare.is_whole(&tip.commit, known).await {
                Ok(true) if tip.is_head || others < OTHER_TIPS_MAX => None,
                Ok(true) => Some(format!("only {OTHER_TIPS_MAX} branches and stashes are kept with HEAD")),
                Ok(false) => Some("its history cannot be read".to_owned()),
                Err(error) => Some(format!("its history cannot be read: {error}")),
            };
            match why {
                Some(why) => tip.lose(&why, losses),
                None => {
                    others += usize::from(!tip.is_head);
                    below.push(tip.commit.clone());
                    tips.push(tip);
                }
            }
        }
        tips
    }

    /// Names all commits of the workspace that the mirror does not have.
    async fn lose_commits(
        &self,
        bare: &Bare,
        outside: &BTreeMap<String, String>,
        why: &Error,
        losses: &mut Losses,
    ) -> Result<(), Error> {
        let (named, is_cut) = self.named();
        lose_unread(is_cut, losses);
        // What is here came from the mirror.
        let here = bare.present(&named.iter().map(|tip| tip.commit.clone()).collect()).await?;
        for tip in named {
            if !here.contains(&tip.commit) && !outside.values().any(|commit| *commit == tip.commit) {
                tip.lose(&why.to_string(), losses);
            }
        }
        Ok(())
    }
}

/// Pushes one commit after the other, up to the deadline; returns the last one that the mirror has.
async fn push_all(
    bare: &Bare,
    url: &str,
    commits: &[String],
    name: &str,
    until: Instant,
) -> Result<Option<String>, Error> {
    let mut last = None;
    for commit in commits {
        match timeout_at(until.into(), bare.push(url, commit, name)).await {
            Ok(Ok(())) => last = Some(commit.clone()),
            Err(_) | Ok(Err(Error::Door(git::Error::TimedOut { .. }))) => break,
            Ok(Err(error)) => return Err(error),
        }
    }
    Ok(last)
}

/// A named commit of the workspace.
#[derive(Debug)]
struct Tip {
    name: String,
    commit: String,
    is_head: bool,
}

impl Tip {
    fn lose(&self, why: &str, losses: &mut Losses) {
        let name = format!("{} at {}", self.name, self.commit);
        losses.add(name.as_bytes(), 0, format!("its commits are not kept: {why}"));
    }
}

fn lose_unread(is_cut: bool, losses: &mut Losses) {
    if is_cut {
        losses.add(b"refs", 0, "there are more branches and stashes than are read");
    }
}

/// Commits that are in the workspace alone, and what they take in a push.
#[derive(Debug, Default)]
struct History {
    head: Option<String>,
    others: Vec<String>,
    bytes: u64,
}

impl From<Kept> for sandbox::Kept {
    fn from(kept: Kept) -> Self {
        Self {
            kept: true,
            reference: kept.ref_name,
            commit: Some(kept.commit),
            files: kept.files,
            events: 0,
            set_aside: kept.set_aside,
            left_out: kept.losses.listed,
            left_out_files: kept.losses.files,
            left_out_bytes: kept.losses.bytes,
            notes: kept.notes,
        }
    }
}
