//! The client of a model: one question, one answer. It speaks two wires, reads the answer as it comes, tries again what
//! may pass, and holds nothing back that a caller must know. It runs no tools and keeps no conversation.
//!
//! An answer counts whole or not at all. A stream that breaks off, stalls or holds something unreadable is void, whatever
//! has been shown of it, and the question is asked again.

mod answer;
mod chat;
mod client;
mod error;
mod messages;
mod refusal;
mod retry;
#[cfg(test)]
mod tests;

pub use answer::{Answer, Ask, Progress, Stop};
pub use client::{Model, Settings};
pub use error::Error;
pub use retry::RetryPolicy;
