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
    sandbox::{self, SetAside},
};

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
/// How long looking around may take, and how long reading. What is not looked at or read by then is left out.
const WALK_LIMIT: Duration = Duration::from_secs(90);
const READ_LIMIT: Duration = Duration::from_secs(240);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0} is no directory")]
    NoWorkspace(PathBuf),
    #[error("{path} cannot be opened: {source}")]
    Workspace { path: PathBuf, source: io::Error },
    #[error("cannot make room for the work in {path}: {source}")]
    Scratch { path: PathBuf, source: io::Error },
    #[error("the mirror cannot be reached: {0}")]
    Door(git::Error),
    #[error("the mirror refuses it: {0}")]
    Refused(git::Error),
    #[error("{why}")]
    History { why: String, others: Vec<(String, String)> },
    #[error("Git goes on refusing names after {0} rounds")]
    Rounds(usize),
    #[error(transparent)]
    Git(#[from] git::Error),
    #[error("{first}; and in another way: {second}")]
    Twice { first: Box<Error>, second: Box<Error> },
}

impl Error {
    /// Whether another way to keep the work may do.
    fn allows_another_way(&self) -> bool {
        match self {
            Self::Refused(_) | Self::History { .. } | Self::Rounds(_) | Self::Git(_) => true,
            Self::NoWorkspace(_)
            | Self::Workspace { .. }
            | Self::Scratch { .. }
            | Self::Door(_)
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

    /// The files are what counts: commits that stand in their way are done without.
    pub async fn keep(&self) -> Result<Kept, Error> {
        if !git::is_real_dir(&self.workspace) {
            return Err(Error::NoWorkspace(self.workspace.clone()));
        }
        let whole = match self.keep_by(Way::Whole).await {
            Err(error) if error.allows_another_way() => error,
            kept => return kept,
        };
        let files = match self.keep_by(Way::Files).await {
            Err(error) if error.allows_another_way() => error,
            kept => return kept.map(|kept| kept.without_commits(&whole)),
        };
        let twice = |first: Error, second| Error::Twice { first: Box::new(first), second: Box::new(second) };
        match self.keep_by(Way::Aside).await {
            Ok(kept) => Ok(kept.without_commits(&twice(whole, files))),
            Err(third) => Err(twice(twice(whole, files), third)),
        }
    }

    async fn keep_by(&self, way: Way) -> Result<Kept, Error> {
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
            Way::Whole => self.history(&bare, base.as_deref(), &outside, push_bytes, &mut notes).await?,
            Way::Files | Way::Aside => History::default(),
        };
        let parent = history.head.clone().or_else(|| base.clone());
        let (walk_until, read_until) = (began + WALK_LIMIT, began + READ_LIMIT);
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
        let ref_name = if is_outside {
            outside.into_iter().find(|(_, tip)| *tip == made.commit).map(|(name, _)| name)
        } else {
            for commit in &made.pushes {
                bare.push(url, commit, &work.name).await?;
            }
            Some(work.name.clone())
        };
        for commit in &made.aside_pushes {
            bare.push(url, commit, &work.aside_name).await?;
        }
        let set_aside = made.aside_pushes.last().map(|commit| SetAside {
            reference: work.aside_name.clone(),
            commit: commit.clone(),
            files: made.asides.len() as u64,
            listed: aside::listed(&made.asides),
        });
        let files = bare.count_changes(base.as_deref(), &made.commit).await? + made.asides.len() as u64;
        if root.made_readable() > 0 {
            let count = root.made_readable();
            notes.push(format!(
                "{count} files or directories that their owner could not read were made readable"
            ));
        }
        Ok(Kept {
            commit: made.commit,
            ref_name,
            base_commit: base,
            files,
            set_aside,
            losses,
            notes: notes.into_lines(),
        })
    }

    /// The commits that are in the workspace alone, if the mirror takes them.
    async fn history(
        &self,
        bare: &Bare,
        base: Option<&str>,
        outside: &BTreeMap<String, String>,
        push_bytes: u64,
        notes: &mut Notes,
    ) -> Result<History, Error> {
        let mut known: BTreeSet<String> = outside.values().cloned().collect();
        known.extend(base.map(str::to_owned));
        let known = bare.present(&known).await?;
        let (head, others) = self.tips(bare, &known, notes).await?;
        let tips: Vec<&str> = others.iter().map(|(_, tip)| tip.as_str()).chain(head.as_deref()).collect();
        let bytes = if tips.iter().all(|tip| known.iter().any(|known| known == tip)) {
            0
        } else {
            match judge::history(bare, &tips, &known, push_bytes).await? {
                Ok(bytes) => bytes,
                Err(why) => return Err(Error::History { why, others }),
            }
        };
        Ok(History { head, others: others.into_iter().map(|(_, tip)| tip).collect(), bytes })
    }

    /// The commit that is checked out, and the tips of other branches that are not outside and not below it. Only
    /// commits whose whole history can be read count.
    async fn tips(
        &self,
        bare: &Bare,
        known: &[String],
        notes: &mut Notes,
    ) -> Result<(Option<String>, Vec<(String, String)>), Error> {
        let found = refs::read(&self.workspace.join(".git"));
        let head = match found.head {
            Some(head) if bare.is_whole(&head, known).await? => Some(head),
            Some(head) => {
                notes.push(format!("HEAD is {head}, whose history cannot be read; the files are kept"));
                None
            }
            None => None,
        };
        let mut below: Vec<String> = known.iter().cloned().chain(head.clone()).collect();
        let mut others = Vec::new();
        for (name, tip) in found.branches {
            if below.contains(&tip)
                || !bare.is_whole(&tip, known).await?
                || bare.is_below(&tip, &below).await?
            {
                continue;
            }
            if others.len() == OTHER_TIPS_MAX {
                notes.push(format!("{name} at {tip} is not kept: too many branches"));
                continue;
            }
            below.push(tip.clone());
            others.push((name, tip));
        }
        Ok((head, others))
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

impl Kept {
    /// Kept without the commits of the workspace, and why. What other branches hold is not among the files.
    fn without_commits(mut self, why: &Error) -> Self {
        self.notes.push(format!("commits that are in the workspace alone are not kept: {why}"));
        let mut why = why;
        while let Error::Twice { first, .. } = why {
            why = first;
        }
        if let Error::History { why, others } = why {
            for (name, tip) in others {
                self.losses.add(
                    format!("{name} at {tip}").as_bytes(),
                    0,
                    format!("its commits are not kept: {why}"),
                );
            }
        }
        self
    }
}
