//! Mirrors and checkouts, with the real Git and local repositories.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use jiff::SignedDuration;
use omoi_protocol::{ProjectId, SandboxId, project::Project};
use omoi_server::{
    clock::Clock,
    config::Config,
    domain::commit::{CommitId, Work},
    git::{Checkouts, Error, Hold, Mirrors, Swept},
};

use crate::repository::{Repository, git, project, try_git};

struct Place {
    dir: tempfile::TempDir,
    config: Config,
    clock: Clock,
    mirrors: Mirrors,
    checkouts: Checkouts,
}

impl Place {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut Config)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut config = Config { data_dir: dir.path().join("data"), ..Config::default() };
        change(&mut config);
        let clock = Clock::manual("2026-01-01T00:00:00Z".parse().unwrap());
        let mirrors = Mirrors::new(&config).unwrap();
        let checkouts = Checkouts::new(&config, mirrors.clone(), clock.clone()).unwrap();
        Self { dir, config, clock, mirrors, checkouts }
    }

    /// As after a restart: nothing remembered but what is on disk.
    fn again(&self) -> Checkouts {
        Checkouts::new(&self.config, Mirrors::new(&self.config).unwrap(), self.clock.clone()).unwrap()
    }

    /// The checkout of the project's newest commit.
    async fn checkout(&self, project: &Project, of: &str) -> Result<PathBuf, Error> {
        let tip = self.mirrors.refresh(project).await?;
        self.checkouts.acquire(&project.id, &tip, &sandbox(of)).await
    }

    fn kept(&self, project: &ProjectId) -> BTreeSet<String> {
        let dir = self.config.data_dir.join("checkouts").join(project.as_str());
        let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name != ".lock").collect()
    }
}

fn sandbox(id: &str) -> SandboxId {
    id.parse().unwrap()
}

fn id(commit: &str) -> CommitId {
    commit.parse().unwrap()
}

#[tokio::test]
async fn a_refresh_brings_what_is_new_and_keeps_what_was_made_here() {
    let (place, far) = (Place::new(), Repository::new());
    far.git(&["branch", "develop"]);
    far.git(&["tag", "v1"]);
    let project = far.project("prj-1");
    let first = place.mirrors.refresh(&project).await.unwrap();
    assert_eq!(first.as_str(), far.head());

    let made = place.mirrors.branch_create(&project, "fix/1", &first, &sandbox("sbx-1")).await.unwrap();
    assert_eq!(made, first);
    // Work on the branch, as a push would bring it; and the far side takes up the same name for something else.
    let mirror = place.mirrors.path(&project.id);
    let work = git(&mirror, &["commit-tree", "HEAD^{tree}", "-p", "refs/heads/fix/1", "-m", "work"]);
    git(&mirror, &["update-ref", "refs/heads/fix/1", &work]);
    let second = far.commit("src/new", "more\n");
    far.git(&["branch", "fix/1"]);
    far.git(&["branch", "-D", "develop"]);
    far.git(&["branch", "fresh"]);

    assert_eq!(place.mirrors.refresh(&project).await.unwrap().as_str(), second);
    let heads = place.mirrors.ref_list(&project.id, "refs/heads/").await.unwrap();
    let names: Vec<&str> = heads.keys().map(String::as_str).collect();
    assert_eq!(names, ["refs/heads/fix/1", "refs/heads/fresh", "refs/heads/main"]);
    assert_eq!(heads["refs/heads/fix/1"].as_str(), work);
    assert_eq!(heads["refs/heads/main"].as_str(), second);
    let far_one = place.mirrors.ref_tip(&project.id, "refs/remotes/origin/fix/1").await.unwrap();
    assert_eq!(far_one, Some(id(&second)), "what the far side calls so is kept apart");

    // The far side forgets everything but another history.
    far.git(&["checkout", "-q", "--orphan", "other"]);
    let other = far.commit("other", "x\n");
    far.git(&["branch", "-M", "main"]);
    assert_eq!(place.mirrors.refresh(&project).await.unwrap().as_str(), other);
    assert_eq!(place.mirrors.branch_tip(&project.id, "main").await.unwrap(), Some(id(&other)));
    assert_eq!(place.mirrors.branch_tip(&project.id, "fix/1").await.unwrap(), Some(id(&work)));
}

