//! What the documents that began the project ask of the API and that no other test shows on its own.

use serde_json::json;

use crate::on_both;

on_both! {
    async fn the_six_endpoints_of_a_worker_answer_at_their_paths(app: App) {
        let sandbox = app.sandbox().await;
        let path = |rest: &str| format!("/api/v1/sandboxes/{}{rest}", sandbox.id);
        app.get("/api/v1/sandboxes/health").await.expect(200);
        let event = json!({ "event_type": "agent.started", "event_data": {} });
        app.post_as(&sandbox, "/events", event).await.expect(200);
        assert_eq!(app.get(&path("/events")).await.expect(200)["total_count"], 1);
        assert_eq!(app.get(&path("/trajectory")).await.expect(200)["total_events"], 1);
        app.post(&path("/messages"), json!({ "content": "go on", "message_type": "user_message" })).await.expect(200);
        let taken = app.get_as(&sandbox, "/messages").await.expect(200);
        assert_eq!(taken.as_array().unwrap().len(), 1, "{taken}");
    }

    async fn that_a_task_was_taken_shows_in_its_status_its_sandbox_and_its_events(app: App) {
        let sandbox = app.sandbox_with_task().await;
        let task = sandbox.task.clone().unwrap();
        let seen = async || {
            let shown = app.show(&task).await;
            let events = app.get(&format!("/api/v1/sandboxes/{}/events", sandbox.id)).await.expect(200);
            (shown["status"].clone(), shown["sandbox_id"].clone(), events["total_count"].clone())
        };
        assert_eq!(seen().await, (json!("assigned"), json!(sandbox.id), json!(0)));
        app.event(&sandbox, "agent.started", json!({})).await.expect(200);
        assert_eq!(seen().await, (json!("running"), json!(sandbox.id), json!(1)));
        app.event(&sandbox, "agent.completed", json!({})).await.expect(200);
        assert_eq!(seen().await.0, "completed");
        let history: Vec<_> = app.told().await.into_iter().filter(|event| event["entity_id"] == task.as_str()).collect();
        let kinds: Vec<_> = history.iter().map(|event| event["event_type"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["TASK_CREATED", "TASK_ASSIGNED", "TASK_STARTED", "TASK_COMPLETED"]);
    }
}
