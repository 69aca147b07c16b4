//! An agent in a nutshell: it asks the model, does with real tools what it says, and asks again.

use std::{fs, os::unix::fs::PermissionsExt, process::Output};

use omoi_server::config::Config;
use serde_json::{Value, json};

use crate::app::{Answer, App, Sandbox, answer};

const TURNS_MAX: usize = 50;

/// A conversation.
pub struct Client<'a> {
    pub app: &'a App,
    pub sandbox: Sandbox,
    pub model: String,
    pub stream: bool,
    pub messages: Vec<Value>,
    /// Where the tools work.
    pub dir: tempfile::TempDir,
    /// Answers that could not be used.
    pub troubles: Vec<String>,
}

/// A usable answer.
#[derive(Debug, Clone)]
pub struct Said {
    pub content: Vec<Value>,
    pub stop_reason: String,
    pub usage: Value,
}

impl Said {
    pub fn text(&self) -> String {
        self.content.iter().filter_map(|block| block["text"].as_str()).collect()
    }

    pub fn calls(&self) -> Vec<&Value> {
        self.content.iter().filter(|block| block["type"] == "tool_use").collect()
    }
}

impl<'a> Client<'a> {
    pub async fn new(app: &'a App, scenario: &str) -> Self {
        Self {
            sandbox: app.sandbox_with_task().await,
            app,
            model: format!("scripted/{scenario}"),
            stream: true,
            messages: vec![json!({ "role": "user", "content": "Do it." })],
            dir: tempfile::tempdir().unwrap(),
            troubles: Vec::new(),
        }
    }

    pub fn body(&self) -> Value {
        json!({
            "model": self.model, "max_tokens": 1000, "stream": self.stream, "messages": self.messages,
            "tools": [{ "name": "Bash", "input_schema": { "type": "object" } }],
        })
    }

    /// One request and the answer as it is.
    async fn send(&self) -> reqwest::Result<reqwest::Response> {
        let request = self.app.model_request(&self.sandbox.token, "/anthropic/v1/messages");
        request.json(&self.body()).send().await
    }

    pub async fn whole(&self) -> Answer {
        answer(self.app.model_request(&self.sandbox.token, "/anthropic/v1/messages").json(&self.body())).await
    }

    /// Asks once; what is wrong with an answer that cannot be used.
    pub async fn ask(&self) -> Result<Said, String> {
        // An answer that is cut off may be so before its head is on the way.
        let response = self.send().await.map_err(|_| "cut".to_owned())?;
        let status = response.status();
        let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
        let bytes = response.bytes().await.map_err(|_| "cut".to_owned())?;
        if status != 200 {
            return Err(format!("status {}", status.as_u16()));
        }
        let text = std::str::from_utf8(&bytes).map_err(|_| "no text".to_owned())?;
        match (self.stream, kind.as_str()) {
            (true, "text/event-stream; charset=utf-8") => read_stream(text),
            (false, "application/json") => read_whole(text),
            _ => Err(format!("content type {kind}")),
        }
    }

    /// Asks until there is a usable answer, and keeps it.
    pub async fn turn(&mut self) -> Said {
        for _ in 0..5 {
            match self.ask().await {
                Ok(said) => {
                    self.messages.push(json!({ "role": "assistant", "content": said.content }));
                    return said;
                }
                Err(trouble) => self.troubles.push(trouble),
            }
        }
        panic!("no usable answer: {:?}", self.troubles);
    }

    /// Gives results to the calls of the last answer, and what else there is to say.
    pub fn results(&mut self, of: &Said, result: &str, is_error: bool, message: Option<&str>) {
        let mut content: Vec<Value> =
            of.calls().iter().map(|call| result_of(call, result, is_error)).collect();
        content.extend(message.map(|text| json!({ "type": "text", "text": text })));
        self.messages.push(json!({ "role": "user", "content": content }));
    }

    /// Does for real what the answer says.
    pub fn work(&mut self, said: &Said) {
        let results = said.calls().into_iter().map(|call| match self.tool(call) {
            Ok(text) => result_of(call, &text, false),
            Err(text) => result_of(call, &text, true),
        });
        let content: Vec<Value> = results.collect();
        self.messages.push(json!({ "role": "user", "content": content }));
    }

    /// Works until the model ends its turn; what it said last.
    pub async fn play(&mut self) -> String {
        for _ in 0..TURNS_MAX {
            let said = self.turn().await;
            if said.stop_reason != "tool_use" {
                return said.text();
            }
            self.work(&said);
        }
        panic!("no end within {TURNS_MAX} turns");
    }

