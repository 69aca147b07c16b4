//! `omoi verify-flow`, where it cannot hold: what is said then, and what is left. That it holds is tried with real
//! sandboxes in `crates/e2e`.

use serde_json::Value;

use crate::program::{Dir, finish, run};

#[test]
fn a_flow_that_breaks_names_the_step_its_cause_and_what_was_not_reached() {
    let dir = Dir::new();
    let mut verify = dir.omoi(&["verify-flow", "--exit", "--json"]);
    let said = finish(verify.env("OMOI_SANDBOX_IMAGE", "not-there").env("TMPDIR", dir.path()));
    assert_eq!(said.code, 1, "{}", said.stderr);
    let report: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(report["status"], "failed");
    let steps = report["steps"].as_array().unwrap();
    let held: Vec<_> =
        steps.iter().map(|step| (step["name"].as_str().unwrap(), step["held"] == true)).collect();
    let expected = [
        ("server", true),
        ("project", true),
        ("ticket", true),
        ("task", true),
        ("pickup", true),
        ("first event", false),
    ];
    assert_eq!(held, expected, "{report:#}");
    let broken = steps.last().unwrap();
    assert!(broken["seen"].as_str().unwrap().contains("not-there"), "{broken:#}");
    assert!(broken["next"].as_str().unwrap().contains("omoi doctor"), "{broken:#}");
    assert_eq!(report["not_reached"][0], "heartbeat");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left");
}

#[test]
fn without_a_server_the_first_step_says_how_to_get_one() {
    let dir = Dir::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let said = run(&dir, &["verify-flow", "--url", &url, "--token", "omoi_op_x"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.stdout.starts_with("✗ server") && said.stdout.contains("omoi serve"), "{}", said.stdout);
    assert!(said.stdout.contains("not reached: project, ticket"), "{}", said.stdout);
    assert_eq!(run(&dir, &["verify-flow"]).code, 4);
    assert_eq!(run(&dir, &["verify-flow", "--exit", "--project", "x"]).code, 2);
}
