//! Changes of real work trees, seen by real Git.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{
        ffi::OsStrExt,
        fs::{PermissionsExt, symlink},
    },
    path::PathBuf,
};

use omoi_protocol::event::FileChange::{Created, Deleted, Modified, Renamed};

use super::*;
use crate::git::Git;

struct Place {
    temp: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { temp: tempfile::tempdir().unwrap() };
        fs::create_dir(place.path("")).unwrap();
        place
    }

    /// With one commit, of these files.
    async fn with(files: &[(&str, &str)]) -> Self {
        let place = Self::new();
        place.git(&["init", "-q"]).await;
        for (path, text) in files {
            place.write(path, text);
        }
        place.git(&["add", "-A"]).await;
        place.git(&["commit", "-q", "--allow-empty", "-m", "base"]).await;
        place
    }

    fn path(&self, path: &str) -> PathBuf {
        self.temp.path().join("workspace").join(path)
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    async fn git(&self, args: &[&str]) -> String {
        let settings =
            ["-c", "user.name=T", "-c", "user.email=t@t.invalid", "-c", "protocol.file.allow=always"];
        let git = Git { dir: self.path(""), env: env(), limit: std::time::Duration::from_secs(60) };
        git.text(&[&settings[..], args].concat()).await.unwrap()
    }

    async fn open(&self) -> Changes {
        Changes::open(&self.path(""), &self.temp.path().join("shadow"), &env()).await.unwrap()
    }
}

fn env() -> BTreeMap<String, String> {
    let path = "/usr/local/bin:/usr/bin:/bin".to_owned();
    BTreeMap::from([("PATH".to_owned(), path), ("HOME".to_owned(), "/nonexistent".to_owned())])
}

fn told(changes: &[Change]) -> Vec<(&str, omoi_protocol::event::FileChange, u64, u64)> {
    let one = |c: &'_ Change| (c.change_type.clone(), c.lines_added, c.lines_removed);
    changes.iter().map(|c| (c.file_path.as_str(), one(c).0, one(c).1, one(c).2)).collect()
}

#[tokio::test]
async fn a_step_tells_what_changed_since_the_one_before() {
    let place = Place::with(&[("a", "1\n2\n"), ("dir/b", "b\n"), ("c", "one\ntwo\nthree\nfour\n")]).await;
    let mut changes = place.open().await;
    assert_eq!(changes.step().await.unwrap(), []);
    place.write("a", "1\n3\n4\n");
    place.write("new/deep", "x\n");
    fs::remove_file(place.path("dir/b")).unwrap();
    fs::rename(place.path("c"), place.path("moved")).unwrap();
    let step = changes.step().await.unwrap();
    let expected = [
        ("a", Modified, 2, 1),
        ("dir/b", Deleted, 0, 1),
        ("moved", Renamed, 0, 0),
        ("new/deep", Created, 1, 0),
    ];
    assert_eq!(told(&step), expected);
    assert_eq!(step[2].previous_path.as_deref(), Some("c"));
    assert!(step[0].diff.starts_with("diff --git a/a b/a\nindex "), "{}", step[0].diff);
    assert!(
        step[0].diff.ends_with("--- a/a\n+++ b/a\n@@ -1,2 +1,3 @@\n 1\n-2\n+3\n+4\n"),
        "{}",
        step[0].diff
    );
    assert!(step[1].diff.contains("\n+++ /dev/null\n") && step[3].diff.contains("\n--- /dev/null\n"));
    assert_eq!(changes.step().await.unwrap(), []);
    place.write("a", "5\n");
    assert_eq!(told(&changes.step().await.unwrap()), [("a", Modified, 1, 3)]);
}

#[tokio::test]
async fn a_file_changed_and_changed_back_is_no_change() {
    let place = Place::with(&[("a", "1\n")]).await;
    let mut changes = place.open().await;
    place.write("a", "2\n");
    place.write("a", "1\n");
    assert_eq!(changes.step().await.unwrap(), []);
    // Of the same length, within the same moment.
    place.write("a", "3\n");
    assert_eq!(told(&changes.step().await.unwrap()), [("a", Modified, 1, 1)]);
}

