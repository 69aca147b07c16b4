//! `omoi run`: a task given to an agent, as the person sees it who gave it.

use serde_json::{Value, json};

use crate::{
    hand::Hand,
    program::{Dir, run},
    server::{Served, Worker},
};

/// A directory that is a repository as far as the command line looks.
fn repository(dir: &Dir, name: &str, branch: &str) {
    std::fs::create_dir_all(dir.path().join(name).join(".git")).unwrap();
    std::fs::create_dir_all(dir.path().join(name).join("src/deep")).unwrap();
    dir.write(&format!("{name}/.git/HEAD"), &format!("ref: refs/heads/{branch}\n"));
}

fn work(worker: &Worker) {
    worker.post("sandbox.booting", json!({}));
    worker.post("workspace.ready", json!({ "branch_name": "feature/x", "commit": "0123456789abcdef0123" }));
    worker.post("agent.started", json!({ "model": "scripted/x" }));
    worker.post("agent.message", json!({ "turn": 1, "content": "I begin.\u{1b}[2J" }));
    let input = json!({ "file_path": "x.py", "content": "print(42)" });
    worker.post("agent.tool_use", json!({ "tool": "Write", "tool_use_id": "t1", "input": input }));
    let diff = "--- /dev/null\n+++ b/x.py\n@@ -0,0 +1 @@\n+print(42)\n";
    worker.post(
        "agent.file_edited",
        json!({ "file_path": "x.py", "change_type": "created", "lines_added": 1, "lines_removed": 0, "full_diff": diff }),
    );
    worker.call_model(&json!({ "state": "done", "cost_usd": 0.25 }));
}

fn complete(worker: &Worker) {
    worker.post("workspace.pushed", json!({ "branch_name": "feature/x", "commit": "fedcba9876543210fedc" }));
    worker.post(
        "agent.completed",
        json!({ "success": true, "turns": 2, "final_output": "It is done.", "session_id": "s-1" }),
    );
}

fn nothing() -> Value {
    json!({ "kept": false })
}

#[test]
fn a_run_is_told_step_by_step_and_ends_with_its_branch() {
    let dir = Dir::new();
    let served = Served::start_api(&dir);
    repository(&dir, "shop", "trunk");
    let hand = Hand::new(&dir);
    let running = served.spawn(&[
        "run",
        "Print 42\nin Python",
        "--project",
        "shop/src/deep",
        "--model",
        "scripted/x",
        "--max-turns",
        "9",
    ]);
    let id = hand.wanted();
    let worker = hand.up(&served, &id);
    work(&worker);
    complete(&worker);
    hand.kept(&id, nothing());
    let said = running.finish();
    assert_eq!(said.code, 0, "{}", said.stderr);
    for words in [
        "Print 42",
        "workspace ready on feature/x at 0123456789ab",
        "works with scripted/x",
        "  I begin.\\u{1b}[2J\n",
        "→ Write  x.py",
        "± created x.py  +1 −0\n      @@ -0,0 +1 @@\n      +print(42)",
        "✓ pushed fedcba987654 to feature/x",
        "completed in",
        "commits    fedcba987654",
        "files      x.py (+1 −0)",
        "$0.250000",
        "git -c http.extraHeader=\"Authorization: Bearer $OMOI_TOKEN\" fetch http://127.0.0.1:",
    ] {
        assert!(said.stdout.contains(words), "{words}: {}", said.stdout);
    }
    let project = served.omoi(&["project", "show", "shop", "--json"]).json();
    assert_eq!(project["default_branch"], "trunk");
    let task = served.omoi(&["task", "list", "--json"]).json()["items"][0].clone();
    assert_eq!((&task["title"], &task["description"]), (&json!("Print 42"), &json!("Print 42\nin Python")));
    let asked = json!({ "model": "scripted/x", "max_turns": 9, "autonomous": false });
    assert_eq!(task["execution_config"], asked);
    assert_eq!(served.stop(), 0);
}

#[test]
fn a_program_gets_one_object() {
    let dir = Dir::new();
    let served = Served::start_api(&dir);
    repository(&dir, "shop", "trunk");
    let hand = Hand::new(&dir);
    let running = served.spawn(&["run", "Print 42", "--project", "shop", "--json"]);
    let id = hand.wanted();
    let worker = hand.up(&served, &id);
    work(&worker);
    complete(&worker);
    hand.kept(&id, nothing());
    let said = running.finish().json();
    assert_eq!((&said["status"], &said["sandbox_id"]), (&json!("completed"), &json!(id)));
    assert_eq!((&said["commits"], &said["turns"]), (&json!(["fedcba9876543210fedc"]), &json!(2)));
    assert_eq!((&said["result"], &said["cost_usd"]), (&json!("It is done."), &json!(0.25)));
    assert_eq!(said["files_changed"], json!([{ "path": "x.py", "lines_added": 1, "lines_removed": 0 }]));
    assert_eq!(served.stop(), 0);
}

