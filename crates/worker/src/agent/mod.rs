//! The built-in agent: a loop in which a model asks for tools, and what it needs.

mod http;
#[allow(dead_code, unused_imports)]
pub mod mcp;
#[allow(dead_code, unused_imports)]
pub mod model;
mod sse;
#[allow(dead_code)]
pub mod talk;
