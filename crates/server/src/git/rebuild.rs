//! A damaged mirror is rebuilt beside the damaged one: fetched anew from the far repository, then given everything that
//! only the damaged one had, as far as it can still be read. The two change places in one step, under locks that keep
//! pushes out. The damaged one stays aside, as `PROJECT.broken-TIME`, with a report of what could not be saved.
//!
//! Objects are also looked for in the project's checkouts, which hold what the mirror held when they were made. Where the
//! mirror is gone altogether, they also tell which branches there were.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use omoi_protocol::{ProjectId, project::Project};

use super::{
    Error, Hold, Lock, Mirrors,
    file::{self, blocking},
    health::shown,
    mirror::{FAR, FOLLOWED, HEADS},
    salvage::{self, Found, Remains},
};
use crate::{
    clock::Clock,
    domain::{
        commit::CommitId,
        repository::{LostRef, Rebuilt, Remote},
    },
};

/// Damaged mirrors of one project that are kept aside.
pub const ASIDE_MAX: usize = 3;
const BROKEN: &str = ".broken-";
const REPORT: &str = "omoi-rebuilt.json";
/// The new mirror has everything and may take the place of the damaged one.
const WHOLE: &str = "omoi-whole";
/// There is a report that no project has been told of.
const UNTOLD: &str = "omoi-untold";
/// Commits of a ref that are tried, and tries of one rebuild, each of which starts Git a few times.
const CANDIDATES_MAX: usize = 20;
const TRIES_MAX: usize = 5_000;
/// How long the refs of a damaged mirror are looked for, since no push is taken meanwhile. Those that are left are lost by
/// name, and stay in the mirror that is put aside.
const SALVAGE_LIMIT: Duration = Duration::from_secs(600);

/// Both keep pushes and changes of branches out.
pub(super) struct Alone {
    _pushes: Lock,
    _branches: Lock,
}

impl Mirrors {
    /// Held by whoever writes into a mirror for longer than a change of its refs: it is not exchanged meanwhile.
    pub async fn in_use(&self, project: &ProjectId) -> Result<Lock, Error> {
        self.lock(project, "swap", Hold::Shared, self.settings.timeout).await
    }

    pub(super) async fn alone(&self, project: &ProjectId) -> Result<Alone, Error> {
        let pushes = self.lock(project, "swap", Hold::Alone, self.settings.timeout).await?;
        let branches = self.lock(project, "branches", Hold::Alone, self.settings.timeout).await?;
        Ok(Alone { _pushes: pushes, _branches: branches })
    }

    /// Rebuilds the mirror of a project. The caller holds the lock of fetches.
    pub(super) async fn rebuild(
        &self,
        project: &Project,
        remote: &Remote,
        damage: &str,
    ) -> Result<(), Error> {
        let (path, id) = (self.path(&project.id), &project.id);
        let failed =
            |reason: String| Error::Damaged { mirror: shown(&path), damage: damage.to_owned(), reason };
        tracing::error!(project.id = %id, damage, "the mirror of project {id} is damaged; it is rebuilt");
        self.make_room(id, &path).await.map_err(|error| failed(error.to_string()))?;
        let beside = path.with_extension("rebuilding");
        let fetched = async {
            self.init(&beside).await?;
            self.fetch(&beside, project, remote).await
        };
        if let Err(error) = fetched.await {
            clear(beside.clone()).await?;
            return Err(failed(error.to_string()));
        }
        let _alone = self.alone(id).await?;
        let (saved, lost) = self.salvage(project, &path, &beside).await?;
        self.publish(&beside, &project.default_branch).await?;
        let at = Clock::Real.now();
        let aside = aside(&path, at);
        let report = Rebuilt {
            project_id: id.clone(),
            at,
            damage: damage.to_owned(),
            aside: shown(&aside),
            saved,
            lost,
        };
        for lost in &report.lost {
            tracing::error!(project.id = %id, "{} of project {id} could not be saved as it was", lost.name);
        }
        tracing::warn!(
            project.id = %id,
            saved = report.saved,
            lost = report.lost.len(),
            "the mirror of project {id} was rebuilt; the damaged one is at {}",
            report.aside
        );
        blocking(move || exchange(&path, &beside, &aside, &report)).await
    }

