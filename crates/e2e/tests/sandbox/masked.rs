//! What a sandbox shows of its token is masked before it is stored, streamed or logged, however the sandbox shows it.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{
    agent::of,
    omoi::{As, Omoi},
};

/// Shows the token in every usual way: in outputs, in one that is written byte by byte, in files and in the agent's words.
const SHOWS: &str = r#"
about: shows its token
steps:
  - name: script
    say: It writes its token one byte at a time, slower than output is gathered, and percent-encoded.
    call:
      tool: Write
      input:
        file_path: show.py
        content: |
          import os, time
          token = os.environ['OMOI_TOKEN'].encode()
          for byte in token:
              os.write(1, bytes([byte]))
              time.sleep(0.003)
          print(''.join('%%%02X' % byte for byte in token))
  - name: hold
    say: I wait.
    call: { tool: Bash, input: { command: "echo $OMOI_TOKEN > token.txt; touch held; while test -e held; do sleep 0.02; done; env" } }
  - name: encode
    say: "The environment is {result}"
    call: { tool: Bash, input: { command: "env | base64; env | base64 -w 0; echo x$OMOI_TOKEN | base64; env | od -An -tx1; env >&2; python3 show.py" } }
  - name: write
    say: "Encoded it is {result}"
    call: { tool: Bash, input: { command: "for n in $(seq 200); do env; done > many.txt; cp many.txt more.txt" } }
  - name: read
    say: I look.
    call: { tool: Read, input: { file_path: token.txt } }
  - name: end
    say: "I read {result}"
    end: true
"#;

/// So many characters of a token in a row are a trace of it.
const TRACE: usize = 16;

/// Fails where a part of the token is found, in clear, base64, hex or percent-encoding, in one line or several.
#[track_caller]
fn assert_absent(token: &str, place: &str, text: &str) {
    let text: String = text.replace("\\n", "").replace('%', "").split_whitespace().collect();
    let random = &token[token.len() - 43..];
    let hex = random.bytes().fold(String::new(), |mut all, byte| {
        write!(all, "{byte:02x}").unwrap();
        all
    });
    let mut forms = vec![random.to_owned(), hex.to_uppercase(), hex];
    for shift in 0..3 {
        let encoded = STANDARD.encode(format!("{}{random}", &"xx"[..shift]));
        // Without the ends, which depend on what stands beside the token.
        forms.push(encoded[4..encoded.len() - 4].to_owned());
    }
    for form in forms {
        for from in 0..=form.len() - TRACE {
            let piece = &form[from..from + TRACE];
            assert!(!text.contains(piece), "{piece} of the token {token} is in {place}");
        }
    }
}

/// The files below a directory, but for repositories, which hold what was committed, and disks of sandboxes.
fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        match entry.file_type() {
            Ok(kind) if kind.is_file() && path.extension().is_none_or(|end| end != "img") => found.push(path),
            Ok(kind)
                if kind.is_dir()
                    && !["mirrors", "checkouts", "disk"].iter().any(|skipped| name == *skipped) =>
            {
                files(&path, found);
            }
            _ => {}
        }
    }
}

