//! Files that are removed or damaged under a running server: mirrors, checkouts and the directories that they are in. What
//! can be made again is made again, what only the damaged mirror had is saved, and what is lost is told by name.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use omoi_protocol::{SandboxId, project::Project};
use omoi_server::{
    clock::Clock,
    config::Config,
    domain::{commit::CommitId, repository::Rebuilt},
    git::{Checkouts, Error, Mirrors, broken},
    orchestrator,
};
use serde_json::{Value, json};

use crate::{
    app::{App, On, eventually},
    on_both,
    repository::{Repository, git, project, try_git},
    work::text,
};

struct Place {
    config: Config,
    mirrors: Mirrors,
    checkouts: Checkouts,
    far: Repository,
    project: Project,
    _dir: tempfile::TempDir,
}

impl Place {
    /// With a mirror that holds two branches of its own, and what was kept and set aside of a sandbox.
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = Config { data_dir: dir.path().join("data"), ..Config::default() };
        let mirrors = Mirrors::new(&config).unwrap();
        let clock = Clock::manual("2026-01-01T00:00:00Z".parse().unwrap());
        let checkouts = Checkouts::new(&config, mirrors.clone(), clock).unwrap();
        let far = Repository::new();
        far.git(&["branch", "develop"]);
        let project = far.project("prj-1");
        let tip = mirrors.refresh(&project).await.unwrap();
        unpack(&mirrors.path(&project.id));
        mirrors.branch_create(&project, "fix/1", &tip, &sandbox("sbx-1")).await.unwrap();
        mirrors.branch_create(&project, "spec/shop", &tip, &sandbox("sbx-2")).await.unwrap();
        let place = Self { config, mirrors, checkouts, far, project, _dir: dir };
        place.push("refs/heads/fix/1", "one");
        place.push("refs/heads/fix/1", "two");
        place.push("refs/heads/spec/shop", "shop");
        place.push("refs/preserved/sbx-1", "kept");
        place.push("refs/set-aside/sbx-1", "aside");
        place
    }

    fn mirror(&self) -> PathBuf {
        self.mirrors.path(&self.project.id)
    }

    /// A commit with a file of its own on top of a ref, as a push brings it.
    fn push(&self, name: &str, content: &str) -> String {
        let mirror = self.mirror();
        let from = if try_git(&mirror, &["rev-parse", "-q", "--verify", name]).status.success() {
            name
        } else {
            "HEAD"
        };
        let file = self.far.path.with_file_name(content);
        fs::write(&file, content).unwrap();
        let blob = git(&mirror, &["hash-object", "-w", file.to_str().unwrap()]);
        let tree = self.tree(&format!("{from}^{{tree}}"), content, &blob);
        let commit = git(&mirror, &["commit-tree", &tree, "-p", from, "-m", content]);
        git(&mirror, &["update-ref", name, &commit]);
        commit
    }

    /// A tree with one more file.
    fn tree(&self, from: &str, name: &str, blob: &str) -> String {
        let mirror = self.mirror();
        let mut entries = git(&mirror, &["ls-tree", from]);
        entries.push_str(&format!("\n100644 blob {blob}\t{name}\n"));
        let mut command = crate::repository::command(&mirror, &["mktree"]);
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), entries.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Refs that were made here.
    async fn own(&self) -> BTreeMap<String, CommitId> {
        let mut refs = self.mirrors.ref_list(&self.project.id, "refs/").await.unwrap();
        refs.retain(|name, _| !name.starts_with("refs/remotes/") && !name.starts_with("refs/omoi/followed/"));
        refs
    }

    fn aside(&self) -> Vec<(PathBuf, Rebuilt)> {
        let found = broken(&self.config.data_dir).unwrap();
        found.into_iter().map(|(path, report)| (path, report.unwrap())).collect()
    }

    fn object(&self, id: &str) -> PathBuf {
        self.mirror().join("objects").join(&id[..2]).join(&id[2..])
    }

    fn id(&self, name: &str) -> String {
        git(&self.mirror(), &["rev-parse", name])
    }
}

fn sandbox(id: &str) -> SandboxId {
    id.parse().unwrap()
}

