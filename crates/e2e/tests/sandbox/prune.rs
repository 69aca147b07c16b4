//! What is left of ended sandboxes, where it is to stay for a while.

use serde_json::json;

use crate::{
    omoi::{As, Omoi, data},
    traces::Traces,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ended_sandbox_stays_until_there_are_too_many_or_somebody_prunes() {
    let env = [("OMOI_SANDBOX_KEEP_ENDED", "1h"), ("OMOI_SANDBOX_KEEP_ENDED_MAX", "1")];
    let mut omoi = Omoi::start_with(As::Root, &env).await;
    let project = omoi.small_project().await;
    let work = json!({ "command": ["/bin/sh", "-c", "echo work > work"], "memory_gb": 1, "disk_gb": 1 });
    let (first, second) =
        (omoi.order_with(&project, work.clone()).await, omoi.order_with(&project, work).await);
    for id in [&first, &second] {
        omoi.until_event(id, "SANDBOX_KEPT").await;
    }
    // Whichever ended first goes first.
    let ended = [omoi.sandbox(&first).await.ended_at, omoi.sandbox(&second).await.ended_at];
    let (older, younger) = if ended[0] <= ended[1] { (first, second) } else { (second, first) };
    let seen = omoi.gone(&older).await;
    assert_eq!(data(seen.last().unwrap())["reason"], "too_many");
    let place = omoi.data().join("sandboxes").join(younger.as_str());
    assert!(place.join("disk.img").exists() && omoi.sandbox(&younger).await.kept.unwrap().kept);

    omoi.kill().await;
    omoi.start_again().await;
    let ask = json!({ "dry_run": true, "older_than_seconds": 0 });
    let (_, would) = omoi.post("/api/v1/sandboxes/prune", &ask).await;
    assert_eq!(
        (&would["items"][0]["sandbox_id"], &would["items"][0]["reason"]),
        (&json!(younger), &json!("age"))
    );
    assert!(would["items"][0]["disk_bytes"].as_u64().unwrap() > 0, "{would}");
    assert!(place.exists(), "it was only asked for");
    omoi.post("/api/v1/sandboxes/prune", &json!({ "older_than_seconds": 0 })).await;
    let seen = omoi.gone(&younger).await;
    assert_eq!(data(seen.last().unwrap())["reason"], "age");
    Traces::assert_none(&omoi.data(), &[older.to_string(), younger.to_string()]);
}
