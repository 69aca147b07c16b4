//! What an error looks like on the wire: `application/problem+json` with a stable `code`.

use serde::{Deserialize, Serialize};

pub const CONTENT_TYPE: &str = "application/problem+json";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Problem {
    /// The HTTP status, repeated.
    pub status: u16,
    /// The status in words.
    pub title: String,
    /// A stable word for programs, such as `sandbox_not_found`.
    pub code: String,
    /// What went wrong and what to do next, for people.
    pub detail: String,
    /// Facts that a program may act on, such as the sequence number that is expected next.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub facts: serde_json::Map<String, serde_json::Value>,
}
