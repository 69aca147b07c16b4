//! Every way in which a sandbox ends has one word, and is told once.

use std::{collections::BTreeMap, time::Duration};

use omoi_protocol::{EndReason, FailureKind};
use serde_json::{Value, json};

use crate::{
    app::{App, Sandbox, unique},
    on_both,
    supervise::{judged, pass, quiet, up},
    work::LEASE,
};

/// Checks that nobody has run yet.
async fn owes_checks(app: &App) -> Sandbox {
    up(app, json!({ "execution_config": { "checks": [{ "name": "tests", "command": "true" }] } })).await
}

async fn terminate(app: &App, sandbox: &Sandbox, reason: &str) {
    let path = format!("/api/v1/sandboxes/{}/terminate", sandbox.id);
    app.post(&path, json!({ "reason": reason })).await.expect(200);
}

/// Brings it about.
async fn ends_by(app: &App, why: EndReason) -> Sandbox {
    let fails = async |kind: FailureKind| {
        let sandbox = up(app, json!({ "max_retries": 0 })).await;
        app.event(&sandbox, "agent.failed", json!({ "error": "it does not work", "failure_kind": kind }))
            .await
            .expect(200);
        sandbox
    };
    let breaks = async |kind: FailureKind| {
        let sandbox = up(app, json!({ "max_retries": 0 })).await;
        app.store().place_failed(&sandbox.id.parse().unwrap(), kind, "the worker ended").await.unwrap();
        sandbox
    };
    match why {
        EndReason::Completed => {
            let sandbox = app.sandbox().await;
            app.event(&sandbox, "agent.completed", json!({})).await.expect(200);
            sandbox
        }
        EndReason::TaskCompleted => {
            let sandbox = up(app, json!({})).await;
            app.event(&sandbox, "agent.completed", json!({})).await.expect(200);
            sandbox
        }
        EndReason::ShutDown => {
            let sandbox = up(app, json!({ "max_retries": 0 })).await;
            app.event(&sandbox, "agent.completed", json!({ "reason": "shutdown" })).await.expect(200);
            sandbox
        }
        EndReason::WorkCompleted => {
            let sandbox = owes_checks(app).await;
            app.event(&sandbox, "agent.completed", json!({})).await.expect(200);
            // So that nothing but the next case is there to dispatch.
            app.cancel(sandbox.task.as_ref().unwrap()).await;
            sandbox
        }
        EndReason::Agent => fails(FailureKind::Agent).await,
        EndReason::ChecksFailed => fails(FailureKind::Checks).await,
        EndReason::Limit => fails(FailureKind::Limit).await,
        EndReason::Unavailable => fails(FailureKind::Unavailable).await,
        EndReason::Invalid => fails(FailureKind::Invalid).await,
        EndReason::Lost => breaks(FailureKind::Lost).await,
        EndReason::Crashed => breaks(FailureKind::Crashed).await,
        EndReason::OutOfMemory => breaks(FailureKind::OutOfMemory).await,
        EndReason::Spawn => breaks(FailureKind::Spawn).await,
        EndReason::TimedOut => {
            let sandbox = up(app, json!({ "timeout_seconds": 30, "max_retries": 0 })).await;
            app.advance(Duration::from_secs(60)).await;
            sandbox
        }
        EndReason::LeaseExpired => {
            let sandbox = app.sandbox_with_task().await;
            app.advance(LEASE + Duration::from_secs(1)).await;
            sandbox
        }
        EndReason::IdleTimeout | EndReason::StuckRunning => {
            let sandbox = up(app, json!({ "max_retries": 0 })).await;
            let status = if why == EndReason::IdleTimeout { "waiting" } else { "running" };
            pass(app, &sandbox, 16, quiet(status)).await;
            assert_ne!(judged(app).await, (0, 0));
            sandbox
        }
        EndReason::TaskCancelled => {
            let sandbox = up(app, json!({})).await;
            app.cancel(sandbox.task.as_ref().unwrap()).await;
            sandbox
        }
        EndReason::Terminated => {
            let sandbox = up(app, json!({})).await;
            terminate(app, &sandbox, "burns money").await;
            sandbox
        }
        EndReason::Pruned => {
            let sandbox = app.sandbox().await;
            terminate(app, &sandbox, "pruned").await;
            sandbox
        }
    }
}

on_both! {
    |config| { config.dispatch.max_live = 1000; config.lease.unreachable_after = Duration::from_secs(36_000) } =>

    async fn every_way_to_end_has_one_word_and_is_told_once(app: App) {
        let mut ended = BTreeMap::new();
        for why in EndReason::ALL {
            ended.insert(ends_by(&app, *why).await.id, *why);
        }
        for (id, why) in &ended {
            let shown = app.get(&format!("/api/v1/sandboxes/{id}")).await.expect(200);
            assert_eq!(shown["end_reason"], why.as_str(), "{shown}");
            assert!(!shown["ended_at"].is_null(), "{shown}");
        }
        let told = app.told().await;
        let mut reasons: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
        for event in told.iter().filter(|event| event["event_type"] == "SANDBOX_ENDED") {
            reasons.entry(event["entity_id"].as_str().unwrap()).or_default().push(&event["payload"]["reason"]);
        }
        for (id, why) in &ended {
            assert_eq!(reasons[id.as_str()], [&json!(why)], "once, and with the same word");
        }
    }

    async fn what_somebody_says_about_an_ending_stays_beside_its_word(app: App) {
        let sandbox = app.attach(json!({ "task_id": app.task(&app.project(&unique("project")).await, json!({})).await })).await;
        terminate(&app, &sandbox, "burns money").await;
        let told = app.told_of("SANDBOX_ENDED").await;
        assert_eq!((&told[0]["reason"], &told[0]["words"]), (&json!("terminated"), &json!("burns money")));
    }
}