#[tokio::test]
async fn modes_links_and_binary_files_show() {
    let place = Place::with(&[("run", "#!/bin/sh\n"), ("data", "\0\u{1}"), ("plain", "text\n")]).await;
    let mut changes = place.open().await;
    fs::set_permissions(place.path("run"), fs::Permissions::from_mode(0o755)).unwrap();
    place.write("data", b"\0\x02\xff");
    fs::remove_file(place.path("plain")).unwrap();
    symlink("run", place.path("plain")).unwrap();
    symlink("/nowhere", place.path("link")).unwrap();
    let step = changes.step().await.unwrap();
    let names: Vec<_> = step.iter().map(|change| change.file_path.as_str()).collect();
    assert_eq!(names, ["data", "link", "plain", "run"]);
    assert!(step[0].is_binary);
    assert!(step[0].diff.ends_with("Binary files a/data and b/data differ (2 bytes before, 3 bytes now)\n"));
    assert!(step[1].diff.contains("new file mode 120000") && step[1].diff.contains("+/nowhere"));
    assert!(
        step[2].diff.contains("deleted file mode 100644") && step[2].diff.contains("new file mode 120000")
    );
    assert_eq!((step[2].change_type.clone(), step[2].lines_added, step[2].lines_removed), (Modified, 1, 1));
    assert_eq!(step[3].diff, "diff --git a/run b/run\nold mode 100644\nnew mode 100755\n");
}

#[tokio::test]
async fn any_name_is_told_and_its_diff_stays_its_own() {
    let place = Place::with(&[]).await;
    let mut changes = place.open().await;
    for name in ["a \"quoted\"", "line\nbreak", "tab\there", "ümlaut", "-dash", ":(top)x", "diff --git a b"]
    {
        place.write(name, format!("diff --git a/{name} b/other\n@@ -1 +1 @@\n+++ b/x\n"));
    }
    fs::write(place.path("").join(OsStr::from_bytes(b"not\xffutf8")), "x\n").unwrap();
    let step = changes.step().await.unwrap();
    assert_eq!(step.len(), 8);
    for change in &step {
        assert_eq!(change.change_type, Created);
        assert_eq!(change.diff.matches("new file mode").count(), 1, "{}", change.diff);
    }
    assert!(step.iter().any(|change| change.file_path == "line\nbreak" && change.lines_added == 4));
    assert!(step.iter().any(|change| change.file_path == "not\u{fffd}utf8" && change.lines_added == 1));
    assert!(step.iter().any(|change| change.diff.contains("+++ b/ümlaut\n")));
}

#[tokio::test]
async fn what_is_ignored_is_not_followed() {
    let place = Place::with(&[(".gitignore", "node_modules/\n*.log\n"), ("a", "1\n")]).await;
    place.write(".git/info/exclude", "private\n");
    let mut changes = place.open().await;
    place.write("node_modules/x/index.js", "x\n");
    place.write("b.log", "x\n");
    place.write("private", "x\n");
    place.write(".git/description", "x\n");
    assert_eq!(changes.step().await.unwrap(), []);
    place.write(".gitignore", "node_modules/\n");
    let expected = [(".gitignore", Modified, 0, 1), ("b.log", Created, 1, 0)];
    assert_eq!(told(&changes.step().await.unwrap()), expected);
}

#[tokio::test]
async fn the_repository_itself_is_left_alone_and_runs_nothing() {
    let place =
        Place::with(&[("a", "1\n"), (".gitattributes", "* filter=evil diff=evil\n*.bin binary\n")]).await;
    let marker = place.temp.path().join("ran");
    let command = format!("touch {}; cat", marker.display());
    for key in ["filter.evil.clean", "filter.evil.smudge", "diff.evil.textconv", "core.fsmonitor"] {
        place.git(&["config", key, &command]).await;
    }
    let before = (fs::read(place.path(".git/index")).unwrap(), place.git(&["count-objects"]).await);
    let mut changes = place.open().await;
    place.write("a", "2\n");
    place.write("b.bin", "text\n");
    assert_eq!(told(&changes.step().await.unwrap()), [("a", Modified, 1, 1), ("b.bin", Created, 1, 0)]);
    place.write("a", "3\n");
    assert_eq!(changes.revert(&|_| false).await.unwrap(), ["a"]);
    assert!(!marker.exists());
    assert_eq!(fs::read(place.path(".git/index")).unwrap(), before.0);
    place.git(&["config", "--unset", "core.fsmonitor"]).await;
    assert_eq!(place.git(&["count-objects"]).await, before.1);
}