    fn tool(&self, call: &Value) -> Result<String, String> {
        let input = |name: &str| call["input"][name].as_str().unwrap_or_else(|| panic!("{name} of {call}"));
        let path = || self.dir.path().join(input("file_path"));
        match call["name"].as_str().unwrap() {
            "Write" if path().exists() => Err("the file exists; read it first".to_owned()),
            "Write" => {
                fs::write(path(), input("content")).map(|()| "written".to_owned()).map_err(|e| e.to_string())
            }
            "Read" => fs::read_to_string(path()).map_err(|error| error.to_string()),
            "Edit" => {
                let text = fs::read_to_string(path()).map_err(|error| error.to_string())?;
                if text.matches(input("old_string")).count() != 1 {
                    return Err("old_string is not there once".to_owned());
                }
                fs::write(path(), text.replace(input("old_string"), input("new_string"))).unwrap();
                Ok("changed".to_owned())
            }
            "Bash" => {
                let Output { stdout, stderr, status } = self.shell(input("command"));
                let text = String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr);
                if status.success() { Ok(text) } else { Err(text) }
            }
            other => panic!("no tool {other}"),
        }
    }

    #[expect(clippy::disallowed_methods, reason = "the tool of an agent that the test plays")]
    fn shell(&self, command: &str) -> Output {
        std::process::Command::new("/bin/sh")
            .args(["-c", command])
            .current_dir(self.dir.path())
            .output()
            .unwrap()
    }
}

fn result_of(call: &Value, text: &str, is_error: bool) -> Value {
    json!({ "type": "tool_result", "tool_use_id": call["id"], "content": text, "is_error": is_error })
}

fn read_whole(text: &str) -> Result<Said, String> {
    let message: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    Ok(Said {
        content: message["content"].as_array().unwrap().clone(),
        stop_reason: message["stop_reason"].as_str().unwrap().to_owned(),
        usage: message["usage"].clone(),
    })
}

/// Reads a stream as strictly as any client does: every event in its place, and void without its end.
fn read_stream(text: &str) -> Result<Said, String> {
    let mut events = Vec::new();
    for event in text.split_terminator("\n\n") {
        let (name, data) = event.split_once('\n').ok_or("no event")?;
        let data: Value = serde_json::from_str(data.strip_prefix("data: ").ok_or("no data")?)
            .map_err(|error| error.to_string())?;
        assert_eq!(name.strip_prefix("event: "), data["type"].as_str(), "{event}");
        events.push(data);
    }
    if let Some(error) = events.iter().find(|event| event["type"] == "error") {
        return Err(format!("error {}", error["error"]["type"].as_str().unwrap()));
    }
    let first = events.first().filter(|event| event["type"] == "message_start").ok_or("no start")?.clone();
    if events.last().unwrap()["type"] != "message_stop" {
        return Err("no end".to_owned());
    }
    let mut said =
        Said { content: Vec::new(), stop_reason: String::new(), usage: first["message"]["usage"].clone() };
    let mut arguments = String::new();
    for event in &events[1..] {
        let block = said.content.len().wrapping_sub(1);
        match event["type"].as_str().unwrap() {
            "content_block_start" => {
                assert_eq!(event["index"], said.content.len());
                said.content.push(event["content_block"].clone());
                arguments.clear();
            }
            "content_block_delta" => {
                assert_eq!(event["index"], block);
                let delta = &event["delta"];
                match delta["type"].as_str().unwrap() {
                    "text_delta" => append(&mut said.content[block]["text"], &delta["text"]),
                    "thinking_delta" => append(&mut said.content[block]["thinking"], &delta["thinking"]),
                    "signature_delta" => append(&mut said.content[block]["signature"], &delta["signature"]),
                    "input_json_delta" => arguments.push_str(delta["partial_json"].as_str().unwrap()),
                    other => panic!("no delta {other}"),
                }
            }
            "content_block_stop" if said.content[block]["type"] == "tool_use" => {
                said.content[block]["input"] =
                    serde_json::from_str(&arguments).map_err(|_| format!("arguments {arguments}"))?;
            }
            "message_delta" => {
                said.stop_reason = event["delta"]["stop_reason"].as_str().unwrap().to_owned();
                said.usage["output_tokens"] = event["usage"]["output_tokens"].clone();
            }
            "content_block_stop" | "ping" | "message_stop" => {}
            other => panic!("no event {other}"),
        }
    }
    Ok(said)
}

fn append(to: &mut Value, more: &Value) {
    *to = format!("{}{}", to.as_str().unwrap(), more.as_str().unwrap()).into();
}

/// Puts a scenario of the test's own where the server finds it.
pub fn with(config: &mut Config, name: &str, text: &str) {
    let directory = config.data_dir.join("scenarios");
    fs::create_dir_all(&directory).unwrap();
    // Omoi refuses a directory with other entries that others may read.
    fs::set_permissions(&config.data_dir, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(directory.join(format!("{name}.yaml")), text).unwrap();
    config.model.scenarios = Some(directory);
}

/// Everything at once, so that no test waits.
pub fn fast(config: &mut Config) {
    config.model.scenario_speed = 1000.0;
}
