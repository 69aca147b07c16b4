//! Glob and Grep.

use std::{
    fs::File,
    time::{Instant, SystemTime},
};

use super::*;
use crate::agent::tool::{
    glob, grep,
    input::Input,
    reach::Reach,
    walk::{Halt, TIME_MAX},
};

#[tokio::test]
async fn names_are_found_newest_first_and_what_git_ignores_is_not() {
    let desk = Desk::new();
    desk.put("work/.gitignore", "target/\n*.log\n");
    for (age, path) in ["src/old.rs", "src/deep/newer.rs", ".hidden/newest.rs"].into_iter().rev().enumerate()
    {
        let file = desk.put(&format!("work/{path}"), "x");
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 - age as u64);
        File::options().write(true).open(file).unwrap().set_modified(time).unwrap();
    }
    desk.put("work/target/built.rs", "x");
    desk.put("work/a.log", "x");
    desk.put("work/.git/x.rs", "x");
    desk.put("else/outside.rs", "x");
    link(desk.at("else"), desk.at("work/src/link"));
    let found = async |input| good(desk.run("Glob", input).await);
    assert_eq!(
        found(json!({ "pattern": "**/*.rs" })).await,
        ".hidden/newest.rs\nsrc/deep/newer.rs\nsrc/old.rs"
    );
    assert_eq!(found(json!({ "pattern": "*.rs", "path": "src" })).await, "src/old.rs");
    assert_eq!(found(json!({ "pattern": "src/{old,x}.*" })).await, "src/old.rs");
    let absolute = desk.at("work/src/**/n*.rs").display().to_string();
    assert_eq!(found(json!({ "pattern": absolute })).await, "src/deep/newer.rs");
    assert_eq!(found(json!({ "pattern": "*.log" })).await, "no file matches");
    refused(desk.run("Glob", json!({ "pattern": "*", "path": "src/old.rs" })).await, "is a file");
    refused(desk.run("Glob", json!({ "pattern": "*", "path": "nowhere" })).await, "there is no nowhere");
}

#[tokio::test]
async fn lines_are_found_and_shown_as_asked() {
    let desk = Desk::new();
    desk.put("work/.gitignore", "ignored\n");
    desk.put("work/a.rs", "fn one() {}\n// two\nfn three() {}\n");
    desk.put("work/b.py", "def one():\n    pass\n");
    desk.put("work/ignored", "one");
    desk.put("work/binary", b"one\0one\n");
    let grep = async |input: Value| good(desk.run("Grep", input).await);
    assert_eq!(grep(json!({ "pattern": "one" })).await, "a.rs\nb.py");
    assert_eq!(grep(json!({ "pattern": "ONE" })).await, "no match");
    assert_eq!(
        grep(json!({ "pattern": "ONE", "-i": true, "type": "py", "path": "", "glob": "" })).await,
        "b.py"
    );
    assert_eq!(grep(json!({ "pattern": "one", "glob": "*.rs" })).await, "a.rs");
    assert_eq!(grep(json!({ "pattern": "one", "glob": "!*.rs" })).await, "b.py");
    assert_eq!(grep(json!({ "pattern": "^fn", "output_mode": "count" })).await, "a.rs:2");
    let content = |more: Value| {
        let mut input = json!({ "pattern": "two", "output_mode": "content" });
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        input
    };
    assert_eq!(grep(content(json!({}))).await, "a.rs:2:// two");
    assert_eq!(grep(content(json!({ "-n": false }))).await, "a.rs:// two");
    assert_eq!(
        grep(content(json!({ "-C": 1, "path": "a.rs" }))).await,
        "a.rs-1-fn one() {}\na.rs:2:// two\na.rs-3-fn three() {}"
    );
    assert_eq!(grep(content(json!({ "-A": 1 }))).await, "a.rs:2:// two\na.rs-3-fn three() {}");
    let several = json!({ "pattern": r"one\(\).*two\n", "multiline": true, "output_mode": "content" });
    assert_eq!(grep(several).await, "a.rs:1:fn one() {}\na.rs:2:// two");
    let head = grep(json!({ "pattern": "one", "head_limit": 1 })).await;
    assert!(head.starts_with("a.rs\n(the first 1 lines"), "{head}");
}

#[tokio::test]
async fn what_is_found_is_bounded() {
    let desk = Desk::new();
    desk.put("work/wide", format!("needle{}\n", "x".repeat(100_000)));
    desk.put("work/many", "needle in a line of some length\n".repeat(100_000));
    let input = json!({ "pattern": "needle", "output_mode": "content", "head_limit": 1_000_000 });
    let done = desk.run("Grep", input).await;
    assert!(done.content.len() < 31_000 && done.content.contains("narrow"), "{}", done.content.len());
    assert_eq!(done.response["truncated"], true);
    let wide = json!({ "pattern": "needle", "output_mode": "content", "path": "wide" });
    assert!(good(desk.run("Grep", wide).await).len() < 600);
    // One line that is bigger than memory should be, and a search over lines in a file of that size.
    desk.put("work/line", "y".repeat(40 * 1024 * 1024));
    let done = desk.run("Grep", json!({ "pattern": "yy", "path": "line" })).await;
    assert!(done.content.contains("could not be searched"), "{done:?}");
}

#[tokio::test]
async fn a_hundred_thousand_files_are_searched_in_time() {
    let desk = Desk::in_memory();
    for dir in 0..100 {
        fs::create_dir(desk.at(&format!("work/{dir}"))).unwrap();
        for file in 0..1000 {
            fs::write(desk.at(&format!("work/{dir}/{file}.txt")), "hay\n").unwrap();
        }
    }
    desk.put("work/99/needle.rs", "needle\n");
    let begun = Instant::now();
    let names = desk.run("Glob", json!({ "pattern": "**/*.txt" })).await;
    assert_eq!(names.content.lines().count(), 101, "{}", names.content);
    assert!(names.response.to_string().len() < 16 * 1024);
    let found = desk.run("Grep", json!({ "pattern": "needle" })).await;
    assert!(found.content.starts_with("99/needle.rs") || found.content.contains("cut after"), "{found:?}");
    let all = desk.run("Grep", json!({ "pattern": "hay" })).await;
    assert!(all.content.contains("the first 250 lines"), "{}", all.content);
    assert!(begun.elapsed() < 3 * TIME_MAX, "{:?}", begun.elapsed());

    // Time that is up, and a wish to stop, say so.
    let reach = Reach::new(
        &desk.at("work"),
        &desk.at("tmp"),
        &desk.at("outputs"),
        ExecutionMode::Implementation,
        PermissionMode::All,
    );
    let late = Halt::new(desk.stop.subscribe(), Duration::ZERO);
    let input = json!({ "pattern": "x" });
    let done = grep::run(&reach, &Input::new("Grep", &input).unwrap(), &late).unwrap();
    assert!(done.content.contains("cut after") && !done.interrupted, "{done:?}");
    let done = glob::run(&reach, &Input::new("Glob", &input).unwrap(), &late).unwrap();
    assert!(done.content.contains("cut after"), "{done:?}");
    desk.stop.send_replace(true);
    let done = glob::run(&reach, &Input::new("Glob", &input).unwrap(), &late).unwrap();
    assert!(done.is_error && done.interrupted, "{done:?}");
    assert!(desk.run("Grep", json!({ "pattern": "hay" })).await.interrupted);
}
