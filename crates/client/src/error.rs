//! Why a call did not give what was asked for.

use std::time::Duration;

use omoi_protocol::problem::Problem;
use reqwest::StatusCode;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{url:?} is not the address of a server")]
    Address { url: String },
    #[error("the token holds characters that no token has")]
    Token,
    #[error("cannot set up HTTP: {}", root_of(source))]
    Setup { source: reqwest::Error },
    #[error("cannot reach {url}: {reason}")]
    Unreachable { url: String, reason: String },
    #[error("no answer from {url} within {} s", after.as_secs_f32())]
    TimedOut { url: String, after: Duration },
    /// The server refused, and said why.
    #[error("{}", _0.detail)]
    Problem(Box<Problem>),
    /// Something answered that does not speak as the server does: a proxy, or another program.
    #[error("{url} answered {status}, and not as an Omoi server does")]
    Stranger { url: String, status: StatusCode },
    #[error("{url} answered what this version cannot read: {source}")]
    Unreadable { url: String, source: serde_json::Error },
    #[error("the live stream of {url} sent a line longer than {bytes_max} bytes")]
    LineTooLong { url: String, bytes_max: usize },
}

impl Error {
    /// The HTTP status of the answer, when there was one that says no.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Problem(problem) => Some(problem.status),
            Self::Stranger { status, .. } => Some(status.as_u16()),
            _ => None,
        }
    }

    /// The stable word for what went wrong, when the server gave one.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Problem(problem) => Some(&problem.code),
            _ => None,
        }
    }

    /// How much of a session's log the server has, when it refused a part that belongs elsewhere.
    pub fn size(&self) -> Option<u64> {
        match self {
            Self::Problem(problem) => problem.facts.get("size")?.as_u64(),
            _ => None,
        }
    }

    /// The same call may succeed later, without anybody changing anything.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::TimedOut { .. } => true,
            Self::Problem(_) | Self::Stranger { .. } => {
                matches!(self.status(), Some(429 | 502 | 503 | 504 | 507))
            }
            Self::Address { .. }
            | Self::Token
            | Self::Setup { .. }
            | Self::Unreadable { .. }
            | Self::LineTooLong { .. } => false,
        }
    }

    /// What to do next.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Address { .. } => "give it as http://HOST:PORT or https://HOST",
            Self::Token => "set OMOI_TOKEN to the token as it was shown, without quotes or line breaks",
            Self::Unreachable { .. } => {
                "start the server with `omoi serve`, or set OMOI_URL to the address it listens on"
            }
            Self::TimedOut { .. } => "see in the server's log what it is busy with, and try again",
            Self::Stranger { .. } => "check that OMOI_URL is the address of an Omoi server",
            Self::Unreadable { .. } => "use a client and a server of the same version",
            Self::Problem(problem) => match problem.status {
                401 => "set OMOI_TOKEN; on the server's machine, `omoi token create` makes one",
                403 => "use a token with a higher role; `omoi whoami` says whose this one is",
                429 | 503 => "wait a moment and try again",
                507 => "free some space on the server's disk, and try again",
                _ => return None,
            },
            Self::Setup { .. } | Self::LineTooLong { .. } => return None,
        })
    }

    /// From what the HTTP library says; `url` without secrets, which the base address never holds.
    pub(crate) fn transport(url: &str, error: &reqwest::Error, after: Duration) -> Self {
        if error.is_timeout() && !error.is_connect() {
            return Self::TimedOut { url: url.to_owned(), after };
        }
        Self::Unreachable { url: url.to_owned(), reason: root_of(error).to_string() }
    }

    pub(crate) fn refused(url: &str, status: StatusCode, body: &[u8]) -> Self {
        match serde_json::from_slice::<Problem>(body) {
            Ok(problem) => Self::Problem(Box::new(problem)),
            Err(_) => Self::Stranger { url: url.to_owned(), status },
        }
    }
}

/// The error that the others only pass on.
fn root_of(error: &reqwest::Error) -> &dyn std::error::Error {
    let mut root: &dyn std::error::Error = error;
    while let Some(source) = root.source() {
        root = source;
    }
    root
}
