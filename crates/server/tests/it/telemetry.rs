//! What the process tells about itself while it answers.

use std::{
    io::Write,
    sync::{Arc, Mutex},
};

use reqwest::Method;
use tracing_subscriber::fmt::MakeWriter;

use crate::app::{App, On, answer};

/// A log that can be read.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// On one thread, which answers requests too, so that the log of this test is theirs.
#[tokio::test]
async fn what_is_logged_of_a_failing_request_carries_its_id() {
    let app = App::start(On::Sqlite).await;
    let database = rusqlite::Connection::open(app.config.data_dir.join("omoi.db")).unwrap();
    database.execute_batch("ALTER TABLE tickets RENAME TO gone").unwrap();
    for json in [false, true] {
        let log = Log::default();
        let lines = tracing_subscriber::fmt().with_ansi(false).with_writer(log.clone());
        let _within = if json {
            tracing::subscriber::set_default(lines.json().flatten_event(true).finish())
        } else {
            tracing::subscriber::set_default(lines.finish())
        };
        let failing =
            app.request(Method::GET, "/api/v1/tickets", &app.token).header("x-request-id", "deploy-42");
        let refused = answer(failing).await.refused(500, "internal_error");
        assert!(refused["detail"].as_str().unwrap().contains("X-Request-ID"), "{refused}");
        let text = log.text();
        let cause = text.lines().find(|line| line.contains("no such table")).expect("the cause is logged");
        let id = if json { r#""request.id":"deploy-42""# } else { r#"request.id="deploy-42""# };
        assert!(cause.contains("ERROR") && cause.contains(id), "{cause}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_and_what_it_writes_are_traced() {
    use std::io::Read;

    let collector = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", collector.local_addr().unwrap());
    let collected = std::thread::spawn(move || {
        let (mut stream, _) = collector.accept().unwrap();
        let mut all = Vec::new();
        let mut part = vec![0; 64 * 1024];
        // Until all that was announced is there.
        loop {
            let read = stream.read(&mut part).unwrap();
            all.extend_from_slice(&part[..read]);
            let text = String::from_utf8_lossy(&all).to_lowercase();
            let length = text
                .split("content-length: ")
                .nth(1)
                .and_then(|rest| rest.split("\r\n").next()?.parse::<usize>().ok());
            let head = all.windows(4).position(|four| four == b"\r\n\r\n");
            if let (Some(length), Some(head)) = (length, head)
                && all.len() >= head + 4 + length
            {
                break;
            }
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
        String::from_utf8_lossy(&all).into_owned()
    });
    let secrets = omoi_server::config::Config::default().secrets();
    let format = omoi_server::config::LogFormat::Json;
    let guard = omoi_server::telemetry::init(format, "warn", Some(&endpoint), &secrets).unwrap();
    let app = App::start(On::Sqlite).await;
    let project = serde_json::json!({ "name": "traced" });
    let making = app.request(Method::POST, "/api/v1/projects", &app.token).json(&project);
    answer(making.header("x-request-id", "deploy-43")).await.expect(201);
    drop(app);
    tokio::task::spawn_blocking(move || drop(guard)).await.unwrap();
    let sent = collected.join().unwrap();
    for word in ["POST /v1/traces", "request", "deploy-43", "/api/v1/projects", "write", "items"] {
        assert!(sent.contains(word), "{word}: {sent}");
    }
}
