//! A task that somebody watches: its attempts one after the other, and nothing ended by who turns away.

use serde_json::json;

use crate::{
    program::Dir,
    server::{Served, Worker},
};

fn task(served: &Served<'_>) -> String {
    let project = served.omoi(&["project", "create", "shop", "--json"]).json();
    let args = [
        "task",
        "create",
        "--project",
        project["id"].as_str().unwrap(),
        "--max-retries",
        "0",
        "--json",
        "Mend it",
    ];
    served.omoi(&args).json()["id"].as_str().unwrap().to_owned()
}

fn attempt(served: &Served<'_>, task: &str) -> (String, Worker) {
    let made = served.omoi(&["sandbox", "attach", "--task", task, "--json"]).json();
    let id = made["sandbox"]["id"].as_str().unwrap().to_owned();
    let worker = served.worker(&id, made["token"].as_str().unwrap());
    worker.post("agent.started", json!({}));
    (id, worker)
}

#[test]
fn a_task_is_watched_over_its_attempts() {
    let dir = Dir::new();
    let served = Served::start_api(&dir);
    let task = task(&served);
    let (first, worker) = attempt(&served, &task);
    worker.post("agent.failed", json!({ "error": "it broke", "failure_kind": "agent" }));
    let failed = served.omoi(&["task", "watch", &task]);
    assert_eq!(failed.code, 1, "{failed:?}");
    assert!(
        failed.stderr.contains("it broke") && failed.stderr.contains("omoi task retry"),
        "{}",
        failed.stderr
    );

    served.omoi(&["task", "retry", &task]).ok();
    let (second, worker) = attempt(&served, &task);
    let mut watched = served.spawn(&["task", "watch", &task]);
    worker.post("agent.message", json!({ "content": "I begin." }));
    while !watched.line().contains("I begin.") {}
    worker.post("agent.completed", json!({ "turns": 1 }));
    let said = watched.finish();
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.stdout.contains("completed after 2 attempt(s)"), "{}", said.stdout);
    for words in [format!("attempt 1: {first} failed"), format!("attempt 2: {second}")] {
        assert!(said.stderr.contains(&words), "{words}: {}", said.stderr);
    }
    let told = served.omoi(&["task", "watch", &task, "--json"]).json();
    assert_eq!(told["status"], "completed");
    assert_eq!(served.stop(), 0);
}

#[test]
fn who_reads_no_further_is_told_how_it_ended() {
    let dir = Dir::new();
    let served = Served::start_api(&dir);
    let task = task(&served);
    let (_, worker) = attempt(&served, &task);
    let mut watched = served.spawn(&["task", "watch", &task]);
    worker.post("agent.message", json!({ "content": "I work." }));
    while !watched.line().contains("I work.") {}
    watched.stop_reading();
    worker.post("agent.message", json!({ "content": "Nobody reads this." }));
    worker.post("agent.failed", json!({ "error": "it broke", "failure_kind": "agent" }));
    let said = watched.finish();
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.stderr.contains("it broke"), "{}", said.stderr);
    assert_eq!(served.stop(), 0);
}

#[test]
fn who_turns_away_ends_nothing() {
    let dir = Dir::new();
    let served = Served::start_api(&dir);
    let task = task(&served);
    let (id, worker) = attempt(&served, &task);
    let mut watched = served.spawn(&["task", "watch", &task]);
    worker.post("agent.message", json!({ "content": "I work." }));
    while !watched.line().contains("I work.") {}
    watched.interrupt();
    let said = watched.finish();
    assert_eq!(said.code, 130, "{said:?}");
    assert!(said.stderr.contains(&format!("{id} goes on")), "{}", said.stderr);
    assert_eq!(served.omoi(&["sandbox", "show", &id, "--json"]).json()["status"], "running");
    assert_eq!(served.stop(), 0);
}
