//! What can go wrong: for the caller, and with one attempt.

use std::{fmt, time::Duration};

use omoi_protocol::{FailureKind, ModelFailure, Vendor};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("the model client cannot be set up: {0}")]
    Setup(String),
    /// A repeat would be refused again.
    #[error("{origin} refuses the request with {status} ({code}): {message}; {}", origin.advice(code))]
    Refused { origin: Origin, status: u16, code: String, message: String },
    #[error("{message}")]
    OverBudget { message: String },
    #[error(
        "the conversation is too long for the model: {message}; shorten it, or choose a model with a larger context"
    )]
    TooLong { message: String },
    /// The origin is that of the last refusal, if that was one.
    #[error("no answer from the model after {attempts} attempts; the last one: {last}; {}", exhausted(*origin))]
    Exhausted { origin: Option<Origin>, attempts: u32, last: String },
}

/// Who refuses a model call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The server, before the vendor has seen it.
    Server,
    Vendor(Vendor, ModelFailure),
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
    Passing { origin: Option<Origin>, status: Option<u16>, text: String, after: Option<Duration> },
}

impl Fault {
    /// An answer that began and cannot be used.
    pub fn void(text: impl Into<String>) -> Self {
        Self::Passing { origin: None, status: None, text: text.into(), after: None }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server => write!(f, "the server"),
            Self::Vendor(vendor, _) => write!(f, "the {}", vendor.api()),
        }
    }
}

impl Origin {
    /// What a person can do about a refusal with this code.
    fn advice(self, code: &str) -> String {
        match self {
            Self::Vendor(vendor, failure) => failure.advice(vendor),
            Self::Server if code.starts_with("token_") => {
                "the sandbox's token is not valid any more, because its lease has ended or the token was revoked; start \
                 the task again"
                    .to_owned()
            }
            Self::Server => "start the task again once that is changed".to_owned(),
        }
    }
}

fn exhausted(origin: Option<Origin>) -> String {
    match origin {
        Some(Origin::Vendor(vendor, failure)) => failure.advice(vendor),
        _ => "see whether the server and the model API are well, then try again".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_says_what_to_do_and_what_kind_of_failure_it_is() {
        let (message, last) = ("m".to_owned(), "l".to_owned());
        let refused = |origin, status, code: &str| Error::Refused {
            origin,
            status,
            code: code.to_owned(),
            message: message.clone(),
        };
        let vendor = |vendor, failure| Origin::Vendor(vendor, failure);
        let exhausted = |origin| Error::Exhausted { origin, attempts: 3, last: last.clone() };
        for (error, kind, parts) in [
            (
                refused(vendor(Vendor::Anthropic, ModelFailure::KeyInvalid), 401, "authentication_error"),
                FailureKind::Invalid,
                &[
                    "the Anthropic API refuses",
                    "set model.anthropic_api_key (ANTHROPIC_API_KEY) to a valid key",
                ][..],
            ),
            (
                refused(vendor(Vendor::Openai, ModelFailure::NoCredit), 429, "insufficient_quota"),
                FailureKind::Invalid,
                &["the OpenAI API refuses", "add credit", "OPENAI_API_KEY"],
            ),
            (
                refused(vendor(Vendor::Anthropic, ModelFailure::ModelNotFound), 404, "not_found_error"),
                FailureKind::Invalid,
                &["choose another model", "worker.model", "model.anthropic_base_url"],
            ),
            (
                refused(Origin::Server, 401, "token_wrong"),
                FailureKind::Invalid,
                &["the server refuses", "the sandbox's token is not valid any more"],
            ),
            (Error::OverBudget { message: message.clone() }, FailureKind::Limit, &["m"]),
            (Error::TooLong { message: message.clone() }, FailureKind::Agent, &["shorten it"]),
            (exhausted(None), FailureKind::Unavailable, &["after 3 attempts", "see whether the server"]),
            (
                exhausted(Some(vendor(Vendor::Openai, ModelFailure::RateLimited))),
                FailureKind::Unavailable,
                &["after 3 attempts", "OpenAI is over its rate limit"],
            ),
        ] {
            assert_eq!(error.failure_kind(), kind);
            for part in parts {
                assert!(error.to_string().contains(part), "{part}: {error}");
            }
        }
    }
}
