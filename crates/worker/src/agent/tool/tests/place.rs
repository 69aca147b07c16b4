//! Where file tools may go, and what they refuse to touch.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Instant,
};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::*;

#[tokio::test]
async fn file_tools_stay_in_the_workspace_and_the_temporary_directory() {
    let desk = Desk::new();
    desk.put("else/secret", "s");
    let outside = desk.at("else/secret").display().to_string();
    for path in [outside.as_str(), "../else/secret", "a/../../else/secret", "/etc/passwd"] {
        refused(desk.read(path).await, "outside");
        refused(desk.write(path, "x").await, "outside");
        refused(desk.edit(path, "s", "x").await, "outside");
        refused(desk.run("Grep", json!({ "pattern": "s", "path": path })).await, "outside");
    }
    refused(desk.run("Glob", json!({ "pattern": "*", "path": ".." })).await, "outside");
    refused(desk.run("Glob", json!({ "pattern": "/etc/*" })).await, "outside");
    refused(desk.write("../else/new/deep", "x").await, "outside");
    assert_eq!(desk.text("else/secret"), "s");
    assert!(!desk.at("else/new").exists());

    let temporary = desk.at("tmp/deep/er/file").display().to_string();
    good(desk.write(&temporary, "t").await);
    assert!(good(desk.read(&temporary).await).contains("1\tt"));
    good(desk.write("a/b/../c", "inside").await);
    assert_eq!(desk.text("work/a/c"), "inside");
}

#[tokio::test]
async fn a_link_that_leads_out_is_refused_and_one_that_stays_is_followed() {
    let desk = Desk::new();
    desk.put("else/secret", "s");
    desk.put("work/real", "r");
    link(desk.at("else/secret"), desk.at("work/file"));
    link("../else", desk.at("work/dir"));
    link("/proc/self/root", desk.at("work/magic"));
    link(desk.at("else/nothing"), desk.at("work/dangling"));
    for path in ["file", "dir/secret"] {
        refused(desk.read(path).await, "outside");
        refused(desk.write(path, "x").await, "outside");
        refused(desk.edit(path, "s", "x").await, "outside");
    }
    refused(desk.write("dir/new", "x").await, "outside");
    refused(desk.write("dir/new/deeper", "x").await, "outside");
    refused(desk.write("dangling", "x").await, "leads nowhere");
    refused(desk.write("dangling/below", "x").await, "leads nowhere");
    let magic = format!("magic{}", desk.at("else/secret").display());
    assert!(desk.read(&magic).await.is_error);
    assert_eq!(desk.text("else/secret"), "s");
    assert_eq!(fs::read_dir(desk.at("else")).unwrap().count(), 1);

    link(desk.at("work/real"), desk.at("work/absolute"));
    assert!(good(desk.read("absolute").await).contains("r"));
    good(desk.edit("absolute", "r", "changed").await);
    assert_eq!(desk.text("work/real"), "changed");
    assert!(desk.at("work/absolute").is_symlink());
}

#[tokio::test]
async fn permission_for_all_reaches_every_file_but_the_kernels() {
    let desk = Desk::with(ExecutionMode::Implementation, PermissionMode::All);
    desk.put("else/file", "s");
    let path = desk.at("else/file").display().to_string();
    good(desk.read(&path).await);
    good(desk.edit(&path, "s", "x").await);
    assert_eq!(desk.text("else/file"), "x");
    refused(desk.read("/proc/self/environ").await, "kernel");
    refused(desk.write("/sys/kernel/new", "x").await, "kernel");
    refused(desk.read("/dev/zero").await, "a device");
}

#[tokio::test]
async fn what_git_keeps_is_not_written_to() {
    for permission in [PermissionMode::AcceptEdits, PermissionMode::All] {
        let desk = Desk::with(ExecutionMode::Implementation, permission);
        desk.put("work/.git/config", "c");
        desk.put("work/sub/.git/config", "c");
        link(".git", desk.at("work/alias"));
        for path in [".git/config", "alias/config", "sub/.git/config", "x/../.git/config"] {
            good(desk.read(path).await);
            refused(desk.edit(path, "c", "d").await, "Git");
            refused(desk.write(path, "d").await, "Git");
        }
        refused(desk.write(".git/hooks/pre-commit", "x").await, "Git");
        refused(desk.write("new/.git", "x").await, "Git");
        assert_eq!(desk.text("work/.git/config"), "c");
        good(desk.write(".gitignore", "x").await);
        good(desk.write(".github/workflow", "x").await);
    }
}

