//! A project's policy as it is now: read from the store, believed for a moment.

use std::{sync::Arc, time::Duration};

use omoi_protocol::ProjectId;
use tokio::{sync::Mutex, time::Instant};

use super::refusal::Refusal;
use crate::{
    config,
    domain::egress::{Policy, Settings},
    store::{self, Store},
};

/// How long the store's answer is believed, so that a change takes effect at once and a busy sandbox asks seldom.
const BELIEVED: Duration = Duration::from_secs(1);

pub struct Rules {
    project: ProjectId,
    cached: Mutex<Option<(Instant, Arc<Policy>)>>,
}

impl Rules {
    pub fn of(project: ProjectId) -> Self {
        Self { project, cached: Mutex::new(None) }
    }

    /// Without an answer nothing is allowed.
    pub async fn policy(&self, store: &Store, config: &config::Egress) -> Result<Arc<Policy>, Refusal> {
        let mut cached = self.cached.lock().await;
        if let Some((read_at, policy)) = &*cached
            && read_at.elapsed() < BELIEVED
        {
            return Ok(Arc::clone(policy));
        }
        let read_at = Instant::now();
        let project = store.project_get(&self.project).await.map_err(|error| match error {
            store::Error::NotFound { .. } => Refusal::Policy(error.to_string()),
            error => {
                tracing::warn!(%error, project.id = %self.project, "the network rules cannot be read");
                Refusal::PolicyUnavailable
            }
        })?;
        let settings =
            Settings::parse(&project.settings).map_err(|error| Refusal::Policy(error.to_string()))?;
        let policy = Arc::new(Policy::new(settings, &config.allow, &config.ports, config.open_allowed));
        *cached = Some((read_at, Arc::clone(&policy)));
        Ok(policy)
    }
}
