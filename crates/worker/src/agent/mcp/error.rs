//! What can go wrong between the agent and a server of tools.

use std::{io, time::Duration};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("it has neither or both of command and url; give one of them")]
    Neither,
    #[error("{url:?} is no address; it begins with http:// or https://")]
    Address { url: String },
    #[error("cannot start {program:?}: {source}; see whether it is installed in the image")]
    Start { program: String, source: io::Error },
    #[error("it did not answer within {0:?}")]
    Silent(Duration),
    #[error("it has ended{0}")]
    Gone(String),
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    /// An address that has forgotten what was agreed on.
    #[error("it has ended the session")]
    SessionEnded,
    #[error("it refuses {method}: {message} ({code})")]
    Refused { method: String, code: i64, message: String },
    #[error("what it says to {method} is not understood: {what}")]
    Garbled { method: String, what: String },
}
