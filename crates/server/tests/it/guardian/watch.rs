//! What is found is told, said to the agent, and followed up.

use std::time::Duration;

use serde_json::json;

use super::{Eye, ON};
use crate::on_both;

on_both! {
    async fn a_loop_is_found_told_to_the_agent_and_its_effect_measured(app: App) {
        let eye = Eye::open(&app);
        let (project, sandbox) = app.watched(ON).await;
        eye.look().await;
        assert!(app.findings(&sandbox).await.is_empty());
        app.circle(&sandbox).await;
        eye.look().await;
        eye.look().await;

        let found = app.findings(&sandbox).await;
        assert_eq!(found.len(), 1, "{found:#?}");
        assert_eq!((&found[0]["kind"], &found[0]["number"], &found[0]["cleared_at"]), (&json!("repeated_action"), &json!(1), &json!(null)));
        assert_eq!((&found[0]["project_id"], &found[0]["task_id"]), (&json!(project), &json!(sandbox.task)));
        assert!(found[0]["seqs"].as_array().unwrap().len() >= 5);
        let shown = app.get(&format!("/api/v1/sandboxes/{}", sandbox.id)).await.expect(200);
        assert_eq!((&shown["verdict"], &shown["alignment"]), (&found[0]["severity"], &json!(0.7)));

        // It is said once, through the queue that any message takes.
        let made = app.interventions(&sandbox).await;
        assert_eq!(made.len(), 1, "{made:#?}");
        assert_eq!((&made[0]["do"], &made[0]["mode"], &made[0]["state"]), (&json!("nudge"), &json!("act"), &json!("sent")));
        let messages = app.get_as(&sandbox, "/messages").await.expect(200);
        assert_eq!(messages.as_array().unwrap().len(), 1, "{messages}");
        let message = &messages[0];
        assert_eq!((&message["message_type"], &message["sender"]), (&json!("guardian_nudge"), &json!("guardian")));
        assert!(message["content"].as_str().unwrap().starts_with("Look: "), "{message}");
        assert_eq!(app.interventions(&sandbox).await[0]["state"], "delivered");

        let heard = json!({ "message_id": message["id"], "message_type": "guardian_nudge", "content": message["content"], "sender_id": "guardian" });
        app.event(&sandbox, "agent.message_injected", heard).await.expect(200);
        eye.look().await;
        let made = app.interventions(&sandbox).await;
        assert_eq!((&made[0]["state"], &made[0]["effect"]), (&json!("injected"), &json!(null)), "to be told is no change yet");
        let edit = json!({ "file_path": "price.py", "change_type": "modified", "diff_preview": "-a\n+b" });
        app.event(&sandbox, "agent.file_edited", edit).await.expect(200);
        eye.look().await;
        let made = app.interventions(&sandbox).await;
        assert_eq!((&made[0]["effect"], &made[0]["alignment_before"], &made[0]["alignment_after"]), (&json!("changed"), &json!(0.7), &json!(1.0)));
        assert_eq!(app.findings(&sandbox).await[0]["cleared_by"], "changed");

        for (event_type, count) in [("guardian.finding", 1), ("guardian.steering.intervention", 1), ("guardian.cleared", 1), ("guardian.intervention.effect", 1)] {
            assert_eq!(app.own_events(&sandbox, event_type).await.len(), count, "{event_type}");
        }
        let stream = app.store().event_after(0, 10_000, usize::MAX).await.unwrap().rows;
        let states: Vec<_> = stream.iter().filter(|row| row.seq.is_none()).map(|row| row.event_type.as_str()).filter(|kind| kind.starts_with("guardian.")).collect();
        assert_eq!(states, ["guardian.steering.intervention", "guardian.intervention.sent", "guardian.intervention.delivered", "guardian.intervention.injected"]);
        let audit = app.items(&format!("/api/v1/audit?entity_id={}", sandbox.id)).await;
        assert!(audit.iter().any(|line| line["action"] == "guardian.nudge" && line["actor"] == "guardian"), "{audit:#?}");
    }

    async fn one_that_has_ended_has_nothing_open_and_is_let_go(app: App) {
        let eye = Eye::open(&app);
        let (_, sandbox) = app.watched("steering: suggest").await;
        app.circle(&sandbox).await;
        eye.look().await;
        assert_eq!(app.interventions(&sandbox).await[0]["state"], "suggested");
        let status = app.get("/api/v1/guardian/status").await.expect(200);
        assert_eq!((&status["running"], &status["sandboxes_watched"], &status["waiting"]), (&json!(true), &json!(1), &json!(1)), "{status}");
        assert_eq!((&status["health"]["system"], &status["health"]["need_steering"]), (&json!("warning"), &json!(1)), "{status}");
        assert_eq!(status["open_findings"], json!({ "repeated_action": 1 }));

        app.event(&sandbox, "agent.completed", json!({ "success": true, "final_output": "done" })).await.expect(200);
        eye.look().await;
        let found = app.findings(&sandbox).await;
        assert_eq!(found.iter().filter(|one| one["cleared_at"].is_null()).count(), 0, "{found:#?}");
        assert_eq!(app.interventions(&sandbox).await[0]["state"], "expired");
        let status = app.get("/api/v1/guardian/status").await.expect(200);
        assert_eq!((&status["sandboxes_watched"], &status["health"]["system"]), (&json!(0), &json!("optimal")), "{status}");
        // What it says afterwards is late talk.
        let before = app.findings(&sandbox).await.len();
        app.advance(Duration::from_secs(1)).await;
        app.event(&sandbox, "agent.shutdown", json!({})).await.expect(200);
        eye.look().await;
        assert_eq!(app.findings(&sandbox).await.len(), before);
        app.advance(Duration::from_secs(60)).await;
        assert_eq!(app.get("/api/v1/guardian/status").await.expect(200)["running"], false, "nobody has looked for a minute");
    }

    async fn while_one_machine_watches_another_does_not(app: App) {
        let (first, second) = (Eye::open(&app), Eye::open(&app));
        let (_, sandbox) = app.watched(ON).await;
        first.look().await;
        app.circle(&sandbox).await;
        second.look().await;
        assert!(app.findings(&sandbox).await.is_empty());
        app.advance(Duration::from_secs(16)).await;
        second.look().await;
        assert_eq!(app.findings(&sandbox).await.len(), 1, "the first has not been heard of");
        app.circle(&sandbox).await;
        first.look().await;
        assert_eq!(app.findings(&sandbox).await.len(), 1);
    }

    async fn a_long_build_is_left_alone_and_a_hung_one_is_found(app: App) {
        let eye = Eye::open(&app);
        let policy = "thresholds: { no_progress: { quiet: 3m } }";
        let (_, build) = app.watched(policy).await;
        let (_, hung) = app.watched(policy).await;
        for sandbox in [&build, &hung] {
            let call = json!({ "tool": "Bash", "tool_use_id": "c1", "input": { "command": "make" } });
            app.event(sandbox, "agent.tool_use", call).await.expect(200);
        }
        for minute in 1..10 {
            for (sandbox, cpu) in [(&build, f64::from(minute) * 50.0), (&hung, 7.0)] {
                let beat = json!({ "status": "running", "cpu_seconds": cpu, "io_bytes": 0 });
                app.event(sandbox, "agent.heartbeat", beat).await.expect(200);
            }
            app.advance(Duration::from_secs(60)).await;
            eye.look().await;
        }
        assert!(app.findings(&build).await.is_empty());
        let found = app.findings(&hung).await;
        assert_eq!((found.len(), &found[0]["kind"]), (1, &json!("no_progress")));
    }

    async fn a_sandbox_is_summed_up_by_its_own_id_and_by_its_agent_s(app: App) {
        let eye = Eye::open(&app);
        let project = app.project(&crate::app::unique("project")).await;
        let task = app.task(&project, json!({ "owned_files": ["src/**"] })).await;
        let agent = app.post("/api/v1/agents", json!({ "name": "far away" })).await.expect(201);
        let agent = agent["id"].as_str().unwrap();
        let claimed = app.post(&format!("/api/v1/agents/{agent}/claim"), json!({})).await.expect(200);
        assert_eq!(claimed["task"]["id"], task, "{claimed}");
        let sandbox = crate::app::Sandbox {
            id: claimed["sandbox"]["id"].as_str().unwrap().to_owned(),
            token: claimed["token"].as_str().unwrap().to_owned(),
            task: Some(task.clone()),
        };
        app.event(&sandbox, "agent.started", json!({ "task": "Mend the parser. Do not touch the tests.", "mode": "implementation" })).await.expect(200);
        app.step(&sandbox, "make test", "Error: no rule", true).await;
        let edit = json!({ "file_path": "lib/a.rs", "change_type": "modified", "diff_preview": "-a\n+b" });
        app.event(&sandbox, "agent.file_edited", edit).await.expect(200);
        app.circle(&sandbox).await;
        app.advance(Duration::from_secs(90)).await;
        eye.look().await;
        let own = app.get(&format!("/api/v1/sandboxes/{}/summary", sandbox.id)).await.expect(200);
        let by_agent = app.get(&format!("/api/v1/sandboxes/{agent}/summary")).await.expect(200);
        assert_eq!(own, by_agent);
        assert_eq!((&own["agent_id"], &own["task_id"], &own["phase"]), (&json!(agent), &json!(task), &json!("working")));
        assert_eq!((&own["files"][0]["path"], &own["files"][0]["outside"]), (&json!("lib/a.rs"), &json!(true)));
        assert_eq!((own["calls"].as_array().unwrap().len(), &own["calls"][0]["result"]), (7, &json!("failed")));
        assert!(own["seconds_since_progress"].as_i64().unwrap() >= 90, "{own}");
        assert!(own["constraints"][0].as_str().unwrap().contains("tests"), "{own}");
        let open = own["open_findings"].as_array().unwrap();
        assert!(!open.is_empty() && own["alignment"].as_f64().unwrap() < 1.0, "{own}");
        app.get("/api/v1/sandboxes/nobody/summary").await.refused(404, "sandbox_not_found");
    }
}