#[tokio::test]
async fn commits_and_branches_of_the_agent_change_nothing_by_themselves() {
    let place = Place::with(&[("a", "1\n")]).await;
    let mut changes = place.open().await;
    place.write("a", "2\n");
    changes.step().await.unwrap();
    place.git(&["checkout", "-q", "-b", "other"]).await;
    place.git(&["commit", "-q", "-a", "-m", "two"]).await;
    assert_eq!(changes.step().await.unwrap(), []);
    place.git(&["checkout", "-q", "HEAD~"]).await;
    assert_eq!(told(&changes.step().await.unwrap()), [("a", Modified, 1, 1)]);
}

#[tokio::test]
async fn a_plain_directory_and_a_repository_without_commits_are_followed() {
    for with_git in [false, true] {
        let place = Place::new();
        place.write("a", "1\n");
        if with_git {
            place.git(&["init", "-q"]).await;
        }
        let mut changes = place.open().await;
        place.write("a", "2\n");
        place.write("b", "1\n");
        assert_eq!(told(&changes.step().await.unwrap()), [("a", Modified, 1, 1), ("b", Created, 1, 0)]);
        if !with_git {
            place.git(&["init", "-q"]).await;
            assert_eq!(changes.step().await.unwrap(), []);
        }
    }
}

#[tokio::test]
async fn a_repository_of_longer_ids_is_followed() {
    let place = Place::new();
    place.git(&["init", "-q", "--object-format=sha256"]).await;
    place.write("a", "1\n");
    place.git(&["add", "-A"]).await;
    place.git(&["commit", "-q", "-m", "base"]).await;
    let mut changes = place.open().await;
    place.write("a", "2\n");
    assert_eq!(told(&changes.step().await.unwrap()), [("a", Modified, 1, 1)]);
}

#[tokio::test]
async fn what_was_not_committed_at_the_beginning_is_no_change() {
    let place = Place::with(&[("a", "1\n"), ("b", "1\n")]).await;
    place.write("a", "2\n");
    place.write("c", "1\n");
    fs::remove_file(place.path("b")).unwrap();
    let mut changes = place.open().await;
    assert_eq!(changes.step().await.unwrap(), []);
    place.write("c", "2\n");
    assert_eq!(told(&changes.step().await.unwrap()), [("c", Modified, 1, 1)]);
}

#[tokio::test]
async fn an_index_in_the_middle_of_a_merge_is_no_obstacle() {
    let place = Place::with(&[("a", "1\n")]).await;
    place.git(&["checkout", "-q", "-b", "side"]).await;
    place.write("a", "side\n");
    place.git(&["commit", "-q", "-a", "-m", "side"]).await;
    place.git(&["checkout", "-q", "-"]).await;
    place.write("a", "main\n");
    place.git(&["commit", "-q", "-a", "-m", "main"]).await;
    place.git(&["merge", "-q", "side", "--no-edit", "-s", "ours"]).await;
    place.git(&["reset", "-q", "--hard", "HEAD~"]).await;
    let merge = Git { dir: place.path(""), env: env(), limit: std::time::Duration::from_secs(60) };
    merge.run(&["-c", "user.name=T", "-c", "user.email=t@t", "merge", "side"]).await.unwrap_err();
    let mut changes = place.open().await;
    assert_eq!(changes.step().await.unwrap(), []);
    place.write("a", "both\n");
    assert_eq!(told(&changes.step().await.unwrap()), [("a", Modified, 1, 5)]);
}

#[tokio::test]
async fn a_submodule_is_one_entry_and_is_not_entered() {
    let library = Place::with(&[("lib", "1\n")]).await;
    let place = Place::with(&[("a", "1\n")]).await;
    let url = library.path("").display().to_string();
    place.git(&["submodule", "--quiet", "add", &url, "lib"]).await;
    place.git(&["commit", "-q", "-m", "with a library"]).await;
    let mut changes = place.open().await;
    place.write("lib/lib", "2\n");
    assert_eq!(changes.step().await.unwrap(), []);
    let inside =
        ["-C", "lib", "-c", "user.name=T", "-c", "user.email=t@t", "commit", "-q", "-a", "-m", "two"];
    place.git(&inside).await;
    let step = changes.step().await.unwrap();
    assert_eq!(told(&step), [("lib", Modified, 1, 1)]);
    assert!(step[0].diff.contains("+Subproject commit "));
}

