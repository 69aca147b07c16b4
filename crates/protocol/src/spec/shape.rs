//! Whether an output has the shape its phase asks for, and if not, where it differs, in words that whoever wrote it can act
//! on. Everything is bounded, for the text comes from an agent.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::{Phase, output};

pub const OUTPUT_BYTES_MAX: usize = 1 << 20;
pub const OUTPUT_DEPTH_MAX: usize = 64;
const ITEMS_MAX: usize = 500;
const TITLE_CHARS_MAX: usize = 500;
const WRONG_MAX: usize = 20;
const QUOTED_CHARS_MAX: usize = 60;

/// A place in an output and what is wrong there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// A JSON path such as `$.tasks[2].title`.
    pub at: String,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    #[error("$: the output has {bytes} bytes; at most {OUTPUT_BYTES_MAX} are taken, so shorten its texts")]
    TooLarge { bytes: usize },
    #[error(
        "$: lists and objects are nested deeper than {OUTPUT_DEPTH_MAX} levels at byte {at}; flatten them"
    )]
    TooDeep { at: usize },
    #[error("$: not JSON ({why}); write one JSON object and nothing around it")]
    NotJson { why: String },
    #[error("{}", listed(.wrong, *.more))]
    Wrong { wrong: Vec<Wrong>, more: usize },
}

impl ShapeError {
    /// Each place by itself.
    pub fn places(&self) -> Vec<Wrong> {
        match self {
            Self::Wrong { wrong, .. } => wrong.clone(),
            whole => {
                let text = whole.to_string();
                vec![Wrong { at: "$".to_owned(), text: text.trim_start_matches("$: ").to_owned() }]
            }
        }
    }
}

/// Reads the text of an output file.
pub fn shape(phase: Phase, text: &str) -> Result<Value, ShapeError> {
    if text.len() > OUTPUT_BYTES_MAX {
        return Err(ShapeError::TooLarge { bytes: text.len() });
    }
    if let Some(at) = too_deep(text) {
        return Err(ShapeError::TooDeep { at });
    }
    let value = serde_json::from_str(text).map_err(|error| ShapeError::NotJson { why: error.to_string() })?;
    shape_of(phase, &value)?;
    Ok(value)
}

/// Checks an output that is JSON already.
pub fn shape_of(phase: Phase, value: &Value) -> Result<(), ShapeError> {
    let mut walk = Walk { at: "$".to_owned(), wrong: Vec::new(), more: 0 };
    walk.value(value, &output::kind(phase), 0);
    if walk.wrong.is_empty() { Ok(()) } else { Err(ShapeError::Wrong { wrong: walk.wrong, more: walk.more }) }
}

/// The keys of a phase's output as they are asked for, in the form of JSON with words in the place of values.
pub fn outline(phase: Phase) -> String {
    let mut text = String::new();
    outline_of(&output::kind(phase), &[], 0, &mut text);
    text
}

/// What a value has to be.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Text,
    Number,
    Flag,
    Any,
    Map,
    List(&'static Kind),
    Object(&'static [Field]),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Field {
    pub name: &'static str,
    pub need: bool,
    pub kind: Kind,
    /// The words it is one of, in any case; none for any text.
    pub words: &'static [&'static str],
}

impl Field {
    fn key(&self) -> &'static str {
        self.name.strip_prefix("r#").unwrap_or(self.name)
    }
}

pub(super) trait Shaped {
    const KIND: Kind;
}

impl Shaped for String {
    const KIND: Kind = Kind::Text;
}

impl Shaped for f64 {
    const KIND: Kind = Kind::Number;
}

impl Shaped for bool {
    const KIND: Kind = Kind::Flag;
}

impl Shaped for Value {
    const KIND: Kind = Kind::Any;
}

impl Shaped for Map<String, Value> {
    const KIND: Kind = Kind::Map;
}

impl<T: Shaped> Shaped for Option<T> {
    const KIND: Kind = T::KIND;
}

impl<T: Shaped> Shaped for Vec<T> {
    const KIND: Kind = Kind::List(&T::KIND);
}

impl Kind {
    fn expected(&self) -> &'static str {
        match self {
            Self::Text => "a string",
            Self::Number => "a number",
            Self::Flag => "true or false",
            Self::Any => "a value",
            Self::Map | Self::Object(_) => "an object",
            Self::List(Self::Text) => "a list of strings",
            Self::List(Self::Object(_)) => "a list of objects",
            Self::List(_) => "a list",
        }
    }
}

