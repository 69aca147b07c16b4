//! One event in one line.

use omoi_protocol::event::StoredEvent;
use owo_colors::Style as Paint;
use serde_json::Value;

use crate::{
    out::{Style, clean},
    text::short,
};

const SUMMARY_CHARS_MAX: usize = 120;
/// Where an event says in words what happened, best first.
const TELLING: &[&str] = &[
    "error",
    "content",
    "message",
    "text",
    "final_output",
    "result",
    "summary",
    "reason",
    "task",
    "title",
    "step",
    "name",
    "status",
];

/// `12:30:05     7 agent.tool_use         Bash: cargo test`
pub fn line(event: &StoredEvent, style: Style) -> String {
    let time = event.created_at.strftime("%H:%M:%S").to_string();
    let kind = format!("{:<24}", clean(&event.event_type));
    format!(
        "{} {:>5} {} {}",
        style.paint(&time, Paint::new().dimmed()),
        event.seq,
        style.paint(&kind, paint(&event.event_type)),
        summary(event)
    )
    .trim_end()
    .to_owned()
}

fn paint(event_type: &str) -> Paint {
    let bad = ["failed", "error", "lost"];
    let good = ["completed", "ready", "pushed"];
    match event_type.rsplit(['.', '_']).next() {
        Some(word) if bad.contains(&word) => Paint::new().red(),
        Some(word) if good.contains(&word) => Paint::new().green(),
        Some("heartbeat") => Paint::new().dimmed(),
        _ => Paint::new().cyan(),
    }
}

/// What happened, as far as a line can tell.
pub fn summary(event: &StoredEvent) -> String {
    let Ok(Value::Object(data)) = serde_json::from_str(event.event_data.get()) else { return String::new() };
    let text = |key: &str| data.get(key).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    let told = if let Some(tool) = text("tool") {
        let input = data.get("input").or(data.get("tool_input")).unwrap_or(&Value::Null);
        match text("result").or(argument(input)) {
            Some(detail) => format!("{tool}: {detail}"),
            None => tool.to_owned(),
        }
    } else if let Some(path) = text("file_path") {
        let count = |key: &str| data.get(key).and_then(Value::as_u64).unwrap_or(0);
        let change = text("change_type").unwrap_or("changed");
        format!("{change} {path} (+{} -{})", count("lines_added"), count("lines_removed"))
    } else if let Some(words) = TELLING.iter().find_map(|key| text(key)) {
        words.to_owned()
    } else if data.is_empty() {
        String::new()
    } else {
        Value::Object(data).to_string()
    };
    short(&clean(&told), SUMMARY_CHARS_MAX)
}

/// The argument of a tool that says most.
pub fn argument(input: &Value) -> Option<&str> {
    let telling = ["command", "file_path", "path", "pattern", "query", "url", "description", "prompt"];
    telling.iter().find_map(|key| input.get(key)?.as_str())
}

#[cfg(test)]
pub mod tests {
    use omoi_protocol::{EventId, EventSource};
    use serde_json::{json, value::to_raw_value};

    use super::*;

    pub fn event(event_type: &str, data: &Value) -> StoredEvent {
        StoredEvent {
            id: EventId(9),
            sandbox_id: "sbx-1".parse().unwrap(),
            seq: 7,
            worker_seq: None,
            event_type: event_type.to_owned(),
            event_data: to_raw_value(data).unwrap(),
            source: EventSource::Agent,
            created_at: "2026-01-01T12:30:05Z".parse().unwrap(),
        }
    }

    #[test]
    fn an_event_tells_what_happened_in_one_line() {
        let edited = json!({ "file_path": "a.rs", "change_type": "modified", "lines_added": 2 });
        for (data, told) in [
            (json!({ "tool": "Bash", "input": { "command": "cargo test" } }), "Bash: cargo test"),
            (json!({ "tool": "Bash", "result": "ok\nmore" }), "Bash: ok…"),
            (json!({ "tool": "Think" }), "Think"),
            (edited, "modified a.rs (+2 -0)"),
            (json!({ "turn": 3, "content": "Hello" }), "Hello"),
            (json!({ "error": "\u{1b}[31mno" }), "\\u{1b}[31mno"),
            (json!({ "exit_code": 1 }), r#"{"exit_code":1}"#),
            (json!({}), ""),
        ] {
            assert_eq!(summary(&event("x", &data)), told);
        }
        let plain = line(&event("agent.message", &json!({ "content": "Hello" })), Style::PLAIN);
        assert_eq!(plain, "12:30:05     7 agent.message            Hello");
        assert_eq!(line(&event("agent.waiting", &json!({})), Style::PLAIN), "12:30:05     7 agent.waiting");
    }
}
