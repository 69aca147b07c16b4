//! Secrets in what is reported: a token that a worker shows in whatever encoding is stored, streamed and handed out nowhere.

use std::fmt::Write as _;

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE},
};
use omoi_server::config::DatabaseUrl;
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    app::{App, Sandbox, answer},
    on_both,
    viewer::Said,
    work::text,
};

const MODEL_KEY: &str = "sk-ant-the-real-key-0123456789";
/// So many characters of a secret in a row are a trace of it.
const TRACE: usize = 16;

fn hex(text: &str) -> String {
    text.bytes().fold(String::new(), |mut all, byte| {
        write!(all, "{byte:02x}").unwrap();
        all
    })
}

/// The usual ways in which a program shows a secret.
fn shown(secret: &str) -> Vec<String> {
    let env = format!("HOME=/home/agent\nOMOI_TOKEN={secret}\nPATH=/usr/bin:/bin\n");
    let wrap = |text: &str| {
        text.as_bytes()
            .chunks(60)
            .map(|line| String::from_utf8_lossy(line).into_owned() + "\n")
            .collect::<String>()
    };
    let percent = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
    let mut all = vec![
        env.clone(),
        format!("curl -H 'Authorization: Bearer {secret}'"),
        hex(&env),
        wrap(&hex(&env)),
        percent(secret),
    ];
    for shift in ["", "x", "xy"] {
        let env = format!("{shift}{env}");
        all.extend([STANDARD.encode(&env), URL_SAFE.encode(&env), wrap(&STANDARD.encode(&env))]);
    }
    all
}

/// Fails where a part of the secret is found, in clear, base64, hex or percent-encoding, in one line or several.
#[track_caller]
fn assert_absent(secret: &str, text: &str) {
    let text: String = text.replace("\\n", "").replace(['%', '\\'], "").split_whitespace().collect();
    let random = &secret[secret.len().saturating_sub(43)..];
    let mut forms = vec![random.to_owned(), hex(random), hex(random).to_uppercase()];
    for shift in 0..3 {
        for encoded in [
            STANDARD.encode(format!("{}{random}", &"xx"[..shift])),
            URL_SAFE.encode(format!("{}{random}", &"xx"[..shift])),
        ] {
            // Without the ends, which depend on what stands beside the secret.
            forms.push(encoded[4..encoded.len() - 4].to_owned());
        }
    }
    for form in forms {
        for from in 0..=form.len().saturating_sub(TRACE) {
            let piece = &form[from..(from + TRACE).min(form.len())];
            if let Some(at) = text.find(piece) {
                panic!(
                    "a part of the secret is there: …{}…",
                    &text[at.saturating_sub(100)..(at + 100).min(text.len())]
                );
            }
        }
    }
}

impl App {
    /// Every row of every table, as text.
    async fn all_rows(&self) -> String {
        let is_postgres = matches!(self.config.database.url, DatabaseUrl::Postgres(_));
        let tables = match is_postgres {
            true => "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'",
            false => "SELECT name FROM sqlite_master WHERE type = 'table'",
        };
        let mut all = String::new();
        for table in self.column(tables).await {
            let sql = if is_postgres {
                format!("SELECT to_jsonb(t)::text FROM {table} t")
            } else {
                let columns = self.column(&format!("SELECT name FROM pragma_table_info('{table}')")).await;
                let quoted: Vec<String> =
                    columns.iter().map(|column| format!("quote(\"{column}\")")).collect();
                format!("SELECT {} FROM {table}", quoted.join(" || ' ' || "))
            };
            all.extend(self.column(&sql).await);
        }
        all
    }

    /// All that anybody can fetch of a sandbox.
    async fn all_answers(&self, sandbox: &Sandbox) -> String {
        let at = |rest: &str| format!("/api/v1/sandboxes/{}{rest}", sandbox.id);
        let mut all = String::new();
        let events = self.get(&at("/events?limit=500")).await.expect(200);
        for event in events["events"].as_array().unwrap() {
            if event["event_type"] == "agent.file_edited" {
                all += &text(
                    &self.get(&at(&format!("/diffs/{}", text(&event["id"])))).await.expect(200)["full_diff"],
                );
            }
        }
        let transcript = self.get(&at("/transcript")).await.expect(200);
        let transcript =
            STANDARD.decode(text(&transcript["transcript_b64"])).expect("masked base64 is base64");
        all += &String::from_utf8(transcript).unwrap();
        let artifacts = self.get(&at("/artifacts")).await.expect(200);
        for artifact in artifacts["items"].as_array().unwrap() {
            let path = at(&format!("/artifacts/{}", text(&artifact["id"])));
            let content = self.request(Method::GET, &path, &self.token).send().await.unwrap();
            all += &content.text().await.unwrap();
        }
        for rest in ["", "/messages?history=true", "/logs?tail=500", "/trajectory", "/task"] {
            all += &self.get(&at(rest)).await.body.to_string();
        }
        all + &events.to_string()
    }

    async fn keep_file(&self, sandbox: &Sandbox, name: &str, content: &str) {
        let request = self.request(
            Method::POST,
            &format!("/api/v1/sandboxes/{}/artifacts", sandbox.id),
            &sandbox.token,
        );
        let request = request.query(&[("name", name)]).header("content-type", format!("text/{name}"));
        answer(request.body(content.to_owned())).await.expect(201);
    }
}