#[tokio::test]
async fn a_repository_made_inside_is_followed_file_by_file() {
    let place = Place::with(&[("a", "1\n")]).await;
    let mut changes = place.open().await;
    place.git(&["init", "-q", "inner"]).await;
    place.write("inner/.gitignore", "out\n");
    place.write("inner/x", "1\n");
    place.write("inner/out", "1\n");
    let expected = [("inner/.gitignore", Created, 1, 0), ("inner/x", Created, 1, 0)];
    assert_eq!(told(&changes.step().await.unwrap()), expected);
    place.git(&["-C", "inner", "add", "-A"]).await;
    let commit = ["-C", "inner", "-c", "user.name=T", "-c", "user.email=t@t", "commit", "-q", "-m", "inner"];
    place.git(&commit).await;
    place.write("inner/x", "2\n");
    place.write("inner/y", "1\n");
    let expected = [("inner/x", Modified, 1, 1), ("inner/y", Created, 1, 0)];
    assert_eq!(told(&changes.step().await.unwrap()), expected);
}

#[tokio::test]
async fn files_and_directories_take_each_other_s_place() {
    let place = Place::with(&[("a", "1\n"), ("b/c", "1\n"), ("d/e", "1\n")]).await;
    let mut changes = place.open().await;
    fs::remove_file(place.path("a")).unwrap();
    place.write("a/inside", "new\n");
    fs::remove_dir_all(place.path("b")).unwrap();
    place.write("b", "other\n");
    fs::rename(place.path("d"), place.path("real")).unwrap();
    symlink("real", place.path("d")).unwrap();
    let step = changes.step().await.unwrap();
    let names: Vec<_> = step.iter().map(|change| change.file_path.as_str()).collect();
    assert_eq!(names, ["a", "a/inside", "b", "b/c", "d", "real/e"]);
    assert_eq!(changes.step().await.unwrap(), []);
}

#[tokio::test]
async fn a_large_file_is_told_by_its_size_and_not_read() {
    let place = Place::with(&[("a", "1\n"), ("grows", "small\n")]).await;
    let mut changes = place.open().await;
    let large = |name: &str, bytes: u64| fs::File::create(place.path(name)).unwrap().set_len(bytes).unwrap();
    large("dump", 100 << 20);
    large("grows", 30 << 20);
    let step = changes.step().await.unwrap();
    assert_eq!(told(&step), [("dump", Created, 0, 0), ("grows", Modified, 0, 0)]);
    assert!(step[0].diff.contains("Binary files /dev/null and b/dump differ (104857600 bytes; not read"));
    assert_eq!(changes.step().await.unwrap(), []);
    large("dump", 50 << 20);
    let mut changes = place.open().await;
    let step = changes.step().await.unwrap();
    assert!(
        step[0].diff.contains("(104857600 bytes before, 52428800 bytes now; not read"),
        "{}",
        step[0].diff
    );
    fs::remove_file(place.path("dump")).unwrap();
    place.write("grows", "small again\n");
    let step = changes.step().await.unwrap();
    assert_eq!(told(&step), [("dump", Deleted, 0, 0), ("grows", Modified, 1, 1)]);
}

#[tokio::test]
async fn a_long_diff_is_cut_and_counted_to_the_end() {
    let place = Place::with(&[]).await;
    let mut changes = place.open().await;
    place.write("long", "0123456789abcdef\n".repeat(1_000_000));
    place.write("wide", "ü".repeat(5_000_000));
    let step = changes.step().await.unwrap();
    assert_eq!(told(&step), [("long", Created, 1_000_000, 0), ("wide", Created, 1, 0)]);
    assert!(step[0].is_cut && step[0].diff.len() <= 8 << 20);
    assert!(step[1].is_cut && step[1].diff.ends_with('ü'));
    assert!(step[0].diff_chars > 18_000_000);
    for change in &step {
        let event = change.event(3, Some("toolu_1"));
        let bytes = omoi_protocol::event::Payload::from(event.clone()).to_raw().get().len();
        assert!(bytes < 800_000, "{bytes}");
        let full = event.full_diff.unwrap();
        assert!(full.ends_with(" characters; it is too long to be kept whole]\n"), "{}", full.len());
        assert_eq!((event.full_diff_available, event.full_diff_size), (Some(true), Some(change.diff_chars)));
        assert!(
            (4900..=5000).contains(&event.diff_preview.unwrap().chars().count())
                || change.file_path == "long"
        );
    }
}

