//! A model call out of a real sandbox: the key is added outside, and a budget stops what goes beyond it.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

use serde_json::json;

use crate::omoi::{As, Omoi};

const KEY: &str = "sk-ant-the-real-key-0123456789";
/// A call costs more than a cent: 4,000 tokens of output at $15 the million are six.
const ANSWER: &str = r#"{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"text","text":"four"}],"stop_reason":"end_turn","usage":{"input_tokens":100,"output_tokens":4000}}"#;

/// A vendor on loopback that writes down what it is asked.
struct Vendor {
    address: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Vendor {
    fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let heard = asked.clone();
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                answer(&socket.unwrap(), &heard);
            }
        });
        Self { address, asked }
    }
}

fn answer(socket: &TcpStream, heard: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(socket);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        head.push_str(&line);
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    head.push_str(&String::from_utf8_lossy(&body));
    heard.lock().unwrap().push(head);
    let size = ANSWER.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {size}\r\nconnection: close\r\n\r\n"
    );
    let mut socket = socket;
    socket.write_all(head.as_bytes()).and_then(|()| socket.write_all(ANSWER.as_bytes())).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_key_stays_outside_and_a_cent_stops_the_second_call() {
    let vendor = Vendor::open();
    let omoi =
        Omoi::start_with(As::Root, &[("ANTHROPIC_API_KEY", KEY), ("ANTHROPIC_BASE_URL", &vendor.address)])
            .await;
    let project = omoi.small_project_with(json!({ "budget_usd": 0.01 })).await;
    let script = r#"
import json, os, urllib.request, urllib.error
def call():
    body = {"model": "claude-sonnet-4-5", "max_tokens": 5000, "messages": [{"role": "user", "content": "2 + 2?"}]}
    request = urllib.request.Request(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", data=json.dumps(body).encode(),
        headers={"x-api-key": os.environ["ANTHROPIC_API_KEY"], "content-type": "application/json", "anthropic-version": "2023-06-01"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        answer = opener.open(request, timeout=30)
        print(answer.status, json.loads(answer.read())["content"][0]["text"], flush=True)
    except urllib.error.HTTPError as e:
        print(e.code, json.loads(e.read())["error"]["message"], flush=True)
call()
call()
"#;
    let id =
        omoi.order(&project, &["/bin/sh", "-c", &format!("python3 -c '{script}'; exec sleep 1000")]).await;
    let seen = omoi.until(&id, |event| event.event_type == "budget.exceeded").await;
    assert!(seen.iter().any(|event| event.event_type == "model.call"));
    omoi.until(&id, |event| {
        crate::omoi::data(event)["text"].as_str().is_some_and(|text| text.contains("budget"))
    })
    .await;

    let asked = vendor.asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 1, "the second call was not let out: {asked:?}");
    assert!(asked[0].contains(KEY) && !asked[0].contains("omoi_sbx_"), "{}", asked[0]);

    let search = format!(
        "cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -c {part}; \
         grep -rsl {part} / --exclude-dir=proc --exclude-dir=sys --exclude-dir=usr 2>/dev/null | wc -l",
        part = "sk-ant-the-real"
    );
    let found = omoi.exec(&id, &["/bin/sh", "-c", &format!("({search}) | tail -1")]).await;
    assert_eq!(found.stdout.trim(), "0", "the key is nowhere inside: {found:?}");
    omoi.terminate(&id).await;
    omoi.gone(&id).await;
}
