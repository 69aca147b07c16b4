//! The mirror of a project: a bare repository of ours at `DATA/mirrors/PROJECT.git`, which sandboxes fetch from and
//! push to. Its refs:
//!
//! | refs | what | who writes |
//! | --- | --- | --- |
//! | `refs/remotes/origin/*`, `refs/tags/*` | the far repository as it was last fetched | a fetch alone |
//! | `refs/heads/*` | what sandboxes see: the far branches, and those that were made here | see below |
//! | `refs/omoi/followed/*` | marks a branch of `refs/heads` that follows the far side | a fetch, `branch_create` |
//! | `refs/omoi/base/SANDBOX` | where its branch was when that sandbox started | `branch_create` |
//! | `refs/preserved/SANDBOX` | what is kept of a sandbox | that sandbox |
//! | `refs/set-aside/SANDBOX` | its files whose names Git does not take, under numbers | that sandbox |
//!
//! A branch that a fetch has put there follows the far side, also when that goes back or goes away. Any other was made
//! here and belongs to its task: no fetch moves or removes it, whatever the far repository calls by the same name. A far
//! branch that a task takes up follows no more. `refs/omoi` is hidden from sandboxes.
//!
//! Four kinds of lock, each a file that the kernel frees when its holder dies: one fetch at a time per project; one
//! change of the list of branches at a time; per branch, pushes share what `branch_create` takes alone, so a push that
//! began under an attempt's lease has ended before the next attempt learns where its branch stands; and all pushes of a
//! project share what an exchange of the mirror takes alone (`rebuild.rs`).

