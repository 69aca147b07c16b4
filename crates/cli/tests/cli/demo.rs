//! `omoi demo`, where it cannot go well: what is said then, and what is left. That it goes well is tried with real sandboxes
//! in `crates/e2e`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::Value;

use crate::{
    program::{Dir, finish, run},
    server::Running,
};

#[test]
fn a_demo_that_cannot_be_shown_says_so_in_one_object_and_leaves_nothing() {
    let dir = Dir::new();
    let mut demo = dir.omoi(&["demo", "--exit", "--json"]);
    let demo = demo.env("OMOI_SANDBOX_IMAGE", "not-there").env("TMPDIR", dir.path());
    let said = finish(demo.env("OMOI_DATABASE_URL", "postgres://nobody@127.0.0.1:9/not-used"));
    assert_eq!(said.code, 1, "{}", said.stderr);
    let proof: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(proof["status"], "failed");
    let error = proof["error"].as_str().unwrap();
    assert!(error.contains("not completed") && error.contains("not-there"), "{error}");
    assert!(proof["task_id"].is_string() && proof["sandbox_id"].is_string(), "{proof}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left");
}

#[test]
fn a_demo_without_memory_limits_names_that_one_cause_and_what_to_do() {
    let dir = Dir::new();
    let mut demo = dir.omoi(&["demo", "--exit"]);
    let said = finish(demo.env("OMOI_SANDBOX_DENY_LAYERS", "memory_limit").env("TMPDIR", dir.path()));
    assert_eq!(said.code, 1, "{}", said.stderr);
    let errors: Vec<&str> = said.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    let [error] = errors[..] else { panic!("one error: {}", said.stderr) };
    assert!(error.contains("memory_limit") && error.contains("sandbox.allow_soft_limits"), "{error}");
    for consequence in ["agent.file_edited", "tool result", "no commit", "not isolated"] {
        assert!(!error.contains(consequence), "{consequence} follows from the cause: {error}");
    }
}

#[test]
fn a_server_that_runs_is_not_passed_over_for_want_of_a_token() {
    let dir = Dir::new();
    let served = crate::server::Served::start_api(&dir);
    let said = finish(dir.omoi(&["demo"]).env("OMOI_URL", &served.url));
    assert_eq!(said.code, 4, "{}", said.stderr);
    assert!(said.stderr.contains("OMOI_TOKEN") && said.stderr.contains("--data-dir"), "{}", said.stderr);
    assert_eq!(finish(&mut dir.omoi(&["demo", "--exit", "--data-dir", "x"])).code, 2);
    assert_eq!(served.stop(), 0);
}

#[test]
fn a_demo_that_goes_on_serving_says_until_when_its_token_is_valid_and_leaves_one_behind() {
    let dir = Dir::new();
    let demo = || {
        let mut demo = dir.omoi(&["demo", "--data-dir", "data", "--listen", "127.0.0.1:0", "--json"]);
        let mut running = Running::start(demo.env("OMOI_SANDBOX_IMAGE", "not-there"));
        running.line();
        let serves: Value = serde_json::from_str(&running.line()).unwrap();
        running.interrupt();
        running.finish();
        serves
    };
    assert!(demo()["token_expires_at"].is_null(), "the first token stays");
    for _ in 0..2 {
        assert!(demo()["token_expires_at"].is_string());
    }
    let tokens = run(&dir, &["token", "list", "--data-dir", "data", "--json"]).json();
    let ours = tokens.as_array().unwrap().iter().filter(|token| token["name"] == "omoi demo");
    assert_eq!(ours.filter(|token| token["revoked_at"].is_null()).count(), 1);
}

/// Keeps every processor busy until it is dropped.
struct Busy(Arc<AtomicBool>);

impl Busy {
    fn with(threads: usize) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        for _ in 0..threads {
            let over = over.clone();
            std::thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        Self(over)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The signal goes out as soon as the line is read that invites it.
#[test]
fn a_demo_that_has_just_said_that_it_goes_on_serving_hears_a_signal() {
    let dir = Dir::new();
    let _busy = Busy::with(4);
    for round in 0..10 {
        let mut demo = dir.omoi(&["demo", "--data-dir", "data", "--listen", "127.0.0.1:0", "--json"]);
        let mut running = Running::start(demo.env("OMOI_SANDBOX_IMAGE", "not-there"));
        running.line();
        running.line();
        running.signal(if round % 2 == 0 { "-INT" } else { "-TERM" });
        let said = running.finish_within(Duration::from_secs(30));
        assert_eq!(said.map(|said| said.code), Some(1), "round {round}: it heard nothing, or ended at once");
    }
}

#[test]
fn a_server_and_whoever_watches_hear_a_signal_that_comes_with_their_first_line() {
    let _busy = Busy::with(4);
    for signal in ["-INT", "-TERM"].repeat(4) {
        let dir = Dir::new();
        let served = crate::server::Served::start_api(&dir);
        let mut monitor = served.spawn(&["monitor", "--watch", "--json"]);
        monitor.line();
        monitor.signal(signal);
        let said = monitor.finish_within(Duration::from_secs(30)).expect("it hears the signal");
        assert_eq!(said.code, 0, "{}", said.stderr);
        assert_eq!(served.stop_by(signal), 0);
    }
}
