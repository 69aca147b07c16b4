//! Which policy holds for which project. A change holds from the next look on.

use std::{collections::HashMap, sync::Arc};

use omoi_protocol::ProjectId;

use crate::{
    domain::supervision::policy::Policy,
    store::{Error, Store},
};

pub struct Policies {
    usual: Arc<Policy>,
    own: HashMap<ProjectId, (i64, Arc<Policy>)>,
    changes: i64,
}

impl Policies {
    pub fn new(usual: Arc<Policy>) -> Self {
        Self { usual, own: HashMap::new(), changes: -1 }
    }

    /// Nothing is read again that has not changed.
    pub async fn refresh(&mut self, store: &Store) -> Result<(), Error> {
        let changes = store.policy_changes().await?;
        if changes == self.changes {
            return Ok(());
        }
        for stored in store.policy_list().await? {
            let Some(text) = &stored.text else {
                self.own.remove(&stored.project_id);
                continue;
            };
            if self.own.get(&stored.project_id).is_some_and(|(version, _)| *version == stored.version) {
                continue;
            }
            // It was read when it was stored; a later program may be stricter.
            match Policy::read(stored.project_id.as_str(), text) {
                Ok(policy) => {
                    self.own.insert(stored.project_id, (stored.version, Arc::new(policy)));
                }
                Err(error) => {
                    tracing::warn!(project.id = %stored.project_id, %error, "a policy does not hold any more");
                    self.own.remove(&stored.project_id);
                }
            }
        }
        self.changes = changes;
        Ok(())
    }

    pub fn of(&self, project: Option<&ProjectId>) -> Arc<Policy> {
        let own = project.and_then(|project| self.own.get(project));
        own.map_or(&self.usual, |(_, policy)| policy).clone()
    }
}
