//! Policies of projects.

use reqwest::Method;
use serde_json::json;

use super::{Eye, ON};
use crate::{app::unique, on_both};

on_both! {
    async fn a_project_has_the_usual_policy_until_it_has_its_own(app: App) {
        let project = app.project(&unique("project")).await;
        let path = format!("/api/v1/projects/{project}/policy");
        let usual = app.get(&path).await.expect(200);
        assert_eq!((&usual["source"], &usual["version"], &usual["steering"]), (&json!("default"), &json!(0), &json!("suggest")));
        let own = app.set_policy(&project, ON).await.expect(200);
        assert_eq!((&own["source"], &own["version"], &own["steering"], &own["updated_by"]), (&json!("project"), &json!(1), &json!("on"), &json!("first")));
        let stale = json!({ "text": "steering: off", "version": 0 });
        app.call(Method::PUT, &path, &app.token, Some(&stale)).await.refused(409, "version_conflict");
        app.set_policy(&project, "steering: off").await.expect(200);
        let reset = app.call(Method::DELETE, &path, &app.token, None).await.expect(200);
        assert_eq!((&reset["source"], &reset["version"], &reset["text"]), (&json!("default"), &json!(3), &usual["text"]));
        app.get("/api/v1/projects/nobody/policy").await.refused(404, "project_not_found");
    }

    async fn a_policy_with_a_mistake_is_refused_by_line_or_key(app: App) {
        let project = app.project(&unique("project")).await;
        let wrong = app.set_policy(&project, "steering: on\nrules:\n  - on: drift\n    do: note\n    cooldown: 3m").await;
        let wrong = wrong.refused(422, "invalid_policy");
        assert!(wrong["detail"].as_str().unwrap().contains("line 5"), "{wrong}");
        let wrong = app.set_policy(&project, "thresholds: { repeated_action: { times: 1 } }").await.refused(422, "invalid_policy");
        assert!(wrong["detail"].as_str().unwrap().contains("thresholds.repeated_action.times"), "{wrong}");
        assert_eq!(app.get(&format!("/api/v1/projects/{project}/policy")).await.expect(200)["version"], 0);
    }

    async fn a_change_holds_from_the_next_look_on(app: App) {
        let eye = Eye::open(&app);
        let (project, sandbox) = app.watched("steering: off").await;
        app.circle(&sandbox).await;
        eye.look().await;
        let notes = app.items(&format!("/api/v1/interventions?mode=record&sandbox_id={}", sandbox.id)).await;
        assert_eq!((notes.len(), &notes[0]["held"], &notes[0]["do"]), (1, &json!("steering_off"), &json!("note")));
        app.set_policy(&project, ON).await.expect(200);
        app.step(&sandbox, "ls", "a b", false).await;
        let edit = json!({ "file_path": "a.py", "change_type": "modified", "diff_preview": "+b" });
        app.event(&sandbox, "agent.file_edited", edit).await.expect(200);
        app.circle(&sandbox).await;
        eye.look().await;
        assert_eq!(app.interventions(&sandbox).await[0]["state"], "sent");
    }

    async fn a_policy_is_tried_on_what_has_happened(app: App) {
        let eye = Eye::open(&app);
        let (project, sandbox) = app.watched("steering: off").await;
        app.circle(&sandbox).await;
        eye.look().await;
        let path = format!("/api/v1/projects/{project}/policy/try");
        let tried = app.post(&path, json!({ "text": ON })).await.expect(200);
        assert_eq!((&tried["sandboxes"], &tried["truncated"]), (&json!(1), &json!(false)), "{tried}");
        assert_eq!((&tried["findings"], &tried["interventions"]), (&json!({ "repeated_action": 1 }), &json!({ "nudge": 1 })), "{tried}");
        assert_eq!((&tried["runs"][0]["sandbox_id"], &tried["runs"][0]["findings"][0]["mode"]), (&json!(sandbox.id), &json!("act")));
        let as_it_is = app.post(&path, json!({})).await.expect(200);
        assert_eq!(as_it_is["interventions"], json!({}), "steering is off");
        let blind = app.post(&path, json!({ "text": "thresholds: { repeated_action: { times: 20 } }" })).await.expect(200);
        assert_eq!((&blind["findings"], &blind["runs"]), (&json!({}), &json!([])));
        assert!(app.interventions(&sandbox).await.is_empty(), "nothing was made of it");
        app.post(&path, json!({ "text": "rules: 5" })).await.refused(422, "invalid_policy");
    }
}
