//! The commits of a work tree: what the mirror takes under its names in one, what it refuses in another beside it.

use super::{
    Error, History, Way,
    aside::{self, Aside, Asides},
    bare::Bare,
    commit::{Commit, Entries, Entry},
    import, judge,
    left::{Losses, Notes, show},
    root::Root,
    size::{self, Limits},
    tree::{Changed, Tree},
    walk::ASKED_BYTES_MAX,
};

const MESSAGE: &str = "Keep what was left in the workspace\n";
const ASIDE_MESSAGE: &str =
    "Set aside what Git does not take under its name\n\nThe file INDEX says where each was.\n";
/// Each round takes out all names that are refused; another is needed where that shows more of them.
const ROUNDS_MAX: usize = 4;

pub struct Work<'a> {
    pub bare: &'a Bare,
    pub way: Way,
    pub name: String,
    pub aside_name: String,
    pub parent: Option<String>,
    pub history: History,
    pub limits: Limits,
}

/// What is to be pushed, in this order.
pub struct Made {
    pub commit: String,
    pub pushes: Vec<String>,
    pub aside_pushes: Vec<String>,
    pub asides: Asides,
}

impl Work<'_> {
    pub async fn make(
        &self,
        root: &mut Root,
        tree: Tree,
        notes: &mut Notes,
        losses: &mut Losses,
    ) -> Result<Made, Error> {
        let Tree { before, same, changed } = tree;
        let mut entries = same;
        // What is lost or set aside stays as it was before, so that it does not look as if it were deleted.
        for file in &changed {
            entries.extend(before.get(&file.path).map(|entry| (file.path.clone(), entry.clone())));
        }
        let shares = size::shares(root, changed, &self.limits, losses);
        let files: Vec<&Changed> = shares.iter().flatten().collect();
        let ids = import::contents(self.bare, root, &files, self.limits.deadline, losses).await?;
        let mut asides = Asides::new();
        for (n, file) in files.iter().enumerate() {
            let Some(id) = ids.get(&n) else { continue };
            let entry = Entry { mode: file.mode.to_owned(), id: id.clone() };
            match self.refused_name(&file.path) {
                Some(reason) => drop(asides.insert(file.path.clone(), Aside { entry, reason })),
                None => drop(entries.insert(file.path.clone(), entry)),
            }
        }
        let by_share: Vec<Vec<&[u8]>> =
            shares.iter().map(|share| share.iter().map(|file| file.path.as_slice()).collect()).collect();
        let pushes = self.commit(&mut entries, &before, &mut asides, &by_share, notes).await?;
        let aside_pushes = self.set_aside(&asides, &by_share).await?;
        let made = pushes.last().cloned().unwrap_or_default();
        Ok(match &self.parent {
            Some(parent)
                if self.history.others.is_empty() && self.bare.is_same_tree(parent, &made).await? =>
            {
                Made { commit: parent.clone(), pushes: vec![parent.clone()], aside_pushes, asides }
            }
            _ => Made { commit: made, pushes, aside_pushes, asides },
        })
    }

    /// Why a file cannot have its name in a commit, as far as Git need not be asked.
    fn refused_name(&self, path: &[u8]) -> Option<String> {
        if self.way == Way::Aside {
            return Some("the mirror refuses the files under their names".to_owned());
        }
        if path.split(|byte| *byte == b'/').any(is_git_name) {
            return Some("Git allows no such name".to_owned());
        }
        let long = path.len() > ASKED_BYTES_MAX;
        long.then(|| format!("its path has {} bytes, and no checkout can make it", path.len()))
    }

    /// The commits with all names that the mirror takes. Those that it refuses are set aside.
    async fn commit(
        &self,
        entries: &mut Entries,
        before: &Entries,
        asides: &mut Asides,
        shares: &[Vec<&[u8]>],
        notes: &mut Notes,
    ) -> Result<Vec<String>, Error> {
        for _ in 0..ROUNDS_MAX {
            let commit = Commit {
                name: &self.name,
                message: MESSAGE,
                parent: self.parent.as_deref(),
                others: &self.history.others,
                shares: self.shares(entries, before, shares),
                entries,
            };
            let mut commits = commit.write(self.bare).await?;
            let tip = commits.last().cloned().unwrap_or_default();
            let refused = judge::paths(self.bare, &tip, entries).await?;
            if refused.is_empty() {
                if self.is_history_first() && self.history.others.is_empty() {
                    commits.splice(0..0, self.parent.clone());
                }
                return Ok(commits);
            }
            for (path, reason) in refused {
                let Some(entry) = entries.remove(&path) else { continue };
                match before.get(&path) {
                    Some(old) if *old == entry => {
                        notes.push(format!("{} was not changed, but the mirror refuses it, so the commit leaves it out: {reason}", show(&path)));
                        continue;
                    }
                    Some(old) => drop(entries.insert(path.clone(), old.clone())),
                    None => {}
                }
                asides.insert(path, Aside { entry, reason });
            }
        }
        Err(Error::Rounds(ROUNDS_MAX))
    }

    /// What is pushed before the whole: commits that would make the first push too large, then share after share.
    fn shares<'b>(
        &self,
        entries: &Entries,
        before: &Entries,
        shares: &[Vec<&'b [u8]>],
    ) -> Vec<Vec<&'b [u8]>> {
        let is_new = |path: &&[u8]| entries.get(*path).is_some_and(|entry| before.get(*path) != Some(entry));
        let mut all: Vec<Vec<&[u8]>> =
            shares.iter().map(|share| share.iter().copied().filter(is_new).collect()).collect();
        all.retain(|share| !share.is_empty());
        if all.len() == 1 {
            // The whole brings it.
            all.clear();
        }
        if self.is_history_first() && !self.history.others.is_empty() {
            // A commit without a change, which all of them can be reached from.
            all.insert(0, Vec::new());
        }
        all
    }

    /// Whether commits that are only here are pushed before any file, since one push could not bring both.
    fn is_history_first(&self) -> bool {
        self.history.bytes > self.limits.beside_files()
    }

    async fn set_aside(&self, asides: &Asides, shares: &[Vec<&[u8]>]) -> Result<Vec<String>, Error> {
        if asides.is_empty() {
            return Ok(Vec::new());
        }
        let (entries, names) = aside::entries(self.bare, asides).await?;
        let mut parts: Vec<Vec<&[u8]>> = shares
            .iter()
            .map(|share| share.iter().filter_map(|path| names.get(*path)).map(Vec::as_slice).collect())
            .collect();
        parts.retain(|part| !part.is_empty());
        let shares = if parts.len() < 2 { Vec::new() } else { parts };
        let (name, message) = (self.aside_name.as_str(), ASIDE_MESSAGE);
        Commit { name, message, parent: None, others: &[], shares, entries: &entries }.write(self.bare).await
    }
}

/// In the spellings that other file systems take for it as well: Git itself refuses them before it is asked.
fn is_git_name(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b".git") || name.eq_ignore_ascii_case(b"git~1")
}
