//! Files that are one JSON document: a trajectory, a page of events, or a list of records.

use serde_json::{Map, Value};

pub enum Document {
    SweAgent(Map<String, Value>),
    OpenHands(Vec<Value>),
    /// A page of our events, as the API answers.
    Own(Vec<Value>),
    /// A list of what other files hold line by line.
    Records(Vec<Value>),
}

/// None for a file of lines.
pub fn read(bytes: &[u8]) -> Option<Document> {
    let text = std::str::from_utf8(bytes).ok()?;
    let value: Value = serde_json::from_str(text.trim_start_matches('\u{feff}').trim()).ok()?;
    match value {
        Value::Array(list) if list.iter().any(is_openhands) => Some(Document::OpenHands(list)),
        Value::Array(list) => Some(Document::Records(list)),
        Value::Object(page) if is_swe_agent(&page) => Some(Document::SweAgent(page)),
        Value::Object(mut page) => match (page.remove("history"), page.remove("events")) {
            (Some(Value::Array(list)), _) => Some(Document::OpenHands(list)),
            (_, Some(Value::Array(list))) => Some(Document::Own(list)),
            (history, events) => {
                page.extend(history.map(|history| ("history".to_owned(), history)));
                page.extend(events.map(|events| ("events".to_owned(), events)));
                Some(Document::Records(vec![Value::Object(page)]))
            }
        },
        other => Some(Document::Records(vec![other])),
    }
}

fn is_swe_agent(page: &Map<String, Value>) -> bool {
    let speaks = |history: &Value| history[0].get("role").is_some();
    page.contains_key("trajectory") || page.get("history").is_some_and(speaks)
}

/// Evaluations keep an action and its observation together.
fn is_openhands(record: &Value) -> bool {
    let one = record.get(0).unwrap_or(record);
    one.get("action").is_some() || one.get("observation").is_some()
}