    /// A damaged mirror is removed only if nothing was lost in it; otherwise there is an end to how many are kept.
    async fn make_room(&self, project: &ProjectId, path: &Path) -> Result<(), Error> {
        let (dir, path, project) = (self.dir(), path.to_owned(), project.clone());
        blocking(move || {
            // What a crash has left between the two steps of an exchange is a damaged mirror like the others.
            let beside = path.with_extension("rebuilding");
            if beside.join(UNTOLD).exists() {
                let aside = aside(&path, Clock::Real.now());
                fs::rename(&beside, &aside).map_err(|source| Error::io(&beside, source))?;
            }
            let mut kept = all_aside(&dir)?;
            kept.retain(|(of, _)| *of == project);
            let removable =
                kept.iter().find(|(_, dir)| report(dir).is_some_and(|report| report.lost.is_empty()));
            match removable {
                _ if kept.len() < ASIDE_MAX => Ok(()),
                Some((_, dir)) => fs::remove_dir_all(dir).map_err(|source| Error::io(dir, source)),
                None => {
                    Err(Error::TooManyAside { mirrors: kept.iter().map(|(_, dir)| shown(dir)).collect() })
                }
            }
        })
        .await
    }

    /// Brings what only the damaged repository had into the new one.
    async fn salvage(
        &self,
        project: &Project,
        broken: &Path,
        new: &Path,
    ) -> Result<(usize, Vec<LostRef>), Error> {
        let (dir, id) = (broken.to_owned(), project.id.clone());
        let checkouts = self.dir().with_file_name("checkouts").join(project.id.as_str());
        let (remains, stores) = blocking(move || Ok(sources(&dir, &checkouts))).await?;
        let (mut refs, unread) = (remains.refs, remains.unread);
        let far = self.names(new, FAR).await?;
        let followed: BTreeSet<String> =
            refs.keys().filter_map(|name| Some(format!("{HEADS}{}", name.strip_prefix(FOLLOWED)?))).collect();
        let default = format!("{HEADS}{}", project.default_branch);
        refs.retain(|name, _| !name.starts_with(FOLLOWED) && !followed.contains(name) && *name != default);
        let salvage = Salvage { mirrors: self, new, stores, far: far.values().cloned().collect() };
        let mut tries = Tries { left: TRIES_MAX, until: Instant::now() + SALVAGE_LIMIT };
        let tips: Vec<CommitId> = refs.values().filter_map(|found| found.written.clone()).collect();
        let whole = salvage.bring(&tips).await?;
        let (mut back, mut lost) = (BTreeMap::new(), Vec::new());
        // What it names is not known.
        lost.extend(unread.into_iter().map(|name| LostRef { name, commit: None, now: None }));
        for (name, found) in &refs {
            let at = if whole && found.written.is_some() {
                found.written.clone()
            } else {
                salvage.newest(found, &mut tries).await?
            };
            // A branch that holds nothing of its own follows the far one of its name.
            let theirs = name.strip_prefix(HEADS).and_then(|branch| far.get(branch));
            if let (Some(at), Some(theirs)) = (&at, theirs)
                && salvage.holds(theirs, at).await?
            {
                continue;
            }
            if at.is_none() || at != found.candidates().first().cloned() {
                let commit = found.candidates().first().map(ToString::to_string);
                lost.push(LostRef { name: name.clone(), commit, now: at.as_ref().map(ToString::to_string) });
            }
            if let Some(at) = at {
                back.insert(name.clone(), (at, &found.log));
            }
        }
        let saved = back.len() - lost.iter().filter(|lost| lost.now.is_some()).count();
        let changes = back.iter().map(|(name, (at, _))| format!("create {name} {at}\n")).collect();
        self.update(new, changes).await?;
        salvage.logs(back.iter().map(|(name, (_, log))| (name, *log)), &mut tries).await?;
        tracing::debug!(project.id = %id, saved, lost = lost.len(), "refs of a damaged mirror were salvaged");
        Ok((saved, lost))
    }