#[test]
fn a_run_that_fails_says_why_and_ends_with_one() {
    let dir = Dir::new();
    let served = Served::start_api(&dir);
    repository(&dir, "shop", "trunk");
    let hand = Hand::new(&dir);
    let mut running = served.spawn(&["run", "Print 42", "--project", "shop"]);
    let id = hand.wanted();
    let worker = hand.up(&served, &id);
    running.line();
    running.stop_reading();
    work(&worker);
    worker.post("agent.failed", json!({ "error": "nobody reads on", "failure_kind": "agent" }));
    hand.kept(&id, nothing());
    let said = running.finish();
    assert!(said.code == 1 && said.stderr.contains("nobody reads on"), "{} {}", said.code, said.stderr);

    let running = served.spawn(&["run", "Print 42", "--project", "shop"]);
    let id = hand.wanted();
    let worker = hand.up(&served, &id);
    work(&worker);
    worker.post("agent.failed", json!({ "error": "the model refused", "failure_kind": "agent" }));
    let kept = json!({ "kept": true, "ref": "refs/preserved/x", "commit": "fedcba9876543210", "files": 1, "events": 0 });
    hand.kept(&id, kept);
    let said = running.finish();
    assert_eq!(said.code, 1);
    assert!(
        said.stderr.contains("failed: the model refused") && said.stderr.contains("omoi sandbox logs"),
        "{}",
        said.stderr
    );
    assert!(
        said.stdout.contains("fetch http") && said.stdout.contains("refs/preserved/x"),
        "{}",
        said.stdout
    );

    let running = served.spawn(&["run", "Print 42", "--project", "shop"]);
    hand.failed(&hand.wanted(), "layer seccomp: the kernel has none");
    let said = running.finish();
    assert_eq!(said.code, 1);
    assert!(
        said.stderr.contains("could not be made: layer seccomp") && said.stderr.contains("omoi doctor"),
        "{}",
        said.stderr
    );
    assert_eq!(served.stop(), 0);
}

#[test]
fn ctrl_c_without_a_terminal_stops_the_sandbox_and_waits_until_its_work_is_kept() {
    let dir = Dir::new();
    let served = Served::start_api(&dir);
    repository(&dir, "shop", "trunk");
    let hand = Hand::new(&dir);
    let mut running = served.spawn(&["run", "Print 42", "--project", "shop"]);
    let id = hand.wanted();
    let worker = hand.up(&served, &id);
    work(&worker);
    while !running.line().contains("+print(42)") {}
    running.interrupt();
    assert_eq!(hand.ended(&id), "terminated");
    hand.kept(&id, nothing());
    let said = running.finish();
    assert_eq!(said.code, 130, "{}", said.stderr);
    assert!(
        said.stderr.contains("stopping") && said.stdout.contains("interrupted in"),
        "{} {}",
        said.stdout,
        said.stderr
    );
    assert_eq!(served.stop(), 0);
}

#[test]
fn a_project_is_found_again_and_its_checked_out_branch_is_the_base() {
    let dir = Dir::new();
    let served = Served::start_api(&dir);
    repository(&dir, "shop", "trunk");
    std::fs::create_dir_all(dir.path().join("other")).unwrap();
    repository(&dir, "other/shop", "main");
    let hand = Hand::new(&dir);
    let ordered = |project: &str| {
        let said = served.omoi(&["run", "Print 42", "--detach", "--json", "--project", project]).json();
        assert_eq!(said["status"], "detached");
        let base = hand.base(&said["sandbox_id"].as_str().unwrap().parse().unwrap());
        (said["project_id"].as_str().unwrap().to_owned(), base)
    };
    let (first, base) = ordered("shop");
    assert_eq!(base, None);
    dir.write("shop/.git/HEAD", "ref: refs/heads/next\n");
    for path in ["shop/src", "shop"] {
        assert_eq!(ordered(path), (first.clone(), Some("next".to_owned())));
    }
    assert_ne!(ordered("other/shop").0, first);
    let names = served.omoi(&["project", "list", "--json"]).json();
    let names: Vec<&str> =
        names["items"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["shop-2", "shop"]);
    for (args, code, words) in [
        (&["--project", "."] as &[&str], 3, "is no Git repository"),
        (&["--project", "nowhere"], 3, "no project \"nowhere\""),
        (&["--project", "shop", "--mode", "dance"], 2, "exploration"),
        (&["--project", "shop", "--model", " "], 1, "execution_config.model"),
    ] {
        let said = served.omoi(&[&["run", "Print 42"], args].concat());
        assert_eq!(said.code, code, "{args:?} {}", said.stderr);
        assert!(said.stderr.contains(words), "{}", said.stderr);
    }
    assert_eq!(served.stop(), 0);
}

