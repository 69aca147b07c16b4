//! What real servers have answered. The recordings are not part of this repository: the variable `OMOI_FIXTURES` names the
//! directory that holds them.

use std::{fs, path::Path};

use omoi_protocol::launch::Wire;
use serde_json::Value;

use super::*;
use crate::agent::model::Stop;

const KINDS: [(&str, Wire); 4] = [
    ("anthropic-messages", Wire::Messages),
    ("anthropic-messages-cache", Wire::Messages),
    ("openai-chat", Wire::Chat),
    ("openai-compatible-chat", Wire::Chat),
];

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the recordings lie elsewhere on each machine")]
async fn every_recorded_answer_is_understood() {
    let Some(fixtures) = std::env::var_os("OMOI_FIXTURES") else {
        eprintln!("skipped: OMOI_FIXTURES names no directory of recordings");
        return;
    };
    let top = Path::new(&fixtures).join("model-http-recordings").join("opencode");
    let mut answers = 0;
    for (kind, wire) in KINDS {
        for file in fs::read_dir(top.join(kind)).unwrap() {
            let path = file.unwrap().path();
            let recording: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            for interaction in recording["interactions"].as_array().unwrap() {
                check(wire, &interaction["response"], &path).await;
                answers += 1;
            }
        }
    }
    assert!(answers > 20, "{answers}");
}

async fn check(wire: Wire, response: &Value, path: &Path) {
    let (status, body) = (response["status"].as_u64().unwrap(), response["body"].as_str().unwrap());
    let content_type = response["headers"]["content-type"].as_str().unwrap();
    let reply = Reply::new(&format!("{status} Recorded"), &format!("content-type: {content_type}\r\n"), body);
    let standin = Standin::start(vec![reply]).await;
    let (answer, told) = ask(&model(wire, &standin)).await;
    let name = path.display();
    if status != 200 {
        assert!(
            matches!(&answer, Err(Error::Refused { message, .. }) if !message.is_empty()),
            "{name}: {answer:?}"
        );
        return;
    }
    let answer = answer.unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(
        told.retries.is_empty() && !answer.id.is_empty() && !answer.model.is_empty(),
        "{name}: {answer:?}"
    );
    assert!(!answer.content.is_empty() && answer.broken.is_empty(), "{name}: {answer:?}");
    assert!(answer.usage.input_tokens + answer.usage.cache_read_tokens > 0, "{name}: {answer:?}");
    assert!(answer.usage.output_tokens > 0 && answer.raw_usage.is_object(), "{name}: {answer:?}");
    let calls = answer.content.iter().any(|block| {
        matches!(block, Block::ToolUse { id, name, input } if !id.is_empty() && !name.is_empty() && input.is_object())
    });
    let expected = if calls { Stop::ToolUse } else { Stop::EndTurn };
    assert_eq!(answer.stop, expected, "{name}");
    let text: String = answer
        .content
        .iter()
        .filter_map(|block| if let Block::Text { text } = block { Some(text.as_str()) } else { None })
        .collect();
    assert_eq!(text, told.text, "{name}");
}
