//! The built-in agent: a loop in which a model asks for tools, and what it needs.

pub mod session;

pub mod kit;
pub mod log;
pub mod talk;
pub mod tell;

mod context;
mod guard;
pub mod prompt;
mod spent;
pub mod steer;

mod front;
pub mod peer;
pub mod skill;
pub mod subagent;

mod http;
pub mod mcp;
pub mod model;
mod sse;
pub mod tool;
