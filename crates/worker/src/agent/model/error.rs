//! What can go wrong: for the caller, and with one attempt.

use std::time::Duration;

use omoi_protocol::FailureKind;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("the model client cannot be set up: {0}")]
    Setup(String),
    /// A repeat would be refused again.
    #[error("the model API refuses the request with {status} ({code}): {message}; {}", advice(*status))]
    Refused { status: u16, code: String, message: String },
    #[error("{message}")]
    OverBudget { message: String },
    #[error(
        "the conversation is too long for the model: {message}; shorten it, or choose a model with a larger context"
    )]
    TooLong { message: String },
    #[error(
        "no answer from the model after {attempts} attempts; the last one: {last}; see whether the server and the model \
         API are well, then try again"
    )]
    Exhausted { attempts: u32, last: String },
}

impl Error {
    pub fn failure_kind(&self) -> FailureKind {
        match self {
            Self::Setup(_) | Self::Refused { .. } => FailureKind::Invalid,
            Self::OverBudget { .. } => FailureKind::Limit,
            // Another attempt takes another course.
            Self::TooLong { .. } => FailureKind::Agent,
            Self::Exhausted { .. } => FailureKind::Unavailable,
        }
    }
}

/// What became of one attempt that brought no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// A repeat would meet it again.
    Final(Error),
    /// Nobody listens at the address. A server that restarts comes back.
    Away(String),
    /// It may be gone with the next attempt.
    Passing { status: Option<u16>, text: String, after: Option<Duration> },
}

impl Fault {
    /// An answer that began and cannot be used.
    pub fn void(text: impl Into<String>) -> Self {
        Self::Passing { status: None, text: text.into(), after: None }
    }
}

fn advice(status: u16) -> &'static str {
    match status {
        300..=399 => "set the address of the model API to where it is",
        401 => "see whether the sandbox's token is still good",
        402 | 403 => "see what the server's settings and the key of the model API allow",
        404 => "see whether the model of that name exists and its wire is the right one",
        429 => "see the limits of the key of the model API",
        _ => "see which model, wire and tools the agent is set to",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_says_what_to_do_and_what_kind_of_failure_it_is() {
        let (message, last) = ("m".to_owned(), "l".to_owned());
        for (error, kind, part) in [
            (
                Error::Refused { status: 404, code: "not_found_error".to_owned(), message: message.clone() },
                FailureKind::Invalid,
                "model of that name",
            ),
            (Error::OverBudget { message: message.clone() }, FailureKind::Limit, "m"),
            (Error::TooLong { message }, FailureKind::Agent, "shorten it"),
            (Error::Exhausted { attempts: 3, last }, FailureKind::Unavailable, "after 3 attempts"),
        ] {
            assert_eq!(error.failure_kind(), kind);
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