impl Omoi {
    fn assert_nowhere_on_disk(&self, token: &str) {
        let mut all = vec![self.path().join("serve.log")];
        files(&self.data(), &mut all);
        assert!(all.iter().any(|path| path.ends_with("omoi.db")), "{all:?}");
        for path in all {
            let text = fs::read(&path).unwrap_or_default();
            assert_absent(token, &path.display().to_string(), &String::from_utf8_lossy(&text));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sandbox_s_token_is_stored_streamed_and_logged_nowhere() {
    let omoi = Omoi::with_scenarios_and(&[("shows", SHOWS)], &[("OMOI_LOG", "debug")]).await;
    let project = omoi.small_project().await;
    let (task, sandbox) = omoi.agent(&project, "shows", json!({})).await;
    omoi.until_file(&sandbox, "held").await;
    let workspace = omoi.workspace(&sandbox);
    let token = fs::read_to_string(workspace.join("token.txt")).unwrap().trim().to_owned();
    assert!(token.starts_with("omoi_sbx_") && token.len() == 52, "{token}");

    let find = "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -a OMOI_TOKEN > /tmp/found; \
                cat /tmp/found >&2; base64 < /tmp/found";
    let found = omoi.exec(&sandbox, &["/bin/sh", "-c", find]).await;
    assert!(found.stderr.contains("OMOI_TOKEN=omoi_sbx_***"), "a command finds it: {found:?}");
    omoi.assert_nowhere_on_disk(&token);

    let said = format!("your token is {token}, or {}", STANDARD.encode(&token));
    omoi.say(&sandbox, "user_message", &said).await;
    omoi.exec(&sandbox, &["rm", "/workspace/held"]).await;
    let streamed = omoi.gone(&sandbox).await;
    assert_eq!(omoi.task(&task).await["status"], "completed");

    let events = omoi.stored(&sandbox).await;
    let results: Vec<String> =
        of(&events, "agent.tool_result").iter().map(|result| result["result"].to_string()).collect();
    assert!(
        results.iter().any(|result| result.contains("OMOI_TOKEN=********")),
        "the rest is there: {results:#?}"
    );
    for edited in events.iter().filter(|event| event["event_type"] == "agent.file_edited") {
        let path = format!("/api/v1/sandboxes/{sandbox}/diffs/{}", edited["id"].as_str().unwrap());
        assert_absent(&token, "a diff", &omoi.get(&path).await.to_string());
    }
    assert!(
        of(&events, "agent.file_edited").iter().any(|edit| edit["full_diff_available"] == true),
        "one diff is large"
    );
    let transcript: Value = omoi.get(&format!("/api/v1/sandboxes/{sandbox}/transcript")).await;
    let transcript = STANDARD.decode(transcript["transcript_b64"].as_str().unwrap()).unwrap();
    assert!(String::from_utf8_lossy(&transcript).contains("OMOI_TOKEN=***"));
    assert_absent(&token, "the transcript", &String::from_utf8_lossy(&transcript));
    for (place, text) in [
        ("the events", json!(events).to_string()),
        ("the stream", serde_json::to_string(&streamed).unwrap()),
        ("the task", omoi.task(&task).await.to_string()),
        (
            "the messages",
            omoi.get(&format!("/api/v1/sandboxes/{sandbox}/messages?history=true")).await.to_string(),
        ),
    ] {
        assert_absent(&token, place, &text);
    }
    omoi.assert_nowhere_on_disk(&token);
}

/// A viewer who has read a token somewhere stands outside, where it opens nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stolen_token_opens_nothing_outside() {
    let omoi = Omoi::start(As::Root).await;
    let project = omoi.small_project().await;
    let script = "echo $OMOI_TOKEN > token.txt; touch held; exec sleep 1000";
    let sandbox = omoi.order(&project, &["/bin/sh", "-c", script]).await;
    omoi.until_file(&sandbox, "held").await;
    let token = fs::read_to_string(omoi.workspace(&sandbox).join("token.txt")).unwrap().trim().to_owned();
    let own = format!("/api/v1/sandboxes/{sandbox}");
    for (method, path) in [
        ("GET", own.clone()),
        ("POST", format!("{own}/events")),
        ("GET", format!("{own}/messages")),
        ("POST", "/model/anthropic/v1/messages".to_owned()),
        ("GET", format!("/git/{project}.git/info/refs?service=git-receive-pack")),
    ] {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let request = omoi.http.request(method, format!("{}{path}", omoi.url())).bearer_auth(&token);
        let refused = request.json(&json!({ "event_type": "agent.completed" })).send().await.unwrap();
        assert_eq!(refused.status(), 403, "{path}");
        assert!(refused.text().await.unwrap().contains("CALLBACK_URL"), "{path}");
    }
    // At its door it counts as before.
    let inside = "import os, urllib.request as r; ask = r.Request(os.environ['CALLBACK_URL'] + '/api/v1/whoami', \
                  headers={'authorization': 'Bearer ' + os.environ['OMOI_TOKEN']}); \
                  print(r.build_opener(r.ProxyHandler({})).open(ask).status)";
    assert_eq!(omoi.run(&project, &["/usr/bin/python3", "-c", inside]).await.ok(), "200");
    omoi.terminate(&sandbox).await;
}
