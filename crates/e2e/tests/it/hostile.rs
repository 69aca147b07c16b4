//! Rescue from workspaces that were made to do harm: nothing in them is obeyed, and their files are kept.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt, fs::symlink},
    path::{Path, PathBuf},
};

use crate::{
    left::{Left, notes},
    repo::{commit, git},
};

/// A program that leaves a trace wherever it is started from.
fn trap(left: &Left) -> (String, PathBuf) {
    let (program, trace) = (left.dir.path().join("trap.sh"), left.dir.path().join("trace"));
    fs::write(&program, format!("#!/bin/sh\necho $0 $* >> {}\ncat\n", trace.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    (program.display().to_string(), trace)
}

#[tokio::test]
async fn no_setting_hook_filter_or_attribute_of_the_workspace_takes_part() {
    let left = Left::new();
    let (program, trace) = trap(&left);
    for (key, value) in [
        ("core.fsmonitor", program.as_str()),
        ("core.hooksPath", left.dir.path().to_str().unwrap()),
        ("core.sshCommand", &program),
        ("core.editor", &program),
        ("core.pager", &program),
        ("core.autocrlf", "true"),
        ("core.worktree", "/etc"),
        ("core.alternateRefsCommand", &program),
        ("filter.evil.clean", &program),
        ("filter.evil.process", &program),
        ("filter.evil.required", "true"),
        ("diff.external", &program),
        ("merge.evil.driver", &program),
        ("credential.helper", &program),
        ("gpg.program", &program),
        ("commit.gpgSign", "true"),
        ("uploadpack.packObjectsHook", &program),
        ("url.file:///nowhere/.insteadOf", "file://"),
        ("include.path", "/etc/passwd"),
    ] {
        git(&left.workspace, &["config", "--file", ".git/config", key, value]);
    }
    let hooks = left.workspace.join(".git/hooks");
    fs::create_dir_all(&hooks).unwrap();
    for hook in [
        "pre-commit",
        "post-commit",
        "pre-push",
        "post-index-change",
        "reference-transaction",
        "post-checkout",
    ] {
        for place in [&hooks, &left.dir.path().to_owned()] {
            fs::copy(&program, place.join(hook)).unwrap();
        }
    }
    left.write(
        ".gitattributes",
        "* filter=evil text eol=crlf ident working-tree-encoding=UTF-16 diff=evil merge=evil\n",
    );
    left.write(".git/info/attributes", "* filter=evil\n");
    left.write(".git/info/exclude", "*\n");
    let raw = b"line\r\n$Id$\nlast\xff\x00end\r".as_slice();
    left.write("raw", raw);
    let (kept, _) = left.kept().await;
    assert_eq!(left.mirror.content(&kept, "raw"), raw, "byte by byte");
    assert!(!trace.exists(), "something was run: {}", fs::read_to_string(&trace).unwrap());
}

#[tokio::test]
async fn repositories_inside_are_kept_as_plain_files() {
    let left = Left::new();
    // A submodule that is tracked, one that is not checked out, and a repository that nobody has added.
    let (program, trace) = trap(&left);
    let inner = |path: &str| {
        left.write(&format!("{path}/inner"), "inner");
        left.write(&format!("{path}/.gitignore"), "*.tmp\n");
        let dir = left.workspace.join(path);
        git(&dir, &["init", "-q"]);
        git(&dir, &["config", "core.fsmonitor", &program]);
        let tip = commit(&dir, "inner");
        left.write(&format!("{path}/loose"), "loose");
        left.write(&format!("{path}/x.tmp"), "ignored");
        tip
    };
    let tip = inner("sub");
    for name in ["sub", "absent"] {
        git(&left.workspace, &["update-index", "--add", "--cacheinfo", &format!("160000,{tip},{name}")]);
    }
    git(&left.workspace, &["commit", "-q", "-m", "submodules"]);
    fs::create_dir_all(left.workspace.join("absent")).unwrap();
    inner("deep/nested");
    left.write("fake/.git", "gitdir: /nowhere\n");
    left.write("fake/file", "file");
    let _ = fs::remove_file(&trace);
    let (kept, report) = left.kept().await;
    let expected = [
        ".gitignore",
        "README",
        "absent",
        "deep/nested/.gitignore",
        "deep/nested/inner",
        "deep/nested/loose",
        "fake/file",
        "sub/.gitignore",
        "sub/inner",
        "sub/loose",
    ];
    assert_eq!(left.mirror.files(&kept), expected);
    assert!(left.mirror.git(&["ls-tree", &kept, "absent"]).starts_with("160000 commit"));
    assert!(notes(&report).contains("sub is a repository of its own"), "{report}");
    assert!(notes(&report).contains("deep/nested is a repository of its own"), "{report}");
    assert!(!trace.exists(), "something was run: {}", fs::read_to_string(&trace).unwrap());
}

#[tokio::test]
async fn links_are_kept_and_never_followed() {
    let left = Left::new();
    let secret = left.dir.path().join("secret");
    fs::create_dir_all(&secret).unwrap();
    fs::write(secret.join("key"), "sesame").unwrap();
    left.write("dir/key", "mine");
    commit(&left.workspace, "a directory");
    fs::remove_dir_all(left.workspace.join("dir")).unwrap();
    symlink(&secret, left.workspace.join("dir")).unwrap();
    symlink(secret.join("key"), left.workspace.join("file")).unwrap();
    symlink("loop", left.workspace.join("loop")).unwrap();
    let (kept, _) = left.kept().await;
    assert_eq!(left.mirror.files(&kept), [".gitignore", "README", "dir", "file", "loop"]);
    assert_eq!(left.mirror.content(&kept, "dir"), secret.as_os_str().as_bytes());
    assert_eq!(left.mirror.content(&kept, "loop"), b"loop");
}

#[tokio::test]
async fn names_of_all_kinds_are_kept_and_what_is_no_file_is_named() {
    let left = Left::new();
    for name in [
        &b"new\nline"[..],
        b"\"quoted\"",
        b"back\\slash",
        b"-dash",
        b"\xff\xfe",
        b" space ",
        "ü".as_bytes(),
        b":(top)x",
    ] {
        fs::write(left.workspace.join(OsStr::from_bytes(name)), name).unwrap();
    }
    left.pipe("README");
    left.pipe("pipe");
    left.write("git~1", "odd");
    let (kept, report) = left.kept().await;
    let names = git(
        &left.mirror.path,
        &["ls-tree", "-r", "-z", "--name-only", &kept, "--", "new\nline", "-dash", " space "],
    );
    assert_eq!(names, " space \0-dash\0new\nline\0".trim());
    assert_eq!(
        left.mirror
            .git(&["-c", "core.quotePath=true", "ls-tree", "-r", "--name-only", &kept])
            .lines()
            .count(),
        9
    );
    assert!(notes(&report).contains("pipe is not kept"), "{report}");
    assert!(notes(&report).contains("README is not kept: it is neither a file nor a link"), "{report}");
    assert_eq!(report["set_aside"]["files"], 1, "git~1: {report}");
}

#[tokio::test]
async fn files_are_kept_whatever_became_of_the_repository() {
    type Breaks = fn(&Left);
    let ways: [(&str, Breaks); 10] = [
        ("no .git", |left| fs::remove_dir_all(left.workspace.join(".git")).unwrap()),
        (".git is a file", |left| {
            fs::rename(left.workspace.join(".git"), left.dir.path().join("elsewhere")).unwrap();
            left.write(".git", format!("gitdir: {}\n", left.dir.path().join("elsewhere").display()));
        }),
        (".git is a link", |left| {
            fs::rename(left.workspace.join(".git"), left.dir.path().join("elsewhere")).unwrap();
            symlink(left.dir.path().join("elsewhere"), left.workspace.join(".git")).unwrap();
        }),
        ("objects are a link", |left| {
            fs::rename(left.workspace.join(".git/objects"), left.dir.path().join("elsewhere")).unwrap();
            symlink(left.dir.path().join("elsewhere"), left.workspace.join(".git/objects")).unwrap();
        }),
        ("objects are garbage", |left| each_object(left, |path| fs::write(path, "garbage").unwrap())),
        ("objects are pipes", |left| {
            each_object(left, |path| {
                left.pipe(path.strip_prefix(&left.workspace).unwrap().to_str().unwrap());
            });
        }),
        ("a repository inside is a trap", |left| {
            fs::create_dir_all(left.workspace.join("inner/.git/objects")).unwrap();
            fs::create_dir_all(left.workspace.join("inner/.git/refs")).unwrap();
            left.pipe("inner/.git/HEAD");
        }),
        ("HEAD is a pipe", |left| left.pipe(".git/HEAD")),
        ("HEAD is nowhere", |left| left.write(".git/HEAD", "ref: refs/heads/../../../../etc/passwd\n")),
        ("HEAD is unknown", |left| left.write(".git/HEAD", "0123456789012345678901234567890123456789\n")),
    ];
    for (way, break_it) in ways {
        let left = Left::new();
        left.write("new", way);
        break_it(&left);
        let (kept, report) = left.kept().await;
        assert_eq!(left.mirror.content(&kept, "new"), way.as_bytes(), "{way}");
        assert_eq!(left.mirror.files(&kept), [".gitignore", "README", "new"], "{way}: {report}");
        assert_eq!(left.mirror.git(&["rev-parse", &format!("{kept}^")]), left.mirror.base, "{way}");
    }
}

fn each_object(left: &Left, act: impl Fn(&Path)) {
    let mut dirs = vec![left.workspace.join(".git/objects")];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                dirs.push(entry.path());
            } else {
                fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o644)).unwrap();
                act(&entry.path());
            }
        }
    }
}

#[tokio::test]
async fn rules_of_what_is_ignored_that_cannot_be_read_ignore_nothing() {
    let left = Left::new();
    left.write("dir/new", "new");
    left.write("dir/y.log", "ignored, were it not for the pipe");
    left.write("x.log", "ignored");
    left.pipe("dir/.gitignore");
    let (kept, report) = left.kept().await;
    assert_eq!(left.mirror.files(&kept), [".gitignore", "README", "dir/new", "dir/y.log"]);
    assert!(
        notes(&report).contains("dir/.gitignore cannot be used as an ignore file (it is no file)"),
        "{report}"
    );
}
