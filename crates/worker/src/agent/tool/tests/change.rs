//! Reading, writing and changing files, and input that does not fit.

use std::{os::unix::fs::PermissionsExt, time::Instant};

use super::*;

#[tokio::test]
async fn lines_come_with_their_numbers_and_within_bounds() {
    let desk = Desk::new();
    desk.put("work/a", "one\ntwo\r\nthree");
    assert_eq!(good(desk.read("a").await), "     1\tone\n     2\ttwo\n     3\tthree\n");
    let part = desk.run("Read", json!({ "file_path": "a", "offset": 2, "limit": 1 })).await;
    assert_eq!(part.content, "     2\ttwo\n(the file goes on; read further with offset 3)");
    refused(desk.run("Read", json!({ "file_path": "a", "offset": 9 })).await, "has 3 lines");
    desk.put("work/empty", "");
    assert!(good(desk.read("empty").await).contains("empty"));

    desk.put("work/long", format!("{}\nb\n", "ü".repeat(5000)));
    let long = good(desk.read("long").await);
    assert_eq!(long.matches('ü').count(), 2000);
    assert!(long.contains("goes on") && long.contains("     2\tb"));
    desk.put("work/many", "x\n".repeat(5000));
    let many = good(desk.read("many").await);
    assert!(many.contains("  2000\tx") && !many.contains("2001\t") && many.contains("offset 2001"));
    desk.put("work/huge", format!("{}\n", "y".repeat(1500)).repeat(1000));
    let huge = good(desk.read("huge").await);
    assert!(huge.chars().count() < 110_000 && huge.contains("goes on; read further"), "{}", huge.len());
}

#[tokio::test]
async fn what_is_no_text_is_named_and_what_is_big_is_read_in_parts() {
    let desk = Desk::new();
    desk.put("work/image.png", b"\x89PNG\0\0\0binary".repeat(100));
    let text = refused(desk.read("image.png").await, "no text");
    assert!(text.contains("image.png has 1300 bytes") && text.len() < 300, "{text}");
    desk.put("work/latin", b"caf\xe9\n");
    assert!(good(desk.read("latin").await).contains("caf\u{fffd}"));
    desk.put("work/big", format!("{}\n", "z".repeat(99)).repeat(120_000));
    refused(desk.read("big").await, "offset and limit");
    let part = good(desk.run("Read", json!({ "file_path": "big", "offset": 110_000, "limit": 2 })).await);
    assert!(part.starts_with("110000\tz") && part.lines().count() == 3, "{part}");
    refused(desk.edit("big", "z", "y").await, "too big");
    refused(desk.write("new", &"z".repeat(10 * 1024 * 1024 + 1)).await, "`content`");
    assert!(!desk.at("work/new").exists());
}

#[tokio::test]
async fn a_file_is_changed_only_by_who_has_seen_it_as_it_is() {
    let desk = Desk::new();
    desk.put("work/a", "one\ntwo\n");
    refused(desk.edit("a", "one", "1").await, "Read it first");
    refused(desk.write("a", "x").await, "Read it first");
    good(desk.read("a").await);
    desk.put("work/a", "one\ntwo\nthree\n");
    refused(desk.edit("a", "one", "1").await, "changed since");
    refused(desk.write("a", "x").await, "changed since");
    good(desk.read("a").await);
    let shown = good(desk.edit("a", "one", "1").await);
    assert!(shown.contains("     1\t1\n     2\ttwo"), "{shown}");
    good(desk.edit("./a", "two", "2").await);
    assert_eq!(desk.text("work/a"), "1\n2\nthree\n");
    // What was written is known.
    let new = desk.write("new", "fresh").await;
    assert_eq!(new.response["type"], "create");
    assert_eq!(good(new), "created new (1 lines)");
    good(desk.edit("new", "fresh", "old").await);
    let update = desk.write("new", "newer").await;
    assert_eq!(update.response["type"], "update");
    refused(desk.edit("missing", "a", "b").await, "there is no missing");
    // Touched but the same.
    desk.put("work/new", "newer");
    good(desk.edit("new", "newer", "newest").await);
}

