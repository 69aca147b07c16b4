//! JSON-RPC as far as this protocol needs it.

use serde::Deserialize;
use serde_json::{Value, json};

use super::error::Error;
use crate::agent::http::quote;

const MESSAGE_CHARS_MAX: usize = 600;
const METHOD_NOT_FOUND: i64 = -32601;

pub fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

pub fn notification(method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

pub fn cancelled(id: u64) -> Value {
    notification(
        "notifications/cancelled",
        &json!({ "requestId": id, "reason": "the agent waits no longer" }),
    )
}

/// What comes from the other side.
#[derive(Debug, PartialEq)]
pub enum Incoming {
    Answer {
        id: u64,
        result: Result<Value, Fault>,
    },
    /// It asks something itself: whether we are there, or for what we do not have.
    Question {
        reply: Value,
    },
    /// News that nobody waits for.
    News,
}

#[derive(Debug, PartialEq, Deserialize)]
pub struct Fault {
    #[serde(default)]
    code: i64,
    #[serde(default)]
    message: String,
}

impl Fault {
    pub fn of(self, method: &str) -> Error {
        let message = quote(&self.message, MESSAGE_CHARS_MAX);
        Error::Refused { method: method.to_owned(), code: self.code, message }
    }
}

#[derive(Deserialize)]
struct Message {
    id: Option<Value>,
    method: Option<String>,
    result: Option<Value>,
    error: Option<Fault>,
}

/// None for what is no message: programs print all sorts of things.
pub fn parse(json: &[u8]) -> Option<Incoming> {
    let message: Message = serde_json::from_slice(json).ok()?;
    match message {
        Message { id: Some(id), method: Some(method), .. } => {
            Some(Incoming::Question { reply: reply(&id, &method) })
        }
        Message { method: Some(_), .. } => Some(Incoming::News),
        Message { id: Some(id), result, error, .. } => {
            let result = error.map_or(Ok(result.unwrap_or_default()), Err);
            Some(Incoming::Answer { id: id.as_u64()?, result })
        }
        _ => None,
    }
}

fn reply(id: &Value, method: &str) -> Value {
    if method == "ping" {
        return json!({ "jsonrpc": "2.0", "id": id, "result": {} });
    }
    let error = json!({ "code": METHOD_NOT_FOUND, "message": "this client offers nothing of the kind" });
    json!({ "jsonrpc": "2.0", "id": id, "error": error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_from_what_else_is_printed() {
        let parsed = |text: &str| parse(text.as_bytes());
        assert_eq!(parsed("Server listening…"), None);
        assert_eq!(parsed("[]"), None);
        assert_eq!(parsed("{}"), None);
        let result = Ok(json!({ "a": 1 }));
        assert_eq!(
            parsed(r#"{"jsonrpc":"2.0","id":7,"result":{"a":1}}"#),
            Some(Incoming::Answer { id: 7, result })
        );
        let result = Err(Fault { code: -1, message: "no".to_owned() });
        assert_eq!(
            parsed(r#"{"id":7,"error":{"code":-1,"message":"no"}}"#),
            Some(Incoming::Answer { id: 7, result })
        );
        assert_eq!(parsed(r#"{"method":"notifications/message"}"#), Some(Incoming::News));
        let pong = json!({ "jsonrpc": "2.0", "id": "x", "result": {} });
        assert_eq!(parsed(r#"{"id":"x","method":"ping"}"#), Some(Incoming::Question { reply: pong }));
        let Some(Incoming::Question { reply }) = parsed(r#"{"id":1,"method":"roots/list"}"#) else {
            panic!()
        };
        assert_eq!(reply["error"]["code"], -32601);
    }
}
