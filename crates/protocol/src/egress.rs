//! The log of what sandboxes reached for outside.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{EgressDecision, EgressId, EgressTls, SandboxId};

/// One request, or several alike within a minute: those refused for the same reason, and any beyond a number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct EgressRequest {
    pub id: EgressId,
    pub sandbox_id: SandboxId,
    /// When the first of them came.
    pub at: Timestamp,
    /// When the last of them came, or ended.
    pub last_at: Timestamp,
    /// How many requests the line stands for.
    pub requests: i64,
    /// `CONNECT`, or the method of a plain HTTP request.
    pub method: String,
    /// Empty where the request named none that could be read; `*` stands for many.
    pub host: String,
    pub port: i64,
    /// The address that was connected to or refused.
    pub address: Option<String>,
    pub decision: EgressDecision,
    /// Why it was refused or failed, or how it ended if not by itself.
    pub code: Option<String>,
    pub reason: Option<String>,
    pub tls: Option<EgressTls>,
    pub bytes_up: i64,
    pub bytes_down: i64,
    /// Absent while it goes on, and where the server was killed meanwhile.
    pub duration_ms: Option<i64>,
}