#[test]
fn a_run_whose_model_has_no_key_is_refused_with_what_to_set() {
    let dir = Dir::new();
    let served = Served::start_api(&dir);
    repository(&dir, "shop", "trunk");
    for (model, key) in [("claude-sonnet-4-5", "ANTHROPIC_API_KEY"), ("gpt-5", "OPENAI_API_KEY")] {
        let said = served.omoi(&["run", "Print 42", "--project", "shop", "--model", model]);
        assert_eq!(said.code, 1, "{}", said.stderr);
        for words in [model, key, "restart the server"] {
            assert!(said.stderr.contains(words), "{words}: {}", said.stderr);
        }
    }
    let sandboxes = served.omoi(&["sandbox", "list", "--json"]).json();
    assert!(sandboxes["items"].as_array().unwrap().is_empty(), "{sandboxes}");
    let tasks = served.omoi(&["task", "list", "--json"]).json();
    let id = tasks["items"][0]["id"].as_str().unwrap();
    assert_eq!(served.omoi(&["task", "show", id, "--json"]).json()["waiting_for"]["reason"], "model_key");
    assert_eq!(served.stop(), 0);
}

#[test]
fn without_a_server_the_next_step_is_told() {
    let dir = Dir::new();
    repository(&dir, "shop", "main");
    let said =
        run(&dir, &["run", "x", "--project", "shop", "--url", "http://127.0.0.1:9", "--token", "omoi_op_x"]);
    assert_eq!(said.code, 5, "{}", said.stderr);
    assert!(said.stderr.contains("omoi serve") && said.stderr.contains("omoi demo"), "{}", said.stderr);
}

#[test]
fn a_run_is_followed_from_its_work_to_its_checks() {
    let dir = Dir::new();
    let served = Served::start_api(&dir);
    repository(&dir, "shop", "trunk");
    let hand = Hand::new(&dir);
    for passes in [true, false] {
        let args = ["run", "Print 42", "--project", "shop", "--check", "make test"];
        let running = served.spawn(&args);
        let id = hand.wanted();
        let worker = hand.up(&served, &id);
        worker.post("agent.started", json!({}));
        complete(&worker);
        hand.kept(&id, nothing());

        let checking = hand.wanted();
        let worker = hand.up(&served, &checking);
        worker.post("agent.started", json!({ "sdk": "checks" }));
        let code = i64::from(!passes);
        worker.post("check.completed", json!({ "name": "make test", "passed": passes, "exit_code": code }));
        let results =
            json!([{ "name": "make test", "command": "make test", "passed": passes, "exit_code": code }]);
        match passes {
            true => worker.post("agent.completed", json!({ "checks": results })),
            false => worker.post(
                "agent.failed",
                json!({ "failure_kind": "checks", "error": "1 of 1 checks failed\nlong", "checks": results }),
            ),
        };
        hand.kept(&checking, nothing());
        let said = running.finish();
        let (mark, proof) = if passes {
            ("✓ make test", "proof      verified")
        } else {
            ("✗ make test", "the checks failed")
        };
        for words in [&format!("{checking}  checks Print 42"), mark, proof] {
            assert!(said.stdout.contains(words), "{words:?} is not in {}", said.stdout);
        }
        assert_eq!(said.code, i32::from(!passes), "{}", said.stderr);
        if !passes {
            assert!(said.stderr.contains("failed: 1 of 1 checks failed\n"), "{}", said.stderr);
            assert!(said.stderr.contains(checking.as_str()), "{}", said.stderr);
        }
        let task = said.stdout.split_whitespace().next().unwrap().to_owned();
        let shown = served.omoi(&["task", "show", &task]);
        assert!(shown.stdout.contains(mark) && shown.stdout.contains(checking.as_str()), "{}", shown.stdout);
    }
}
