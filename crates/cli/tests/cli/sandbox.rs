//! Sandboxes that the server makes, as the person sees them who asks: what comes out where, with which code, and what
//! happens when something breaks.

use serde_json::{Value, json};

use crate::{
    hand::Hand,
    program::{Dir, run},
    server::{Served, Worker},
};

fn project(dir: &Dir, served: &Served<'_>) {
    std::fs::create_dir_all(dir.path().join("shop/.git")).unwrap();
    dir.write("shop/.git/HEAD", "ref: refs/heads/trunk\n");
    served.omoi(&["project", "add", "shop"]).ok();
}

fn say(worker: &Worker, command: &str, stream: &str, text: &str) {
    worker.post("command.output", json!({ "command_id": command, "stream": stream, "text": text }));
}

fn begin(worker: &Worker) {
    worker.post("sandbox.booting", json!({ "worker_version": "1" }));
    worker.post("workspace.ready", json!({ "branch_name": "sandbox/x", "commit": "0123456789abcdef0123" }));
    worker.post("command.started", json!({ "command_id": "cmd-1", "argv": ["make", "test"] }));
}

fn end(worker: &Worker, code: i64) {
    worker.post("command.completed", json!({ "command_id": "cmd-1", "exit_code": code }));
    worker.post("agent.completed", json!({ "success": code == 0, "error": "the command failed" }));
}

fn nothing() -> Value {
    json!({ "kept": false })
}

#[test]
fn the_output_and_the_exit_code_of_a_command_are_ours() {
    let dir = Dir::new();
    let served = Served::start_api(&dir);
    project(&dir, &served);
    let hand = Hand::new(&dir);
    let args = ["sandbox", "create", "--project", "shop", "--label", "why=test", "--", "make", "test"];
    let mut running = served.spawn(&args);
    let id = hand.wanted();
    let worker = hand.up(&served, &id);
    begin(&worker);
    say(&worker, "cmd-1", "stdout", "one\n");
    assert_eq!(running.line(), "one\n");
    say(&worker, "cmd-1", "stderr", "two\n");
    say(&worker, "cmd-2", "stdout", "of another command\n");
    worker.call_model(&json!({ "cost_usd": 0.25 }));
    say(&worker, "cmd-1", "stdout", "\u{1b}[1mthree");
    end(&worker, 3);
    let kept = json!({ "kept": true, "ref": "refs/preserved/x", "commit": "fedcba9876543210", "files": 1, "events": 0 });
    hand.kept(&id, kept);
    let said = running.finish();
    assert_eq!((said.code, said.stdout.as_str()), (3, "\u{1b}[1mthree"), "{}", said.stderr);
    for words in [
        "is being made",
        "isolation reduced: disk_cap",
        "workspace ready on sandbox/x at 0123456789ab",
        "running make test",
        "reason   the command failed",
        "two\n",
        "branch   sandbox/",
        "refs/preserved/x at fedcba987654 (1 files, 0 events)",
        "$0.250000",
    ] {
        assert!(said.stderr.contains(words), "{words}: {}", said.stderr);
    }
    assert!(!said.stderr.contains("error:"), "{}", said.stderr);
    let shown = served.omoi(&["sandbox", "show", id.as_str()]).ok();
    assert!(shown.contains("local gone") && shown.contains("why=test"), "{shown}");
    let listed = served.omoi(&["sandbox", "list"]).ok();
    assert!(listed.contains("reduced") && listed.contains("local gone"), "{listed}");
    assert_eq!(served.stop(), 0);
}