/// Every object in a file of its own, so that a test can take one away.
fn unpack(mirror: &Path) {
    let packs = mirror.join("objects/pack");
    let away = mirror.join("packs-of-test");
    fs::rename(&packs, &away).unwrap();
    fs::create_dir(&packs).unwrap();
    for entry in fs::read_dir(&away)
        .unwrap()
        .flatten()
        .filter(|entry| entry.path().extension().is_some_and(|e| e == "pack"))
    {
        let mut command = crate::repository::command(mirror, &["unpack-objects", "-q"]);
        command.stdin(fs::File::open(entry.path()).unwrap());
        assert!(command.status().unwrap().success());
    }
    fs::remove_dir_all(away).unwrap();
}

/// Every object in one pack, as in a repository that is not new.
fn pack(mirror: &Path) {
    git(mirror, &["repack", "-adq"]);
    git(mirror, &["pack-refs", "--all"]);
}

type Harm = fn(&Place);

/// Damage that loses nothing which was made here.
const CURABLE: &[(&str, Harm)] = &[
    ("HEAD removed", |place| fs::remove_file(place.mirror().join("HEAD")).unwrap()),
    ("HEAD emptied", |place| fs::write(place.mirror().join("HEAD"), "").unwrap()),
    ("HEAD garbage", |place| fs::write(place.mirror().join("HEAD"), "\0\0\0\0garbage").unwrap()),
    ("config removed", |place| fs::remove_file(place.mirror().join("config")).unwrap()),
    ("config garbage", |place| fs::write(place.mirror().join("config"), "[core\n=\0").unwrap()),
    ("far ref garbage", |place| {
        fs::write(place.mirror().join("refs/remotes/origin/main"), "garbage\n").unwrap();
    }),
    ("own ref emptied", |place| fs::write(place.mirror().join("refs/heads/fix/1"), "").unwrap()),
    ("own ref removed", |place| fs::remove_file(place.mirror().join("refs/heads/fix/1")).unwrap()),
    ("packed refs cut", |place| {
        pack(&place.mirror());
        let file = place.mirror().join("packed-refs");
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, &text[..text.find("refs/heads/fix/1").unwrap() + 6]).unwrap();
    }),
    ("packed refs garbage", |place| {
        pack(&place.mirror());
        let file = place.mirror().join("packed-refs");
        fs::write(&file, format!("garbage\n{}", fs::read_to_string(&file).unwrap())).unwrap();
    }),
    ("refs removed", |place| fs::remove_dir_all(place.mirror().join("refs")).unwrap()),
    ("pack of the far side removed", |place| {
        let packs = place.mirror().join("objects/pack");
        let far = place.far.head();
        fs::remove_file(place.object(&far)).unwrap();
        fs::write(packs.join("pack-0123456789012345678901234567890123456789.idx"), "damaged").unwrap();
    }),
    ("far commit removed", |place| fs::remove_file(place.object(&place.far.head())).unwrap()),
    ("far file damaged", |place| {
        let object = place.object(&place.id("HEAD:README.md"));
        let _ = fs::remove_file(&object);
        fs::write(object, "damaged").unwrap();
    }),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_mirror_is_rebuilt_and_keeps_all_that_only_it_had() {
    for (what, harm) in CURABLE {
        let place = Place::new().await;
        let before = place.own().await;
        harm(&place);
        // What cannot be read makes the mirror suspect; a fetch alone would not look at all of it.
        place.mirrors.suspect(&place.project.id).await.unwrap();
        let tip = place.mirrors.refresh(&place.project).await;
        assert_eq!(
            tip.map(|tip| tip.to_string()).map_err(|error| error.to_string()),
            Ok(place.far.head()),
            "{what}"
        );
        assert_eq!(place.own().await, before, "{what}");
        let mirror = place.mirror();
        assert_eq!(git(&mirror, &["fsck", "--full", "--no-dangling"]), "", "{what}");
        let log = git(&mirror, &["reflog", "show", "--format=%gd", "refs/heads/fix/1"]);
        assert!(log.lines().count() >= 2, "{what}: {log}");
        let aside = place.aside();
        assert_eq!(aside.len(), 1, "{what}");
        assert!(aside[0].1.lost.is_empty() && !aside[0].1.damage.is_empty(), "{what}: {:?}", aside[0].1);
        // Far branches follow on.
        let next = place.far.commit("next", "next\n");
        place.far.git(&["branch", "-D", "develop"]);
        assert_eq!(place.mirrors.refresh(&place.project).await.unwrap().as_str(), next, "{what}");
        assert_eq!(place.mirrors.branch_tip(&place.project.id, "develop").await.unwrap(), None, "{what}");
        assert_eq!(place.aside().len(), 1, "a sound mirror is left alone");
    }
}

