//! Claude Code's stream-json: one message per line, as the program writes it, or as a wire log holds it
//! (`{"t": …, "dir": …, "m": …}`).

use std::collections::HashMap;

use omoi_protocol::event::StoredEvent;
use serde_json::Value;

use super::make::{Make, time};

pub fn events(text: &str) -> Vec<StoredEvent> {
    let mut reader = Reader { make: Make::new(), open: HashMap::new(), message: String::new(), last: None };
    for line in text.lines() {
        let Ok(record) = serde_json::from_str::<Value>(line) else { continue };
        if reader.make.is_full() {
            break;
        }
        reader.record(&record);
    }
    reader.done()
}

struct Reader {
    make: Make,
    /// Calls that change files or ask helpers, until their result is there.
    open: HashMap<String, (String, Value)>,
    /// The answer whose tokens were counted.
    message: String,
    last: Option<(bool, String, Option<f64>)>,
}

impl Reader {
    fn record(&mut self, record: &Value) {
        let inner = record.get("m").filter(|inner| inner.is_object()).unwrap_or(record);
        self.make.now(time(inner.get("timestamp")));
        let parent = inner["parent_tool_use_id"].as_str();
        match inner["type"].as_str() {
            // It comes before every turn.
            Some("system") if inner["subtype"] == "init" && self.last.is_none() => {
                self.make.started("claude-code", inner["model"].as_str());
            }
            Some("assistant") => self.assistant(&inner["message"], parent),
            Some("user") => self.user(inner, parent),
            Some("result") => {
                let text = inner["result"].as_str().unwrap_or_default();
                let well = inner["subtype"] == "success" && inner["is_error"] != true;
                self.make.halted(text);
                self.last = Some((well, text.to_owned(), inner["total_cost_usd"].as_f64()));
            }
            _ => {}
        }
    }

    fn assistant(&mut self, message: &Value, parent: Option<&str>) {
        let id = message["id"].as_str().unwrap_or_default();
        if self.message != id {
            // Each block of an answer repeats the tokens of the whole.
            id.clone_into(&mut self.message);
            let tokens = |key: &str| message["usage"][key].as_u64().unwrap_or(0);
            let input = tokens("input_tokens") + tokens("cache_creation_input_tokens");
            self.make.spent(input, tokens("output_tokens"), 0.0);
        }
        for block in message["content"].as_array().into_iter().flatten() {
            match block["type"].as_str() {
                Some("text") => self.make.said(block["text"].as_str().unwrap_or_default(), parent),
                Some("tool_use") => self.call(block, parent),
                _ => {}
            }
        }
    }

    fn call(&mut self, block: &Value, parent: Option<&str>) {
        let text = |key: &str| block[key].as_str().unwrap_or_default();
        let (id, tool, input) = (text("id"), text("name"), &block["input"]);
        match tool {
            "Task" | "Agent" => self.make.helper(id, input["prompt"].as_str().unwrap_or_default()),
            _ => self.make.call(tool, id, input, parent),
        }
        if matches!(tool, "Edit" | "Write" | "MultiEdit") {
            self.open.insert(id.to_owned(), (tool.to_owned(), input.clone()));
        }
    }

    fn user(&mut self, record: &Value, parent: Option<&str>) {
        let content = &record["message"]["content"];
        let is_ours = record["isSynthetic"] == true || record["isMeta"] == true || parent.is_some();
        if let Some(text) = content.as_str().filter(|_| !is_ours) {
            self.make.told(text);
        }
        for block in content.as_array().into_iter().flatten() {
            match block["type"].as_str() {
                Some("text") if !is_ours => self.make.told(block["text"].as_str().unwrap_or_default()),
                Some("tool_result") => self.result(block),
                _ => {}
            }
        }
    }

    fn result(&mut self, block: &Value) {
        let id = block["tool_use_id"].as_str().unwrap_or_default();
        let failed = block["is_error"] == true;
        let text = match &block["content"] {
            Value::Array(parts) => {
                parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
            }
            other => other.as_str().unwrap_or_default().to_owned(),
        };
        self.make.result(id, &text, failed);
        let Some((tool, input)) = self.open.remove(id).filter(|_| !failed) else { return };
        let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let path = text(&input, "file_path");
        match tool.as_str() {
            "Write" => self.make.edited(&path, None, Some(&text(&input, "content"))),
            "Edit" => self.edit(&path, &input),
            _ => input["edits"].as_array().into_iter().flatten().for_each(|edit| self.edit(&path, edit)),
        }
    }

    fn edit(&mut self, path: &str, edit: &Value) {
        let text = |key: &str| edit[key].as_str().unwrap_or_default();
        self.make.edited(path, Some(text("old_string")), Some(text("new_string")));
    }

    fn done(mut self) -> Vec<StoredEvent> {
        if let Some((well, text, usd)) = self.last.take() {
            self.make.ended(well, &text, usd);
        }
        self.make.done()
    }
}