#[test]
fn who_reads_no_further_still_gets_the_exit_code() {
    let dir = Dir::new();
    let served = Served::start_api(&dir);
    project(&dir, &served);
    let hand = Hand::new(&dir);
    for json in [&[] as &[_], &["--json"]] {
        let args = [&["sandbox", "create", "--project", "shop"], json, &["--", "make"]].concat();
        let mut running = served.spawn(&args);
        let id = hand.wanted();
        let worker = hand.up(&served, &id);
        begin(&worker);
        say(&worker, "cmd-1", "stdout", "one\n");
        running.line();
        running.stop_reading();
        say(&worker, "cmd-1", "stdout", "two\n");
        say(&worker, "cmd-1", "stderr", "three\n");
        end(&worker, 3);
        hand.kept(&id, nothing());
        let said = running.finish();
        assert_eq!(said.code, 3, "{}", said.stderr);
        assert!(!json.is_empty() || said.stderr.contains("three\n"), "{}", said.stderr);
    }

    let attached = served.omoi(&["sandbox", "attach", "--id", "sbx-a", "--json"]).json();
    let worker = served.worker("sbx-a", attached["token"].as_str().unwrap());
    worker.post("agent.started", json!({}));
    let mut follower = served.spawn(&["sandbox", "events", "sbx-a", "--follow"]);
    follower.line();
    follower.stop_reading();
    worker.post("agent.message", json!({ "content": "nobody reads this" }));
    assert_eq!(follower.finish().code, 0, "one that only shows is done");
    assert_eq!(served.stop(), 0);
}

#[test]
fn a_server_that_goes_and_comes_back_costs_no_output_and_doubles_none() {
    let dir = Dir::new();
    let served = Served::start_api(&dir);
    project(&dir, &served);
    let hand = Hand::new(&dir);
    let mut running = served.spawn(&["sandbox", "create", "--project", "shop", "--", "make"]);
    let id = hand.wanted();
    let worker = hand.up(&served, &id);
    begin(&worker);
    say(&worker, "cmd-1", "stdout", "before\n");
    assert_eq!(running.line(), "before\n");
    let served = served.restart();
    let worker = worker.at(&served);
    for n in 0..700 {
        say(&worker, "cmd-1", "stdout", &format!("{n}\n"));
    }
    end(&worker, 0);
    hand.kept(&id, nothing());
    let said = running.finish();
    assert_eq!(said.code, 0, "{}", said.stderr);
    let expected: String = (0..700).map(|n| format!("{n}\n")).collect();
    assert_eq!(said.stdout, expected);
    assert_eq!(served.stop(), 0);
}

#[test]
fn a_sandbox_that_cannot_be_made_says_which_layer_is_missing() {
    let dir = Dir::new();
    let served = Served::start_api(&dir);
    project(&dir, &served);
    let hand = Hand::new(&dir);
    for command in [&["--", "make"] as &[_], &[]] {
        let running = served.spawn(&[&["sandbox", "create", "--project", "shop"], command].concat());
        let id = hand.wanted();
        hand.failed(&id, "layer seccomp: the kernel has none; use another kernel");
        let said = running.finish();
        assert_eq!((said.code, said.stdout.as_str()), (1, ""), "{}", said.stderr);
        assert!(
            said.stderr.contains("layer seccomp: the kernel has none; use another kernel"),
            "{}",
            said.stderr
        );
        assert!(said.stderr.contains("hint: `omoi doctor`"), "{}", said.stderr);
        hand.kept(&id, nothing());
    }
    assert_eq!(served.stop(), 0);
}

#[test]
fn ctrl_c_ends_the_sandbox_and_waits_for_its_work_and_twice_does_not_wait() {
    let dir = Dir::new();
    let served = Served::start_api(&dir);
    project(&dir, &served);
    let hand = Hand::new(&dir);
    for twice in [false, true] {
        let mut running = served.spawn(&["sandbox", "create", "--project", "shop", "--", "make"]);
        let id = hand.wanted();
        let worker = hand.up(&served, &id);
        begin(&worker);
        say(&worker, "cmd-1", "stdout", "begun\n");
        assert_eq!(running.line(), "begun\n");
        running.interrupt();
        assert_eq!(hand.ended(&id), "terminated");
        if twice {
            running.interrupt();
        } else {
            hand.kept(&id, nothing());
        }
        let said = running.finish();
        assert_eq!(said.code, 130, "{}", said.stderr);
        let words = if twice { "ends by itself" } else { "all of it is on the branch" };
        assert!(said.stderr.contains(words), "{}", said.stderr);
        hand.kept(&id, nothing());
    }
    assert_eq!(served.stop(), 0);
}

