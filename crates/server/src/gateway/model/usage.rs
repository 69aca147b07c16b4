//! What each vendor says about the tokens of a call, inside its answers. Whether it can be true is judged elsewhere
//! (`domain::charge`).

use std::borrow::Cow;

use omoi_protocol::Vendor;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::domain::{charge::Told, price::Usage};

/// What one piece of an answer tells: an event of a stream, or the whole.
#[derive(Debug, Default)]
pub struct Piece {
    pub told: Told,
    pub stop_reason: Option<String>,
    /// Bytes of text that the model wrote.
    pub text_bytes: u64,
}

/// None for what is not JSON, or not of the vendor's shape.
pub fn told(vendor: Vendor, json: &[u8]) -> Option<Piece> {
    match vendor {
        Vendor::Anthropic => serde_json::from_slice::<Event<'_>>(json).ok().map(Event::piece),
        Vendor::Openai => serde_json::from_slice::<Completion<'_>>(json).ok().map(Completion::piece),
    }
}

/// A number of tokens as it stands in the answer.
type Tokens<'a> = Option<&'a RawValue>;

/// The tokens that a text stands for. What is no count of anything, such as a negative number, is read as more than any
/// call has, so that it is not believed and does not pass for a figure that was not told.
fn tokens(told: Tokens<'_>) -> Option<u64> {
    let text = told?.get();
    let whole =
        |number: f64| (number.fract() == 0.0 && (0.0..1e15).contains(&number)).then_some(number as u64);
    Some(text.parse().ok().or_else(|| text.parse().ok().and_then(whole)).unwrap_or(u64::MAX))
}

/// An event of Anthropic's stream, or a whole message, whose fields do not collide.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type", borrow)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    message: Option<Message<'a>>,
    #[serde(borrow)]
    usage: Option<AnthropicUsage<'a>>,
    #[serde(borrow)]
    stop_reason: Option<Cow<'a, str>>,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    usage: Option<AnthropicUsage<'a>>,
    #[serde(borrow)]
    stop_reason: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow)]
    thinking: Option<Cow<'a, str>>,
    #[serde(borrow)]
    partial_json: Option<Cow<'a, str>>,
    #[serde(borrow)]
    stop_reason: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct AnthropicUsage<'a> {
    #[serde(borrow)]
    input_tokens: Tokens<'a>,
    #[serde(borrow)]
    output_tokens: Tokens<'a>,
    #[serde(borrow)]
    cache_read_input_tokens: Tokens<'a>,
    #[serde(borrow)]
    cache_creation_input_tokens: Tokens<'a>,
    #[serde(borrow)]
    cache_creation: Option<CacheCreation<'a>>,
}

#[derive(Deserialize)]
struct CacheCreation<'a> {
    #[serde(borrow)]
    ephemeral_1h_input_tokens: Tokens<'a>,
}

impl Event<'_> {
    fn piece(self) -> Piece {
        let (mut piece, mut told) = (Piece::default(), Told::default());
        // At the start of a stream the output is not told yet, though there is a number.
        let whole = self.kind.as_deref() == Some("message");
        let starts = self.message.as_ref().and_then(|message| message.usage.as_ref());
        if let Some(usage) = self.usage.as_ref().or(starts) {
            let long = usage.cache_creation.as_ref().and_then(|creation| creation.ephemeral_1h_input_tokens);
            told.usage = Usage {
                input: tokens(usage.input_tokens).unwrap_or(0),
                output: tokens(usage.output_tokens).unwrap_or(0),
                cache_read: tokens(usage.cache_read_input_tokens).unwrap_or(0),
                cache_write: tokens(usage.cache_creation_input_tokens).unwrap_or(0),
                cache_write_long: tokens(long).unwrap_or(0),
            };
            told.input = usage.input_tokens.is_some();
            told.output = usage.output_tokens.is_some() && (whole || self.message.is_none());
        }
        let inner = self.message.and_then(|message| message.stop_reason);
        let delta = self.delta.as_ref().and_then(|delta| delta.stop_reason.clone());
        piece.stop_reason = delta.or(self.stop_reason).or(inner).map(Cow::into_owned);
        let text = self.delta.iter().flat_map(|delta| [&delta.text, &delta.thinking, &delta.partial_json]);
        piece.text_bytes = text.flatten().map(|text| text.len() as u64).sum();
        Piece { told, ..piece }
    }
}

