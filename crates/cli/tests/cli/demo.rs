//! `omoi demo`, where it cannot go well: what is said then, and what is left. That it goes well is tried with real sandboxes
//! in `crates/e2e`.

use serde_json::Value;

use crate::program::{Dir, finish};

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
