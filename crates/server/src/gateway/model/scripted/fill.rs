//! Puts what a conversation has brought into the texts and inputs of a step: `{n}`, `{turn}`, `{task}`, `{message}`,
//! `{result}` and `{sleep:SECONDS}`. Other braces are left alone, and `{{n}}` stands for `{n}` itself.

use serde_json::{Map, Value};

use super::{place::Place, talk::Talk};

/// More of a result or a message is not repeated.
const QUOTED_CHARS_MAX: usize = 20_000;

pub struct Filling<'a> {
    pub place: Place,
    pub talk: &'a Talk,
    /// What all times are divided by.
    pub speed: f64,
}

impl Filling<'_> {
    pub fn text(&self, template: &str) -> String {
        let mut out = String::with_capacity(template.len());
        let mut rest = template;
        while let Some(at) = rest.find('{') {
            out.push_str(&rest[..at]);
            rest = &rest[at..];
            let (text, length) = self.at_brace(rest).unwrap_or_else(|| ("{".to_owned(), 1));
            out.push_str(&text);
            rest = &rest[length..];
        }
        out + rest
    }

    /// Every text in it, however deep.
    pub fn input(&self, input: &Map<String, Value>) -> Map<String, Value> {
        input.iter().map(|(name, value)| (name.clone(), self.value(value))).collect()
    }

    fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => Value::Object(self.input(fields)),
            other => other.clone(),
        }
    }

    /// What stands for the beginning of the text, and how much of it.
    fn at_brace(&self, text: &str) -> Option<(String, usize)> {
        let escaped = text.strip_prefix("{{");
        let (name, rest) = escaped.unwrap_or(&text[1..]).split_once('}')?;
        let filled = self.named(name)?;
        match escaped {
            None => Some((filled, name.len() + 2)),
            Some(_) => rest.starts_with('}').then(|| (format!("{{{name}}}"), name.len() + 4)),
        }
    }

    fn named(&self, name: &str) -> Option<String> {
        let quoted = |text: &str| text.chars().take(QUOTED_CHARS_MAX).collect::<String>();
        Some(match name {
            "n" => self.place.repetition.to_string(),
            "turn" => self.place.turn.to_string(),
            "task" => quoted(&self.talk.opening.text()),
            "message" => quoted(&self.talk.last_message().unwrap_or_default()),
            "result" => quoted(self.talk.last_result().unwrap_or_default()),
            _ => {
                let seconds: f64 = name.strip_prefix("sleep:")?.trim().parse().ok()?;
                let seconds = (seconds / self.speed).clamp(0.0, 86_400.0);
                // Enough digits for a command, and none too many to read.
                ((seconds * 1000.0).ceil() / 1000.0).to_string()
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use omoi_protocol::Vendor;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_known_is_put_in_and_other_braces_stay() {
        let result =
            json!([{ "type": "tool_result", "tool_use_id": "t", "content": [{ "text": "{n} of it" }] }]);
        let body = json!({ "messages": [
            { "role": "user", "content": "the task" },
            { "role": "assistant", "content": "hm" },
            { "role": "user", "content": "a message" },
            { "role": "assistant", "content": [{ "type": "tool_use", "id": "t" }] },
            { "role": "user", "content": result },
        ] });
        let talk = Talk::parse(Vendor::Anthropic, body.to_string().as_bytes()).unwrap();
        let filling = Filling { place: Place { step: 0, repetition: 7, turn: 9 }, talk: &talk, speed: 4.0 };
        for (template, text) in [
            ("", ""),
            ("{n}/{turn}", "7/9"),
            ("{task}, {message}, {result}", "the task, a message, {n} of it"),
            ("sleep {sleep:2} {sleep: 0.001} {sleep:0}", "sleep 0.5 0.001 0"),
            ("{{n}} {{sleep:2}} {{x}} {{n}", "{n} {sleep:2} {{x}} {7"),
            ("{x} {} { n} {n {sleep:x} {sleep:-4} }", "{x} {} { n} {n {sleep:x} 0 }"),
            ("f\"{k}: { {n} }\" ü{", "f\"{k}: { 7 }\" ü{"),
        ] {
            assert_eq!(filling.text(template), text, "{template}");
        }
    }
}
