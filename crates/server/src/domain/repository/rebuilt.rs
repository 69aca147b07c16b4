//! What is told of a mirror that was damaged and was rebuilt.

use jiff::Timestamp;
use omoi_protocol::ProjectId;
use serde::{Deserialize, Serialize};

/// What became of a damaged mirror.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rebuilt {
    pub project_id: ProjectId,
    pub at: Timestamp,
    /// What was wrong with it.
    pub damage: String,
    /// Where the damaged mirror is, below the data directory.
    pub aside: String,
    /// Refs that were made here and are there again as they were.
    pub saved: usize,
    /// Refs that are not, or not as they were.
    pub lost: Vec<LostRef>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostRef {
    pub name: String,
    /// Where it was, if that is known.
    pub commit: Option<String>,
    /// The newest commit of it that could be read, which it is at now.
    pub now: Option<String>,
}
