//! A browser that is signed in.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::Role;

/// An operator's token, shown once.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NewSession {
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 500))]
    pub token: String,
}

/// Who is signed in, and until when if nothing happens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Session {
    pub name: String,
    pub role: Role,
    pub expires_at: Option<Timestamp>,
}
