//! Rescue of what cannot all be kept: what the mirror refuses under its name is set aside, what is too large or cannot be read
//! is left out by name, and the rest is kept. Nothing is lost without a word, and every rescue ends.

use std::path::Path;

use proptest::{collection::vec, prelude::*, test_runner::TestRunner};
use serde_json::Value;

use crate::{
    hostile_tree::{Content, Name, Outside, be_strict, make, names, noise, set_mode},
    left::{Left, notes},
    repo::{commit, git},
};

const PUSH_BYTES: u64 = 64 << 10;
const BAD_MODULES: &str = "[submodule \"x\"]\n\tpath = x\n\turl = -x\n";

/// A workspace whose mirror is as strict as the server's, rescued by an ordinary user.
fn strict() -> Left {
    let left = Left::new();
    be_strict(&left, PUSH_BYTES);
    left
}

async fn outside(left: &Left) -> (Outside, Value) {
    let report = left.rescue_as_nobody(PUSH_BYTES).await;
    (Outside::of(left, &report), report)
}

fn put(left: &Left, path: &str, content: &Content) {
    assert!(
        make(&left.workspace, &names(&path.split('/').map(str::as_bytes).collect::<Vec<_>>()), content, 1),
        "{path:?}"
    );
}

#[tokio::test]
async fn a_file_too_large_for_a_push_is_named_and_the_rest_is_kept() {
    let left = strict();
    left.write("grows", "small");
    commit(&left.workspace, "a file that grows");
    left.write("grows", noise(100_000, 1));
    left.write("small", "small");
    put(&left, "huge", &Content::Sparse(2 << 40));
    put(&left, "zeros", &Content::Sparse(200_000));
    left.write("large", noise(100_000, 2));
    left.write("large.log", noise(100_000, 3));
    let (outside, report) = outside(&left).await;
    assert_eq!(outside.has(b"small", b"small"), "kept");
    assert_eq!(outside.has(b"zeros", &vec![0; 200_000]), "kept", "it compresses");
    assert_eq!(outside.kept[b"grows".as_slice()], b"small", "as it was before, and not deleted");
    let mut named = outside.left_out.clone();
    named.sort();
    assert_eq!(named, ["grows", "huge", "large"], "what is ignored is none of it");
    assert_eq!(report["left_out_files"], 3);
    assert_eq!(report["left_out_bytes"], (2_u64 << 40) + 200_000);
    let why = report["left_out"][0]["reason"].as_str().unwrap();
    assert!(why.contains("65536 bytes that one push may bring (git.push_bytes_max)"), "{why}");
}

#[tokio::test]
async fn work_larger_than_one_push_is_kept_in_several() {
    let left = strict();
    for n in 0..8 {
        left.write(&format!("dir/{n}"), noise(30_000, n));
    }
    commit(&left.workspace, "more than a push in one commit is not kept as a commit");
    for n in 8..12 {
        left.write(&format!("dir/{n}"), noise(40_000, n));
    }
    let (outside, report) = outside(&left).await;
    for n in 0..12 {
        let size = if n < 8 { 30_000 } else { 40_000 };
        assert_eq!(outside.has(format!("dir/{n}").as_bytes(), &noise(size, n)), "kept", "{report}");
    }
    assert_eq!(report["left_out_files"], 1, "the commit itself: {report}");
    let left_out = &report["left_out"][0];
    assert!(left_out["path"].as_str().unwrap().starts_with("HEAD at "), "{report}");
    assert!(left_out["reason"].as_str().unwrap().contains("one push may have at most"), "{report}");
}

#[tokio::test]
async fn commits_and_files_that_fit_only_one_by_one_are_both_kept() {
    let left = strict();
    left.write("committed", noise(40_000, 1));
    let head = commit(&left.workspace, "fits into a push");
    left.write("new", noise(40_000, 2));
    let (outside, report) = outside(&left).await;
    assert_eq!(outside.has(b"committed", &noise(40_000, 1)), "kept");
    assert_eq!(outside.has(b"new", &noise(40_000, 2)), "kept");
    let kept = report["commit"].as_str().unwrap();
    assert_eq!(left.mirror.git(&["rev-parse", &format!("{kept}^")]), head, "on top of what was committed");
}