/// A chunk of OpenAI's stream, or a whole completion.
#[derive(Deserialize)]
struct Completion<'a> {
    #[serde(borrow, default)]
    choices: Vec<Choice<'a>>,
    #[serde(borrow)]
    usage: Option<OpenaiUsage<'a>>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow, alias = "message")]
    delta: Option<Said<'a>>,
    #[serde(borrow)]
    finish_reason: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Said<'a> {
    #[serde(borrow)]
    content: Option<Cow<'a, str>>,
    #[serde(borrow)]
    reasoning_content: Option<Cow<'a, str>>,
    #[serde(borrow)]
    tool_calls: Option<Vec<ToolCall<'a>>>,
}

#[derive(Deserialize)]
struct ToolCall<'a> {
    #[serde(borrow)]
    function: Option<Function<'a>>,
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(borrow)]
    arguments: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct OpenaiUsage<'a> {
    #[serde(borrow)]
    prompt_tokens: Tokens<'a>,
    #[serde(borrow)]
    completion_tokens: Tokens<'a>,
    #[serde(borrow)]
    prompt_tokens_details: Option<PromptDetails<'a>>,
}

#[derive(Deserialize)]
struct PromptDetails<'a> {
    #[serde(borrow)]
    cached_tokens: Tokens<'a>,
    #[serde(borrow)]
    cache_write_tokens: Tokens<'a>,
}

impl Completion<'_> {
    fn piece(self) -> Piece {
        let (mut piece, mut told) = (Piece::default(), Told::default());
        if let Some(usage) = self.usage {
            let details = usage.prompt_tokens_details;
            let read = details.as_ref().and_then(|details| tokens(details.cached_tokens)).unwrap_or(0);
            let write = details.and_then(|details| tokens(details.cache_write_tokens)).unwrap_or(0);
            let prompt = tokens(usage.prompt_tokens).unwrap_or(0);
            told.usage = Usage {
                // Here the prompt includes what was cached.
                input: prompt.saturating_sub(read).saturating_sub(write),
                output: tokens(usage.completion_tokens).unwrap_or(0),
                cache_read: read,
                cache_write: write,
                cache_write_long: 0,
            };
            told.input = usage.prompt_tokens.is_some();
            told.output = usage.completion_tokens.is_some();
        }
        for choice in self.choices {
            piece.stop_reason = choice.finish_reason.map(Cow::into_owned).or(piece.stop_reason);
            let Some(said) = choice.delta else { continue };
            let calls = said.tool_calls.into_iter().flatten();
            let arguments = calls.filter_map(|call| call.function?.arguments);
            let texts = [said.content, said.reasoning_content].into_iter().flatten().chain(arguments);
            piece.text_bytes += texts.map(|text| text.len() as u64).sum::<u64>();
        }
        Piece { told, ..piece }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_that_is_no_count_is_told_and_beyond_belief() {
        for (text, expected) in [
            ("12", Some(12)),
            ("12.0", Some(12)),
            ("null", None),
            ("-1", Some(u64::MAX)),
            ("1.5", Some(u64::MAX)),
            ("99999999999999999999", Some(u64::MAX)),
            ("1e400", Some(u64::MAX)),
            ("\"12\"", Some(u64::MAX)),
            ("[[[12]]]", Some(u64::MAX)),
        ] {
            let anthropic =
                format!(r#"{{"type":"message","usage":{{"input_tokens":3,"output_tokens":{text}}}}}"#);
            let openai =
                format!(r#"{{"choices":[],"usage":{{"prompt_tokens":3,"completion_tokens":{text}}}}}"#);
            for (vendor, json) in [(Vendor::Anthropic, anthropic), (Vendor::Openai, openai)] {
                let told = told(vendor, json.as_bytes()).unwrap().told;
                assert_eq!((told.usage.input, told.input), (3, true), "{json}");
                assert_eq!(told.output.then_some(told.usage.output), expected, "{json}");
            }
        }
    }
}
