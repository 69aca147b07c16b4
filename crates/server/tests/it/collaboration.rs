//! What agents say to each other: within a project, to exactly one, as far as its rule allows.

use serde_json::{Value, json};

use crate::{
    app::{Answer, App, Sandbox},
    on_both,
};

impl App {
    async fn tell(&self, from: &Sandbox, to: &Sandbox, content: &str) -> Answer {
        self.post_as(
            from,
            "/peers",
            json!({ "to_sandbox_id": to.id, "kind": "question", "content": content }),
        )
        .await
    }

    async fn peers(&self, of: &Sandbox) -> Vec<Value> {
        self.get_as(of, "/peers").await.expect(200).as_array().unwrap().clone()
    }
}

on_both! {
    async fn a_question_reaches_exactly_the_one_it_is_for(app: App) {
        let project = app.project("parser").await;
        let (a, b, c) = (app.at_work(&project, json!({})).await, app.at_work(&project, json!({})).await, app.at_work(&project, json!({})).await);
        assert_eq!(app.peers(&a).await.len(), 2);
        app.tell(&a, &b, "do you change the lexer?").await.expect(200);
        let heard = app.take(&b).await;
        assert_eq!(heard.len(), 1);
        assert_eq!((&heard[0]["message_type"], &heard[0]["sender"]), (&json!("agent_message"), &json!(a.id)));
        let content = heard[0]["content"].as_str().unwrap();
        assert!(content.starts_with("[AGENT ") && content.ends_with("]: (question) do you change the lexer?"), "{content}");
        assert!(app.take(&a).await.is_empty() && app.take(&c).await.is_empty());
        assert_eq!(app.told_of("agent.message.sent").await.len(), 1);
    }

    async fn nobody_is_told_across_projects_and_nobody_speaks_for_another(app: App) {
        let (parser, printer) = (app.project("parser").await, app.project("printer").await);
        let (a, b) = (app.at_work(&parser, json!({})).await, app.at_work(&printer, json!({})).await);
        app.tell(&a, &b, "hello").await.refused(409, "not_to_be_told");
        app.tell(&a, &a, "hello").await.refused(409, "not_to_be_told");
        assert!(app.peers(&a).await.is_empty());
        let path = format!("/api/v1/sandboxes/{}/peers", b.id);
        let body = json!({ "to_sandbox_id": a.id, "content": "hello" });
        app.call(reqwest::Method::POST, &path, &a.token, Some(&body)).await.refused(403, "wrong_sandbox");
        app.post(&path, body).await.refused(403, "sandbox_needed");
        assert!(app.take(&a).await.is_empty() && app.take(&b).await.is_empty());
    }

    async fn one_who_speaks_on_and_on_keeps_nobody_else_from_being_heard(app: App) {
        let project = app.project("parser").await;
        let (a, b, c) = (app.at_work(&project, json!({})).await, app.at_work(&project, json!({})).await, app.at_work(&project, json!({})).await);
        for n in 0..10 {
            app.tell(&a, &b, &format!("and {n}")).await.expect(200);
        }
        app.tell(&a, &b, "and another").await.refused(429, "queue_full");
        app.tell(&c, &b, "may I?").await.expect(200);
        app.tell(&a, &c, "is it you?").await.expect(200);
        let heard = app.take(&b).await;
        assert_eq!(heard.len(), 11);
        app.tell(&a, &b, "and another").await.refused(429, "queue_full");
        let path = format!("/messages/{}/ack", heard[0]["id"].as_str().unwrap());
        app.post_as(&b, &path, json!({ "state": "injected" })).await.expect(200);
        app.tell(&a, &b, "and another").await.expect(200);
    }

    async fn the_project_says_who_may_talk_to_whom(app: App) {
        let project = app.project("parser").await;
        let path = format!("/api/v1/projects/{project}");
        let first = app.task(&project, json!({})).await;
        let a = app.attached_to(&first).await;
        let ticket = app.ticket(&project, json!({ "create_task": false })).await;
        let b = app.at_work(&project, json!({ "ticket_id": ticket["id"] })).await;
        let c = app.at_work(&project, json!({ "ticket_id": ticket["id"] })).await;
        app.patch(&path, json!({ "settings": { "collaboration": "related" } })).await.expect(200);
        app.tell(&a, &b, "hello").await.refused(409, "not_to_be_told");
        app.tell(&b, &c, "hello").await.expect(200);
        assert_eq!((app.peers(&a).await.len(), app.peers(&b).await.len()), (0, 1));
        app.patch(&path, json!({ "settings": { "collaboration": "off" } })).await.expect(200);
        app.tell(&b, &c, "hello").await.refused(409, "not_to_be_told");
        app.patch(&path, json!({ "settings": { "collaboration": "all" } })).await.refused(422, "validation_failed");
    }

    async fn those_who_have_ended_are_neither_told_nor_heard(app: App) {
        let project = app.project("parser").await;
        let (a, b) = (app.at_work(&project, json!({})).await, app.at_work(&project, json!({})).await);
        app.event(&b, "agent.completed", json!({})).await.expect(200);
        app.tell(&a, &b, "hello").await.refused(409, "sandbox_ended");
        assert!(app.peers(&a).await.is_empty());
        assert!(app.peers(&app.sandbox().await).await.is_empty(), "without a task there is nobody to speak to");
        app.cancel(a.task.as_ref().unwrap()).await;
        assert_eq!(app.tell(&a, &b, "hello").await.status.as_u16(), 401);
    }
}

on_both! {
    |config| config.message.queue_max = 4 =>

    async fn a_queue_full_of_agents_words_still_takes_an_interrupt(app: App) {
        let project = app.project("parser").await;
        let (a, b) = (app.at_work(&project, json!({})).await, app.at_work(&project, json!({})).await);
        for _ in 0..4 {
            app.tell(&a, &b, "and another").await.expect(200);
        }
        app.tell(&a, &b, "and another").await.refused(429, "queue_full");
        let stop = json!({ "content": "stop", "message_type": "interrupt" });
        app.post(&format!("/api/v1/sandboxes/{}/messages", b.id), stop).await.expect(200);
        assert_eq!(app.take(&b).await.len(), 5);
    }
}
