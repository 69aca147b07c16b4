//! Commits of real repositories that were left in all kinds of states.

use std::{collections::BTreeMap, fs, path::PathBuf, time::Duration};

use omoi_protocol::{
    ProviderKind,
    launch::{Door, LaunchSpec, Repository, SandboxToken},
};

use super::*;

struct Place {
    temp: tempfile::TempDir,
    launch: LaunchSpec,
}

impl Place {
    fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("workspace");
        fs::create_dir(&path).unwrap();
        let door = Door::new("http://127.0.0.1:1", None);
        let mut launch =
            LaunchSpec::new("sbx-1".parse().unwrap(), ProviderKind::Local, door, SandboxToken::new("t"));
        launch.workspace_path = path.display().to_string();
        launch.repository = Some(Repository {
            url: "file:///nowhere".to_owned(),
            full_name: None,
            branch_name: "work".to_owned(),
            base_commit: String::new(),
            author_name: Some("Ada".to_owned()),
            author_email: Some("ada@example.com".to_owned()),
            push_bytes_max: None,
        });
        Self { temp, launch }
    }

    /// On the branch, with one commit.
    async fn with(files: &[(&str, &str)]) -> Self {
        let place = Self::new();
        place.git(&["init", "-q", "-b", "work"]).await;
        for (path, text) in files {
            place.write(path, text);
        }
        place.save("base").await;
        place
    }

    fn env(&self) -> BTreeMap<String, String> {
        let mut env = self.launch.git_environment();
        env.insert("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned());
        env.insert("HOME".to_owned(), self.temp.path().display().to_string());
        env
    }

    fn runner(&self) -> Git {
        Git { dir: self.path(""), env: self.env(), limit: Duration::from_secs(60) }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.temp.path().join("workspace").join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    async fn git(&self, args: &[&str]) -> String {
        self.runner().text(args).await.unwrap()
    }

    /// What the agent itself commits.
    async fn save(&self, subject: &str) -> String {
        self.git(&["add", "-A"]).await;
        self.git(&["commit", "-q", "--allow-empty", "-m", subject]).await;
        self.git(&["rev-parse", "HEAD"]).await
    }

    async fn commit(&self) -> Committed {
        let committed =
            Workspace::of(&self.launch, &self.env()).unwrap().commit("Do it\n\nBody\n").await.unwrap();
        assert_eq!(self.git(&["status", "--porcelain"]).await, "");
        committed
    }

    async fn files(&self) -> Vec<String> {
        let files = self.git(&["ls-tree", "-r", "--name-only", "work"]).await;
        files.lines().map(str::to_owned).collect()
    }

    async fn show(&self, path: &str) -> String {
        self.git(&["show", &format!("work:{path}")]).await
    }

    async fn is_below(&self, commit: &str) -> bool {
        self.runner().run(&["merge-base", "--is-ancestor", commit, "work"]).await.is_ok()
    }
}

fn new(committed: Committed) -> (String, u64) {
    match committed {
        Committed::New { commit, files } => (commit, files),
        Committed::Nothing => panic!("nothing was committed"),
    }
}

#[tokio::test]
async fn everything_that_is_not_ignored_is_committed_in_the_launch_s_name() {
    let place = Place::with(&[("a", "1\n"), ("b", "1\n"), (".gitignore", "*.log\n")]).await;
    place.write(".git/hooks/pre-commit", "#!/bin/sh\nexit 1\n");
    place.git(&["config", "commit.gpgSign", "true"]).await;
    place.write("a", "2\n");
    fs::remove_file(place.path("b")).unwrap();
    place.write("dir/c", "1\n");
    place.write("x.log", "1\n");
    let (commit, files) = new(place.commit().await);
    assert_eq!((files, place.files().await), (3, vec![".gitignore".into(), "a".into(), "dir/c".into()]));
    assert_eq!(place.git(&["rev-parse", "work"]).await, commit);
    let said = place.git(&["log", "-1", "--format=%an <%ae> %cn %s|%b"]).await;
    assert_eq!(said, "Ada <ada@example.com> Ada Do it|Body");
    assert_eq!(place.commit().await, Committed::Nothing);
}

#[tokio::test]
async fn a_repository_without_commits_gets_its_first() {
    let place = Place::new();
    place.git(&["init", "-q", "-b", "other"]).await;
    assert_eq!(place.commit().await, Committed::Nothing);
    place.write("a", "1\n");
    let (_, files) = new(place.commit().await);
    assert_eq!((files, place.git(&["symbolic-ref", "HEAD"]).await.as_str()), (1, "refs/heads/work"));
}

#[tokio::test]
async fn commits_beyond_the_branch_are_brought_onto_it() {
    for how in [&["checkout", "-q", "--detach"][..], &["checkout", "-q", "-b", "other"]] {
        let place = Place::with(&[("a", "1\n")]).await;
        place.git(how).await;
        place.write("a", "2\n");
        let theirs = place.save("theirs").await;
        place.write("b", "1\n");
        let (_, files) = new(place.commit().await);
        assert_eq!((files, place.git(&["rev-parse", "work~"]).await), (2, theirs));
        assert_eq!(place.git(&["symbolic-ref", "HEAD"]).await, "refs/heads/work");
    }
}

#[tokio::test]
async fn looking_at_an_older_commit_undoes_nothing() {
    let place = Place::with(&[("a", "1\n")]).await;
    place.write("a", "2\n");
    let newer = place.save("newer").await;
    place.git(&["checkout", "-q", "HEAD~"]).await;
    assert_eq!(place.commit().await, Committed::Nothing);
    assert_eq!(place.git(&["rev-parse", "HEAD"]).await, newer);
    assert_eq!(fs::read_to_string(place.path("a")).unwrap(), "2\n");
}

#[tokio::test]
async fn a_line_apart_from_the_branch_is_merged() {
    let place = Place::with(&[("a", "1\n")]).await;
    place.git(&["branch", "other"]).await;
    place.write("ours", "1\n");
    let ours = place.save("ours").await;
    place.git(&["checkout", "-q", "other"]).await;
    place.write("theirs", "1\n");
    let theirs = place.save("theirs").await;
    place.write("loose", "1\n");
    new(place.commit().await);
    assert_eq!(place.files().await, ["a", "loose", "ours", "theirs"]);
    assert!(place.is_below(&ours).await && place.is_below(&theirs).await);
    assert!(place.path("ours").exists());
}

#[tokio::test]
async fn a_line_that_does_not_merge_stays_reachable() {
    let place = Place::with(&[("a", "1\n")]).await;
    place.git(&["branch", "other"]).await;
    place.write("a", "ours\n");
    let ours = place.save("ours").await;
    place.git(&["checkout", "-q", "other"]).await;
    place.write("a", "theirs\n");
    let theirs = place.save("theirs").await;
    new(place.commit().await);
    assert_eq!(place.show("a").await, "ours");
    assert_eq!(place.git(&["rev-parse", "work^1", "work^2"]).await, format!("{ours}\n{theirs}"));
}

#[tokio::test]
async fn a_merge_in_progress_becomes_a_merge() {
    let place = Place::with(&[("a", "1\n")]).await;
    place.git(&["checkout", "-q", "-b", "other"]).await;
    place.write("a", "theirs\n");
    let theirs = place.save("theirs").await;
    place.git(&["checkout", "-q", "work"]).await;
    place.write("a", "ours\n");
    let ours = place.save("ours").await;
    place.runner().run(&["merge", "-q", "other"]).await.unwrap_err();
    place.write("a", "both\n");
    new(place.commit().await);
    assert_eq!(place.git(&["rev-parse", "work^1", "work^2"]).await, format!("{ours}\n{theirs}"));
    assert_eq!(place.show("a").await, "both");
    assert!(!place.path(".git/MERGE_HEAD").exists());
}

#[tokio::test]
async fn a_rebase_in_progress_loses_nothing() {
    let place = Place::with(&[("a", "1\n")]).await;
    place.git(&["branch", "main"]).await;
    place.write("b", "1\n");
    place.save("first").await;
    place.write("a", "ours\n");
    let ours = place.save("second").await;
    place.git(&["checkout", "-q", "main"]).await;
    place.write("a", "theirs\n");
    let theirs = place.save("theirs").await;
    place.git(&["checkout", "-q", "work"]).await;
    place.runner().run(&["rebase", "-q", "main"]).await.unwrap_err();
    assert!(place.path(".git/rebase-merge").exists());
    place.write("new", "1\n");
    new(place.commit().await);
    assert!(place.is_below(&ours).await && place.is_below(&theirs).await);
    assert!(!place.path(".git/rebase-merge").exists());
    assert_eq!(place.git(&["symbolic-ref", "HEAD"]).await, "refs/heads/work");
    let all = place.git(&["log", "--name-only", "--format=", "-m", "work"]).await;
    assert!(all.lines().any(|name| name == "new"));
}

#[tokio::test]
async fn a_lock_of_a_killed_git_is_removed() {
    let place = Place::with(&[("a", "1\n")]).await;
    for lock in [".git/index.lock", ".git/HEAD.lock", ".git/refs/heads/work.lock"] {
        place.write(lock, "");
    }
    place.write("a", "2\n");
    new(place.commit().await);
}

#[tokio::test]
async fn a_broken_index_is_made_anew() {
    let place = Place::with(&[("a", "1\n"), (".gitignore", "kept.log\n")]).await;
    place.write("kept.log", "1\n");
    place.git(&["add", "-f", "kept.log"]).await;
    place.git(&["commit", "-q", "-m", "log"]).await;
    place.write(".git/index", "DIRC and no more");
    place.write("b", "1\n");
    let (_, files) = new(place.commit().await);
    assert_eq!(files, 1);
    assert_eq!(place.files().await, [".gitignore", "a", "b", "kept.log"]);
}

#[tokio::test]
async fn repositories_inside_are_committed_as_files() {
    let place = Place::with(&[("a", "1\n")]).await;
    for (inner, with_commit) in [("one", true), ("two", false)] {
        place.git(&["init", "-q", inner]).await;
        place.write(&format!("{inner}/file"), "1\n");
        place.write(&format!("{inner}/.gitignore"), "out\n");
        place.write(&format!("{inner}/out"), "1\n");
        if with_commit {
            place.git(&["-C", inner, "add", "-A"]).await;
            place.git(&["-C", inner, "commit", "-q", "-m", "inner"]).await;
        }
    }
    new(place.commit().await);
    assert_eq!(place.files().await, ["a", "one/.gitignore", "one/file", "two/.gitignore", "two/file"]);
    assert_eq!(place.commit().await, Committed::Nothing);
}

#[tokio::test]
async fn an_unborn_branch_goes_on_from_ours() {
    let place = Place::with(&[("a", "1\n")]).await;
    let base = place.git(&["rev-parse", "HEAD"]).await;
    place.git(&["checkout", "-q", "--orphan", "fresh"]).await;
    place.write("b", "1\n");
    new(place.commit().await);
    assert_eq!(place.git(&["rev-parse", "work~"]).await, base);
}