use std::{
    collections::{BTreeMap, BTreeSet},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use omoi_protocol::{ProjectId, SandboxId, project::Project};
use rustix::fs::Access;
use sha2::{Digest, Sha256};

use super::{
    Error,
    command::Git,
    file::{self, Hold, Lock, blocking},
    health::Depth,
    publish::{self, Branches},
};
use crate::{
    config::{self, Config},
    domain::{
        branch,
        commit::CommitId,
        repository::{Opened, Remote},
    },
    resolve::{self, Resolver},
};

pub(super) const HEADS: &str = "refs/heads/";
pub(super) const FAR: &str = "refs/remotes/origin/";
pub(super) const FOLLOWED: &str = "refs/omoi/followed/";
/// Names shown where the wanted one is missing.
const NAMES_SHOWN: usize = 8;
/// How long a change of the list of branches may take.
const BRANCHES_PATIENCE: Duration = Duration::from_secs(60);

/// Reflogs are kept, so that work which a push moved away from can be found.
const REPOSITORY_CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n\
                                 \tlogAllRefUpdates = always\n";

const PUSH_HOOK: &str = include_str!("update.sh");

pub fn branch_ref(branch: &str) -> String {
    format!("{HEADS}{branch}")
}

pub fn base_ref(sandbox: &SandboxId) -> String {
    format!("refs/omoi/base/{sandbox}")
}

pub fn preserved_ref(sandbox: &SandboxId) -> String {
    format!("refs/preserved/{sandbox}")
}

pub fn set_aside_ref(sandbox: &SandboxId) -> String {
    format!("refs/set-aside/{sandbox}")
}

/// All mirrors of this machine. Cheap to clone; several may be at work on one data directory.
#[derive(Clone)]
pub struct Mirrors {
    dir: Arc<Path>,
    git: Git,
    pub(super) settings: Arc<config::Git>,
    pub(super) opened: Arc<Opened>,
    pub(super) resolver: Arc<dyn Resolver>,
    /// Projects whose mirror was there since this process began: one of theirs that is missing was removed.
    seen: Arc<Mutex<BTreeSet<ProjectId>>>,
}

impl Mirrors {
    /// What one push from a sandbox may bring.
    pub fn push_bytes_max(&self) -> u64 {
        self.settings.push_bytes_max as u64
    }

    pub fn new(config: &Config) -> Result<Self, Error> {
        Self::with_resolver(config, Arc::new(resolve::System::default()))
    }

    /// With name servers of one's own.
    pub fn with_resolver(config: &Config, resolver: Arc<dyn Resolver>) -> Result<Self, Error> {
        let dir = std::path::absolute(config.data_dir.join("mirrors"));
        let dir = dir.map_err(|source| Error::io(&config.data_dir, source))?;
        let io = |source| Error::io(&dir, source);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir).map_err(io)?;
        let (private, paths) = (config.git.allow_private.clone(), config.git.allow_paths.clone());
        let mirrors = Self {
            git: Git::new(&dir, config.git.timeout).map_err(io)?,
            dir: dir.into(),
            settings: Arc::new(config.git.clone()),
            opened: Arc::new(Opened { private, paths }),
            resolver,
            seen: Arc::default(),
        };
        mirrors.prepare()?;
        Ok(mirrors)
    }

    /// Makes what every mirror needs besides itself. It costs a few looks where all is there, and is done again before
    /// each use, since somebody may remove files under a running server.
    pub(super) fn prepare(&self) -> Result<(), Error> {
        let hook = self.dir.join("hooks/update");
        let made = file::make_below(&self.dir, &["locks", "hooks", "suspect", "wanted"])
            .and_then(|()| file::replace(&hook, PUSH_HOOK.as_bytes(), 0o700))
            .and_then(|()| self.git.prepare());
        made.map_err(|source| Error::io(&self.dir, source))
    }

    /// The hooks of pushes, which only run from where programs may run.
    pub fn hooks(&self) -> Result<PathBuf, Error> {
        self.prepare()?;
        let hooks = self.dir.join("hooks");
        let runs = rustix::fs::access(hooks.join("update"), Access::EXEC_OK);
        runs.map(|()| hooks.clone()).map_err(|error| Error::io(&hooks, error.into()))
    }

    pub(super) fn dir(&self) -> PathBuf {
        self.dir.to_path_buf()
    }

    pub(super) fn was_seen(&self, project: &ProjectId) -> bool {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).contains(project)
    }

    pub fn git(&self) -> &Git {
        &self.git
    }

    /// The mirror's directory, whether it is there or not.
    pub fn path(&self, project: &ProjectId) -> PathBuf {
        self.dir.join(format!("{project}.git"))
    }

    /// See `wanted.rs`.
    pub(super) fn wanted_dir(&self) -> PathBuf {
        self.dir.join("wanted")
    }

    /// The mirror's directory, of a project that was fetched before.
    pub fn existing(&self, project: &ProjectId) -> Result<PathBuf, Error> {
        let path = self.path(project);
        if !path.join("HEAD").is_file() {
            return Err(Error::NoMirror(project.clone()));
        }
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).insert(project.clone());
        Ok(path)
    }

    /// Fetches what is new, or everything at first, and answers with the tip of the default branch. Where that fails
    /// because our own mirror is damaged, the mirror is rebuilt.
    pub async fn refresh(&self, project: &Project) -> Result<CommitId, Error> {
        let remote = Self::remote(project)?;
        if !branch::is_valid(&project.default_branch) {
            return Err(branch_error(
                &project.default_branch,
                "is none that Git takes; change default_branch",
            ));
        }
        let _one_at_a_time = self.lock(&project.id, "fetch", Hold::Alone, self.settings.timeout).await?;
        let is_missing = self.existing(&project.id).is_err();
        if self.is_suspect(&project.id) {
            self.settle(project).await?;
        } else if is_missing && self.repair(project, Depth::Outline).await? {
            return self.default_tip(project).await;
        }
        let failed = match self.bring(project, &remote).await {
            Ok(tip) => return Ok(tip),
            Err(failed) => failed,
        };
        match failed.may_be_ours() {
            Some(depth) if self.repair(project, depth).await? => self.default_tip(project).await,
            _ => Err(failed),
        }
    }

    async fn bring(&self, project: &Project, remote: &Remote) -> Result<CommitId, Error> {
        let path = self.path(&project.id);
        self.make(&path).await?;
        self.fetch(&path, project, remote).await?;
        let _branches = self.lock(&project.id, "branches", Hold::Alone, BRANCHES_PATIENCE).await?;
        let far = self.publish(&path, &project.default_branch).await?;
        self.existing(&project.id)?;
        default_of(project, &far)
    }

    /// The tip of the default branch as it was last fetched.
    pub async fn default_tip(&self, project: &Project) -> Result<CommitId, Error> {
        default_of(project, &self.names(&self.existing(&project.id)?, FAR).await?)
    }

    /// Makes the branch of a sandbox's task at `from`, and answers with its tip. A branch that is there already, from an
    /// earlier attempt or from the far repository, is kept as it is. Where it stands is written down for the sandbox,
    /// once: a second call changes nothing.
    pub async fn branch_create(
        &self,
        project: &Project,
        name: &str,
        from: &CommitId,
        sandbox: &SandboxId,
    ) -> Result<CommitId, Error> {
        if !branch::is_valid(name) {
            return Err(branch_error(name, "is none that Git takes"));
        }
        if name == project.default_branch {
            return Err(branch_error(name, "is the project's default branch, which no sandbox may push to"));
        }
        let path = self.existing(&project.id)?;
        let _no_pushes = self.push_lock(&project.id, name, Hold::Alone).await?;
        let _branches = self.lock(&project.id, "branches", Hold::Alone, BRANCHES_PATIENCE).await?;
        let (own, followed, base) = (branch_ref(name), format!("{FOLLOWED}{name}"), base_ref(sandbox));
        let there = self.refs(&path, &[HEADS.to_owned(), followed.clone(), base.clone()]).await?;
        let heads = below(&there, HEADS);
        if let Some(across) = heads.keys().find(|there| publish::cross(there, name)) {
            return Err(branch_error(
                name,
                &format!("cannot stand beside the branch {across:?}; rename one"),
            ));
        }
        // What a branch points to is there without asking.
        let is_there = heads.contains_key(name) || heads.values().any(|tip| tip == from);
        if !is_there && !self.has_commit(&project.id, from).await? {
            return Err(Error::NoCommit { project: project.id.clone(), commit: from.clone() });
        }
        let tip = heads.get(name).unwrap_or(from);
        let missing = [own, base].into_iter().filter(|name| !there.contains_key(name));
        let mut changes: String = missing.map(|name| format!("create {name} {tip}\n")).collect();
        if there.contains_key(&followed) {
            changes += &format!("delete {followed}\n");
        }
        self.update(&path, changes).await?;
        Ok(tip.clone())
    }

    /// Moves a branch on to a commit that holds all of it; any other leaves it where it is. Says whether it moved.
    pub async fn branch_forward(
        &self,
        project: &ProjectId,
        name: &str,
        to: &CommitId,
    ) -> Result<bool, Error> {
        let path = self.existing(project)?;
        let _no_pushes = self.push_lock(project, name, Hold::Alone).await?;
        let _branches = self.lock(project, "branches", Hold::Alone, BRANCHES_PATIENCE).await?;
        let own = branch_ref(name);
        let Some(tip) = self.ref_tip(project, &own).await? else { return Ok(false) };
        let is_on = tip == *to || !self.has_commit(project, to).await?;
        if is_on || !self.is_ancestor(project, &tip, to).await? {
            return Ok(false);
        }
        self.update(&path, format!("update {own} {to} {tip}\n")).await?;
        Ok(true)
    }

    /// Puts a branch of ours at a commit, wherever it was.
    pub async fn branch_set(&self, project: &Project, name: &str, to: &CommitId) -> Result<(), Error> {
        if !branch::is_valid(name) || name == project.default_branch {
            return Err(branch_error(name, "is none that may be set here"));
        }
        let path = self.existing(&project.id)?;
        let _no_pushes = self.push_lock(&project.id, name, Hold::Alone).await?;
        let _branches = self.lock(&project.id, "branches", Hold::Alone, BRANCHES_PATIENCE).await?;
        let (own, followed) = (branch_ref(name), format!("{FOLLOWED}{name}"));
        let there = self.refs(&path, &[HEADS.to_owned(), followed.clone()]).await?;
        if let Some(across) = below(&there, HEADS).keys().find(|there| publish::cross(there, name)) {
            return Err(branch_error(
                name,
                &format!("cannot stand beside the branch {across:?}; rename one"),
            ));
        }
        let mut changes = format!("update {own} {to}\n");
        if there.contains_key(&followed) {
            changes += &format!("delete {followed}\n");
        }
        self.update(&path, changes).await
    }

    pub async fn branch_tip(&self, project: &ProjectId, branch: &str) -> Result<Option<CommitId>, Error> {
        self.ref_tip(project, &branch_ref(branch)).await
    }

    /// Where a ref points, by its full name.
    pub async fn ref_tip(&self, project: &ProjectId, name: &str) -> Result<Option<CommitId>, Error> {
        let found = self.refs(&self.existing(project)?, &[name.to_owned()]).await?;
        Ok(found.get(name).cloned())
    }

    /// All refs below a prefix such as `refs/preserved/`, by their full names.
    pub async fn ref_list(
        &self,
        project: &ProjectId,
        below: &str,
    ) -> Result<BTreeMap<String, CommitId>, Error> {
        self.refs(&self.existing(project)?, &[below.to_owned()]).await
    }

    /// The paths of all files at a commit, links and submodules among them. A name that is no text is left out.
    pub async fn files(&self, project: &ProjectId, commit: &CommitId) -> Result<BTreeSet<String>, Error> {
        let call = self.git.call(&self.existing(project)?, "ls-tree");
        let listed = call.args(["-r", "-z", "--name-only", "--full-tree", commit.as_str()]).run().await?;
        let names = listed.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        Ok(names.filter_map(|name| Some(std::str::from_utf8(name).ok()?.to_owned())).collect())
    }

    /// Whether everything of `old` is in `new`.
    pub async fn is_ancestor(
        &self,
        project: &ProjectId,
        old: &CommitId,
        new: &CommitId,
    ) -> Result<bool, Error> {
        let call = self.git.call(&self.existing(project)?, "merge-base").arg("--is-ancestor");
        let (code, _) = call.args([old.as_str(), new.as_str()]).run_for(&[1]).await?;
        Ok(code == 0)
    }

    pub async fn has_commit(&self, project: &ProjectId, commit: &CommitId) -> Result<bool, Error> {
        let call = self.git.call(&self.existing(project)?, "cat-file").arg("-e");
        let (code, _) = call.arg(format!("{commit}^{{commit}}")).run_for(&[1, 128]).await?;
        Ok(code == 0)
    }

    /// Held while a push to this branch is at work.
    pub async fn push_lock(&self, project: &ProjectId, branch: &str, hold: Hold) -> Result<Lock, Error> {
        let digest = crate::store::hex(&Sha256::digest(branch.as_bytes())[..8]);
        self.lock(project, &format!("push-{digest}"), hold, self.settings.timeout).await
    }

    /// Removes the mirror of a project, with everything that was pushed to it.
    pub async fn remove(&self, project: &ProjectId) -> Result<(), Error> {
        let _fetch = self.lock(project, "fetch", Hold::Alone, self.settings.timeout).await?;
        let _branches = self.lock(project, "branches", Hold::Alone, BRANCHES_PATIENCE).await?;
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).remove(project);
        let path = self.path(project);
        let gone = path.with_extension("removed");
        blocking(move || {
            clear(&gone)?;
            clear(&path.with_extension("rebuilding"))?;
            match std::fs::rename(&path, &gone) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io(&path, error)),
                _ => clear(&gone),
            }
        })
        .await
    }

    pub(super) fn remote(project: &Project) -> Result<Remote, Error> {
        let address = project.repository_url.as_deref().map(str::trim).filter(|url| !url.is_empty());
        Ok(Remote::parse(address.ok_or_else(|| Error::NoRepository(project.id.clone()))?)?)
    }

    pub(super) async fn lock(
        &self,
        project: &ProjectId,
        what: &str,
        hold: Hold,
        patience: Duration,
    ) -> Result<Lock, Error> {
        self.prepare()?;
        Lock::take(self.dir.join("locks").join(format!("{project}.{what}")), hold, patience).await
    }

    /// Whole or not at all: under another name first, which a crash may have left there.
    async fn make(&self, path: &Path) -> Result<(), Error> {
        if path.join("HEAD").is_file() {
            return Ok(());
        }
        let beside = path.with_extension("new");
        self.init(&beside).await?;
        let path = path.to_owned();
        blocking(move || std::fs::rename(&beside, &path).map_err(|source| Error::io(&path, source))).await
    }

    /// An empty repository, in the place of what a crash may have left there.
    pub(super) async fn init(&self, path: &Path) -> Result<(), Error> {
        let leavings = path.to_owned();
        blocking(move || clear(&leavings)).await?;
        let init =
            self.git.call_nowhere("init").args(["--quiet", "--bare", "--template=", "--object-format=sha1"]);
        init.arg(path).run().await?;
        let config = path.join("config");
        blocking(move || {
            file::replace(&config, REPOSITORY_CONFIG.as_bytes(), 0o600)
                .map_err(|source| Error::io(&config, source))
        })
        .await
    }

    /// Lets the branches that sandboxes see follow the far ones, and answers with those.
    pub(super) async fn publish(&self, path: &Path, default_branch: &str) -> Result<Branches, Error> {
        let head = branch_ref(default_branch);
        // Almost always so already, and each call of Git costs milliseconds.
        if std::fs::read_to_string(path.join("HEAD")).ok() != Some(format!("ref: {head}\n")) {
            self.git.call(path, "symbolic-ref").args(["HEAD", head.as_str()]).run().await?;
        }
        let all = self.refs(path, &[HEADS, FOLLOWED, FAR].map(str::to_owned)).await?;
        let (heads, far) = (below(&all, HEADS), below(&all, FAR));
        let followed = below(&all, FOLLOWED).into_keys().collect();
        let plan = publish::plan(&far, &heads, &followed);
        let deletes =
            plan.delete.iter().map(|name| format!("delete {HEADS}{name}\ndelete {FOLLOWED}{name}\n"));
        // One after the other: where `a` goes and `a/b` comes, Git does not take both at once.
        self.update(path, deletes.collect()).await?;
        let sets = plan.set.iter().map(|(name, tip)| match heads.get(name) {
            Some(old) => format!("update {HEADS}{name} {tip} {old}\nupdate {FOLLOWED}{name} {tip}\n"),
            None => format!("create {HEADS}{name} {tip}\nupdate {FOLLOWED}{name} {tip}\n"),
        });
        self.update(path, sets.collect()).await?;
        Ok(far)
    }

    /// Changes refs, all or none.
    pub(super) async fn update(&self, path: &Path, commands: String) -> Result<(), Error> {
        if commands.is_empty() {
            return Ok(());
        }
        let call = self.git.call(path, "update-ref").args(["--no-deref", "--stdin"]);
        call.input(commands).run().await?;
        Ok(())
    }

    /// The refs below a prefix, by the rest of their names.
    pub(super) async fn names(&self, path: &Path, below: &str) -> Result<Branches, Error> {
        Ok(self::below(&self.refs(path, &[below.to_owned()]).await?, below))
    }

    async fn refs(&self, path: &Path, patterns: &[String]) -> Result<BTreeMap<String, CommitId>, Error> {
        let call = self.git.call(path, "for-each-ref").arg("--format=%(objectname) %(refname)");
        let output = call.args(patterns).run().await?;
        let line = |line: &str| {
            let (id, name) = line.split_once(' ')?;
            Some((name.to_owned(), id.parse().ok()?))
        };
        Ok(String::from_utf8_lossy(&output).lines().filter_map(line).collect())
    }
}

