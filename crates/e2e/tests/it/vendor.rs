//! A vendor that refuses: what the person reads whose agent asked it.

use omoi_protocol::{
    TaskStatus,
    event::Payload,
    launch::{TaskBrief, TaskContext},
    task::Task,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::{
    house::House,
    worker::{Worker, launch},
};

/// Answers every request alike; its address.
async fn vendor(status: &'static str, body: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let Ok(byte) = socket.read_u8().await else { return };
                head.push(byte);
            }
            let head = String::from_utf8_lossy(&head).to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
            let mut sent = vec![0; length.map_or(0, |length| length.trim().parse().unwrap())];
            let _ = socket.read_exact(&mut sent).await;
            let answer = format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            let _ = socket.write_all(answer.as_bytes()).await;
        }
    });
    address
}

fn context(task: &Task) -> TaskContext {
    TaskContext {
        task: TaskBrief {
            id: task.id.clone(),
            task_type: task.task_type.clone(),
            title: task.title.clone(),
            description: task.description.clone(),
            priority: task.priority,
            phase_id: None,
        },
        ticket: None,
        revision: None,
        markdown: None,
        extra: serde_json::Map::new(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vendor_s_refusal_ends_the_task_with_what_to_do_about_it() {
    let key = r#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}"#;
    let credit = r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."}}"#;
    let quota = r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#;
    let unknown = r#"{"error":{"code":404,"message":"No endpoints found for x/y."}}"#;
    for (model, status, body, parts) in [
        (
            "claude-sonnet-4-5",
            "401 Unauthorized",
            key,
            [
                "the Anthropic API refuses",
                "set model.anthropic_api_key (ANTHROPIC_API_KEY) to a valid key and restart",
            ],
        ),
        (
            "claude-sonnet-4-5",
            "400 Bad Request",
            credit,
            ["has no credit or quota left", "add credit in the billing settings"],
        ),
        (
            "gpt-5",
            "429 Too Many Requests",
            quota,
            ["the OpenAI API refuses", "model.openai_api_key (OPENAI_API_KEY)"],
        ),
        ("x/y", "404 Not Found", unknown, ["does not offer this model", "worker.model"]),
    ] {
        let address = vendor(status, body).await;
        let house = House::open_with(tempfile::tempdir().unwrap(), |config| {
            config.model.anthropic_base_url.clone_from(&address);
            config.model.openai_base_url.clone_from(&address);
            config.model.anthropic_api_key = "sk-ant-of-this-test-0123456789".into();
            config.model.openai_api_key = "sk-of-this-test-0123456789".into();
        })
        .await;
        let task = house.task().await;
        let attached = house.attach(Some(&task)).await;
        let mut launch = launch(&house, &attached, &[]);
        (launch.command, launch.agent.model) = (None, Some(model.to_owned()));
        launch.context = Some(context(&house.client.task_get(&task).await.unwrap()));
        assert_ne!(Worker::run(house.dir.path(), &launch).code().await, 0, "{status}");

        let task = house.client.task_get(&task).await.unwrap();
        assert_eq!(task.status, TaskStatus::Failed);
        let events = house.events(&attached.sandbox.id).await;
        let told = events.iter().find_map(|event| match event.payload() {
            Payload::AgentError(data) => data.error,
            _ => None,
        });
        let advice = events.iter().find_map(|event| match event.payload() {
            Payload::ModelCall(data) => data.advice,
            _ => None,
        });
        let (told, error) = (told.unwrap(), task.error_message.unwrap());
        for text in [&told, &error] {
            assert!(parts.iter().all(|part| text.contains(part)), "{status}: {text}");
            assert!(!text.contains("token is still good") && !text.contains("wire and tools"), "{text}");
        }
        assert!(told.ends_with(&advice.unwrap()), "the server and the worker say the same: {told}");
    }
}
