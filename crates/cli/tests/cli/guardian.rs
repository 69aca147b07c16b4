//! `omoi guardian`: a served Guardian, what it finds, and what a person does about it.

use serde_json::{Value, json};

use crate::{program::Dir, server::Served};

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap()
}

#[test]
fn what_is_found_is_shown_and_decided_and_a_policy_is_tried_and_set() {
    let dir = Dir::new();
    let served = Served::start(&dir);
    let project = served.omoi(&["project", "create", "shop", "--json"]).json();
    let args = ["task", "create", "--project", text(&project, "id"), "--json", "Mend it"];
    let task = served.omoi(&args).json();
    let made = served.omoi(&["sandbox", "attach", "--task", text(&task, "id"), "--json"]).json();
    let id = text(&made["sandbox"], "id");
    let worker = served.worker(id, text(&made, "token"));
    worker.post("agent.started", json!({ "task": "Mend the cart", "mode": "implementation" }));
    let mut followed = served.spawn(&["sandbox", "events", id, "--follow", "--json"]);
    for n in 0..6 {
        let call = format!("c{n}");
        worker.post(
            "agent.tool_use",
            json!({ "tool": "Bash", "tool_use_id": call, "input": { "command": "ls" } }),
        );
        worker.post("agent.tool_result", json!({ "tool_use_id": call, "result": "a b" }));
    }
    while !followed.line().contains("guardian.steering.intervention") {}
    followed.interrupt();

    let shown = served.omoi(&["guardian", "show", id]).ok();
    for words in ["Mend the cart", "repeated_action", "suggested", "0.70"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let all = served.omoi(&["guardian", "show"]).ok();
    assert!(all.contains("running, looked") && all.contains("waiting for you"), "{all}");
    let told = served.omoi(&["guardian", "show", id, "--json"]).json();
    let suggestion = text(&told["interventions"][0], "id").to_owned();
    let sent = served.omoi(&["guardian", "approve", &suggestion, "--text", "Look at the test"]).ok();
    assert_eq!(sent.trim(), format!("{suggestion} is sent"));
    assert_eq!(served.omoi(&["guardian", "dismiss", &suggestion]).code, 1);
    served.omoi(&["guardian", "nudge", id, "And then stop"]).ok();
    assert_eq!(worker.take(), ["Look at the test", "And then stop"]);

    let refused = served.omoi(&["guardian", "judge", id]);
    assert!(refused.code == 1 && refused.stderr.contains("judge.enabled"), "{refused:?}");

    let usual = served.omoi(&["guardian", "policy", "show", "--project", "shop"]).ok();
    assert!(usual.contains("steering: suggest"), "{usual}");
    std::fs::write(dir.path().join("own.yaml"), "steering: on\n").unwrap();
    let tried = served.omoi(&["guardian", "policy", "try", "own.yaml", "--project", "shop"]).ok();
    assert!(tried.contains("act nudge") && tried.contains("1 sandboxes"), "{tried}");
    let set = served.omoi(&["guardian", "policy", "set", "own.yaml", "--project", "shop"]).ok();
    assert!(set.contains("version 1 (project), steering on"), "{set}");
    std::fs::write(dir.path().join("bad.yaml"), "steering: on\nrulez: []\n").unwrap();
    let refused = served.omoi(&["guardian", "policy", "set", "bad.yaml", "--project", "shop"]);
    assert!(refused.code != 0 && refused.stderr.contains("rulez"), "{refused:?}");
    let reset = served.omoi(&["guardian", "policy", "reset", "--project", "shop"]).ok();
    assert!(reset.contains("version 2 (default)"), "{reset}");
}
