//! Events: posted, stored, read.

use serde_json::json;

use crate::on_both;

on_both! {
    async fn a_posted_event_is_acknowledged_and_found_again(app: App) {
        let sandbox = app.sandbox().await;
        let posted = app.event(&sandbox, "agent.tool_use", json!({ "tool": "Read" })).await.expect(200);
        assert_eq!((posted["status"].as_str(), posted["sandbox_id"].as_str()), (Some("received"), Some(sandbox.id.as_str())));
        let page = app.get(&format!("/api/v1/sandboxes/{}/events", sandbox.id)).await.expect(200);
        assert_eq!(page["total_count"], 1);
        assert_eq!(page["events"][0]["id"], posted["event_id"]);
        assert_eq!(page["events"][0]["event_data"], json!({ "tool": "Read" }));
    }

    async fn a_task_runs_from_claim_to_completion_by_its_events(app: App) {
        let sandbox = app.sandbox_with_task().await;
        let task = sandbox.task.clone().unwrap();
        assert_eq!(app.task_status(&task).await, "assigned");
        app.event(&sandbox, "agent.started", json!({})).await.expect(200);
        assert_eq!(app.task_status(&task).await, "running");
        app.event(&sandbox, "agent.completed", json!({ "success": true, "turns": 3 })).await.expect(200);
        assert_eq!(app.task_status(&task).await, "completed");
    }
}
