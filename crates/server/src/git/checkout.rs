//! Checkouts: for each commit that sandboxes start from, one standalone repository with its files, at
//! `DATA/checkouts/PROJECT/COMMIT/tree`, to lie below the sandboxes' own layers. Once there, it is never changed.
//!
//! It is made under another name and renamed when it is whole, so what a crash leaves half made is not believed. What a
//! power cut may have left half on disk is not believed either: a checkout counts for the run of the machine that made
//! it, which is cheaper than waiting for the disk each time.
//!
//! Which sandbox uses which checkout is kept in files (`.references/SANDBOX`), so it survives a restart. A reference is
//! written before anything else, under a lock that the sweep takes alone: what is about to be used is never swept.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use omoi_protocol::{ProjectId, SandboxId};

use super::{
    Error,
    build::Build,
    file::{self, Hold, Lock, blocking},
    mirror::Mirrors,
};
use crate::{
    clock::Clock,
    config::{self, Config},
    domain::commit::CommitId,
};

const REFERENCES: &str = ".references";
const REMOVED: &str = ".removed-";
const NEW: &str = ".new-";
const DAMAGED: &str = ".damaged-";
/// The sandboxes that use a damaged checkout.
const USERS: &str = "users";
/// Its content is the run of the machine that made the checkout, its age when the checkout was last wanted.
const WHOLE: &str = "whole";
const TREE: &str = "tree";
/// How long writing a reference or looking through all checkouts may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// All checkouts of this machine. Cheap to clone; several may be at work on one data directory.
#[derive(Clone)]
pub struct Checkouts {
    dir: Arc<Path>,
    boot: Arc<str>,
    mirrors: Mirrors,
    clock: Clock,
    settings: Arc<config::Git>,
}

/// References as they were at one moment.
#[derive(Debug)]
pub struct References(Vec<PathBuf>);

/// What a sweep did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    pub removed: usize,
    /// Those that no sandbox uses and that stay for the next.
    pub kept: usize,
}

impl Checkouts {
    pub fn new(config: &Config, mirrors: Mirrors, clock: Clock) -> Result<Self, Error> {
        let dir = std::path::absolute(config.data_dir.join("checkouts"));
        let dir = dir.map_err(|source| Error::io(&config.data_dir, source))?;
        fs::create_dir_all(&dir).map_err(|source| Error::io(&dir, source))?;
        let boot_id = Path::new("/proc/sys/kernel/random/boot_id");
        let boot = fs::read_to_string(boot_id).map_err(|source| Error::io(boot_id, source))?;
        let checkouts = Self {
            dir: dir.into(),
            boot: boot.into(),
            mirrors,
            clock,
            settings: Arc::new(config.git.clone()),
        };
        checkouts.prepare()?;
        Ok(checkouts)
    }

    /// Somebody may have removed the directory under the running server: all in it can be made again.
    fn prepare(&self) -> Result<(), Error> {
        file::make_below(&self.dir, &[REFERENCES]).map_err(|source| Error::io(&self.dir, source))
    }

    async fn lock(&self, hold: Hold) -> Result<Lock, Error> {
        self.prepare()?;
        Lock::take(self.dir.join(".lock"), hold, PATIENCE).await
    }

    /// The tree of a commit, for this sandbox until it is released. Made at the first wish for it, once, however many
    /// wish for it together.
    pub async fn acquire(
        &self,
        project: &ProjectId,
        commit: &CommitId,
        sandbox: &SandboxId,
    ) -> Result<PathBuf, Error> {
        let place = self.dir.join(project.as_str()).join(commit.as_str());
        let is_there = self.refer(project, commit, sandbox).await?;
        if is_there && !self.is_sound(&place).await? {
            tracing::warn!(project.id = %project, "the checkout of {commit} is damaged and is made again");
            self.set_damaged_aside(project, &place).await?;
        }
        if !is_there || !self.is_whole(&place) {
            let made = self.make(project, commit, &place).await;
            if made.is_err() {
                self.release(sandbox).await?;
            }
            made?;
        }
        Ok(place.join(TREE))
    }

    /// The sandbox is gone, and its checkout may go. Harmless when it has none.
    pub async fn release(&self, sandbox: &SandboxId) -> Result<(), Error> {
        let (checkouts, reference) = (self.clone(), self.reference(sandbox));
        blocking(move || checkouts.drop_reference(&reference)).await
    }

    /// The references that are there now. Each belongs to a sandbox that was stored before its reference was written.
    pub async fn references(&self) -> Result<References, Error> {
        self.prepare()?;
        let dir = self.dir.join(REFERENCES);
        blocking(move || entries(&dir).map(References)).await
    }