#[tokio::test]
async fn an_event_carries_a_bounded_preview_and_the_whole_diff() {
    let place = Place::with(&[("a", "1\n")]).await;
    let mut changes = place.open().await;
    place.write("a", "2\n");
    let step = changes.step().await.unwrap();
    let event = step[0].event(7, None);
    assert_eq!((event.turn, &event.tool_use_id, event.full_diff_available), (Some(7), &None, Some(false)));
    assert_eq!(
        (event.diff_preview.as_ref(), event.full_diff.as_ref()),
        (Some(&step[0].diff), Some(&step[0].diff))
    );
    place.write("a", "line\n".repeat(500));
    let step = changes.step().await.unwrap();
    let event = step[0].event(7, None);
    assert_eq!(event.diff_preview.unwrap().lines().count(), 100);
    assert_eq!((event.full_diff_available, event.full_diff.as_ref()), (Some(true), Some(&step[0].diff)));
    assert_eq!(event.full_diff_size, Some(step[0].diff.chars().count() as u64));
}

#[tokio::test]
async fn a_worker_that_comes_after_goes_on_from_the_last_step() {
    let place = Place::with(&[("a", "1\n")]).await;
    let mut changes = place.open().await;
    place.write("a", "2\n");
    changes.step().await.unwrap();
    place.write("b", "1\n");
    // Killed between the index and the state.
    changes.look().await.unwrap();
    drop(changes);
    fs::write(place.temp.path().join("shadow/git/index.lock"), "").unwrap();
    let mut changes = place.open().await;
    assert_eq!(told(&changes.step().await.unwrap()), [("b", Created, 1, 0)]);
}

#[tokio::test]
async fn a_repository_that_loses_its_objects_is_followed_anew() {
    let place = Place::with(&[("a", "1\n"), ("dir/b", "1\n")]).await;
    let mut changes = place.open().await;
    fs::remove_dir_all(place.path(".git")).unwrap();
    place.write("a", "2\n");
    assert_eq!(changes.step().await.unwrap(), []);
    assert!(changes.notes()[0].starts_with("changes are followed anew from here"));
    place.write("dir/b", "2\n");
    assert_eq!(told(&changes.step().await.unwrap()), [("dir/b", Modified, 1, 1)]);
}

