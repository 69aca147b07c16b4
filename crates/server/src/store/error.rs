//! What a caller of the store treats differently.

use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no {kind} {id}")]
    NotFound { kind: &'static str, id: String },
    /// It is not as the caller thinks, and a repeat would find the same.
    #[error("{detail}")]
    Conflict { code: &'static str, detail: String },
    /// The worker's numbering has a hole; it is to send again from `expected`.
    #[error("worker_seq {got} leaves a gap: the next one expected is {expected}")]
    SequenceGap { got: i64, expected: i64 },
    /// A part of a session's log belongs elsewhere; the next one begins at `size`.
    #[error("{detail}")]
    Misplaced { code: &'static str, detail: String, size: i64 },
    /// There is an end to what is kept.
    #[error("{detail}")]
    Full { code: &'static str, detail: String },
    /// Task ids, or keys of a batch.
    #[error("the dependency would make a cycle: {}", cycle.join(" -> "))]
    Cycle { cycle: Vec<String> },
    /// The token was right once: its sandbox has ended.
    #[error("the token's sandbox has ended, so its token opens nothing any more")]
    TokenEnded,
    #[error("{detail}")]
    Invalid { code: &'static str, detail: String },
    /// It may be asked again, but not yet.
    #[error("{detail}")]
    TooSoon { code: &'static str, detail: String, after: Duration },
    /// The queue, of writes or of messages to one worker, is full.
    #[error("as much is waiting already as may")]
    Busy,
    /// The database does not answer, or refuses for a reason that may pass. Nothing was acknowledged.
    #[error("the database is not available: {0}")]
    Unavailable(String),
    /// The system refused to read or write the database's files. Nothing was acknowledged.
    #[error("the database's files cannot be read or written: {0}")]
    Io(String),
    /// Nothing was stored. It can be, once there is room.
    #[error("{0}; free some space, then try again")]
    DiskFull(String),
    /// A file that the store uses was removed, replaced or moved. Nothing is acknowledged any more.
    #[error("{0}")]
    Removed(String),
    /// A statement was refused: a defect of ours.
    #[error("the database refused a statement: {0}")]
    Statement(String),
    #[error("column {column} is {problem}")]
    Corrupt { column: String, problem: &'static str },
}

impl Error {
    pub(super) fn corrupt(column: &str, problem: &'static str) -> Self {
        Self::Corrupt { column: column.to_owned(), problem }
    }

    pub fn not_found(kind: &'static str, id: impl ToString) -> Self {
        Self::NotFound { kind, id: id.to_string() }
    }

    pub fn conflict(code: &'static str, detail: impl Into<String>) -> Self {
        Self::Conflict { code, detail: detail.into() }
    }

    pub fn invalid(code: &'static str, detail: impl Into<String>) -> Self {
        Self::Invalid { code, detail: detail.into() }
    }

    /// The database failed, as opposed to a caller who asked for what cannot be: the transaction is void.
    pub(super) fn is_fault(&self) -> bool {
        match self {
            Self::Unavailable(_)
            | Self::Io(_)
            | Self::DiskFull(_)
            | Self::Removed(_)
            | Self::Statement(_)
            | Self::Corrupt { .. } => true,
            Self::NotFound { .. }
            | Self::Conflict { .. }
            | Self::SequenceGap { .. }
            | Self::Misplaced { .. }
            | Self::Full { .. }
            | Self::Cycle { .. }
            | Self::TokenEnded
            | Self::Invalid { .. }
            | Self::TooSoon { .. }
            | Self::Busy => false,
        }
    }

    /// Whether the same call may succeed later.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Io(_) | Self::DiskFull(_) | Self::Removed(_) | Self::Busy)
    }

    /// The same failure of the database, for another caller of the same batch.
    pub(super) fn again(&self) -> Self {
        match self {
            Self::Io(why) => Self::Io(why.clone()),
            Self::DiskFull(why) => Self::DiskFull(why.clone()),
            Self::Removed(why) => Self::Removed(why.clone()),
            Self::Unavailable(why) => Self::Unavailable(why.clone()),
            other => Self::Unavailable(other.to_string()),
        }
    }
}
