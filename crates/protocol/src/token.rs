//! Operator tokens and the audit trail.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Role, TokenId};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NewToken {
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 200))]
    pub name: String,
    pub role: Role,
    #[serde(default)]
    pub expires_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Token {
    pub id: TokenId,
    pub name: String,
    pub role: Role,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
}

/// The one time the secret is shown.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TokenCreated {
    #[serde(flatten)]
    pub token: Token,
    pub secret: String,
}

/// One line of the audit trail. `hash` covers the line and the hash before it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AuditEntry {
    pub n: i64,
    pub at: Timestamp,
    pub actor: String,
    pub action: String,
    pub entity_type: String,
    pub entity_id: String,
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub detail: Value,
    pub prev_hash: String,
    pub hash: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AuditVerdict {
    pub entries: i64,
    /// The first line whose hash does not fit, if any.
    pub broken_at: Option<i64>,
    /// A head that was recorded outside the database and that the trail does not hold. With more entries than the trail has,
    /// its last entries were deleted or an older backup was restored; otherwise they were written anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut_off: Option<AuditHead>,
}

/// The last entry of an audit trail at some time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AuditHead {
    /// How many entries there were.
    pub entries: i64,
    /// The hash of the last.
    pub hash: String,
    /// When the last was written.
    #[serde(default)]
    pub recorded_at: Option<Timestamp>,
}