/// The tip of the default branch among the far ones.
fn default_of(project: &Project, far: &Branches) -> Result<CommitId, Error> {
    let branch = project.default_branch.clone();
    match far.get(&branch) {
        Some(tip) => Ok(tip.clone()),
        None if far.is_empty() => Err(Error::Empty { address: Mirrors::remote(project)?.address, branch }),
        None => {
            let mut found: Vec<&str> = far.keys().take(NAMES_SHOWN).map(String::as_str).collect();
            if far.len() > NAMES_SHOWN {
                found.push("…");
            }
            let (address, found) = (Mirrors::remote(project)?.address, found.join(", "));
            Err(Error::NoDefaultBranch { address, branch, found })
        }
    }
}

/// Those below a prefix, by the rest of their names.
fn below(refs: &BTreeMap<String, CommitId>, prefix: &str) -> Branches {
    refs.iter().filter_map(|(name, tip)| Some((name.strip_prefix(prefix)?.to_owned(), tip.clone()))).collect()
}

/// Removes a directory, if there is one.
pub(super) fn clear(path: &Path) -> Result<(), Error> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io(path, error)),
        _ => Ok(()),
    }
}

fn branch_error(name: &str, problem: &str) -> Error {
    Error::Branch { name: name.to_owned(), problem: problem.to_owned() }
}
