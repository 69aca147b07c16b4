//! The place that a sandbox is: its size and its work tree.

use serde::{Deserialize, Serialize};

/// Where the repository lies inside a sandbox, unless its provider has reasons for another place.
pub const WORKSPACE_PATH: &str = "/workspace";

/// Where the worker keeps events until they are acknowledged: a place below its home, on the sandbox's disk.
pub const SPOOL_PATH: &str = ".omoi/spool";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Resources {
    pub memory_gb: u32,
    pub cpu: u32,
    pub disk_gb: u32,
}

impl Resources {
    pub const CAP: Self = Self { memory_gb: 8, cpu: 4, disk_gb: 10 };

    /// No more of anything than `CAP` allows.
    #[must_use]
    pub fn capped(self) -> Self {
        Self {
            memory_gb: self.memory_gb.min(Self::CAP.memory_gb),
            cpu: self.cpu.min(Self::CAP.cpu),
            disk_gb: self.disk_gb.min(Self::CAP.disk_gb),
        }
    }
}

impl Default for Resources {
    fn default() -> Self {
        Self { memory_gb: 4, cpu: 2, disk_gb: 8 }
    }
}

/// The work tree that the sandbox gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repository {
    /// The project's mirror as seen from inside (`Door::git_url`): a URL or path without credentials.
    pub url: String,
    /// `owner/name` at the forge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_name: Option<String>,
    /// The one branch that may be pushed.
    pub branch_name: String,
    pub base_commit: String,
    /// In whose name commits are made; Omoi's own without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author_email: Option<String>,
    /// How many bytes one push may bring (`git.push_bytes_max` of the server); 100 MiB where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub push_bytes_max: Option<u64>,
}
