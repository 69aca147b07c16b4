//! The Messages API of Anthropic.

mod question;
mod reader;

pub use question::body;
pub use reader::MessageReader;