struct Walk {
    at: String,
    wrong: Vec<Wrong>,
    more: usize,
}

impl Walk {
    fn say(&mut self, text: String) {
        if self.wrong.len() < WRONG_MAX {
            self.wrong.push(Wrong { at: self.at.clone(), text });
        } else {
            self.more += 1;
        }
    }

    fn within(&mut self, step: &str, walk: impl FnOnce(&mut Self)) {
        let end = self.at.len();
        self.at.push_str(step);
        walk(self);
        self.at.truncate(end);
    }

    /// `depth` guards a value that was not read from text by `shape`.
    fn value(&mut self, value: &Value, kind: &Kind, depth: usize) {
        if depth >= OUTPUT_DEPTH_MAX {
            return self.say(format!("is nested deeper than {OUTPUT_DEPTH_MAX} levels; flatten it"));
        }
        match (kind, value) {
            (Kind::Any, value) => self.any(value, depth),
            (Kind::Text, Value::String(text)) => self.text(text),
            (Kind::Number, Value::Number(_)) | (Kind::Flag, Value::Bool(_)) => {}
            (Kind::Map, Value::Object(_)) => self.any(value, depth),
            (Kind::List(kind), Value::Array(items)) => self.items(items, kind, depth),
            (Kind::Object(fields), Value::Object(object)) => self.object(object, fields, depth),
            (kind, other) => self.say(format!("is {}; expected {}", called(other), described(kind))),
        }
    }

    fn items(&mut self, items: &[Value], kind: &Kind, depth: usize) {
        if items.len() > ITEMS_MAX {
            return self.say(format!("has {} items; at most {ITEMS_MAX} are taken", items.len()));
        }
        for (at, item) in items.iter().enumerate() {
            self.within(&format!("[{at}]"), |walk| {
                walk.value(item, kind, depth + 1);
                if matches!((kind, item), (Kind::Text, Value::String(text)) if text.trim().is_empty()) {
                    walk.say("is empty; write it or leave the item out".to_owned());
                }
            });
        }
    }

    fn object(&mut self, object: &Map<String, Value>, fields: &[Field], depth: usize) {
        for field in fields {
            self.within(&format!(".{}", field.key()), |walk| match object.get(field.key()) {
                None | Some(Value::Null) if !field.need => {}
                None => walk.say(format!("is missing; expected {}", described(&field.kind))),
                Some(Value::Null) => walk.say(format!("is null; expected {}", described(&field.kind))),
                Some(value) => {
                    walk.value(value, &field.kind, depth + 1);
                    walk.said(value, field);
                }
            });
        }
        for (key, value) in object {
            if !fields.iter().any(|field| field.key() == key) {
                self.key(key, |walk| walk.any(value, depth + 1));
            }
        }
    }

    /// What is asked of the text of a field beyond being text.
    fn said(&mut self, value: &Value, field: &Field) {
        let Value::String(text) = value else { return };
        if field.need && text.trim().is_empty() {
            self.say(format!("is empty; expected {} that says something", field.kind.expected()));
        } else if !field.words.is_empty()
            && !text.is_empty()
            && !field.words.iter().any(|word| word.eq_ignore_ascii_case(text))
        {
            self.say(format!("is {}; expected one of {}", quoted(text), field.words.join(", ")));
        } else if field.name == "title" && text.chars().count() > TITLE_CHARS_MAX {
            self.say(format!("has more than {TITLE_CHARS_MAX} characters; shorten it"));
        }
    }

