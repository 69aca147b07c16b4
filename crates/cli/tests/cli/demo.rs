//! `omoi demo`, where it cannot go well: what is said then, and what is left. That it goes well is tried with real sandboxes
//! in `crates/e2e`.

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
