//! A request as far as it must be understood: which model, how long an answer, in one piece or as a stream.

use std::collections::BTreeMap;

use axum::body::Bytes;
use omoi_protocol::Vendor;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::refusal::Refusal;
use crate::domain::charge::{Ceiling, Output};

const MODEL_BYTES_MAX: usize = 200;

#[derive(Debug)]
pub struct Ask {
    pub model: String,
    /// What the call can be charged for.
    pub ceiling: Ceiling,
    /// What is sent on.
    pub body: Bytes,
}

#[derive(Deserialize)]
struct Fields {
    model: String,
    max_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
    n: Option<u64>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
}

#[derive(Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
}

impl Ask {
    pub fn parse(vendor: Vendor, body: Bytes) -> Result<Self, Refusal> {
        let fields: Fields = serde_json::from_slice(&body)
            .map_err(|error| Refusal::invalid(format!("the request cannot be read: {error}")))?;
        let fits = fields.model.len() <= MODEL_BYTES_MAX && !fields.model.chars().any(char::is_control);
        if fields.model.is_empty() || !fits {
            let message = format!("model must be a name of 1 to {MODEL_BYTES_MAX} bytes");
            return Err(Refusal::invalid(message));
        }
        // A vendor may heed either of the two.
        let each = fields.max_completion_tokens.max(fields.max_tokens);
        let ceiling = Ceiling { request_bytes: body.len() as u64, output: Output::asked(each, fields.n) };
        let told = fields.stream_options.is_some_and(|options| options.include_usage == Some(true));
        let silent = vendor == Vendor::Openai && fields.stream == Some(true) && !told;
        let body = if silent { with_usage(&body)? } else { body };
        Ok(Self { model: fields.model, ceiling, body })
    }
}

/// A stream tells what it used only when it is asked to.
fn with_usage(body: &[u8]) -> Result<Bytes, Refusal> {
    let unreadable =
        |error: serde_json::Error| Refusal::invalid(format!("the request cannot be read: {error}"));
    let mut fields: BTreeMap<String, Box<RawValue>> = serde_json::from_slice(body).map_err(unreadable)?;
    let mut options: BTreeMap<String, Box<RawValue>> = match fields.get("stream_options") {
        Some(options) if options.get() != "null" => {
            serde_json::from_str(options.get()).map_err(unreadable)?
        }
        _ => BTreeMap::new(),
    };
    options.insert("include_usage".to_owned(), raw(&true).map_err(unreadable)?);
    fields.insert("stream_options".to_owned(), raw(&options).map_err(unreadable)?);
    serde_json::to_vec(&fields).map(Bytes::from).map_err(unreadable)
}

fn raw(value: &impl serde::Serialize) -> serde_json::Result<Box<RawValue>> {
    serde_json::value::to_raw_value(value)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parse(vendor: Vendor, body: &Value) -> Ask {
        Ask::parse(vendor, body.to_string().into()).unwrap()
    }

    #[test]
    fn the_length_of_an_answer_is_bounded_by_what_the_request_says() {
        for (body, each, answers) in [
            (json!({ "model": "m" }), None, None),
            (json!({ "model": "m", "max_tokens": 7 }), Some(7), None),
            (json!({ "model": "m", "max_tokens": 7, "max_completion_tokens": 9, "n": 3 }), Some(9), Some(3)),
            (json!({ "model": "m", "max_tokens": 9000, "max_completion_tokens": 1 }), Some(9000), None),
            (json!({ "model": "m", "max_tokens": u64::MAX, "n": 2 }), Some(u64::MAX), Some(2)),
        ] {
            let ceiling = parse(Vendor::Openai, &body).ceiling;
            assert_eq!(ceiling.output, Output::asked(each, answers), "{body}");
            assert_eq!(ceiling.request_bytes, body.to_string().len() as u64);
        }
    }

    #[test]
    fn a_stream_of_openai_is_asked_for_its_usage_and_nothing_else_is_touched() {
        for (body, sent) in [
            (json!({ "model": "m", "stream": false }), None),
            (json!({ "model": "m", "stream": true, "stream_options": { "include_usage": true } }), None),
            (
                json!({ "model": "m", "stream": true, "x": [1.0, null] }),
                Some(json!({ "include_usage": true })),
            ),
            (
                json!({ "model": "m", "stream": true, "stream_options": { "a": 1, "include_usage": false } }),
                Some(json!({ "a": 1, "include_usage": true })),
            ),
            (
                json!({ "model": "m", "stream": true, "stream_options": null }),
                Some(json!({ "include_usage": true })),
            ),
        ] {
            let ask = parse(Vendor::Openai, &body);
            let mut expected = body.clone();
            match sent {
                None => assert_eq!(ask.body, body.to_string()),
                Some(options) => expected["stream_options"] = options,
            }
            assert_eq!(serde_json::from_slice::<Value>(&ask.body).unwrap(), expected);
            assert_eq!(parse(Vendor::Anthropic, &body).body, body.to_string());
        }
    }

    #[test]
    fn a_request_without_a_model_is_refused() {
        let long = json!({ "model": "m".repeat(201) }).to_string();
        for body in [
            "",
            "[]",
            "{}",
            r#"{"model":""}"#,
            r#"{"model":"a\nb"}"#,
            r#"{"model":"m","max_tokens":-1}"#,
            &long,
        ] {
            assert!(Ask::parse(Vendor::Anthropic, body.to_owned().into()).is_err(), "{body}");
        }
    }
}