#[tokio::test]
async fn somebody_else_has_a_memory_of_their_own_and_no_more_tools() {
    let desk = Desk::new();
    desk.put("work/a", "one");
    good(desk.read("a").await);
    let other = desk.tools.only(&["Edit", "Read", "Task"]);
    let edit = json!({ "file_path": "a", "old_string": "one", "new_string": "two" });
    refused(desk.call(&other, "Edit", edit.clone(), &|_| {}).await, "Read it first");
    refused(desk.call(&other, "Bash", json!({ "command": "true" }), &|_| {}).await, "there are Read, Edit");
    good(desk.call(&other, "Read", json!({ "file_path": "a" }), &|_| {}).await);
    good(desk.call(&other, "Edit", edit, &|_| {}).await);
    refused(desk.edit("a", "two", "three").await, "changed since");
}

#[tokio::test]
async fn a_replaced_file_keeps_its_mode_and_its_line_ends() {
    let desk = Desk::new();
    let script = desk.put("work/run.sh", "#!/bin/sh\r\necho\r\n");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o751)).unwrap();
    good(desk.read("run.sh").await);
    good(desk.edit("run.sh", "sh\necho", "sh\necho 1\necho 2").await);
    assert_eq!(desk.text("work/run.sh"), "#!/bin/sh\r\necho 1\r\necho 2\r\n");
    good(desk.write("run.sh", "x").await);
    assert_eq!(fs::metadata(&script).unwrap().permissions().mode() & 0o7777, 0o751);
    let names: Vec<_> =
        fs::read_dir(desk.at("work")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["run.sh"]);
    let all = json!({ "file_path": "b", "old_string": "a", "new_string": "b", "replace_all": true });
    good(desk.write("b", "a a a").await);
    assert_eq!(desk.run("Edit", all).await.response["replacements"], 3);
    assert_eq!(desk.text("work/b"), "b b b");
}

#[tokio::test]
async fn input_that_does_not_fit_is_refused_by_name() {
    let desk = Desk::new();
    for (name, input, part) in [
        ("Read", json!({}), "needs the field `file_path`"),
        ("Read", json!({ "file_path": 1 }), "`file_path` of Read has to be a string, this is a number"),
        ("Read", json!({ "file_path": "a", "limit": "5" }), "`limit`"),
        ("Read", json!({ "file_path": "a", "limit": 0 }), "`limit`"),
        ("Read", json!({ "file_path": "" }), "`file_path`"),
        ("Read", json!("file"), "has to be an object"),
        ("Write", json!({ "file_path": "a" }), "`content`"),
        ("Write", json!({ "file_path": "a", "content": null }), "`content`"),
        ("Edit", json!({ "file_path": "a", "old_string": "x" }), "`new_string`"),
        ("Bash", json!({ "command": ["ls"] }), "this is an array"),
        ("Bash", json!({ "command": "  " }), "is empty"),
        ("Bash", json!({ "command": "a\u{0}b" }), "zero byte"),
        ("Bash", json!({ "command": "ls", "timeout": -5 }), "`timeout`"),
        ("Bash", json!({ "command": "ls", "run_in_background": "no" }), "`run_in_background`"),
        ("Glob", json!({ "pattern": "[" }), "`pattern`"),
        ("Grep", json!({ "pattern": "(" }), "`pattern`"),
        ("Grep", json!({ "pattern": "a\nb" }), "multiline"),
        ("Grep", json!({ "pattern": "a", "output_mode": "lines" }), "`output_mode`"),
        ("Grep", json!({ "pattern": "a", "type": "klingon" }), "`type`"),
        ("Grep", json!({ "pattern": "a", "glob": "[" }), "`glob`"),
        ("LS", json!({}), "there is no tool \"LS\" here; there are Read, Write, Edit, Bash, Glob, Grep"),
    ] {
        refused(desk.run(name, input).await, part);
    }
}

#[tokio::test]
async fn ten_megabytes_of_arguments_get_a_short_answer() {
    let desk = Desk::new();
    let much = "x".repeat(10_000_000);
    let begun = Instant::now();
    for (name, input) in [
        ("Read", json!({ "file_path": much })),
        ("Bash", json!({ "command": much })),
        ("Glob", json!({ "pattern": much })),
        ("Grep", json!({ "pattern": much })),
        ("Grep", json!({ "pattern": "x", "path": much })),
        ("Edit", json!({ "file_path": "a", "old_string": much, "new_string": "" })),
        (much.as_str(), json!({})),
    ] {
        let done = desk.run(name, input).await;
        assert!(done.is_error && done.content.len() < 1000, "{}", done.content.len());
    }
    assert!(begun.elapsed() < Duration::from_secs(10));
}