    /// Reports that no project has been told of.
    pub async fn untold(&self) -> Result<Vec<Rebuilt>, Error> {
        let dir = self.dir();
        blocking(move || {
            let untold = all_aside(&dir)?.into_iter().filter(|(_, dir)| dir.join(UNTOLD).exists());
            Ok(untold.filter_map(|(_, dir)| report(&dir)).collect())
        })
        .await
    }

    pub async fn told(&self, report: &Rebuilt) -> Result<(), Error> {
        let name = Path::new(&report.aside).file_name().unwrap_or_default().to_owned();
        let mark = self.dir().join(name).join(UNTOLD);
        blocking(move || match fs::remove_file(&mark) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io(&mark, error)),
            _ => Ok(()),
        })
        .await
    }
}

/// All damaged mirrors that are kept aside in a data directory, with what was reported of them.
pub fn broken(data_dir: &Path) -> Result<Vec<(PathBuf, Option<Rebuilt>)>, Error> {
    let aside = all_aside(&data_dir.join("mirrors"))?;
    Ok(aside.into_iter().map(|(_, dir)| (dir.clone(), report(&dir))).collect())
}

struct Salvage<'a> {
    mirrors: &'a Mirrors,
    new: &'a Path,
    /// Directories of objects, in the form of an environment variable.
    stores: String,
    far: Vec<CommitId>,
}

