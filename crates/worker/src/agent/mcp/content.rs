//! What a tool gives, as text for the model. What is no text is named.

use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Given {
    #[serde(default)]
    content: Vec<Value>,
    structured_content: Option<Value>,
    #[serde(default)]
    is_error: bool,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part {
    Text {
        text: String,
    },
    #[serde(rename_all = "camelCase")]
    Image {
        data: String,
        mime_type: String,
    },
    #[serde(rename_all = "camelCase")]
    Audio {
        data: String,
        mime_type: String,
    },
    ResourceLink {
        uri: String,
        #[serde(default)]
        name: String,
    },
    Resource {
        resource: Resource,
    },
}

#[derive(Deserialize)]
struct Resource {
    uri: String,
    text: Option<String>,
    blob: Option<String>,
}

/// The text, and whether it tells of a failure. None for what is no result of a tool.
pub fn text(result: Value) -> Option<(String, bool)> {
    let given: Given = serde_json::from_value(result).ok()?;
    let mut parts: Vec<String> = given.content.into_iter().map(part).collect();
    if let (true, Some(structured)) = (parts.is_empty(), given.structured_content) {
        parts.push(structured.to_string());
    }
    Some((parts.join("\n\n"), given.is_error))
}

fn part(value: Value) -> String {
    let kind = value["type"].as_str().unwrap_or("?").to_owned();
    match serde_json::from_value(value) {
        Ok(Part::Text { text }) => text,
        Ok(Part::Image { data, mime_type } | Part::Audio { data, mime_type }) => {
            format!("[{kind}: {mime_type}, {} bytes, not shown]", bytes(&data))
        }
        Ok(Part::ResourceLink { uri, name }) => format!("[resource {name} at {uri}]"),
        Ok(Part::Resource { resource: Resource { uri, text: Some(text), .. } }) => {
            format!("[resource {uri}]\n{text}")
        }
        Ok(Part::Resource { resource: Resource { uri, blob, .. } }) => {
            format!("[resource {uri}: {} bytes, not shown]", bytes(&blob.unwrap_or_default()))
        }
        Err(_) => format!("[{kind}: not shown]"),
    }
}

/// That so much base64 stands for.
fn bytes(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 3 / 4
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_is_taken_and_everything_else_is_named() {
        for (result, expected) in [
            (json!({ "content": [] }), Some(("", false))),
            (json!({}), Some(("", false))),
            (json!("x"), None),
            (json!({ "content": [{ "type": "text", "text": "a" }], "isError": true }), Some(("a", true))),
            (
                json!({ "content": [{ "type": "text", "text": "a" }, { "type": "image", "data": "Zm9vYg==", "mimeType": "image/png" }] }),
                Some(("a\n\n[image: image/png, 4 bytes, not shown]", false)),
            ),
            (
                json!({ "content": [{ "type": "resource_link", "uri": "file:///a", "name": "a" }] }),
                Some(("[resource a at file:///a]", false)),
            ),
            (
                json!({ "content": [{ "type": "resource", "resource": { "uri": "x:y", "text": "z" } }] }),
                Some(("[resource x:y]\nz", false)),
            ),
            (
                json!({ "content": [{ "type": "resource", "resource": { "uri": "x:y", "blob": "Zm8=" } }] }),
                Some(("[resource x:y: 2 bytes, not shown]", false)),
            ),
            (json!({ "content": [{ "type": "hologram" }] }), Some(("[hologram: not shown]", false))),
            (json!({ "content": [], "structuredContent": { "a": 1 } }), Some((r#"{"a":1}"#, false))),
        ] {
            let expected = expected.map(|(text, is_error)| (text.to_owned(), is_error));
            assert_eq!(text(result.clone()), expected, "{result}");
        }
    }
}
