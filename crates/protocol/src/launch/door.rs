//! The one way out of a sandbox, and the key to it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ProjectId;

/// Where the worker finds its launch, readable by it alone.
pub const LAUNCH_FILE: &str = "/run/omoi/launch.json";

/// The door as seen from inside. Its addresses hold no credentials; the sandbox's token opens each of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Door {
    /// Without a path; behind it are `/api/v1/…` and `/git/{project_id}.git`.
    pub url: String,
    /// Behind it are `/anthropic` and `/openai`. None where models are reached some other way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_url: Option<String>,
    /// The proxy for everything else. None where there is no other way out, or no need of a proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_url: Option<String>,
}

impl Door {
    /// With models behind the same address.
    pub fn new(url: impl Into<String>, proxy_url: Option<String>) -> Self {
        let url = url.into().trim_end_matches('/').to_owned();
        let model_url = Some(format!("{url}/model"));
        Self { url, model_url, proxy_url }
    }

    /// The project's mirror.
    pub fn git_url(&self, project: &ProjectId) -> String {
        format!("{}/git/{project}.git", self.url)
    }

    /// The host of its address, without a port.
    pub(super) fn host(&self) -> &str {
        let rest = self.url.split_once("://").map_or(self.url.as_str(), |(_, rest)| rest);
        let place = rest.split('/').next().unwrap_or_default();
        match place.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
            Some((ipv6, _)) => ipv6,
            None => place.split(':').next().unwrap_or_default(),
        }
    }
}

/// Opens the door for one sandbox. `Debug` hides it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SandboxToken(String);

impl SandboxToken {
    pub fn new(token: impl Into<String>) -> Self {
        Self(token.into())
    }

    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SandboxToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SandboxToken(hidden)")
    }
}