    fn any(&mut self, value: &Value, depth: usize) {
        if depth >= OUTPUT_DEPTH_MAX {
            return self.say(format!("is nested deeper than {OUTPUT_DEPTH_MAX} levels; flatten it"));
        }
        match value {
            Value::String(text) => self.text(text),
            Value::Array(items) => self.items(items, &Kind::Any, depth),
            Value::Object(object) => {
                for (key, value) in object {
                    self.key(key, |walk| walk.any(value, depth + 1));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn key(&mut self, key: &str, walk: impl FnOnce(&mut Self)) {
        let plain = !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || c == '_');
        let step = if plain { format!(".{}", cut(key)) } else { format!("[{}]", quoted(key)) };
        self.within(&step, |inner| {
            inner.text(key);
            walk(inner);
        });
    }

    /// Databases do not take it.
    fn text(&mut self, text: &str) {
        if text.contains('\0') {
            self.say("holds a NUL character; take it out".to_owned());
        }
    }
}

fn described(kind: &Kind) -> String {
    let keys = |fields: &[Field]| {
        let need: Vec<&str> = fields.iter().filter(|field| field.need).map(Field::key).collect();
        let keys = if need.is_empty() { fields.iter().map(Field::key).collect() } else { need };
        keys.join(", ")
    };
    match kind {
        Kind::Object(fields) => format!("an object with {}", keys(fields)),
        Kind::List(Kind::Object(fields)) => format!("a list of objects with {}", keys(fields)),
        other => other.expected().to_owned(),
    }
}

fn called(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("the string {}", quoted(text)),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

fn quoted(text: &str) -> String {
    let short = cut(text);
    if short.len() == text.len() { format!("{text:?}") } else { format!("{:?}", format!("{short}…")) }
}

fn cut(text: &str) -> &str {
    text.char_indices().nth(QUOTED_CHARS_MAX).map_or(text, |(end, _)| &text[..end])
}

fn listed(wrong: &[Wrong], more: usize) -> String {
    let mut text = String::new();
    for Wrong { at, text: why } in wrong {
        let _ = writeln!(text, "{at} {why}");
    }
    if more > 0 {
        let _ = writeln!(text, "and {more} more");
    }
    text.trim_end().to_owned()
}

/// The byte at which the text nests too deeply, whether or not it is JSON.
fn too_deep(text: &str) -> Option<usize> {
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'[' | b'{' => {
                depth += 1;
                if depth > OUTPUT_DEPTH_MAX {
                    return Some(at);
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

fn outline_of(kind: &Kind, words: &[&str], indent: usize, text: &mut String) {
    match kind {
        Kind::Object(fields) => {
            text.push_str("{\n");
            for field in *fields {
                let _ = write!(text, "{:1$}\"{2}\"", "", indent + 2, field.key());
                text.push_str(if field.need { ": " } else { " (optional): " });
                outline_of(&field.kind, field.words, indent + 2, text);
                text.push('\n');
            }
            let _ = write!(text, "{:indent$}}}", "");
        }
        Kind::List(kind) => {
            text.push('[');
            outline_of(kind, &[], indent, text);
            text.push(']');
        }
        Kind::Text if !words.is_empty() => text.push_str(&words.join(" | ")),
        other => text.push_str(other.expected()),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_outline_names_every_key_and_what_is_asked_of_it() {
        let text = outline(Phase::Tasks);
        for line in [
            "  \"feature_name\": a string\n",
            "    \"priority\" (optional): critical | high | medium | low | must | should | could\n",
            "    \"type\" (optional): a string\n",
            "      \"depends_on\" (optional): [a string]\n",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        for phase in Phase::ALL {
            assert!(outline(*phase).starts_with("{\n") && outline(*phase).ends_with("\n}"));
        }
    }

    #[test]
    fn unknown_keys_pass_through_and_null_is_absent() {
        let output = json!({
            "id": "TKT-001", "title": "A", "description": "B", "tasks": ["TSK-001"],
            "requirements": null, "dependencies": null, "house_rule": [1],
        });
        let ticket = output::Ticket::deserialize(&output).unwrap();
        assert_eq!((ticket.requirements.len(), &ticket.rest["house_rule"]), (0, &json!([1])));
        let whole = json!({ "feature_name": "F", "tickets": [output], "tasks": [], "more": { "x": null } });
        assert_eq!(shape(Phase::Tasks, &whole.to_string()), Ok(whole));
    }

    #[test]
    fn every_place_that_differs_is_told() {
        let text =
            r#"{"feature_name": 7, "tickets": [{"id": "TKT-001"}], "tasks": {}, "critical_path": [""]}"#;
        let error = shape(Phase::Tasks, text).unwrap_err();
        let told: Vec<String> = error.to_string().lines().map(str::to_owned).collect();
        let expected = [
            "$.feature_name is the number 7; expected a string",
            "$.tickets[0].title is missing; expected a string",
            "$.tickets[0].description is missing; expected a string",
            "$.tickets[0].tasks is missing; expected a list of strings",
            "$.tasks is an object; expected a list of objects with id, title, description, parent_ticket, acceptance_criteria",
            "$.critical_path[0] is empty; write it or leave the item out",
        ];
        assert_eq!(told, expected);
        assert_eq!(error.places().len(), 6);
        let whole = shape(Phase::Tasks, "x").unwrap_err().places();
        assert_eq!(whole[0].at, "$");
        assert!(whole[0].text.starts_with("not JSON (expected value"), "{whole:?}");
    }
}
