//! Files that are no scenarios stop the start, and say where they are wrong.

use omoi_server::{Server, clock::Clock, config::Config};

use super::client::with;

async fn refusal(text: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let mut config = Config { data_dir: dir.path().to_owned(), ..Config::default() };
    config.server.listen.port = 0;
    with(&mut config, "mine", text);
    let start = Server::start(config, Clock::manual("2026-01-01T00:00:00Z".parse().unwrap())).await;
    let error = start.err().map(|error| error.to_string()).unwrap_or_else(|| panic!("accepted: {text}"));
    let place = format!("{}/scenarios/", dir.path().display());
    error.replace(&place, "")
}

#[tokio::test]
async fn what_does_not_fit_is_named_with_file_step_and_field() {
    for (text, expected) in [
        ("[]", "scenario mine.yaml: must be a map of fields"),
        ("a: [", "scenario mine.yaml is not YAML: "),
        ("about: x", "scenario mine.yaml, steps: is missing"),
        ("steps: []", "scenario mine.yaml: steps must be a list of 1 to 1000"),
        (
            "steps: [{ say: x }]\nstep: 1",
            "scenario mine.yaml, step: is not known; there are about, price, delay",
        ),
        ("steps: [x]", "scenario mine.yaml, step 1: must be a map of fields"),
        ("steps: [{}]", "scenario mine.yaml, step 1: say: is missing, and so are call and fault"),
        (
            "steps: [{ name: a, sai: x }]",
            "scenario mine.yaml, step 1 (a): sai: is not known; there are name, call",
        ),
        ("steps: [{ say: x }, { say: 5 }]", "scenario mine.yaml, step 2: say: invalid type: integer `5`"),
        (
            "steps: [{ name: a, say: x }, { name: a, say: y }]",
            "scenario mine.yaml, step 2: name: \"a\" is taken",
        ),
        ("steps: [{ name: '2', say: x }, { say: y }]", "scenario mine.yaml, step 1: name: \"2\" is taken"),
        (
            "steps: [{ say: x, next: b }]",
            "scenario mine.yaml, step 1: next: \"b\" is neither the name of a step",
        ),
        ("steps: [{ say: x, next: 2 }]", "scenario mine.yaml, step 1: next: \"2\" is neither"),
        ("steps: [{ say: x, delay: soon }]", "scenario mine.yaml, step 1: delay: \"soon\" is not a duration"),
        ("steps: [{ say: x, repeat: 0 }]", "scenario mine.yaml, step 1: repeat: must be 1 or more"),
        (
            "steps: [{ call: { tool: T }, end: true }]",
            "scenario mine.yaml, step 1: end: does not go with call",
        ),
        (
            "steps: [{ say: x, wait_for_message: true }]",
            "scenario mine.yaml, step 1: wait_for_message: needs a call",
        ),
        ("steps: [{ call: { input: {} } }]", "scenario mine.yaml, step 1: call.tool: is missing"),
        (
            "steps: [{ call: [{ tool: T }, { tool: T, input: [] }] }]",
            "scenario mine.yaml, step 1: call[2].input: invalid type",
        ),
        (
            "steps: [{ say: x, fault: {} }]",
            "scenario mine.yaml, step 1: fault: has exactly one of status, cut",
        ),
        (
            "steps: [{ say: x, fault: { html: true, refuse: true } }]",
            "scenario mine.yaml, step 1: fault: has exactly one",
        ),
        (
            "steps: [{ say: x, fault: { status: 200 } }]",
            "scenario mine.yaml, step 1: fault.status: must be from 400",
        ),
        (
            "steps: [{ say: x, fault: { cut: some } }]",
            "scenario mine.yaml, step 1: fault.cut: takes half or a number",
        ),
        (
            "steps: [{ say: x, when: { next: 1 } }]",
            "scenario mine.yaml, step 1: when.else: a branch has conditions",
        ),
        (
            "steps: [{ say: x, when: [{ is_error: true }] }]",
            "scenario mine.yaml, step 1: when[1].next: is missing",
        ),
        (
            "steps: [{ say: x, when: [{ result_matches: '(', next: 1 }] }]",
            "scenario mine.yaml, step 1: when[1].result_matches: regex",
        ),
        ("steps: [{ say: x }]\nprice: { input: 1 }", "scenario mine.yaml, price.output: is missing"),
        (
            "steps: [{ say: x }]\nprice: { input: -1, output: 2 }",
            "scenario mine.yaml, price: takes USD per million",
        ),
    ] {
        let refusal = refusal(text).await;
        assert!(refusal.starts_with(expected), "{text}\n  says {refusal}\n  not  {expected}");
    }
}

#[tokio::test]
async fn a_directory_that_is_not_there_and_a_bad_name_stop_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = Config { data_dir: dir.path().to_owned(), ..Config::default() };
    config.server.listen.port = 0;
    config.model.scenarios = Some("/nonexistent/scenarios".into());
    let clock = Clock::manual("2026-01-01T00:00:00Z".parse().unwrap());
    let error = Server::start(config.clone(), clock.clone()).await.err().unwrap().to_string();
    assert!(
        error.starts_with("the scenarios in /nonexistent/scenarios cannot be read (model.scenarios)"),
        "{error}"
    );
    with(&mut config, "My_own", "steps: [{ say: x }]");
    let error = Server::start(config, clock).await.err().unwrap().to_string();
    assert!(error.ends_with("My_own.yaml: its name must have 1 to 40 of a to z, 0 to 9 and -"), "{error}");
}
