//! Tools of servers in the shape that models are told of: names, descriptions and schemas that every model API takes. One
//! that does not fit would have the whole question refused.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::session::Tool;
use crate::agent::{http::quote, talk::ToolSpec};

const NAME_CHARS_MAX: usize = 64;
const DESCRIPTION_CHARS_MAX: usize = 4_000;
const SCHEMA_BYTES_MAX: usize = 64 * 1024;

/// Why a tool is not offered.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("tool {name} of MCP server {server} is left out: its schema has more than {SCHEMA_BYTES_MAX} bytes")]
pub struct TooLarge {
    server: String,
    name: String,
}

pub fn spec(server: &str, tool: &Tool, taken: &mut BTreeSet<String>) -> Result<ToolSpec, TooLarge> {
    let input_schema = schema(&tool.input_schema);
    if input_schema.to_string().len() > SCHEMA_BYTES_MAX {
        return Err(TooLarge { server: server.to_owned(), name: quote(&tool.name, NAME_CHARS_MAX) });
    }
    let description = tool.description.as_deref().unwrap_or_default();
    Ok(ToolSpec {
        name: name(server, &tool.name, taken),
        description: description.chars().take(DESCRIPTION_CHARS_MAX).collect(),
        input_schema,
    })
}

/// Of characters that are allowed, short enough, and nobody else's. The same in each run as long as the servers offer the
/// same, so that a conversation can be taken up again.
fn name(server: &str, tool: &str, taken: &mut BTreeSet<String>) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let full: String = format!("mcp__{server}__{tool}").chars().map(fit).collect();
    let cut = |suffix: &str| {
        let end = full.len().min(NAME_CHARS_MAX - suffix.len());
        format!("{}{suffix}", &full[..end])
    };
    let mut name = cut("");
    let mut number = 2;
    while taken.contains(&name) {
        name = cut(&format!("_{number}"));
        number += 1;
    }
    taken.insert(name.clone());
    name
}

/// An object, as every model API wants it, and at its top none of what some refuse there.
fn schema(given: &Map<String, Value>) -> Value {
    let mut schema = given.clone();
    schema.insert("type".to_owned(), Value::String("object".to_owned()));
    for word in ["oneOf", "anyOf", "allOf", "$schema"] {
        schema.remove(word);
    }
    if !schema.get("properties").is_some_and(Value::is_object) {
        schema.insert("properties".to_owned(), Value::Object(Map::new()));
    }
    Value::Object(schema)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str, schema: Value) -> Tool {
        let Value::Object(input_schema) = schema else { panic!("{schema}") };
        Tool { name: name.to_owned(), description: None, input_schema }
    }

    #[test]
    fn names_are_allowed_short_and_unique() {
        let mut taken = BTreeSet::new();
        let mut named =
            |server: &str, name: &str| spec(server, &tool(name, json!({})), &mut taken).unwrap().name;
        assert_eq!(named("files", "read-file"), "mcp__files__read-file");
        assert_eq!(named("my files", "read.file/ö"), "mcp__my_files__read_file__");
        assert_eq!(named("my.files", "read file/ä"), "mcp__my_files__read_file___2");
        let long = "x".repeat(100);
        let names = [named("a", &long), named("a", &long), named("a", &long)];
        assert!(names.iter().all(|name| name.len() == 64), "{names:?}");
        assert!(names[1].ends_with("x_2") && names[2].ends_with("x_3"), "{names:?}");
    }

    #[test]
    fn schemas_are_made_such_that_no_model_refuses_them() {
        for (given, sent) in [
            (json!({}), json!({ "type": "object", "properties": {} })),
            (
                json!({ "type": "object", "properties": { "a": { "anyOf": [] } }, "required": ["a"] }),
                json!({ "type": "object", "properties": { "a": { "anyOf": [] } }, "required": ["a"] }),
            ),
            (
                json!({ "$schema": "x", "oneOf": [{}], "properties": null }),
                json!({ "type": "object", "properties": {} }),
            ),
        ] {
            let spec = spec("s", &tool("t", given), &mut BTreeSet::new()).unwrap();
            assert_eq!(spec.input_schema, sent);
        }
        let large = json!({ "description": "x".repeat(SCHEMA_BYTES_MAX) });
        let error = spec("s", &tool("t", large), &mut BTreeSet::new()).unwrap_err();
        assert!(error.to_string().starts_with("tool t of MCP server s is left out"), "{error}");
    }
}