fn make_pipe(path: &Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let _ = fs::remove_file(path);
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_comes_while_a_mirror_is_examined_is_no_damage() {
    let place = Place::new().await;
    let object = place.object(&place.id("refs/preserved/sbx-1"));
    let away = object.with_extension("away");
    fs::rename(&object, &away).unwrap();
    // It holds Git until somebody opens it for writing, and then holds nothing.
    make_pipe(&object);
    place.mirrors.suspect(&place.project.id).await.unwrap();
    let push = place.mirrors.in_use(&place.project.id).await.unwrap();
    let comes = async {
        let pipe = object.clone();
        let opened = tokio::task::spawn_blocking(move || fs::File::options().write(true).open(pipe).unwrap());
        let opened = opened.await.unwrap();
        fs::rename(&away, &object).unwrap();
        drop((opened, push));
    };
    let (attended, ()) = tokio::join!(place.mirrors.attend(&place.project), comes);
    attended.unwrap();
    assert!(place.aside().is_empty(), "{:?}", place.aside());
    assert_eq!(place.mirrors.suspects().await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mirror_that_cannot_be_examined_in_time_is_fetched_all_the_same() {
    let place = Place::new().await;
    let slow = Config {
        git: omoi_server::config::Git {
            timeout: std::time::Duration::from_secs(2),
            ..place.config.git.clone()
        },
        ..place.config.clone()
    };
    let mirrors = Mirrors::new(&slow).unwrap();
    let object = place.object(&"ab".repeat(20));
    fs::create_dir_all(object.parent().unwrap()).unwrap();
    make_pipe(&object);
    mirrors.suspect(&place.project.id).await.unwrap();
    let next = place.far.commit("next", "next\n");
    assert_eq!(mirrors.refresh(&place.project).await.unwrap().as_str(), next);
    assert!(place.aside().is_empty());
    mirrors.suspect_by_hearsay(&place.project.id).await.unwrap();
    assert_eq!(mirrors.suspects().await.unwrap(), [], "a client cannot have it examined again at once");
}

#[tokio::test]
async fn what_a_fetch_stumbles_over_needs_no_suspicion() {
    for (what, harm) in CURABLE.iter().filter(|(what, _)| what.contains("HEAD") || what.contains("config")) {
        let place = Place::new().await;
        let before = place.own().await;
        harm(&place);
        assert_eq!(place.mirrors.refresh(&place.project).await.unwrap().as_str(), place.far.head(), "{what}");
        assert_eq!(place.own().await, before, "{what}");
    }
}

#[tokio::test]
async fn a_crash_between_the_two_steps_of_an_exchange_loses_nothing() {
    let place = Place::new().await;
    let before = place.own().await;
    fs::remove_file(place.object(&place.far.head())).unwrap();
    place.mirrors.suspect(&place.project.id).await.unwrap();
    place.mirrors.refresh(&place.project).await.unwrap();
    // As a file system leaves it that cannot exchange two directories in one step.
    let beside = place.mirror().with_extension("rebuilding");
    fs::rename(place.mirror(), &beside).unwrap();
    fs::write(beside.join("omoi-whole"), "").unwrap();
    for report in place.mirrors.untold().await.unwrap() {
        place.mirrors.told(&report).await.unwrap();
    }
    let mirrors = Mirrors::new(&place.config).unwrap();
    assert_eq!(mirrors.refresh(&place.project).await.unwrap().as_str(), place.far.head());
    assert_eq!(place.own().await, before);
    assert_eq!(place.aside().len(), 1);
    assert!(!beside.exists() && !place.mirror().join("omoi-whole").exists());
}

#[tokio::test]
async fn what_cannot_be_saved_is_put_back_to_its_newest_sound_commit_and_told() {
    let place = Place::new().await;
    let (fix, older) = (place.id("refs/heads/fix/1"), place.id("refs/heads/fix/1^"));
    let kept = place.id("refs/preserved/sbx-1");
    // A file of the newest commit of one, and the only commit of the other.
    fs::remove_file(place.object(&place.id("refs/heads/fix/1:two"))).unwrap();
    fs::remove_file(place.object(&kept)).unwrap();
    place.mirrors.suspect(&place.project.id).await.unwrap();
    place.mirrors.refresh(&place.project).await.unwrap();
    let own = place.own().await;
    assert_eq!(own["refs/heads/fix/1"].as_str(), older);
    assert!(own.contains_key("refs/heads/spec/shop") && !own.contains_key("refs/preserved/sbx-1"), "{own:?}");
    let (path, report) = &place.aside()[0];
    let lost: Vec<_> =
        report.lost.iter().map(|lost| (lost.name.as_str(), lost.commit.clone(), lost.now.clone())).collect();
    assert_eq!(
        lost,
        [("refs/heads/fix/1", Some(fix), Some(older)), ("refs/preserved/sbx-1", Some(kept), None)]
    );
    assert!(path.join("objects").is_dir(), "the damaged one is kept");
    assert!(report.aside.starts_with("mirrors/prj-1.broken-"), "{}", report.aside);
}

#[tokio::test]
async fn a_mirror_that_is_gone_comes_back_with_what_checkouts_hold() {
    let place = Place::new().await;
    let tip = place.mirrors.refresh(&place.project).await.unwrap();
    place.checkouts.acquire(&place.project.id, &tip, &sandbox("sbx-1")).await.unwrap();
    let fix = place.id("refs/heads/fix/1");
    fs::remove_dir_all(place.mirror()).unwrap();
    place.mirrors.refresh(&place.project).await.unwrap();
    assert_eq!(place.id("refs/heads/fix/1"), fix);
    assert_eq!(place.aside()[0].1.damage, "its directory is gone");
    // Taken away on purpose, it is no damage.
    place.mirrors.remove(&place.project.id).await.unwrap();
    place.mirrors.refresh(&place.project).await.unwrap();
    assert_eq!(place.aside().len(), 1);
}

#[tokio::test]
async fn while_the_far_repository_is_away_a_damaged_mirror_stays_as_it_is_and_is_the_one_that_is_named() {
    let place = Place::new().await;
    fs::remove_file(place.mirror().join("HEAD")).unwrap();
    let away = place.far.path.with_file_name("away");
    fs::rename(&place.far.path, &away).unwrap();
    let said = place.mirrors.refresh(&place.project).await.unwrap_err();
    assert!(matches!(said, Error::Damaged { .. }) && said.may_pass(), "{said}");
    let said = said.to_string();
    assert!(said.contains("mirror of the repository, mirrors/prj-1.git") && said.contains("HEAD"), "{said}");
    assert!(place.mirror().join("objects").is_dir() && place.aside().is_empty());
    fs::rename(&away, &place.far.path).unwrap();
    place.mirrors.refresh(&place.project).await.unwrap();
    assert_eq!(place.aside().len(), 1);

    // A sound mirror is not blamed for a far repository that is away.
    fs::rename(&place.far.path, &away).unwrap();
    let said = place.mirrors.refresh(&place.project).await.unwrap_err();
    assert!(matches!(said, Error::Fetch { .. }), "{said}");
    assert!(said.to_string().contains("repository_url"), "{said}");
}

#[tokio::test]
async fn damaged_mirrors_that_still_hold_what_was_lost_are_not_removed_to_make_room() {
    let place = Place::new().await;
    for round in 0..4 {
        let kept = place.push(&format!("refs/preserved/sbx-{round}0"), &format!("kept-{round}"));
        fs::remove_file(place.object(&kept)).unwrap();
        place.mirrors.suspect(&place.project.id).await.unwrap();
        let refreshed = place.mirrors.refresh(&place.project).await;
        if round < 3 {
            refreshed.unwrap();
        } else {
            let said = refreshed.unwrap_err().to_string();
            assert!(said.contains("inspect and remove them") && said.contains(".broken-"), "{said}");
        }
    }
    assert_eq!(place.aside().len(), 3);
}

#[tokio::test]
async fn a_checkout_whose_mirror_is_damaged_makes_the_mirror_suspect() {
    let place = Place::new().await;
    let tip = place.mirrors.refresh(&place.project).await.unwrap();
    fs::remove_file(place.object(&place.id("HEAD:README.md"))).unwrap();
    place.checkouts.acquire(&place.project.id, &tip, &sandbox("sbx-1")).await.unwrap_err();
    assert_eq!(place.mirrors.suspects().await.unwrap().as_slice(), std::slice::from_ref(&place.project.id));
    place.mirrors.attend(&place.project).await.unwrap();
    assert_eq!(place.mirrors.suspects().await.unwrap(), []);
    place.checkouts.acquire(&place.project.id, &tip, &sandbox("sbx-1")).await.unwrap();
}

#[tokio::test]
async fn removed_directories_are_made_again_when_they_are_needed() {
    let place = Place::new().await;
    let tip = place.mirrors.refresh(&place.project).await.unwrap();
    let acquire = async || place.checkouts.acquire(&place.project.id, &tip, &sandbox("sbx-1")).await;
    let tree = acquire().await.unwrap();
    let checkouts = place.config.data_dir.join("checkouts");
    for gone in [checkouts.clone(), checkouts.join(".references"), checkouts.join("prj-1"), tree.clone()] {
        fs::remove_dir_all(&gone).unwrap();
        assert_eq!(acquire().await.unwrap(), tree, "{}", gone.display());
        assert_eq!(git(&tree, &["status", "--porcelain"]), "");
    }
    fs::remove_dir_all(&checkouts).unwrap();
    place.checkouts.sweep().await.unwrap();
    place.checkouts.release(&sandbox("sbx-1")).await.unwrap();
    for gone in ["locks", "hooks", "gitconfig", "suspect"] {
        let path = place.config.data_dir.join("mirrors").join(gone);
        let _ = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        place.mirrors.refresh(&place.project).await.unwrap();
        place.mirrors.hooks().unwrap();
        assert!(path.exists(), "{gone}");
    }
    fs::remove_dir_all(place.config.data_dir.join("mirrors")).unwrap();
    acquire().await.unwrap_err();
    place.mirrors.refresh(&place.project).await.unwrap();
    acquire().await.unwrap();
}

#[tokio::test]
async fn a_damaged_checkout_is_made_again_and_the_old_one_stays_while_a_sandbox_has_it() {
    let place = Place::new().await;
    let tip = place.mirrors.refresh(&place.project).await.unwrap();
    let acquire =
        async |of: &str| place.checkouts.acquire(&place.project.id, &tip, &sandbox(of)).await.unwrap();
    let tree = acquire("sbx-1").await;
    let damages: [fn(&Path); 4] = [
        |tree| fs::remove_file(tree.join("README.md")).unwrap(),
        |tree| fs::write(tree.join("README.md"), "other content").unwrap(),
        |tree| fs::remove_file(tree.join(".git/index")).unwrap(),
        |tree| fs::remove_dir_all(tree.join(".git/objects")).unwrap(),
    ];
    for (n, damage) in damages.into_iter().enumerate() {
        damage(&tree);
        acquire("sbx-2").await;
        assert_eq!(git(&tree, &["status", "--porcelain"]), "", "{n}");
        place.checkouts.sweep().await.unwrap();
        let damaged = fs::read_dir(place.config.data_dir.join("checkouts")).unwrap().flatten();
        let damaged =
            damaged.filter(|entry| entry.file_name().to_str().unwrap().starts_with(".damaged-")).count();
        assert_eq!(damaged, n + 1, "a sandbox may have it mounted");
    }
    place.checkouts.release(&sandbox("sbx-1")).await.unwrap();
    place.checkouts.release(&sandbox("sbx-2")).await.unwrap();
    place.checkouts.sweep().await.unwrap();
    let left = fs::read_dir(place.config.data_dir.join("checkouts")).unwrap().flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name().into_string().unwrap()).collect();
    assert!(left.iter().all(|name| !name.starts_with(".damaged-")), "{left:?}");
}

on_both! {
    async fn a_rebuilt_mirror_is_told_of_with_what_was_lost(app: App) {
        let far = Repository::new();
        let body = json!({ "name": "shop", "repository_url": far.path });
        let id = text(&app.post("/api/v1/projects", body).await.expect(201)["id"]);
        let mirrors = Mirrors::new(&app.config).unwrap();
        let of = project(&id, far.path.to_str());
        let tip = mirrors.refresh(&of).await.unwrap();
        mirrors.branch_create(&of, "fix/1", &tip, &sandbox("sbx-1")).await.unwrap();
        let mirror = mirrors.path(&of.id);
        let work = git(&mirror, &["commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "work"]);
        git(&mirror, &["update-ref", "refs/preserved/sbx-1", &work]);
        fs::remove_file(mirror.join("objects").join(&work[..2]).join(&work[2..])).unwrap();
        mirrors.suspect(&of.id).await.unwrap();

        assert_eq!(orchestrator::settle(app.store(), &mirrors).await.unwrap().looked_at, 1);
        assert_eq!(orchestrator::settle(app.store(), &mirrors).await.unwrap().looked_at, 0, "it is settled");
        assert_eq!(orchestrator::fetch(app.store(), &mirrors).await.unwrap().told, 1);
        assert_eq!(orchestrator::fetch(app.store(), &mirrors).await.unwrap(), Default::default(), "once");
        let audit = app.get("/api/v1/audit").await.expect(200);
        let lines: Vec<Value> = audit["items"].as_array().unwrap().iter()
            .filter(|line| line["action"] == "project.mirror_rebuilt").cloned().collect();
        assert_eq!(lines.len(), 1, "{audit}");
        assert_eq!(lines[0]["detail"]["lost"][0]["name"], "refs/preserved/sbx-1");
        assert_eq!(mirrors.ref_tip(&of.id, "refs/heads/fix/1").await.unwrap(), Some(tip));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clone_that_breaks_off_makes_the_mirror_suspect() {
    let (app, far) = (App::start(On::Sqlite).await, Repository::new());
    let body = json!({ "name": "shop", "repository_url": far.path });
    let id = text(&app.post("/api/v1/projects", body).await.expect(201)["id"]);
    let (mirrors, of) = (Mirrors::new(&app.config).unwrap(), project(&id, far.path.to_str()));
    mirrors.refresh(&of).await.unwrap();
    let mirror = mirrors.path(&of.id);
    unpack(&mirror);
    let blob = git(&mirror, &["rev-parse", "HEAD:README.md"]);
    fs::remove_file(mirror.join("objects").join(&blob[..2]).join(&blob[2..])).unwrap();
    let header = format!("http.extraHeader=Authorization: Bearer {}", app.token);
    let url = format!("{}/git/{id}.git", app.base);
    let fetched = || Repository::empty().try_git(&["-c", &header, "fetch", &url]).status.success();
    assert!(!fetched());
    eventually(async || mirrors.suspects().await.unwrap().contains(&of.id).then_some(())).await;
    mirrors.attend(&of).await.unwrap();
    assert!(fetched());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readiness_names_a_directory_that_cannot_be_made_again_and_what_was_lost() {
    let app = App::start(On::Sqlite).await;
    assert_eq!(app.get("/ready").await.expect(200)["status"], "ready");
    let mirrors = app.config.data_dir.join("mirrors");
    fs::remove_dir_all(&mirrors).unwrap();
    let ready = app.get("/ready").await.expect(200);
    assert_eq!(ready["status"], "degraded");
    assert!(ready["lost"][0].as_str().unwrap().contains("mirrors"), "{ready}");
    assert!(mirrors.is_dir());
    // The server makes it again as soon as it looks.
    while fs::write(&mirrors, "in the way").is_err() {
        let _ = fs::remove_dir_all(&mirrors);
    }
    let problem = app.get("/ready").await.refused(503, "directory_removed");
    assert!(problem["detail"].as_str().unwrap().contains("mirrors"), "{problem}");
    fs::remove_file(&mirrors).unwrap();
    assert_eq!(app.get("/ready").await.expect(200)["status"], "degraded");
}