#[tokio::test]
async fn names_that_the_mirror_refuses_are_set_aside_with_where_they_were() {
    let refused: [(&[&[u8]], Content); 9] = [
        (&[b".git "], Content::Text("space")),
        (&[b".git."], Content::Text("dot")),
        (&[".git\u{200c}".as_bytes()], Content::Text("ignorable")),
        (&[b"git~1"], Content::Text("short")),
        (&[b"dir", b".GIT"], Content::Text("case")),
        (&[b".gitmodules"], Content::Text(BAD_MODULES)),
        (&[b"sub", ".gi\u{200d}tmodules".as_bytes()], Content::Link("/etc/passwd")),
        (&[b"deep", b".git ", b"x", b"\xff\n"], Content::Text("below")),
        (&[b"sub", b".git"], Content::Text("no repository")),
    ];
    for (path, content) in &refused {
        let left = strict();
        left.write("beside", "beside");
        left.write("dir/beside", "beside");
        assert!(make(&left.workspace, &names(path), content, 1), "{path:?}");
        let (outside, report) = outside(&left).await;
        let whole = path.join(&b'/');
        assert_eq!(outside.has(&whole, &content.bytes(1).unwrap()), "set aside", "{report}");
        assert_eq!(outside.has(b"beside", b"beside"), "kept");
        assert_eq!(outside.has(b"dir/beside", b"beside"), "kept");
        assert_eq!((outside.aside.len(), &report["left_out_files"]), (1, &Value::Null), "{report}");
        assert_eq!(report["set_aside"]["ref"], "refs/set-aside/sbx-dead");
    }
    let left = strict();
    for (n, (path, content)) in refused.iter().enumerate() {
        assert!(make(&left.workspace, &names(path), content, n), "{path:?}");
    }
    let (outside, report) = outside(&left).await;
    assert_eq!(outside.aside.len(), refused.len(), "{report}");
}

#[tokio::test]
async fn a_commit_that_the_mirror_refuses_takes_no_file_with_it() {
    let left = strict();
    left.write("dir/file", "file");
    left.write(".gitmodules", BAD_MODULES);
    commit(&left.workspace, "refused");
    left.write("new", "new");
    let (outside, report) = outside(&left).await;
    assert_eq!(outside.has(b"dir/file", b"file"), "kept");
    assert_eq!(outside.has(b"new", b"new"), "kept");
    assert_eq!(outside.has(b".gitmodules", BAD_MODULES.as_bytes()), "set aside");
    let why = report["left_out"][0]["reason"].as_str().unwrap();
    assert!(why.contains("gitmodulesUrl"), "the commit itself is a loss: {report}");
}

#[tokio::test]
async fn a_name_that_git_could_take_for_a_pattern_is_kept_or_ignored_like_any_other() {
    let left = strict();
    let kept = [":-)", ":!x", ":(bad)x", ":_x", ":z", ":(top)file", ":dir/:file"];
    for path in kept {
        left.write(path, path);
    }
    left.write("z", "z");
    left.write(":ignored.log", "ignored");
    left.write(":dir/:ignored.log", "ignored");
    left.write(".gitignore", "*.log\n/z\n");
    let (outside, report) = outside(&left).await;
    for path in kept {
        assert_eq!(outside.has(path.as_bytes(), path.as_bytes()), "kept", "{path}: {report}");
    }
    for path in ["z", ":ignored.log", ":dir/:ignored.log"] {
        assert!(!outside.kept.contains_key(path.as_bytes()), "{path} is ignored: {report}");
    }
    assert_eq!(report["left_out_files"], Value::Null, "{report}");
}

