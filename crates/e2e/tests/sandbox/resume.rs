//! A session that goes on in another sandbox: its log, and the work where it was left.

use serde_json::json;

use crate::omoi::{As, Omoi};

/// Sends a log part by part, as a worker does, and leaves a file that nobody has committed.
const FIRST: &str = r#"
import base64, json, os, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
def append(session, offset, data):
    body = {"session_id": session, "offset": offset, "data_b64": base64.b64encode(data).decode()}
    request = urllib.request.Request(os.environ["CALLBACK_URL"] + "/api/v1/sandboxes/" + os.environ["SANDBOX_ID"] + "/transcript",
        data=json.dumps(body).encode(), headers={"authorization": "Bearer " + os.environ["OMOI_TOKEN"], "content-type": "application/json"})
    return json.loads(opener.open(request, timeout=30).read())["size"]
append("short", 0, b"what was ")
print(append("short", 9, b"said"))
part = os.urandom(1 << 20)
for n in range(16):
    size = append("long", n << 20, part)
print(size)
open("left.txt", "w").write("left off here")
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resumed_session_finds_its_log_and_its_work_in_a_new_sandbox() {
    let omoi = Omoi::start(As::Root).await;
    let project = omoi.small_project().await;
    let first = omoi.run(&project, &["python3", "-c", FIRST]).await;
    assert_eq!(first.ok(), format!("13\n{}", 16 << 20));

    let script = "echo $RESUME_SESSION_ID; echo $SESSION_TRANSCRIPT_B64 | base64 -d; echo; cat left.txt";
    for (session, told) in
        [("short", "short\nwhat was said\nleft off here"), ("long", "long\n\nleft off here")]
    {
        let wish = json!({ "command": ["/bin/sh", "-c", script], "resume_session_id": session });
        let id = omoi.order_with(&project, wish).await;
        let seen = omoi.gone(&id).await;
        assert_eq!(crate::omoi::Ran::read(id, &seen).ok(), told);
    }
    let elsewhere = json!({ "command": ["cat", "left.txt"], "resume_session_id": "short", "base": "main" });
    let id = omoi.order_with(&project, elsewhere).await;
    let seen = omoi.gone(&id).await;
    assert_eq!(crate::omoi::Ran::read(id, &seen).code, Some(1), "whoever names a base starts there");
}
