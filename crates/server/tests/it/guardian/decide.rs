//! What people decide, and what is done without words.

use serde_json::{Value, json};

use super::{Eye, ON};
use crate::on_both;

fn id(of: &Value) -> String {
    of["id"].as_str().unwrap().to_owned()
}

on_both! {
    async fn a_suggestion_waits_until_a_person_approves_or_dismisses_it(app: App) {
        let eye = Eye::open(&app);
        let policy = ON.replace("steering: on", "steering: suggest");
        let (_, approved) = app.watched(&policy).await;
        let (_, dismissed) = app.watched(&policy).await;
        for sandbox in [&approved, &dismissed] {
            app.circle(sandbox).await;
        }
        eye.look().await;
        let waiting = app.items("/api/v1/interventions?waiting=true").await;
        assert_eq!(waiting.len(), 2);
        assert_eq!(app.get_as(&approved, "/messages").await.expect(200), json!([]), "nobody was told anything");

        let first = id(&app.interventions(&approved).await[0]);
        let made = app.post(&format!("/api/v1/interventions/{first}/approve"), json!({ "text": "Read it first" })).await.expect(200);
        assert_eq!((&made["state"], &made["decided_by"], &made["text"]), (&json!("sent"), &json!("first"), &json!("Read it first")), "{made}");
        app.post(&format!("/api/v1/interventions/{first}/approve"), json!({})).await.refused(409, "intervention_decided");
        let messages = app.get_as(&approved, "/messages").await.expect(200);
        assert_eq!((&messages[0]["content"], messages.as_array().unwrap().len()), (&json!("Read it first"), 1));

        let second = id(&app.interventions(&dismissed).await[0]);
        let dropped = app.post(&format!("/api/v1/interventions/{second}/dismiss"), json!({ "reason": "it is right" })).await.expect(200);
        assert_eq!((&dropped["state"], &dropped["decided_because"]), (&json!("dismissed"), &json!("it is right")));
        app.post(&format!("/api/v1/interventions/{second}/approve"), json!({})).await.refused(409, "intervention_decided");
        assert_eq!(app.get_as(&dismissed, "/messages").await.expect(200), json!([]));

        // Of what a person let through, the effect is measured like any other.
        let heard = json!({ "message_id": messages[0]["id"], "message_type": "guardian_nudge", "content": "Read it first" });
        app.event(&approved, "agent.message_injected", heard).await.expect(200);
        app.circle(&approved).await;
        eye.look().await;
        let made = app.get(&format!("/api/v1/interventions/{first}")).await.expect(200);
        assert_eq!((&made["state"], &made["effect"]), (&json!("injected"), &json!("unchanged")), "{made}");
        assert_eq!(app.findings(&approved).await.len(), 2);
        let status = app.get("/api/v1/guardian/status").await.expect(200);
        assert_eq!((&status["effects"]["made"], &status["effects"]["unchanged"]), (&json!(1), &json!(1)), "{status}");
        assert_eq!(app.items("/api/v1/interventions?mode=record").await.len(), 0);
    }

    async fn a_person_nudges_and_only_who_may(app: App) {
        let (_, sandbox) = app.watched(ON).await;
        let path = format!("/api/v1/sandboxes/{}/nudge", sandbox.id);
        let nudged = app.post(&path, json!({ "text": "Look at the tests" })).await.expect(201);
        assert_eq!((&nudged["state"], &nudged["created_by"], &nudged["finding_id"]), (&json!("sent"), &json!("first"), &json!(null)));
        let messages = app.get_as(&sandbox, "/messages").await.expect(200);
        assert_eq!((&messages[0]["message_type"], &messages[0]["sender"]), (&json!("guardian_nudge"), &json!("first")));
        app.post(&path, json!({ "text": "" })).await.refused(422, "validation_failed");
        app.post_as(&sandbox, "/nudge", json!({ "text": "me" })).await.refused(403, "operator_needed");
        assert_eq!(app.call(reqwest::Method::GET, "/api/v1/findings", &sandbox.token, None).await.status, 403);
        app.post(&format!("/api/v1/sandboxes/{}/terminate", sandbox.id), json!({})).await.expect(200);
        app.post(&path, json!({ "text": "Hello" })).await.refused(409, "sandbox_ended");
    }

    async fn a_task_waits_for_a_person_until_one_speaks(app: App) {
        let eye = Eye::open(&app);
        let (_, sandbox) = app.watched(ON).await;
        for n in 0..6 {
            app.step(&sandbox, &format!("python {n}.py"), "KeyError: 'fig'", true).await;
        }
        eye.look().await;
        let task = format!("/api/v1/tasks/{}", sandbox.task.as_ref().unwrap());
        let waiting = app.get(&task).await.expect(200)["waiting_reason"].clone();
        assert!(waiting.as_str().is_some_and(|why| why.starts_with("guardian: Somebody look: ")), "{waiting}");
        assert_eq!(app.interventions(&sandbox).await[0]["state"], "done");
        app.post(&format!("/api/v1/sandboxes/{}/messages", sandbox.id), json!({ "content": "use .get" })).await.expect(200);
        assert_eq!(app.get(&task).await.expect(200)["waiting_reason"], json!(null));
    }

    async fn one_that_does_what_is_forbidden_is_ended(app: App) {
        let eye = Eye::open(&app);
        let (_, sandbox) = app.watched(ON).await;
        app.step(&sandbox, "git push --force origin main", "ok", false).await;
        eye.look().await;
        let ended = app.get(&format!("/api/v1/sandboxes/{}", sandbox.id)).await.expect(200);
        assert_eq!(ended["status"], "terminated");
        assert_eq!(app.task_status(sandbox.task.as_ref().unwrap()).await, "cancelled");
        eye.look().await;
        let found = app.findings(&sandbox).await;
        assert_eq!((&found[0]["kind"], &found[0]["cleared_by"]), (&json!("forbidden_command"), &json!("ended")));
        assert_eq!(app.interventions(&sandbox).await[0]["state"], "done");
    }

    async fn one_that_is_paused_is_interrupted_and_waits(app: App) {
        let eye = Eye::open(&app);
        let (_, sandbox) = app.watched(ON).await;
        app.event(&sandbox, "agent.message", json!({ "content": "Which database shall I use?", "turn": 1 })).await.expect(200);
        app.event(&sandbox, "agent.turn_complete", json!({ "turn": 1 })).await.expect(200);
        eye.look().await;
        assert!(app.findings(&sandbox).await.is_empty(), "somebody may answer yet");
        app.clock.advance(jiff::SignedDuration::from_secs(180));
        eye.look().await;
        assert_eq!(app.findings(&sandbox).await[0]["kind"], "unanswered_question");
        let task = app.get(&format!("/api/v1/tasks/{}", sandbox.task.as_ref().unwrap())).await.expect(200);
        assert!(task["waiting_reason"].as_str().unwrap().starts_with("paused by the guardian: "), "{task}");
        let messages = app.get_as(&sandbox, "/messages").await.expect(200);
        assert_eq!(messages[0]["message_type"], "interrupt");
    }
}