on_both! {
    |config| config.model.anthropic_api_key = MODEL_KEY.into() =>

    async fn a_secret_that_a_worker_reports_is_stored_and_shown_nowhere(app: App) {
        let sandbox = app.sandbox_with_task().await;
        let mut viewer = app.watch("").await;
        let secrets = [sandbox.token.as_str(), app.token.as_str(), MODEL_KEY];
        let all: Vec<String> = secrets.iter().flat_map(|secret| shown(secret)).collect();
        let whole = all.join("\n");
        for text in &all {
            app.event(&sandbox, "agent.tool_use", json!({ "tool": "Bash", "input": { "command": text, text: 1 } })).await.expect(200);
        }
        let batch: Vec<Value> = all.iter().map(|text| json!({ "event_type": "command.output", "event_data": { "text": text } })).collect();
        app.post_as(&sandbox, "/events", json!({ "events": batch })).await.expect(200);
        let nested = json!({ "event_data": { "text": json!({ "text": whole }).to_string() }, "event_type": "agent.message" });
        app.post_as(&sandbox, "/events", nested).await.expect(200);
        let escaped: String = sandbox.token.bytes().map(|byte| format!("\\u{byte:04x}")).collect();
        let escaped = format!("{{\"event_type\":\"agent.message\",\"event_data\":{{\"text\":\"{escaped}\"}}}}");
        answer(app.posting(&sandbox, escaped)).await.expect(200);
        let diff = format!("+{whole}\n{}", "+a line\n".repeat(1000));
        app.event(&sandbox, "agent.file_edited", json!({ "file_path": sandbox.token, "full_diff": diff })).await.expect(200);

        let line = json!({ "entry": "said", "text": whole }).to_string() + "\n";
        let part = json!({ "session_id": "s", "offset": 0, "data_b64": STANDARD.encode(&line) });
        let stored = app.post_as(&sandbox, "/transcript", part.clone()).await.expect(200);
        assert_eq!(stored["size"], line.len(), "a mask has the length of what it covers");
        assert_eq!(app.post_as(&sandbox, "/transcript", part).await.expect(200), stored, "it is known when it comes again");
        app.keep_file(&sandbox, &format!("{}.txt", sandbox.token), &whole).await;
        app.keep_file(&sandbox, &URL_SAFE.encode(&sandbox.token), "x").await;

        app.post(&format!("/api/v1/sandboxes/{}/messages", sandbox.id), json!({ "content": whole })).await.expect(200);
        let said = json!({ "name": whole.replace('\n', " ")[..150], "settings": {} });
        app.post("/api/v1/projects", said).await.expect(201);
        let done = json!({ "task_id": sandbox.task, "success": false, "error_message": whole, "result": { "said": whole } });
        app.post_as(&sandbox, "/task-complete", done).await.expect(200);

        let (rows, answers) = (app.all_rows().await, app.all_answers(&sandbox).await);
        let mut streamed = String::new();
        app.event(&app.sandbox().await, "agent.message", json!({ "text": "the last word" })).await.expect(200);
        while !streamed.contains("the last word") {
            let Said::Json(said) = viewer.hear().await else { panic!("the stream ends: {streamed}") };
            streamed += &said.to_string();
        }
        for secret in secrets {
            assert_absent(secret, &rows);
            assert_absent(secret, &answers);
            assert_absent(secret, &streamed);
        }
        assert!(answers.contains("OMOI_TOKEN=omoi_sbx_***") && answers.contains("PATH=/usr/bin"), "the rest stays");
    }

    async fn a_log_that_comes_again_in_other_parts_is_masked_alike(app: App) {
        let sandbox = app.sandbox_with_task().await;
        // Wrapped over two lines, as base64 is: what one line shows may not depend on whether the next came with it.
        let encoded = STANDARD.encode(&sandbox.token);
        let lines = [format!("{}\n", &encoded[..30]), format!("{}\n", &encoded[30..]), shown(&sandbox.token).join(" ") + "\n"];
        let part = |offset: usize, data: &str| {
            json!({ "session_id": "s", "offset": offset, "data_b64": STANDARD.encode(data) })
        };
        let stored = app.post_as(&sandbox, "/transcript", part(0, &lines.concat())).await.expect(200);
        let mut offset = 0;
        for line in &lines {
            let again = app.post_as(&sandbox, "/transcript", part(offset, line)).await.expect(200);
            assert_eq!(again, stored, "from {offset}");
            offset += line.len();
        }
    }

    async fn a_transcript_that_comes_with_the_end_is_masked_as_what_it_is(app: App) {
        let sandbox = app.sandbox_with_task().await;
        let lines = ["the token begins with omoi_sbx_ and goes on", "omoi_sbx_, omoi_op_ and omoi_ses_", &sandbox.token];
        let log: String = lines.map(|line| json!({ "text": line }).to_string() + "\n").concat();
        let data = json!({ "session_id": "s", "transcript_b64": STANDARD.encode(&log), "said": sandbox.token });
        app.event(&sandbox, "agent.completed", data).await.expect(200);
        let kept = app.get(&format!("/api/v1/sandboxes/{}/transcript", sandbox.id)).await.expect(200);
        let kept = String::from_utf8(STANDARD.decode(text(&kept["transcript_b64"])).unwrap()).unwrap();
        let masked = format!("omoi_sbx_{}", "*".repeat(43));
        assert_eq!(kept, log.replace(&sandbox.token, &masked));
        assert_absent(&sandbox.token, &app.all_rows().await);
    }

    async fn a_masked_event_that_is_sent_again_is_known(app: App) {
        let sandbox = app.sandbox().await;
        let event = json!({ "event_type": "agent.message", "worker_seq": 1, "event_data": { "text": shown(&sandbox.token) } });
        let first = app.post_as(&sandbox, "/events", event.clone()).await.expect(200);
        let again = app.post_as(&sandbox, "/events", event).await.expect(200);
        assert_eq!((&first["event_id"], &first["seq"]), (&again["event_id"], &again["seq"]));
        assert_eq!(app.get_as(&sandbox, "/events").await.expect(200)["total_count"], 1);
    }
}