#[tokio::test]
async fn what_its_owner_cannot_read_is_made_readable_and_kept() {
    for broken in
        [&["file"][..], &["dir"], &["dir/sub", "dir"], &["README"], &[".git"], &[".git/objects"], &["."]]
    {
        let left = strict();
        left.write("file", "file");
        left.write("dir/sub/file", "below");
        left.write("committed", "committed");
        git(&left.workspace, &["add", "committed"]);
        git(&left.workspace, &["commit", "-q", "-m", "committed"]);
        for path in broken {
            set_mode(&left.workspace, &names(&[path.as_bytes()]), 0);
        }
        let (outside, report) = outside(&left).await;
        for (path, content) in
            [("file", "file"), ("dir/sub/file", "below"), ("committed", "committed"), ("README", "hello\n")]
        {
            assert_eq!(outside.has(path.as_bytes(), content.as_bytes()), "kept", "{broken:?}: {report}");
        }
        assert_eq!(report["left_out_files"], Value::Null, "{broken:?}: {report}");
        assert!(notes(&report).contains("were made readable"), "{broken:?}: {report}");
        let commits = left.mirror.git(&["log", "--format=%s", report["commit"].as_str().unwrap()]);
        assert!(commits.contains("\ncommitted\n"), "{broken:?}: the commits are kept as well: {commits}");
    }
}

#[tokio::test]
async fn what_belongs_to_another_and_cannot_be_read_is_named() {
    let left = strict();
    left.write("mine", "mine");
    left.write("theirs", "theirs");
    left.write("dir/theirs", "theirs");
    left.write("dir.log/theirs", "ignored");
    let report = left
        .rescue_as_nobody_after(PUSH_BYTES, |workspace: &Path| {
            for path in ["theirs", "dir", "dir.log"] {
                std::os::unix::fs::chown(workspace.join(path), Some(0), Some(0)).unwrap();
                set_mode(workspace, &names(&[path.as_bytes()]), 0);
            }
        })
        .await;
    let outside = Outside::of(&left, &report);
    assert_eq!(outside.has(b"mine", b"mine"), "kept");
    let mut named = outside.left_out.clone();
    named.sort();
    assert_eq!(named, ["dir/", "theirs"], "{report}");
}

#[tokio::test]
async fn a_path_that_no_checkout_can_make_is_set_aside() {
    let left = strict();
    let mut path: Vec<Name> = vec![vec![b'd'; 200]; 40];
    path.push(b"file".to_vec());
    assert!(make(&left.workspace, &path, &Content::Text("far below"), 1));
    path[0] = b"x.log".to_vec();
    assert!(make(&left.workspace, &path, &Content::Text("ignored"), 1));
    let (outside, report) = outside(&left).await;
    path[0] = vec![b'd'; 200];
    assert_eq!(outside.has(&path.join(&b'/'), b"far below"), "set aside", "{report}");
    assert_eq!((outside.aside.len(), outside.left_out.len()), (1, 0), "{report}");
}

#[tokio::test]
async fn ten_thousand_pipes_do_not_make_the_report_too_long_to_be_read() {
    let left = strict();
    left.write("file", "file");
    for n in 0..10_000 {
        put(&left, &format!("pipe{n}"), &Content::Pipe);
    }
    let (outside, report) = outside(&left).await;
    assert_eq!(outside.has(b"file", b"file"), "kept");
    assert!(report.to_string().len() < 32 << 10, "{}", report.to_string().len());
    assert!(notes(&report).contains("more notes"), "{report}");
    assert_eq!(report["left_out_files"], Value::Null, "a pipe holds no data");
}

/// A path below, what is there, and the mode that it gets when all is made.
type Made = (Vec<Name>, Content, u32);

