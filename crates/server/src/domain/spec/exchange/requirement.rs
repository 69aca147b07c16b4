//! A requirement as both layouts read it.

use omoi_protocol::spec::output::Requirement;
use serde_json::{Value, json};

const TITLE_CHARS_MAX: usize = 80;

/// Only what Markdown shows.
pub fn shown(one: &Requirement) -> Value {
    let category = one.id.rsplit('-').nth(1).unwrap_or("FUNC");
    let mut value = json!({
        "id": one.id,
        "title": one.title,
        "category": category,
        "text": one.text,
        "acceptance_criteria": one.acceptance_criteria,
    });
    if !one.priority.is_empty() {
        value["priority"] = one.priority.as_str().into();
    }
    if !one.dependencies.is_empty() {
        value["dependencies"] = json!(one.dependencies);
    }
    one.rest.iter().for_each(|(key, rest)| value[key] = rest.clone());
    value
}

/// The beginning of a text, for a title.
pub fn short(text: &str) -> String {
    text.char_indices().nth(TITLE_CHARS_MAX).map_or(text, |(end, _)| &text[..end]).trim().to_owned()
}
