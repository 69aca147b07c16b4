//! Chat completions, as OpenAI began them and others took them up. Where servers differ, what any of them does is taken.

mod question;
mod reader;

pub use question::{LengthField, body};
pub use reader::ChatReader;

/// The signature of thoughts that came under this name: the server that sends them so wants them back with the calls they
/// led to. Others call them `reasoning` and would refuse them.
pub const REASONING_CONTENT: &str = "reasoning_content";