    /// Releases the checkouts of sandboxes that are not in `live`; returns how many. `references` has to be older than
    /// `live`: a sandbox that began after the references were listed keeps its checkout.
    pub async fn reconcile(
        &self,
        references: References,
        live: &BTreeSet<SandboxId>,
    ) -> Result<usize, Error> {
        let _no_sweep = self.lock(Hold::Shared).await?;
        let live: BTreeSet<String> = live.iter().map(ToString::to_string).collect();
        let checkouts = self.clone();
        blocking(move || {
            let dead = references.0.iter().filter(|path| !live.contains(&name(path)));
            let mut released = 0;
            for reference in dead {
                checkouts.drop_reference(reference)?;
                released += 1;
            }
            Ok(released)
        })
        .await
    }

    /// Whether the checkout of the commit is there and the reference of the sandbox is not.
    pub fn is_lost(&self, project: &ProjectId, commit: &CommitId, sandbox: &SandboxId) -> bool {
        !self.reference(sandbox).exists() && self.dir.join(format!("{project}/{commit}")).exists()
    }

    /// Writes the reference of a sandbox again after it was lost. The caller makes sure that the sandbox is not removed
    /// meanwhile: no later step would release a checkout that was released already.
    pub async fn restore(
        &self,
        project: &ProjectId,
        commit: &CommitId,
        sandbox: &SandboxId,
    ) -> Result<(), Error> {
        self.refer(project, commit, sandbox).await.map(drop)
    }

    /// Removes what no sandbox uses, beyond what is to be kept, and what crashes have left.
    pub async fn sweep(&self) -> Result<Swept, Error> {
        let nobody_comes = self.lock(Hold::Alone).await?;
        let checkouts = self.clone();
        let swept = blocking(move || checkouts.set_aside(None)).await?;
        drop(nobody_comes);
        self.delete_removed().await?;
        Ok(swept)
    }

    /// Removes all checkouts of a project that no sandbox uses, whatever is to be kept.
    pub async fn remove(&self, project: &ProjectId) -> Result<Swept, Error> {
        let nobody_comes = self.lock(Hold::Alone).await?;
        let (checkouts, project) = (self.clone(), project.clone());
        let swept = blocking(move || checkouts.set_aside(Some(&project))).await?;
        drop(nobody_comes);
        self.delete_removed().await?;
        Ok(swept)
    }

    fn reference(&self, sandbox: &SandboxId) -> PathBuf {
        self.dir.join(REFERENCES).join(sandbox.as_str())
    }

    /// Writes down that the sandbox uses the checkout; says whether there is one.
    async fn refer(
        &self,
        project: &ProjectId,
        commit: &CommitId,
        sandbox: &SandboxId,
    ) -> Result<bool, Error> {
        let _no_sweep = self.lock(Hold::Shared).await?;
        let (checkouts, reference) = (self.clone(), self.reference(sandbox));
        let referred = format!("{project}/{commit}");
        blocking(move || {
            file::replace(&reference, referred.as_bytes(), 0o600)
                .map_err(|source| Error::io(&reference, source))?;
            let place = checkouts.dir.join(referred);
            Ok(checkouts.is_whole(&place) && checkouts.touch(&place))
        })
        .await
    }

    /// One at a time per project, so that those who wish for the same find it made.
    async fn make(&self, project: &ProjectId, commit: &CommitId, place: &Path) -> Result<(), Error> {
        self.prepare()?;
        let project_dir = self.dir.join(project.as_str());
        fs::create_dir_all(&project_dir).map_err(|source| Error::io(&project_dir, source))?;
        let _alone = Lock::take(project_dir.join(".lock"), Hold::Alone, self.settings.timeout).await?;
        if self.is_whole(place) {
            return Ok(());
        }
        let beside = project_dir.join(format!("{NEW}{}", file::unique()));
        let build = Build {
            mirrors: &self.mirrors,
            settings: &self.settings,
            project,
            commit,
            tree: beside.join(TREE),
        };
        let built = build.run().await;
        if matches!(built, Err(Error::Git(_) | Error::NoCommit { .. })) {
            self.mirrors.suspect(project).await?;
        }
        let (checkouts, place) = (self.clone(), place.to_owned());
        blocking(move || {
            let finished = built.and_then(|()| checkouts.finish(&beside, &place));
            if finished.is_err() {
                let _ = fs::remove_dir_all(&beside);
            }
            finished
        })
        .await
    }

    fn finish(&self, beside: &Path, place: &Path) -> Result<(), Error> {
        let written = fs::write(beside.join(WHOLE), self.boot.as_bytes());
        written.map_err(|source| Error::io(beside, source))?;
        self.touch(beside);
        // Of another run of the machine, so nobody has it mounted.
        if place.exists() {
            self.put_away(place)?;
        }
        fs::rename(beside, place).map_err(|source| Error::io(place, source))
    }

    fn is_whole(&self, place: &Path) -> bool {
        fs::read_to_string(place.join(WHOLE)).is_ok_and(|boot| *boot == *self.boot)
    }

    /// Whether all files are as they were written, by size and time; content is not read.
    async fn is_sound(&self, place: &Path) -> Result<bool, Error> {
        let tree = place.join(TREE);
        let git = self.mirrors.git();
        self.mirrors.prepare()?;
        let call = git.call(&tree.join(".git"), "diff-index").work_tree(&tree);
        let call = call.args(["--quiet", "--ignore-submodules", "HEAD", "--"]);
        Ok(call.run_for(&[1, 128]).await?.0 == 0)
    }

