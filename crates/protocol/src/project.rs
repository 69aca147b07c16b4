//! A project: a Git repository and its settings.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::{ProjectId, RepositoryReach};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NewProject {
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 200))]
    pub name: String,
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(max_length = 20_000))]
    pub description: String,
    /// Where the repository is fetched from.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(max_length = 2_000))]
    pub repository_url: Option<String>,
    #[serde(default = "main_branch")]
    #[cfg_attr(feature = "schema", schema(default = "main", min_length = 1, max_length = 200))]
    pub default_branch: String,
    /// How many of its tasks may have a sandbox at once; the configured default when absent.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(minimum = 0, maximum = 10_000))]
    pub max_concurrent: Option<i64>,
    /// Settings that later parts read: checks, agent, limits.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub settings: Map<String, Value>,
}

fn main_branch() -> String {
    "main".to_owned()
}

/// Absent fields stay as they are.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ProjectPatch {
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 200))]
    pub name: Option<String>,
    #[cfg_attr(feature = "schema", schema(max_length = 20_000))]
    pub description: Option<String>,
    #[cfg_attr(feature = "schema", schema(max_length = 2_000))]
    pub repository_url: Option<String>,
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 200))]
    pub default_branch: Option<String>,
    /// `null` gives it back to the server's own.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<i64>, minimum = 0, maximum = 10_000))]
    pub max_concurrent: Option<Option<i64>>,
    #[cfg_attr(feature = "schema", schema(value_type = Option<Object>))]
    pub settings: Option<Map<String, Value>>,
    pub archived: Option<bool>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Project {
    pub id: ProjectId,
    pub name: String,
    pub description: String,
    pub repository_url: Option<String>,
    /// Where `repository_url` may lead: `any` if an administrator set it.
    #[serde(default = "public")]
    pub repository_reach: RepositoryReach,
    pub default_branch: String,
    pub max_concurrent: Option<i64>,
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub settings: Map<String, Value>,
    pub archived: bool,
    /// Its tasks wait until it goes on.
    #[serde(default)]
    pub paused: bool,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

fn public() -> RepositoryReach {
    RepositoryReach::Public
}

/// Tells a field that says `null` from one that is not there.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(from).map(Some)
}