#[tokio::test]
async fn what_git_keeps_elsewhere_is_not_written_to_either() {
    let linked = Desk::new();
    linked.put("tmp/kept/config", "c");
    link(linked.at("tmp/kept"), linked.at("work/.git"));
    let named = Desk::new();
    named.put("tmp/kept/config", "c");
    named.put("work/.git", "gitdir: ../tmp/kept\n");
    for desk in [linked, named] {
        let path = desk.at("tmp/kept/config").display().to_string();
        good(desk.read(&path).await);
        refused(desk.edit(&path, "c", "d").await, "Git");
        good(desk.write(&desk.at("tmp/other").display().to_string(), "x").await);
    }
}

#[tokio::test]
async fn pipes_sockets_and_directories_are_refused_without_waiting() {
    let desk = Desk::new();
    mknodat(CWD, desk.at("work/pipe"), FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(desk.at("work/socket")).unwrap();
    fs::create_dir(desk.at("work/dir")).unwrap();
    let begun = Instant::now();
    for (path, what) in [("pipe", "a pipe"), ("socket", "a socket"), ("dir", "a directory")] {
        refused(desk.read(path).await, what);
        refused(desk.write(path, "x").await, what);
        refused(desk.edit(path, "a", "b").await, what);
    }
    refused(desk.read(".").await, "Glob");
    refused(desk.write("new/", "x").await, "a directory");
    refused(desk.write("/", "x").await, "a directory");
    refused(desk.run("Grep", json!({ "pattern": "x", "path": "pipe" })).await, "a pipe");
    // A walk passes them.
    good(desk.run("Grep", json!({ "pattern": "x" })).await);
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn who_explores_writes_notes_and_who_judges_writes_nothing() {
    let desk = Desk::with(ExecutionMode::Exploration, PermissionMode::AcceptEdits);
    good(desk.write("notes/deep/found.md", "n").await);
    good(desk.write("ITERATION_NOTES.md", "n").await);
    good(desk.edit("ITERATION_NOTES.md", "n", "m").await);
    desk.put("work/src/a", "a");
    good(desk.read("src/a").await);
    refused(desk.edit("src/a", "a", "b").await, "explores");
    refused(desk.write("notes/../src/b", "b").await, "explores");
    link("..", desk.at("work/notes/up"));
    refused(desk.write("notes/up/escaped", "b").await, "explores");
    assert!(!desk.at("work/escaped").exists());
    let beside = desk.at("tmp/found.json");
    good(desk.write(beside.to_str().unwrap(), "{}").await);

    let desk = Desk::with(ExecutionMode::Validation, PermissionMode::AcceptEdits);
    refused(desk.write("notes/a", "b").await, "no tool");
    refused(desk.edit("notes/a", "b", "c").await, "no tool");
    let desk = Desk::with(ExecutionMode::Implementation, PermissionMode::Plan);
    refused(desk.bash("true").await, "there are Read, Glob, Grep");
}

#[test]
fn a_link_that_swings_while_a_file_is_written_lets_nothing_out() {
    let desk = Desk::new();
    fs::create_dir(desk.at("work/real")).unwrap();
    link("real", desk.at("work/swing"));
    let (work, out, over) = (desk.at("work"), desk.at("else"), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for to in [Path::new("real"), out.as_path()].iter().cycle() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                link(to, work.join("next"));
                fs::rename(work.join("next"), work.join("swing")).unwrap();
            }
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            for number in 0..300 {
                desk.write(&format!("swing/{number}"), "x").await;
            }
        });
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(fs::read_dir(&out).unwrap().count(), 0);
    assert!(fs::read_dir(work.join("real")).unwrap().count() > 0);
}