impl Salvage<'_> {
    /// Copies all that these commits hold into the new repository, if all of it can be read.
    async fn bring(&self, tips: &[CommitId]) -> Result<bool, Error> {
        if tips.is_empty() || self.is_whole(tips).await? {
            return Ok(true);
        }
        let wanted: String = tips.iter().map(|tip| format!("{tip}\n")).collect();
        let known: String = self.far.iter().map(|tip| format!("{tip}\n")).collect();
        let packs = self.new.join("objects/pack");
        let call = self.mirrors.git().call(self.new, "pack-objects");
        let call = call.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", &self.stores);
        let call = call.args(["--revs", "--quiet", "--non-empty", "--no-reuse-delta", "--no-reuse-object"]);
        let call = call.arg(packs.join("pack")).input(format!("{wanted}--not\n{known}"));
        let Ok(made) = call.run().await else { return Ok(false) };
        let name = String::from_utf8_lossy(&made).trim().to_owned();
        if !name.is_empty() {
            let verify = self.mirrors.git().call(self.new, "verify-pack");
            let index = packs.join(format!("pack-{name}.idx"));
            if verify.arg(index).run().await.is_err() {
                for ending in ["idx", "rev", "pack"] {
                    let _ = fs::remove_file(packs.join(format!("pack-{name}.{ending}")));
                }
                return Ok(false);
            }
        }
        self.is_whole(tips).await
    }

    /// Whether the new repository has all that these commits hold.
    async fn is_whole(&self, tips: &[CommitId]) -> Result<bool, Error> {
        let call = self.mirrors.git().call(self.new, "rev-list").args(["--objects", "--quiet", "--stdin"]);
        let tips: String = tips.iter().map(|tip| format!("{tip}\n")).collect();
        let known: String = self.far.iter().map(|tip| format!("^{tip}\n")).collect();
        Ok(call.input(tips + &known).run_for(&[1, 128]).await?.0 == 0)
    }

    /// The newest commit of a ref that can be brought whole.
    async fn newest(&self, found: &Found, tries: &mut Tries) -> Result<Option<CommitId>, Error> {
        let mut candidates = found.candidates();
        if tries.are_over() {
            return Ok(None);
        }
        if let Some(tip) = candidates.first() {
            // What was committed in several steps and pushed at once has no log of each.
            let call = self.mirrors.git().call(self.new, "rev-list").args(["--first-parent", "--stdin"]);
            let call = call.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", &self.stores);
            let known: String = self.far.iter().map(|far| format!("^{far}\n")).collect();
            let (_, listed) = call.input(format!("{tip}\n{known}")).run_for(&[1, 128]).await?;
            let listed =
                String::from_utf8_lossy(&listed).lines().filter_map(|line| line.parse().ok()).collect();
            let older: Vec<CommitId> = listed;
            candidates.splice(1..1, older.into_iter().skip(1));
        }
        for commit in candidates.into_iter().take(CANDIDATES_MAX) {
            if tries.take() && self.bring(std::slice::from_ref(&commit)).await? {
                return Ok(Some(commit));
            }
        }
        Ok(None)
    }

    async fn holds(&self, whole: &CommitId, part: &CommitId) -> Result<bool, Error> {
        let call = self.mirrors.git().call(self.new, "merge-base").arg("--is-ancestor");
        Ok(call.args([part.as_str(), whole.as_str()]).run_for(&[1, 128]).await?.0 == 0)
    }

    /// Puts the lines of the logs back whose commits are there, and brings those that can be had.
    async fn logs(
        &self,
        logs: impl Iterator<Item = (&String, &Vec<String>)>,
        tries: &mut Tries,
    ) -> Result<(), Error> {
        let commit_of =
            |line: &str| line.split(' ').nth(1).and_then(|commit| commit.parse::<CommitId>().ok());
        let newest = |lines: &[String]| lines[lines.len().saturating_sub(CANDIDATES_MAX)..].to_vec();
        let logs: Vec<(&String, Vec<String>)> =
            logs.filter(|(_, lines)| !lines.is_empty()).map(|(name, lines)| (name, newest(lines))).collect();
        let all = logs.iter().flat_map(|(_, lines)| lines.iter().filter_map(|line| commit_of(line)));
        let mut there = self.there(all.collect()).await?;
        for (name, lines) in logs {
            let mut kept = String::new();
            for line in lines {
                let Some(commit) = commit_of(&line) else { continue };
                if !there.contains(&commit)
                    && tries.take()
                    && self.bring(std::slice::from_ref(&commit)).await?
                {
                    there.insert(commit.clone());
                }
                if there.contains(&commit) {
                    kept.push_str(&line);
                    kept.push('\n');
                }
            }
            let file = self.new.join("logs").join(name);
            blocking(move || {
                let written =
                    file.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&file, kept));
                written.map_err(|source| Error::io(&file, source))
            })
            .await?;
        }
        Ok(())
    }

    /// Those of the commits that the new repository has. It has each whole: it is fetched, or brought with all it holds.
    async fn there(&self, commits: BTreeSet<CommitId>) -> Result<BTreeSet<CommitId>, Error> {
        let asked: String = commits.iter().map(|commit| format!("{commit}\n")).collect();
        let call = self.mirrors.git().call(self.new, "cat-file");
        let said = call.arg("--batch-check=%(objectname) %(objecttype)").input(asked).run().await?;
        let said = String::from_utf8_lossy(&said);
        Ok(said.lines().filter_map(|line| line.strip_suffix(" commit")?.parse().ok()).collect())
    }
}

/// How much may still be tried in a rebuild.
struct Tries {
    left: usize,
    until: Instant,
}

impl Tries {
    fn are_over(&self) -> bool {
        self.left == 0 || Instant::now() >= self.until
    }

    /// Whether one more may begin.
    fn take(&mut self) -> bool {
        let may = !self.are_over();
        self.left -= usize::from(may);
        may
    }
}