#[test]
fn a_sandbox_without_a_command_stays_and_takes_commands() {
    let dir = Dir::new();
    let served = Served::start_api(&dir);
    project(&dir, &served);
    let hand = Hand::new(&dir);
    let running = served.spawn(&["sandbox", "create", "--project", "shop"]);
    let id = hand.wanted();
    let worker = hand.up(&served, &id);
    worker.post("sandbox.booting", json!({}));
    let said = running.finish();
    assert_eq!((said.code, said.stdout), (0, format!("{id}\n")), "{}", said.stderr);
    assert!(said.stderr.contains(&format!("omoi sandbox exec {id} -- ")), "{}", said.stderr);

    let running = served.spawn(&["sandbox", "exec", id.as_str(), "--", "sh", "-c", "exit 7"]);
    let command = hand.command();
    say(&worker, command.as_str(), "stdout", "out\n");
    say(&worker, "cmd-other", "stdout", "not this\n");
    say(&worker, command.as_str(), "stderr", "err\n");
    hand.command_end(&command, Ok(7));
    let said = running.finish();
    assert_eq!((said.code, said.stdout.as_str(), said.stderr.as_str()), (7, "out\n", "err\n"));

    let running = served.spawn(&["sandbox", "exec", id.as_str(), "--", "nonsense"]);
    let command = hand.command();
    hand.command_end(&command, Err("nonsense: no such file".to_owned()));
    let said = running.finish();
    assert_eq!(said.code, 1);
    assert!(said.stderr.contains("could not be run: nonsense: no such file"), "{}", said.stderr);

    let logs = served.omoi(&["sandbox", "logs", id.as_str()]).ok();
    assert!(logs.contains("out\nnot this\nerr\n") && logs.contains("sandbox.booting"), "{logs}");
    let idle = |more: &[&str]| {
        let args = ["sandbox", "prune", "--dry-run", "--json", "--older-than"];
        served.omoi(&[&args, more].concat()).json()["terminated"].as_array().unwrap().len()
    };
    assert_eq!((idle(&["1h"]), idle(&["0s"])), (0, 1));
    let mut follower = served.spawn(&["sandbox", "logs", id.as_str(), "--tail", "1", "--follow"]);
    assert_eq!(follower.line(), "err\n");

    let ending = served.spawn(&["sandbox", "terminate", id.as_str(), "--reason", "enough", "--wait"]);
    assert_eq!(hand.ended(&id), "terminated");
    hand.kept(&id, nothing());
    let said = ending.finish();
    assert!(said.ok().contains("all of it is on the branch"));
    assert_eq!(follower.finish().code, 0);
    let late = served.omoi(&["sandbox", "exec", id.as_str(), "--", "true"]);
    assert_eq!(late.code, 1);
    assert!(late.stderr.contains("has ended"), "{}", late.stderr);
    assert_eq!(served.stop(), 0);
}

#[test]
fn a_detached_sandbox_is_named_and_left_alone() {
    let dir = Dir::new();
    let served = Served::start_api(&dir);
    project(&dir, &served);
    let made = served
        .omoi(&["sandbox", "create", "--project", "shop", "--timeout", "30m", "--detach", "--", "make"])
        .ok();
    let shown = served.omoi(&["sandbox", "show", made.trim(), "--json"]).json();
    assert_eq!((&shown["place"], &shown["status"]), (&json!("wanted"), &json!("creating")));
    let wrong = served.omoi(&["sandbox", "create", "--project", "nowhere", "--", "make"]);
    assert_eq!(wrong.code, 3);
    assert!(
        wrong.stderr.contains("no project \"nowhere\"") && wrong.stderr.contains("omoi project"),
        "{}",
        wrong.stderr
    );
    assert_eq!(served.omoi(&["sandbox", "exec", made.trim()]).code, 2);
    assert_eq!(served.stop(), 0);
}