    /// Renames a damaged checkout. Sandboxes that run have it mounted, so it stays until they are gone.
    async fn set_damaged_aside(&self, project: &ProjectId, place: &Path) -> Result<(), Error> {
        let lock = self.dir.join(project.as_str()).join(".lock");
        let _alone = Lock::take(lock, Hold::Alone, self.settings.timeout).await?;
        if self.is_sound(place).await? {
            return Ok(());
        }
        let (checkouts, place) = (self.clone(), place.to_owned());
        blocking(move || {
            let used = entries(&checkouts.dir.join(REFERENCES))?
                .into_iter()
                .filter(|path| fs::read_to_string(path).is_ok_and(|of| checkouts.dir.join(of) == place));
            let users: Vec<String> = used.map(|path| name(&path)).collect();
            let written = fs::write(place.join(USERS), users.join("\n"));
            written.map_err(|source| Error::io(&place, source))?;
            let away = checkouts.dir.join(format!("{DAMAGED}{}", file::unique()));
            fs::rename(&place, away).map_err(|source| Error::io(&place, source))
        })
        .await
    }

    /// It was wanted now.
    fn touch(&self, place: &Path) -> bool {
        let marker = fs::File::options().write(true).open(place.join(WHOLE));
        marker.is_ok_and(|marker| marker.set_modified(self.clock.now().into()).is_ok())
    }

    fn drop_reference(&self, reference: &Path) -> Result<(), Error> {
        if let Ok(referred) = fs::read_to_string(reference) {
            self.touch(&self.dir.join(referred));
        }
        match fs::remove_file(reference) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io(reference, error)),
            _ => Ok(()),
        }
    }

    /// Renames what is to be removed; deleting takes its time and needs no lock. Of one project everything, or of all
    /// projects what is beyond the limits.
    fn set_aside(&self, only: Option<&ProjectId>) -> Result<Swept, Error> {
        let references = entries(&self.dir.join(REFERENCES))?;
        let used: BTreeSet<PathBuf> = references
            .iter()
            .filter_map(|path| Some(self.dir.join(fs::read_to_string(path).ok()?)))
            .collect();
        let (mut unused, mut swept) = (Vec::new(), Swept::default());
        let live: BTreeSet<String> = references.iter().map(|path| name(path)).collect();
        for place in entries(&self.dir)?.into_iter().filter(|path| name(path).starts_with(DAMAGED)) {
            let users = fs::read_to_string(place.join(USERS)).unwrap_or_default();
            if !users.lines().any(|user| live.contains(user)) {
                self.put_away(&place)?;
            }
        }
        for project in entries(&self.dir)?.into_iter().filter(|path| !name(path).starts_with('.')) {
            if only.is_some_and(|only| name(&project) != only.as_str()) {
                continue;
            }
            self.sweep_unfinished(&project)?;
            for place in entries(&project)?.into_iter().filter(|path| !name(path).starts_with('.')) {
                if !used.contains(&place) {
                    let wanted = fs::metadata(place.join(WHOLE)).and_then(|whole| whole.modified()).ok();
                    unused.push((wanted.filter(|_| self.is_whole(&place)), place));
                }
            }
        }
        unused.sort_by(|one, other| other.cmp(one));
        let now: std::time::SystemTime = self.clock.now().into();
        for (wanted, place) in unused {
            let age = wanted.map(|wanted| now.duration_since(wanted).unwrap_or_default());
            let fresh = age.is_some_and(|age| age <= self.settings.checkout_age_max);
            if only.is_none() && fresh && swept.kept < self.settings.checkouts_kept {
                swept.kept += 1;
            } else {
                self.put_away(&place)?;
                swept.removed += 1;
            }
        }
        Ok(swept)
    }

    /// What nobody is making any more.
    fn sweep_unfinished(&self, project: &Path) -> Result<(), Error> {
        let Some(_alone) = Lock::try_now(&project.join(".lock"), Hold::Alone)? else { return Ok(()) };
        entries(project)?
            .iter()
            .filter(|path| name(path).starts_with(NEW))
            .try_for_each(|path| self.put_away(path))
    }

    fn put_away(&self, place: &Path) -> Result<(), Error> {
        let away = self.dir.join(format!("{REMOVED}{}", file::unique()));
        fs::rename(place, away).map_err(|source| Error::io(place, source))
    }

    async fn delete_removed(&self) -> Result<(), Error> {
        let dir = self.dir.clone();
        blocking(move || {
            let removed = entries(&dir)?.into_iter().filter(|path| name(path).starts_with(REMOVED));
            for path in removed {
                match fs::remove_dir_all(&path) {
                    // Another sweep may be at it.
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                        return Err(Error::io(&path, error));
                    }
                    _ => {}
                }
            }
            Ok(())
        })
        .await
    }
}

fn entries(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let listed = fs::read_dir(dir).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    listed.map_err(|source| Error::io(dir, source))
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
