//! `kill -9` of the server at any moment: what runs goes on and is found again, what was being made or removed comes to
//! its end, and nothing is left behind.

use std::{collections::BTreeMap, time::Duration};

use serde_json::json;

use crate::{
    git::Mirror,
    omoi::{As, Omoi, data},
    traces::Traces,
};

const ADOPTED: usize = 20;
const KILLS: u64 = 50;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_sandboxes_outlive_their_server_and_none_starts_twice() {
    let mut omoi = Omoi::start(As::Root).await;
    let project = omoi.small_project_with(json!({})).await;
    let script = "echo $$ >> starts; echo started; while ! test -e go; do sleep 0.1; done; echo \"starts: $(wc -l < starts)\"";
    let mut ids = Vec::new();
    for _ in 0..ADOPTED {
        let body = json!({ "command": ["/bin/sh", "-c", script], "memory_gb": 1, "disk_gb": 1 });
        ids.push(omoi.order_with(&project, body).await);
    }
    for id in &ids {
        omoi.until_event(id, "command.output").await;
    }
    let before = omoi.inits();
    omoi.kill().await;
    omoi.start_again().await;
    for id in &ids {
        assert_eq!(omoi.exec(id, &["touch", "/workspace/go"]).await.code, Some(0), "{id} is adopted");
    }
    let mut seen_all = BTreeMap::new();
    for id in &ids {
        seen_all.insert(id.clone(), omoi.gone(id).await);
    }
    assert_eq!(before.len(), ADOPTED);
    for (id, seen) in seen_all {
        let count = |kind: &str| seen.iter().filter(|event| event.event_type == kind).count();
        assert_eq!((count("SANDBOX_SPAWNED"), count("agent.started")), (1, 1), "{id}");
        let said: String = seen
            .iter()
            .filter(|event| event.event_type == "command.output")
            .map(|event| data(event)["text"].as_str().unwrap().to_owned())
            .collect();
        assert!(said.contains("starts: 1"), "{id} said {said:?}");
    }
    let names: Vec<String> = ids.iter().map(ToString::to_string).collect();
    Traces::assert_none(&omoi.data(), &names);
}

/// Fifty kills at moments spread over the making and the removing of sandboxes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_killed_while_it_makes_or_removes_leaves_nothing_and_loses_nothing() {
    let mut omoi = Omoi::start(As::Root).await;
    let project = omoi.small_project().await;
    let mut ids = Vec::new();
    for kill in 0..KILLS {
        let script = format!("echo work {kill} > work; echo ready; exec sleep 1000");
        let id = omoi
            .order_with(
                &project,
                json!({ "command": ["/bin/sh", "-c", script], "memory_gb": 1, "disk_gb": 1 }),
            )
            .await;
        if kill % 2 == 1 {
            // The work is there, and the removing has begun.
            omoi.until_event(&id, "command.output").await;
            omoi.terminate(&id).await;
        }
        // A moment somewhere in the middle: the point of this test is that any will do.
        tokio::time::sleep(Duration::from_micros(kill * 7919 % 100 * 1_500)).await;
        omoi.kill().await;
        omoi.start_again().await;
        if kill % 2 == 0 {
            omoi.until_event(&id, "command.output").await;
            omoi.terminate(&id).await;
        }
        ids.push((id, kill));
    }
    let mirror = Mirror::of(&omoi.data(), &project);
    for (id, kill) in &ids {
        omoi.gone(id).await;
        let kept = omoi.sandbox(id).await.kept.unwrap();
        assert!(kept.kept, "{id}");
        assert_eq!(mirror.file(kept.reference.as_deref().unwrap(), "work"), format!("work {kill}"));
    }
    let names: Vec<String> = ids.iter().map(|(id, _)| id.to_string()).collect();
    Traces::assert_none(&omoi.data(), &names);
}