#[test]
fn projects_are_added_from_repositories_removed_and_brought_back() {
    let dir = Dir::new();
    let served = Served::start(&dir);
    project(&dir, &served);
    let shown = served.omoi(&["project", "show", "shop", "--json"]).json();
    let path = std::fs::canonicalize(dir.path().join("shop")).unwrap();
    assert_eq!((&shown["repository_url"], &shown["default_branch"]), (&json!(path), &json!("trunk")));
    let added = served.omoi(&[
        "project",
        "add",
        "https://example.org/team/site.git",
        "--allow-host",
        "crates.io",
        "--allow-host",
        "*.crates.io",
        "--budget-usd",
        "2.5",
        "--default-branch",
        "next",
        "--json",
    ]);
    let added = added.json();
    assert_eq!((&added["name"], &added["default_branch"]), (&json!("site"), &json!("next")));
    assert_eq!(added["settings"], json!({ "egress_allow": ["crates.io", "*.crates.io"], "budget_usd": 2.5 }));

    assert_eq!(served.omoi(&["project", "add", "shop"]).code, 1);
    let removed = served.omoi(&["project", "remove", "shop"]);
    assert!(removed.stderr.contains("events and branches stay"), "{}", removed.stderr);
    let listed = |more: &[&str]| served.omoi(&[&["project", "list"], more].concat()).ok();
    assert!(!listed(&[]).contains("shop") && listed(&["--all"]).contains("shop"));
    assert_eq!(served.omoi(&["sandbox", "create", "--project", "shop", "--", "make"]).code, 1);
    let again = served.omoi(&["project", "add", "shop", "--json"]).json();
    assert_eq!((&again["id"], &again["archived"]), (&shown["id"], &json!(false)));

    for (source, code, words) in [
        (".", 3, "is no Git repository"),
        ("not-there", 3, "not-there"),
        ("https://me:hidden@example.org/x", 2, "holds a user name or password"),
    ] {
        let said = served.omoi(&["project", "add", source]);
        assert_eq!(said.code, code, "{}", said.stderr);
        assert!(said.stderr.contains(words) && !said.stderr.contains("hidden"), "{}", said.stderr);
    }
    dir.write("shop/.git/HEAD", "0123456789012345678901234567890123456789\n");
    let detached = served.omoi(&["project", "add", "shop", "--name", "other"]);
    assert_eq!(detached.code, 2);
    assert!(detached.stderr.contains("--default-branch"), "{}", detached.stderr);
    assert_eq!(served.stop(), 0);
}

/// A server that answers to one kind of request each, by its method and path.
fn answering(answer: impl Fn(&str) -> (u16, Value) + Send + 'static) -> String {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut request, mut length) = (String::new(), 0);
            let _ = reader.read_line(&mut request);
            loop {
                let mut line = String::new();
                let _ = reader.read_line(&mut line);
                let line = line.trim().to_lowercase();
                length = line.strip_prefix("content-length: ").map_or(length, |told| told.parse().unwrap());
                if line.is_empty() {
                    break;
                }
            }
            let _ = std::io::copy(&mut reader.take(length), &mut std::io::sink());
            let (status, body) = answer(request.trim_end_matches(" HTTP/1.1\r\n"));
            let body = body.to_string();
            let _ = write!(
                stream,
                "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
        }
    });
    url
}

#[test]
fn what_was_pruned_is_shown_although_one_request_fails() {
    let sandbox = |id: &str, status: &str| {
        json!({
            "id": id, "provider": "local", "status": status, "generation": 0, "labels": {}, "place": "gone",
            "created_at": "2026-01-01T00:00:00Z", "ended_at": "2026-01-01T00:00:00Z",
        })
    };
    let url = answering(move |request| match request {
        list if list.starts_with("GET /api/v1/sandboxes?") && list.contains("live=false") => {
            let ended = ["sbx-1", "sbx-2", "sbx-3"].map(|id| sandbox(id, "completed"));
            (200, json!({ "items": ended }))
        }
        "POST /api/v1/sandboxes/sbx-2/terminate" => {
            (409, json!({ "error": { "code": "conflict", "message": "it is being rescued" } }))
        }
        end if end.ends_with("/terminate") => (200, sandbox(end.split('/').nth(4).unwrap(), "terminated")),
        _ => (200, json!({ "items": [] })),
    });
    let dir = Dir::new();
    let prune = |more: &[&str]| {
        let args = [&["sandbox", "prune", "--url", &url, "--token", "omoi_op_x"], more].concat();
        run(&dir, &args)
    };
    let said = prune(&[]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.stdout.contains("sbx-1") && said.stdout.contains("sbx-3"), "{said:?}");
    assert!(
        said.stderr.contains("2 had already ended and are now closed: late reports are refused"),
        "{said:?}"
    );
    assert!(said.stderr.contains("sbx-2 could not be ended"), "{said:?}");
    let said = prune(&["--json"]);
    let pruned: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!((said.code, pruned["closed"].as_array().unwrap().len()), (1, 2), "{said:?}");
    assert_eq!(pruned["failed"][0]["sandbox_id"], "sbx-2");
}