/// The refs that are known, and where objects may be.
fn sources(broken: &Path, checkouts: &Path) -> (Remains, String) {
    let mut remains = salvage::read(broken);
    let mut trees: Vec<PathBuf> = fs::read_dir(checkouts)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("tree/.git"))
        .filter(|git_dir| git_dir.join("objects").is_dir())
        .collect();
    trees.sort_by_key(|git_dir| {
        fs::metadata(git_dir.join("packed-refs")).and_then(|meta| meta.modified()).ok()
    });
    if !broken.is_dir() {
        for git_dir in trees.iter().rev() {
            for line in fs::read_to_string(git_dir.join("packed-refs")).unwrap_or_default().lines() {
                if let Some((commit, branch)) = line.split_once(" refs/remotes/origin/")
                    && let Ok(commit) = commit.parse()
                {
                    let found = remains.refs.entry(format!("{HEADS}{branch}")).or_default();
                    found.written.get_or_insert(commit);
                }
            }
        }
    }
    let stores = std::iter::once(broken.join("objects")).chain(trees.iter().map(|dir| dir.join("objects")));
    let stores: Vec<String> = stores.filter(|dir| dir.is_dir()).map(|dir| quoted(&dir)).collect();
    (remains, stores.join(":"))
}

/// As Git reads a path that may hold a colon.
fn quoted(path: &Path) -> String {
    format!("\"{}\"", path.display().to_string().replace('\\', "\\\\").replace('"', "\\\""))
}

fn aside(path: &Path, at: Timestamp) -> PathBuf {
    path.with_extension(format!("{}{}", &BROKEN[1..], at.strftime("%Y%m%dT%H%M%S%3fZ")))
}

/// The new repository takes the place of the damaged one in one step, so there is a mirror at any time. The mark comes
/// first: should the server die between the two steps, it tells the damaged one from one that is half made.
fn exchange(path: &Path, beside: &Path, aside: &Path, report: &Rebuilt) -> Result<(), Error> {
    let text = serde_json::to_vec_pretty(report).unwrap_or_default();
    let io = |source| Error::io(path, source);
    if !path.is_dir() {
        fs::create_dir_all(aside).map_err(io)?;
        file::replace(&aside.join(REPORT), &text, 0o600).map_err(io)?;
        file::replace(&aside.join(UNTOLD), b"", 0o600).map_err(io)?;
        return fs::rename(beside, path).map_err(io);
    }
    file::replace(&path.join(REPORT), &text, 0o600).map_err(io)?;
    file::replace(&path.join(UNTOLD), b"", 0o600).map_err(io)?;
    file::replace(&beside.join(WHOLE), b"", 0o600).map_err(io)?;
    use rustix::{
        fs::{CWD, RenameFlags, renameat_with},
        io::Errno,
    };
    let exchanged = match renameat_with(CWD, beside, CWD, path, RenameFlags::EXCHANGE) {
        Ok(()) => fs::rename(beside, aside),
        // Some file systems cannot. A crash between the two steps leaves no mirror; `finish_exchange` takes the second.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            fs::rename(path, aside).and_then(|()| fs::rename(beside, path))
        }
        Err(error) => Err(error.into()),
    };
    exchanged.and_then(|()| fs::remove_file(path.join(WHOLE))).map_err(io)
}

/// Takes the second step of an exchange that a crash has cut off between the two, where the file system cannot exchange in
/// one: the damaged mirror is aside, and the new one is whole and not in its place.
pub(super) fn finish_exchange(path: &Path) -> Result<(), Error> {
    let beside = path.with_extension("rebuilding");
    if path.exists() || !beside.join(WHOLE).is_file() || beside.join(UNTOLD).exists() {
        return Ok(());
    }
    let finished = fs::rename(&beside, path).and_then(|()| fs::remove_file(path.join(WHOLE)));
    finished.map_err(|source| Error::io(path, source))
}

fn all_aside(dir: &Path) -> Result<Vec<(ProjectId, PathBuf)>, Error> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|source| Error::io(dir, source))?,
    };
    let aside = entries.flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        Some((name.split_once(BROKEN)?.0.parse().ok()?, entry.path()))
    });
    let mut aside: Vec<_> = aside.collect();
    aside.sort_by(|one, other| one.1.cmp(&other.1));
    Ok(aside)
}

fn report(dir: &Path) -> Option<Rebuilt> {
    serde_json::from_slice(&fs::read(dir.join(REPORT)).ok()?).ok()
}

async fn clear(path: PathBuf) -> Result<(), Error> {
    blocking(move || super::mirror::clear(&path)).await
}
