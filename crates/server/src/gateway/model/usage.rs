//! What each vendor says about the tokens of a call, inside its answers.

use std::borrow::Cow;

use omoi_protocol::Vendor;
use serde::Deserialize;

use crate::domain::price::Usage;

/// What one piece of an answer tells: an event of a stream, or the whole.
#[derive(Debug, Default)]
pub struct Told {
    pub usage: Usage,
    pub input: bool,
    pub output: bool,
    pub stop_reason: Option<String>,
    /// Bytes of text that the model wrote.
    pub text_bytes: u64,
}

/// None for what is not JSON, or not of the vendor's shape.
pub fn told(vendor: Vendor, json: &[u8]) -> Option<Told> {
    match vendor {
        Vendor::Anthropic => serde_json::from_slice::<Event<'_>>(json).ok().map(Event::told),
        Vendor::Openai => serde_json::from_slice::<Completion<'_>>(json).ok().map(Completion::told),
    }
}

/// An event of Anthropic's stream, or a whole message, whose fields do not collide.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type", borrow)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    message: Option<Message<'a>>,
    usage: Option<AnthropicUsage>,
    #[serde(borrow)]
    stop_reason: Option<Cow<'a, str>>,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    usage: Option<AnthropicUsage>,
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
struct AnthropicUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_creation: Option<CacheCreation>,
}

#[derive(Deserialize)]
struct CacheCreation {
    ephemeral_1h_input_tokens: Option<u64>,
}

impl Event<'_> {
    fn told(self) -> Told {
        let mut told = Told::default();
        // At the start of a stream the output is not told yet, though there is a number.
        let whole = self.kind.as_deref() == Some("message");
        let starts = self.message.as_ref().and_then(|message| message.usage.as_ref());
        if let Some(usage) = self.usage.as_ref().or(starts) {
            let long = usage.cache_creation.as_ref().and_then(|creation| creation.ephemeral_1h_input_tokens);
            told.usage = Usage {
                input: usage.input_tokens.unwrap_or(0),
                output: usage.output_tokens.unwrap_or(0),
                cache_read: usage.cache_read_input_tokens.unwrap_or(0),
                cache_write: usage.cache_creation_input_tokens.unwrap_or(0),
                cache_write_long: long.unwrap_or(0),
            };
            told.input = usage.input_tokens.is_some();
            told.output = usage.output_tokens.is_some() && (whole || self.message.is_none());
        }
        let inner = self.message.and_then(|message| message.stop_reason);
        let delta = self.delta.as_ref().and_then(|delta| delta.stop_reason.clone());
        told.stop_reason = delta.or(self.stop_reason).or(inner).map(Cow::into_owned);
        let text = self.delta.iter().flat_map(|delta| [&delta.text, &delta.thinking, &delta.partial_json]);
        told.text_bytes = text.flatten().map(|text| text.len() as u64).sum();
        told
    }
}

/// A chunk of OpenAI's stream, or a whole completion.
#[derive(Deserialize)]
struct Completion<'a> {
    #[serde(borrow, default)]
    choices: Vec<Choice<'a>>,
    usage: Option<OpenaiUsage>,
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
struct OpenaiUsage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
}

#[derive(Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
}

impl Completion<'_> {
    fn told(self) -> Told {
        let mut told = Told::default();
        if let Some(usage) = self.usage {
            let details = usage.prompt_tokens_details;
            let read = details.as_ref().and_then(|details| details.cached_tokens).unwrap_or(0);
            let write = details.and_then(|details| details.cache_write_tokens).unwrap_or(0);
            let prompt = usage.prompt_tokens.unwrap_or(0);
            told.usage = Usage {
                // Here the prompt includes what was cached.
                input: prompt.saturating_sub(read).saturating_sub(write),
                output: usage.completion_tokens.unwrap_or(0),
                cache_read: read,
                cache_write: write,
                cache_write_long: 0,
            };
            told.input = usage.prompt_tokens.is_some();
            told.output = usage.completion_tokens.is_some();
        }
        for choice in self.choices {
            told.stop_reason = choice.finish_reason.map(Cow::into_owned).or(told.stop_reason);
            let Some(said) = choice.delta else { continue };
            let calls = said.tool_calls.into_iter().flatten();
            let arguments = calls.filter_map(|call| call.function?.arguments);
            let texts = [said.content, said.reasoning_content].into_iter().flatten().chain(arguments);
            told.text_bytes += texts.map(|text| text.len() as u64).sum::<u64>();
        }
        told
    }
}