fn any_name() -> impl Strategy<Value = Name> {
    let odd: Vec<Name> = [
        &b".git "[..],
        b".git.",
        ".git\u{200c}".as_bytes(),
        b"git~1",
        b".GIT",
        b".gitmodules",
        b".gitattributes",
        b"x.log",
        b"new\nline",
        b"-dash",
        b"\xff\xfe",
        b"\"q\\",
        "\u{e4}".as_bytes(),
        b"A",
        b" ",
        b":-)",
        b":z",
    ]
    .map(<[u8]>::to_vec)
    .into();
    prop_oneof![
        4 => prop::sample::select(vec![b"a".to_vec(), b"b".to_vec(), b"c".to_vec()]),
        3 => prop::sample::select(odd),
        1 => Just(vec![b'n'; 255]),
    ]
}

fn any_path() -> impl Strategy<Value = Vec<Name>> {
    prop_oneof![
        8 => vec(any_name(), 1..4),
        1 => (vec(Just(vec![b'p'; 250]), 16..20), any_name()).prop_map(|(mut path, name)| { path.push(name); path }),
    ]
}

fn any_content() -> impl Strategy<Value = Content> {
    prop_oneof![
        4 => (0_usize..2_000).prop_map(Content::Noise),
        2 => (20_000_usize..50_000).prop_map(Content::Noise),
        1 => (60_000_usize..90_000).prop_map(Content::Noise),
        1 => prop::sample::select(vec![200_000, 1 << 20, 2 << 40]).prop_map(Content::Sparse),
        1 => prop::sample::select(vec![BAD_MODULES, "* filter=evil text eol=crlf\n", "gitdir: /nowhere\n", ""])
            .prop_map(Content::Text),
        1 => prop::sample::select(vec!["/etc/passwd", "a", "loop"]).prop_map(Content::Link),
        1 => prop::sample::select(vec![Content::Pipe, Content::Socket, Content::Repository]),
    ]
}

fn any_tree() -> impl Strategy<Value = (Vec<Made>, bool)> {
    let mode = prop::sample::select(vec![0o644, 0o644, 0o755, 0o000, 0o200]);
    (vec((any_path(), any_content(), mode), 1..12), any::<bool>())
}

#[test]
fn all_data_of_any_work_tree_is_kept_set_aside_or_named() {
    let config =
        ProptestConfig { cases: 40, failure_persistence: None, max_shrink_iters: 40, ..Default::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let property = |(made, is_committed): (Vec<Made>, bool)| {
        let left = strict();
        let mut data: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        let mut modes: Vec<(Vec<Name>, u32)> = Vec::new();
        for (seed, (path, content, mode)) in made.into_iter().enumerate() {
            if !make(&left.workspace, &path, &content, seed) {
                continue;
            }
            if let Some(bytes) = content.bytes(seed)
                && !path.iter().any(|name| name == b"x.log")
            {
                data.push((path.join(&b'/'), bytes));
            }
            // Every other mode is that of the directory.
            let whose = if seed % 2 == 0 || path.len() == 1 { path.len() } else { path.len() - 1 };
            if !matches!(content, Content::Link(_)) && mode != 0o644 {
                modes.push((path[..whose].to_vec(), mode));
            }
            if is_committed && seed == 0 && matches!(content, Content::Noise(_)) {
                // Whatever Git makes of it: it may refuse.
                let _ = crate::repo::try_git(&left.workspace, &["add", "-A"]);
                let _ = crate::repo::try_git(&left.workspace, &["commit", "-q", "-m", "first"]);
            }
        }
        // From below, so that each is still reached.
        modes.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        for (path, mode) in modes {
            set_mode(&left.workspace, &path, mode);
        }
        let (outside, report) = runtime.block_on(outside(&left));
        for (path, bytes) in &data {
            outside.has(path, bytes);
        }
        assert_eq!(outside.left_out.len() as u64, report["left_out_files"].as_u64().unwrap_or(0));
        Ok(())
    };
    TestRunner::new(config).run(&any_tree(), property).unwrap_or_else(|error| panic!("{error}"));
}
