//! The built-in agent: a loop in which a model asks for tools, and what it needs.

#[allow(dead_code)]
pub mod talk;
#[allow(dead_code)]
pub mod tool;