#[tokio::test]
async fn a_file_that_is_no_file_any_more_is_gone() {
    let place = Place::with(&[("a", "1\n"), ("b", "1\n")]).await;
    let mut changes = place.open().await;
    fs::remove_file(place.path("a")).unwrap();
    let mode = rustix::fs::Mode::RWXU;
    rustix::fs::mknodat(rustix::fs::CWD, place.path("a"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    place.write("b", "2\n");
    assert_eq!(told(&changes.step().await.unwrap()), [("a", Deleted, 0, 1), ("b", Modified, 1, 1)]);
    assert_eq!(changes.notes(), ["a is neither a file nor a link"]);
}

#[tokio::test]
async fn a_path_that_git_gives_up_over_does_not_hide_the_others() {
    let place = Place::with(&[]).await;
    let mut changes = place.open().await;
    let mut found = Found::default();
    for n in 0..20 {
        place.write(&format!("f{n}"), "1\n");
        found.paths.push(format!("f{n}").into_bytes());
    }
    // A directory that is no repository.
    fs::create_dir(place.path("empty")).unwrap();
    found.paths.insert(7, b"empty".to_vec());
    // One that has vanished meanwhile.
    fs::remove_file(place.path("f3")).unwrap();
    scan::apply(&changes.shadow.git, &mut found).await.unwrap();
    assert!(found.notes[0].starts_with("empty is not followed: "), "{:?}", found.notes);
    assert_eq!(changes.step().await.unwrap().len(), 19);
}

#[tokio::test]
async fn exploration_is_put_back_except_what_is_kept() {
    let place =
        Place::with(&[("a", "1\n"), ("b", "1\n"), ("dir/c", "1\n"), ("grows", "s\n"), ("d", "1\n")]).await;
    let mut changes = place.open().await;
    place.write("b", "kept by a step\n");
    changes.step().await.unwrap();
    place.write("a", "2\n");
    place.write("b", "2\n");
    fs::remove_dir_all(place.path("dir")).unwrap();
    fs::remove_file(place.path("d")).unwrap();
    place.write("d/in", "1\n");
    fs::set_permissions(place.path("a"), fs::Permissions::from_mode(0o755)).unwrap();
    place.write("new/deep/file", "1\n");
    place.write("notes/plan.md", "1\n");
    place.git(&["init", "-q", "inner"]).await;
    place.write("inner/x", "1\n");
    for name in ["dump", "grows"] {
        fs::File::create(place.path(name)).unwrap().set_len(30 << 20).unwrap();
    }
    let back = changes.revert(&|path| path.starts_with("notes/")).await.unwrap();
    let expected = ["a", "b", "d", "d/in", "dir/c", "dump", "grows", "inner/x", "new/deep/file"];
    assert_eq!(back, expected);
    assert_eq!((place.read("a"), place.read("b")), ("1\n".to_owned(), "kept by a step\n".to_owned()));
    assert_eq!(
        (place.read("d"), place.read("dir/c"), place.read("grows")),
        ("1\n".into(), "1\n".into(), "s\n".into())
    );
    assert!(fs::metadata(place.path("a")).unwrap().permissions().mode() & 0o111 == 0);
    assert!(!place.path("new").exists() && !place.path("inner").exists() && !place.path("dump").exists());
    assert_eq!(told(&changes.step().await.unwrap()), [("notes/plan.md", Created, 1, 0)]);
    assert_eq!(changes.revert(&|_| false).await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn more_files_than_are_told_are_counted() {
    let place = Place::with(&[]).await;
    let mut changes = place.open().await;
    for n in 0..1005 {
        place.write(&format!("f{n:04}"), format!("{n}\n"));
    }
    let step = changes.step().await.unwrap();
    assert_eq!((step.len(), step[999].file_path.as_str()), (1000, "f0999"));
    assert!(step[999].diff.ends_with("+999\n"));
    assert_eq!(changes.notes(), ["5 more files have changed than are told one by one"]);
    assert_eq!(changes.step().await.unwrap(), []);
}

#[tokio::test]
async fn a_shadow_in_the_workspace_is_refused() {
    let place = Place::with(&[]).await;
    let opened = Changes::open(&place.path(""), &place.path("shadow"), &env()).await;
    assert!(matches!(opened, Err(Error::Inside(_))));
}

/// `cargo nextest run -p omoi-worker --run-ignored only large_tree --no-capture` prints how long it takes.
#[tokio::test]
#[ignore = "makes 100,000 files and takes a minute"]
async fn a_step_in_a_large_tree_takes_less_than_a_second() {
    let place = Place::new();
    place.git(&["init", "-q"]).await;
    // Fifty files in each of 2,000 directories.
    for n in 0..100_000 {
        place.write(&format!("d{}/e{}/f{n}", n % 50, n % 2000), format!("{n}\n"));
    }
    place.git(&["add", "-A"]).await;
    place.git(&["commit", "-q", "-m", "base"]).await;
    let begun = std::time::Instant::now();
    let mut changes = place.open().await;
    println!("opened in {:?}", begun.elapsed());
    let mut times = Vec::new();
    for n in 0..10 {
        place.write("d3/e3/f3", format!("changed {n}\n"));
        let begun = std::time::Instant::now();
        assert_eq!(changes.step().await.unwrap().len(), 1);
        times.push(begun.elapsed());
    }
    times.sort();
    println!("steps from {:?} to {:?}", times[0], times[9]);
    assert!(times[5] < std::time::Duration::from_secs(1), "{times:?}");
}

/// The same, with `many_steps`.
#[tokio::test]
#[ignore = "takes a minute"]
async fn many_steps_cost_no_more_than_few() {
    let files: Vec<(String, String)> =
        (0..500).map(|n| (format!("src/m{}/f{n}.rs", n % 20), format!("// {n}\n").repeat(100))).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let place = Place::with(&files).await;
    let mut changes = place.open().await;
    let mut times = Vec::new();
    for n in 0..2000 {
        let text = format!("// step {n}\n").repeat(100 + n % 50);
        place.write(&format!("src/m{}/f{}.rs", n % 20, n % 500), text);
        let begun = std::time::Instant::now();
        assert_eq!(changes.step().await.unwrap().len(), 1);
        times.push(begun.elapsed());
    }
    let sum = |times: &[std::time::Duration]| times.iter().sum::<std::time::Duration>() / times.len() as u32;
    println!("first 100 steps {:?} each, last 100 {:?} each", sum(&times[..100]), sum(&times[1900..]));
    println!("{}", place.git(&["--git-dir=../shadow/git", "count-objects", "-v"]).await);
    assert!(sum(&times[1900..]) < sum(&times[..100]) * 3);
}