#[tokio::test]
async fn a_far_branch_across_one_of_ours_is_left_out() {
    let (place, far) = (Place::new(), Repository::new());
    let project = far.project("prj-1");
    let tip = place.mirrors.refresh(&project).await.unwrap();
    place.mirrors.branch_create(&project, "fix/1", &tip, &sandbox("sbx-1")).await.unwrap();
    far.git(&["branch", "fix"]);
    place.mirrors.refresh(&project).await.unwrap();
    assert_eq!(place.mirrors.branch_tip(&project.id, "fix").await.unwrap(), None);
    assert!(place.mirrors.branch_tip(&project.id, "fix/1").await.unwrap().is_some());

    far.git(&["branch", "docs"]);
    place.mirrors.refresh(&project).await.unwrap();
    let refused = place.mirrors.branch_create(&project, "docs/2", &tip, &sandbox("sbx-2")).await.unwrap_err();
    assert!(refused.to_string().contains(r#"cannot stand beside the branch "docs""#), "{refused}");
}

#[tokio::test]
async fn a_branch_moves_on_to_what_holds_all_of_it_and_to_nothing_else() {
    let (place, far) = (Place::new(), Repository::new());
    let project = far.project("prj-1");
    let (mirrors, first) = (&place.mirrors, place.mirrors.refresh(&project).await.unwrap());
    let mirror = mirrors.path(&project.id);
    let kept = git(&mirror, &["commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "kept"]);
    let forward = async |to: &str| mirrors.branch_forward(&project.id, "fix/1", &id(to)).await.unwrap();
    assert!(!forward(&kept).await, "there is no branch");
    mirrors.branch_create(&project, "fix/1", &first, &sandbox("sbx-1")).await.unwrap();
    assert!(forward(&kept).await);
    assert!(!forward(&kept).await, "once");
    let beside = git(&mirror, &["commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "beside"]);
    for other in [first.as_str(), &beside, &"a".repeat(40)] {
        assert!(!forward(other).await, "{other}");
    }
    assert_eq!(mirrors.branch_tip(&project.id, "fix/1").await.unwrap(), Some(id(&kept)));
}

#[tokio::test]
async fn a_branch_is_made_once_and_later_attempts_find_it_as_it_is() {
    let (place, far) = (Place::new(), Repository::new());
    let project = far.project("prj-1");
    let (mirrors, first) = (&place.mirrors, place.mirrors.refresh(&project).await.unwrap());
    mirrors.branch_create(&project, "fix/1", &first, &sandbox("sbx-1")).await.unwrap();
    let mirror = mirrors.path(&project.id);
    let work = git(&mirror, &["commit-tree", "HEAD^{tree}", "-p", "refs/heads/fix/1", "-m", "work"]);
    git(&mirror, &["update-ref", "refs/heads/fix/1", &work]);

    // The same sandbox, after a crash of the server; then the next attempt, when main has moved on.
    assert_eq!(mirrors.branch_create(&project, "fix/1", &first, &sandbox("sbx-1")).await.unwrap(), id(&work));
    far.commit("b", "b\n");
    let second = mirrors.refresh(&project).await.unwrap();
    assert_eq!(
        mirrors.branch_create(&project, "fix/1", &second, &sandbox("sbx-2")).await.unwrap(),
        id(&work)
    );
    let bases = mirrors.ref_list(&project.id, "refs/omoi/base/").await.unwrap();
    assert_eq!(bases["refs/omoi/base/sbx-1"], first);
    assert_eq!(bases["refs/omoi/base/sbx-2"].as_str(), work);
    assert!(mirrors.is_ancestor(&project.id, &first, &id(&work)).await.unwrap());
    assert!(!mirrors.is_ancestor(&project.id, &id(&work), &first).await.unwrap());

    for (name, from, words) in [
        ("main", &first, "default branch"),
        ("a..b", &first, "none that Git takes"),
        ("--help", &first, "none that Git takes"),
        ("fix/2", &id(&"a".repeat(40)), "is not in the repository"),
    ] {
        let refused = mirrors.branch_create(&project, name, from, &sandbox("sbx-3")).await.unwrap_err();
        assert!(refused.to_string().contains(words), "{refused}");
    }
}

/// A far repository with a branch per name, each with a file of its own content, and the work that it is.
async fn works(place: &Place, far: &Repository, of: &[(&str, &str, &str)]) -> (Project, Vec<Work>) {
    let mut works = Vec::new();
    for (branch, file, content) in of {
        far.git(&["checkout", "-q", "-B", branch, "main"]);
        let commit = id(&far.commit(file, content));
        let task = format!("task-{branch}").parse().unwrap();
        works.push(Work { task, commit: Some(commit), branch: Some((*branch).to_owned()) });
    }
    far.git(&["checkout", "-q", "main"]);
    let project = far.project("prj-1");
    place.mirrors.refresh(&project).await.unwrap();
    (project, works)
}

#[tokio::test]
async fn a_task_begins_with_the_work_of_those_it_depends_on() {
    let (place, far) = (Place::new(), Repository::new());
    let (project, works) =
        works(&place, &far, &[("one", "1.txt", "1\n"), ("two", "2.txt", "2\n"), ("three", "3.txt", "3\n")])
            .await;
    let (mirrors, main) = (&place.mirrors, id(&far.head()));
    let start = async |works: &[Work]| mirrors.start(&project, "next", main.clone(), works).await.unwrap();
    assert_eq!(start(&[]).await, main);
    assert_eq!(start(&works[..1]).await, works[0].commit.clone().unwrap());
    let all = start(&works).await;
    assert_eq!(start(&works).await, all, "the same work gives the same commit");
    let files = mirrors.files(&project.id, &all).await.unwrap();
    assert!(["README.md", "1.txt", "2.txt", "3.txt"].iter().all(|file| files.contains(*file)), "{files:?}");
    for work in &works {
        assert!(mirrors.is_ancestor(&project.id, work.commit.as_ref().unwrap(), &all).await.unwrap());
    }
    // One that holds another counts alone; what says nothing true of itself counts by its branch.
    let lies = Work { commit: Some(id(&"a".repeat(40))), ..works[0].clone() };
    let holds = Work { commit: Some(all.clone()), branch: None, task: works[1].task.clone() };
    assert_eq!(start(&[lies]).await, works[0].commit.clone().unwrap());
    assert_eq!(start(&[holds]).await, main, "a commit that is on no branch of its task is not believed");
    // What is on the default branch already is there at its tip.
    far.git(&["merge", "-q", "--no-edit", "one"]);
    let merged = mirrors.refresh(&project).await.unwrap();
    assert_eq!(mirrors.start(&project, "next", merged.clone(), &works[..1]).await.unwrap(), merged);
    // A branch that is there goes on as it is.
    mirrors.branch_create(&project, "next", &main, &sandbox("sbx-1")).await.unwrap();
    assert_eq!(start(&works).await, main);
}

#[tokio::test]
async fn work_that_does_not_go_together_is_named_with_its_files_and_not_half_merged() {
    let (place, far) = (Place::new(), Repository::new());
    let of = [("one", "1.txt", "1\n"), ("two", "README.md", "two\n"), ("three", "README.md", "three\n")];
    let (project, works) = works(&place, &far, &of).await;
    let refs = place.mirrors.ref_list(&project.id, "refs/").await.unwrap();
    let error = place.mirrors.start(&project, "next", id(&far.head()), &works).await.unwrap_err();
    assert!(!error.may_pass());
    assert_eq!(error.to_string(), "task-two on two and task-three on three conflict in README.md");
    assert_eq!(place.mirrors.ref_list(&project.id, "refs/").await.unwrap(), refs);
}

#[tokio::test]
async fn a_branch_is_made_only_after_a_push_to_it_has_ended() {
    let (place, far) =
        (Place::with(|config| config.git.timeout = Duration::from_secs(20)), Repository::new());
    let project = far.project("prj-1");
    let tip = place.mirrors.refresh(&project).await.unwrap();
    let pushing = place.mirrors.push_lock(&project.id, "fix/1", Hold::Shared).await.unwrap();
    let (mirrors, wanted) = (place.mirrors.clone(), project.clone());
    let (from, next) = (tip.clone(), sandbox("sbx-2"));
    let making = tokio::spawn(async move { mirrors.branch_create(&wanted, "fix/1", &from, &next).await });
    place.mirrors.branch_create(&project, "fix/2", &tip, &sandbox("sbx-3")).await.unwrap();
    assert!(!making.is_finished() && place.mirrors.branch_tip(&project.id, "fix/1").await.unwrap().is_none());
    drop(pushing);
    assert_eq!(making.await.unwrap().unwrap(), tip);
}

/// What stands behind the door's own judgement, asked alone.
#[tokio::test]
async fn the_hook_of_pushes_lets_through_what_it_is_told_to_and_nothing_else() {
    let (place, far) = (Place::new(), Repository::new());
    let (base, tip) = (far.head(), far.commit("b", "b\n"));
    let hook = place.mirrors.hooks().unwrap().join("update");
    let (own, kept, aside) = ("refs/heads/fix/1", "refs/preserved/sbx-1", "refs/set-aside/sbx-1");
    for (name, new, env, fine) in [
        (
            own,
            &tip,
            &[("PRESERVED", kept), ("SET_ASIDE", aside), ("BRANCH", own), ("HOLDS", base.as_str())][..],
            true,
        ),
        (
            own,
            &base,
            &[("PRESERVED", kept), ("SET_ASIDE", aside), ("BRANCH", own), ("HOLDS", tip.as_str())],
            false,
        ),
        (own, &base, &[("PRESERVED", kept), ("SET_ASIDE", aside), ("BRANCH", own), ("HOLDS", "")], true),
        (own, &tip, &[("PRESERVED", kept), ("SET_ASIDE", aside)], false),
        (own, &tip, &[("PRESERVED", kept), ("SET_ASIDE", aside), ("BRANCH", "")], false),
        (own, &tip, &[("PRESERVED", kept), ("SET_ASIDE", aside), ("BRANCH", "refs/heads/*")], false),
        (kept, &tip, &[("PRESERVED", kept), ("SET_ASIDE", aside)], true),
        (aside, &tip, &[("PRESERVED", kept), ("SET_ASIDE", aside)], true),
        ("refs/set-aside/sbx-2", &tip, &[("PRESERVED", kept), ("SET_ASIDE", aside), ("BRANCH", own)], false),
        (own, &tip, &[("PRESERVED", kept), ("BRANCH", own)], false),
        ("refs/preserved/sbx-2", &tip, &[("PRESERVED", kept), ("SET_ASIDE", aside), ("BRANCH", own)], false),
        ("none", &tip, &[("PRESERVED", kept), ("SET_ASIDE", aside)], false),
        (own, &tip, &[("BRANCH", own)], false),
        (own, &tip, &[], false),
    ] {
        let alias = format!("alias.update=!{} {name} {base} {new}", hook.display());
        let mut command = crate::repository::command(&far.path, &["-c", &alias, "update"]);
        command.envs(env.iter().map(|(key, value)| (format!("OMOI_PUSH_{key}"), value)));
        let said = command.output().unwrap();
        assert_eq!(said.status.success(), fine, "{name} {env:?}: {said:?}");
    }
}

#[tokio::test]
async fn what_cannot_be_fetched_says_why_and_what_to_do() {
    let (place, far, empty) = (Place::new(), Repository::new(), Repository::empty());
    far.git(&["branch", "-m", "trunk"]);
    let nowhere = place.dir.path().join("nowhere");
    for (address, words) in [
        (None, "has no repository; set its repository_url"),
        (Some("ext::sh -c id"), "holds white space"),
        (Some("ext::id"), "write https://HOST/PATH"),
        (Some(nowhere.to_str().unwrap()), "no repository is there: check the project's repository_url"),
        (far.path.to_str(), "has no branch main; it has trunk: set the project's default_branch"),
        (empty.path.to_str(), "has no commits; push a first one to its branch main"),
        (Some("git://127.0.0.1:1/a"), "its host cannot be reached"),
    ] {
        let refused = place.mirrors.refresh(&project("prj-1", address)).await.unwrap_err().to_string();
        assert!(refused.contains(words), "{address:?}: {refused}");
    }
    let unknown = place.mirrors.branch_tip(&"prj-2".parse().unwrap(), "main").await.unwrap_err();
    assert!(matches!(unknown, Error::NoMirror(_)), "{unknown}");
}

#[tokio::test]
async fn an_empty_repository_has_a_mirror_that_takes_the_first_commit() {
    let (place, far) = (Place::new(), Repository::empty());
    let project = far.project("prj-1");
    assert!(matches!(place.mirrors.refresh(&project).await, Err(Error::Empty { .. })));
    assert!(matches!(place.mirrors.default_tip(&project).await, Err(Error::Empty { .. })));
    let commit = far.commit("a", "a\n");
    assert_eq!(place.mirrors.refresh(&project).await.unwrap().as_str(), commit);
}

#[tokio::test]
async fn many_refreshes_at_once_and_another_process_s_do_no_harm() {
    let (place, far) = (Place::new(), Repository::new());
    let project = far.project("prj-1");
    let elsewhere = Mirrors::new(&place.config).unwrap();
    let both = [&place.mirrors, &elsewhere];
    let refreshes = (0..8).map(|n| both[n % 2].refresh(&project));
    for tip in futures_util::future::join_all(refreshes).await {
        assert_eq!(tip.unwrap().as_str(), far.head());
    }
}

#[tokio::test]
async fn a_removed_mirror_is_gone_and_comes_back_with_the_next_refresh() {
    let (place, far) = (Place::new(), Repository::new());
    let project = far.project("prj-1");
    place.mirrors.refresh(&project).await.unwrap();
    place.mirrors.remove(&project.id).await.unwrap();
    place.mirrors.remove(&project.id).await.unwrap();
    assert!(matches!(place.mirrors.existing(&project.id), Err(Error::NoMirror(_))));
    place.mirrors.refresh(&project).await.unwrap();
}

#[tokio::test]
async fn a_checkout_stands_alone_and_is_clean_wherever_it_is_copied_to() {
    let (place, far) = (Place::new(), Repository::new());
    far.commit("src/lib.rs", "pub fn x() {}\n");
    fs::set_permissions(far.path.join("src/lib.rs"), fs::Permissions::from_mode(0o755)).unwrap();
    far.git(&["commit", "-qam", "executable"]);
    far.git(&["tag", "-am", "one", "v1"]);
    far.git(&["branch", "develop"]);
    let project = far.project("prj-1");
    let tree = place.checkout(&project, "sbx-1").await.unwrap();
    place.mirrors.remove(&project.id).await.unwrap();

    assert_eq!(git(&tree, &["rev-parse", "HEAD"]), far.head());
    assert!(!try_git(&tree, &["symbolic-ref", "-q", "HEAD"]).status.success(), "on no branch");
    assert_eq!(git(&tree, &["status", "--porcelain"]), "");
    assert_eq!(git(&tree, &["fsck", "--full", "--strict"]), "");
    let refs = git(&tree, &["for-each-ref", "--format=%(refname)"]);
    assert_eq!(refs, "refs/remotes/origin/develop\nrefs/remotes/origin/main\nrefs/tags/v1");
    assert_eq!(git(&tree, &["log", "--oneline", "origin/main"]).lines().count(), 3);

    // Other inodes, owner and times of change, as in a mount: Git need not look into a single file.
    let copy = place.dir.path().join("copy");
    copy_tree(&tree, &copy);
    let content = fs::read(copy.join("README.md")).unwrap();
    let time = fs::metadata(copy.join("README.md")).unwrap().modified().unwrap();
    fs::write(copy.join("README.md"), vec![b'x'; content.len()]).unwrap();
    fs::File::options().write(true).open(copy.join("README.md")).unwrap().set_modified(time).unwrap();
    assert_eq!(git(&copy, &["status", "--porcelain"]), "", "the index alone was asked");

    let host_path = place.config.data_dir.to_str().unwrap();
    for file in ["config", "HEAD", "packed-refs", "index"] {
        let content = String::from_utf8_lossy(&fs::read(tree.join(".git").join(file)).unwrap()).into_owned();
        assert!(!content.contains(host_path), "{file} tells where the host keeps it");
    }
    assert!(!tree.join(".git/hooks").exists() && !tree.join(".git/logs").exists());
}

/// With all times, as `cp -a`.
fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name())).unwrap();
        if path.is_dir() {
            copy_tree(&path, &to.join(name));
        } else {
            fs::copy(&path, to.join(&name)).unwrap();
            let time = fs::metadata(&path).unwrap().modified().unwrap();
            fs::File::open(to.join(&name)).unwrap().set_modified(time).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_checkout_wanted_by_many_at_once_is_made_once() {
    let (place, far) = (Place::new(), Repository::new());
    let project = far.project("prj-1");
    let tip = place.mirrors.refresh(&project).await.unwrap();
    let elsewhere = place.again();
    let both = [&place.checkouts, &elsewhere];
    let ids: Vec<SandboxId> = (0..8).map(|n| sandbox(&format!("sbx-{n}"))).collect();
    let wishes = ids.iter().enumerate().map(|(n, of)| both[n % 2].acquire(&project.id, &tip, of));
    let trees: BTreeSet<PathBuf> =
        futures_util::future::join_all(wishes).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(trees.len(), 1);
    assert_eq!(place.kept(&project.id), BTreeSet::from([tip.to_string()]));
    let inode = |tree: &Path| std::os::unix::fs::MetadataExt::ino(&fs::metadata(tree).unwrap());
    let tree = trees.first().unwrap();
    let before = inode(tree);
    place.checkouts.acquire(&project.id, &tip, &sandbox("sbx-late")).await.unwrap();
    assert_eq!(inode(tree), before, "a second wish makes nothing");
}

#[tokio::test]
async fn what_a_crash_left_half_made_is_not_believed_and_is_swept() {
    let (place, far) = (Place::new(), Repository::new());
    let project = far.project("prj-1");
    let tip = place.mirrors.refresh(&project).await.unwrap();
    let dir = place.config.data_dir.join("checkouts/prj-1");
    // Half made under its temporary name; and under its own name, by an earlier run of the machine.
    fs::create_dir_all(dir.join(".new-dead/tree/.git")).unwrap();
    fs::create_dir_all(dir.join(tip.as_str()).join("tree/.git")).unwrap();
    fs::write(dir.join(tip.as_str()).join("whole"), "another run\n").unwrap();

    let tree = place.checkouts.acquire(&project.id, &tip, &sandbox("sbx-1")).await.unwrap();
    assert_eq!(git(&tree, &["status", "--porcelain"]), "");
    assert_eq!(fs::read_to_string(tree.join("README.md")).unwrap(), "hello\n");
    assert_eq!(place.checkouts.sweep().await.unwrap(), Swept { removed: 0, kept: 0 });
    assert_eq!(place.kept(&project.id), BTreeSet::from([tip.to_string()]));
    assert!(tree.join("README.md").exists(), "a checkout in use is not swept");
}

#[tokio::test]
async fn a_build_that_fails_leaves_nothing_and_can_be_tried_again() {
    let (place, far) = (Place::new(), Repository::new());
    let project = far.project("prj-1");
    let tip = place.mirrors.refresh(&project).await.unwrap();
    let unknown = id(&"a".repeat(40));
    let refused = place.checkouts.acquire(&project.id, &unknown, &sandbox("sbx-1")).await.unwrap_err();
    assert!(refused.to_string().contains("is not in the repository of project prj-1"), "{refused}");
    assert_eq!(place.kept(&project.id), BTreeSet::new());
    assert_eq!(fs::read_dir(place.config.data_dir.join("checkouts/.references")).unwrap().count(), 0);
    place.checkouts.acquire(&project.id, &tip, &sandbox("sbx-1")).await.unwrap();
}

#[tokio::test]
async fn references_survive_a_restart_and_what_nobody_uses_is_swept_by_count_and_age() {
    let place = Place::with(|config| {
        config.git.checkouts_kept = 1;
        config.git.checkout_age_max = Duration::from_secs(3600);
    });
    let far = Repository::new();
    let project = far.project("prj-1");
    let mut commits = Vec::new();
    for n in 0..4 {
        far.commit("n", n.to_string());
        place.checkout(&project, &format!("sbx-{n}")).await.unwrap();
        commits.push(far.head());
        place.clock.advance(SignedDuration::from_secs(1));
    }
    let kept = |commits: &[&String]| commits.iter().map(|commit| (*commit).clone()).collect::<BTreeSet<_>>();
    let checkouts = place.again();
    assert_eq!(checkouts.sweep().await.unwrap(), Swept { removed: 0, kept: 0 });

    // One is released, two are found to be dead, one lives on.
    checkouts.release(&sandbox("sbx-0")).await.unwrap();
    checkouts.release(&sandbox("sbx-0")).await.unwrap();
    place.clock.advance(SignedDuration::from_secs(1));
    let live = BTreeSet::from([sandbox("sbx-3")]);
    let references = checkouts.references().await.unwrap();
    assert_eq!(checkouts.reconcile(references, &live).await.unwrap(), 2);
    place.clock.advance(SignedDuration::from_secs(1));
    checkouts.acquire(&project.id, &id(&commits[1]), &sandbox("sbx-4")).await.unwrap();
    place.clock.advance(SignedDuration::from_secs(1));
    checkouts.release(&sandbox("sbx-4")).await.unwrap();
    assert_eq!(checkouts.sweep().await.unwrap(), Swept { removed: 2, kept: 1 });
    assert_eq!(place.kept(&project.id), kept(&[&commits[1], &commits[3]]), "the one wanted last stays");

    place.clock.advance(SignedDuration::from_secs(3600));
    assert_eq!(checkouts.sweep().await.unwrap(), Swept { removed: 0, kept: 1 });
    place.clock.advance(SignedDuration::from_secs(1));
    assert_eq!(checkouts.sweep().await.unwrap(), Swept { removed: 1, kept: 0 });
    assert_eq!(place.kept(&project.id), kept(&[&commits[3]]));
    assert_eq!(checkouts.remove(&project.id).await.unwrap(), Swept::default(), "one is in use");
    checkouts.release(&sandbox("sbx-3")).await.unwrap();
    assert_eq!(checkouts.remove(&project.id).await.unwrap(), Swept { removed: 1, kept: 0 });
    let left = fs::read_dir(place.config.data_dir.join("checkouts"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    assert!(left.into_iter().all(|name| !name.to_str().unwrap().starts_with(".removed")));
}

#[tokio::test]
async fn a_sandbox_that_begins_during_a_sweep_keeps_its_checkout_and_a_lost_reference_is_written_again() {
    let (place, far) = (Place::new(), Repository::new());
    let project = far.project("prj-1");
    let tip = place.mirrors.refresh(&project).await.unwrap();
    let of = sandbox("sbx-1");
    let (references, live) = (place.checkouts.references().await.unwrap(), BTreeSet::new());
    assert!(!place.checkouts.is_lost(&project.id, &tip, &of), "there is no checkout yet");
    place.checkouts.acquire(&project.id, &tip, &of).await.unwrap();
    assert_eq!(place.checkouts.reconcile(references, &live).await.unwrap(), 0);
    assert!(!place.checkouts.is_lost(&project.id, &tip, &of));

    let reference = place.config.data_dir.join("checkouts/.references/sbx-1");
    fs::remove_file(&reference).unwrap();
    assert!(place.checkouts.is_lost(&project.id, &tip, &of));
    place.checkouts.restore(&project.id, &tip, &of).await.unwrap();
    assert!(reference.exists());
}

#[tokio::test]
async fn hostile_content_is_checked_out_and_nothing_of_it_runs() {
    let (place, far) = (Place::new(), Repository::new());
    let trap = place.dir.path().join("trap");
    let spring = format!("touch {}", trap.display());
    far.commit(".gitattributes", "* filter=evil diff=evil merge=evil\n");
    far.commit("config", format!("[core]\n\tfsmonitor = {spring}\n"));
    far.commit("hooks/post-checkout", format!("#!/bin/sh\n{spring}\n"));
    far.commit(".gitmodules", "[submodule \"sub\"]\n\tpath = sub\n\turl = https://submodule.invalid/x\n");
    far.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{},sub", far.head())]);
    for (link, target) in [("passwd", "/etc/passwd"), ("up", "../../../../../../.."), ("inner", ".git")] {
        symlink(target, far.path.join(link)).unwrap();
        far.git(&["add", link]);
    }
    far.git(&["commit", "-qm", "traps"]);
    // What the far repository is told to run for itself must not run here.
    let own = ["filter.evil.smudge", "filter.evil.process", "core.fsmonitor", "uploadpack.packObjectsHook"];
    own.iter().for_each(|key| _ = far.git(&["config", key, &spring]));
    for hook in ["post-checkout", "reference-transaction", "post-index-change", "pre-receive"] {
        let path = far.path.join(".git/hooks").join(hook);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("#!/bin/sh\n{spring}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    let passwd_before = fs::metadata("/etc/passwd").unwrap().modified().unwrap();
    let tree = place.checkout(&far.project("prj-1"), "sbx-1").await.unwrap();
    assert!(!trap.exists(), "something ran");
    assert_eq!(fs::metadata("/etc/passwd").unwrap().modified().unwrap(), passwd_before);
    assert_eq!(fs::read_link(tree.join("up")).unwrap(), Path::new("../../../../../../.."));
    assert_eq!(fs::read_dir(tree.join("sub")).unwrap().count(), 0, "a submodule is an empty directory");
    assert_eq!(fs::read_to_string(tree.join("config")).unwrap(), format!("[core]\n\tfsmonitor = {spring}\n"));
    assert_eq!(git(&tree, &["status", "--porcelain"]), "");
}

#[tokio::test]
async fn a_tree_that_writes_into_its_own_repository_is_refused() {
    let (place, far) = (Place::new(), Repository::new());
    // What no Git would make: a directory `.git` in the tree.
    let blob = far.git(&["hash-object", "-w", "README.md"]);
    for inner in [".git", ".GIT", "git~1", ".g\u{200c}it"] {
        let entry = format!("100644 blob {blob}\tconfig\n");
        let dir = make_tree(&far, &entry);
        let root = make_tree(&far, &format!("040000 tree {dir}\t{inner}\n"));
        let commit = far.git(&["commit-tree", &root, "-m", "evil"]);
        far.git(&["update-ref", "refs/heads/main", &commit]);
        let refused = place.checkout(&far.project("prj-1"), "sbx-1").await.unwrap_err();
        assert!(
            matches!(refused, Error::Fetch { .. }) && refused.to_string().contains("hasDotgit"),
            "{refused}"
        );
    }
}

fn make_tree(far: &Repository, entries: &str) -> String {
    use std::io::Write;
    let mut command = crate::repository::command(&far.path, &["mktree"]);
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(entries.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[tokio::test]
async fn a_few_bytes_that_unfold_into_a_flood_of_files_are_refused_before_the_disk_is_full() {
    let place = Place::with(|config| {
        config.git.checkout_files_max = 10_000;
        config.git.checkout_bytes_max = 1 << 20;
    });
    let far = Repository::new();
    let blob = far.git(&["hash-object", "-w", "README.md"]);
    // Ten levels of ten: ten thousand million files in eleven objects.
    let mut entry = format!("100644 blob {blob}");
    for _ in 0..10 {
        let entries: String = (0..10).map(|n| format!("{entry}\tf{n}\n")).collect();
        entry = format!("040000 tree {}", make_tree(&far, &entries));
    }
    let commit = far.git(&["commit-tree", entry.rsplit(' ').next().unwrap(), "-m", "flood"]);
    far.git(&["update-ref", "refs/heads/main", &commit]);
    let refused = place.checkout(&far.project("prj-1"), "sbx-1").await.unwrap_err();
    assert!(refused.to_string().contains("more than 10000 files; raise git.checkout_files_max"), "{refused}");
    assert_eq!(place.kept(&"prj-1".parse().unwrap()), BTreeSet::new());

    far.git(&["read-tree", "--empty"]);
    fs::write(far.path.join("zeros"), vec![0u8; 2 << 20]).unwrap();
    far.git(&["add", "zeros"]);
    far.git(&["commit", "-qm", "large"]);
    let refused = place.checkout(&far.project("prj-1"), "sbx-1").await.unwrap_err();
    assert!(
        refused.to_string().contains("more than 1048576 bytes; raise git.checkout_bytes_max"),
        "{refused}"
    );
}

/// Run with `--ignored`: what a checkout costs at first and again.
#[tokio::test]
#[ignore = "a measurement"]
async fn the_second_wish_for_a_checkout_costs_a_few_milliseconds() {
    let (place, far) = (Place::new(), Repository::new());
    let mut state = 1u64;
    let mut noise = |n: usize| -> Vec<u8> {
        std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as u8
        })
        .take(n)
        .collect()
    };
    for n in 0..1500 {
        let path = far.path.join(format!("d{}/f{n}", n % 40));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, noise(33_000)).unwrap();
    }
    far.git(&["add", "."]);
    far.git(&["commit", "-qm", "fifty megabytes"]);
    let project = far.project("prj-1");
    let timed = Instant::now();
    let tip = place.mirrors.refresh(&project).await.unwrap();
    println!("first fetch {:?}", timed.elapsed());
    let timed = Instant::now();
    place.mirrors.refresh(&project).await.unwrap();
    println!("second fetch {:?}", timed.elapsed());
    for n in 0..5 {
        let timed = Instant::now();
        let tree = place.checkouts.acquire(&project.id, &tip, &sandbox(&format!("sbx-{n}"))).await.unwrap();
        println!("checkout {n} {:?}", timed.elapsed());
        let timed = Instant::now();
        git(&tree, &["status", "--porcelain"]);
        println!("status {:?}", timed.elapsed());
    }
    let timed = Instant::now();
    place.mirrors.branch_create(&project, "fix/1", &tip, &sandbox("sbx-0")).await.unwrap();
    println!("branch {:?}", timed.elapsed());
}
