//! Fetch: brings the repositories that requests wait for into their mirrors. Those of sandboxes are fetched with them.

use futures_util::{StreamExt, stream};
use omoi_protocol::ProjectId;

use super::node::Node;
use crate::{
    git::{self, Mirrors},
    store::{self, Store},
};

/// Repositories that are fetched at the same time.
const AT_ONCE: usize = 4;
/// Mirrors that are examined at the same time. Git reads every object of each.
const EXAMINED_AT_ONCE: usize = 2;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub fetched: usize,
    pub failed: usize,
    /// Projects that were told of a rebuilt mirror.
    pub told: usize,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Mirrors that may be damaged and were looked at.
    pub looked_at: usize,
}

#[derive(Clone)]
pub struct Fetch {
    pub store: Store,
    pub node: Node,
    pub mirrors: Mirrors,
}

impl Fetch {
    pub async fn tick(&self) -> Result<Report, git::Error> {
        if !self.node.is_keeper() {
            return Ok(Report::default());
        }
        fetch(&self.store, &self.mirrors).await
    }

    pub async fn settle(&self) -> Result<Settled, git::Error> {
        if !self.node.is_keeper() {
            return Ok(Settled::default());
        }
        settle(&self.store, &self.mirrors).await
    }
}

/// Fetches what is wanted, and says to whoever waits why it cannot be had.
pub async fn fetch(store: &Store, mirrors: &Mirrors) -> Result<Report, git::Error> {
    let wanted = mirrors.wanted().await?;
    let fetches = stream::iter(wanted).map(|project| fetch_one(store, mirrors, project));
    let done: Vec<Result<bool, git::Error>> = fetches.buffer_unordered(AT_ONCE).collect().await;
    let mut report = Report { told: tell(store, mirrors).await?, ..Report::default() };
    for fetched in done {
        if fetched? {
            report.fetched += 1;
        } else {
            report.failed += 1;
        }
    }
    Ok(report)
}

/// Looks at the mirrors that may be damaged. No fetch of another project waits for that.
pub async fn settle(store: &Store, mirrors: &Mirrors) -> Result<Settled, git::Error> {
    let suspects = stream::iter(mirrors.suspects().await?);
    let looked_at = suspects
        .map(|id| async move { attend(store, mirrors, &id).await })
        .buffer_unordered(EXAMINED_AT_ONCE)
        .count()
        .await;
    Ok(Settled { looked_at })
}

async fn fetch_one(store: &Store, mirrors: &Mirrors, id: ProjectId) -> Result<bool, git::Error> {
    let failure = match store.project_get(&id).await {
        Ok(project) => mirrors.refresh(&project).await.err().map(|error| error.to_string()),
        Err(store::Error::NotFound { .. }) => None,
        // It stays wanted until the store is back.
        Err(_) => return Ok(false),
    };
    let fetched = failure.is_none();
    mirrors.answer_wish(&id, failure).await?;
    Ok(fetched)
}

/// Looks at a mirror that may be damaged. What cannot be rebuilt now is tried again later.
async fn attend(store: &Store, mirrors: &Mirrors, id: &ProjectId) {
    let Ok(project) = store.project_get(id).await else { return };
    if let Err(error) = mirrors.attend(&project).await {
        tracing::warn!(project.id = %id, %error, "the mirror of project {id} is not settled: {error}");
    }
}

/// Stores which mirrors were rebuilt, and what could not be saved.
async fn tell(store: &Store, mirrors: &Mirrors) -> Result<usize, git::Error> {
    let mut told = 0;
    for rebuilt in mirrors.untold().await? {
        match store.project_mirror_rebuilt(&rebuilt).await {
            Ok(()) | Err(store::Error::NotFound { .. }) => mirrors.told(&rebuilt).await?,
            Err(error) => {
                tracing::warn!(%error, "a rebuilt mirror could not be stored");
                continue;
            }
        }
        told += 1;
    }
    Ok(told)
}
