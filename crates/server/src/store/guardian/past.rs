//! What a sandbox has done so far, read and made sense of a page at a time: a long run is never in memory as a whole, and is
//! parsed where it holds nobody up.

use std::sync::Arc;

use omoi_protocol::{SandboxId, event::StoredEvent};

use super::{
    super::{
        Error, Store, paging,
        portion::{PAGE_BYTES, Portion, Room},
        value::params,
    },
    Subject, whole,
};
use crate::domain::supervision::{
    policy::Policy,
    replay::{Replay, Replaying},
    trajectory::Trajectory,
};

/// Events that a trajectory is made of, and how many are read at a time.
const EVENTS_MAX: u64 = 200_000;
const EVENTS_PAGE: usize = 1_000;

impl Store {
    /// A sandbox's events behind `after`, oldest first, as far as they stand at or before a position.
    pub async fn guardian_past(
        &self,
        id: &SandboxId,
        after: i64,
        until: i64,
        limit: usize,
    ) -> Result<Portion<StoredEvent>, Error> {
        let id = id.clone();
        self.read(async move |tx| {
            let sql = paging::select(
                "WHERE entity_id = $1 AND seq IS NOT NULL AND seq > $2 AND pos <= $3 ORDER BY seq LIMIT $4",
            );
            let rows = tx.query(&sql, params![&id, after, until, limit]).await?;
            let is_short = rows.len() < limit;
            let (rows, is_cut) = Room::new(PAGE_BYTES).fill(tx, rows).await?;
            let mut rows =
                rows.iter().map(|row| paging::stored(row, &id)).collect::<Result<Vec<StoredEvent>, _>>()?;
            for event in &mut rows {
                whole::restore(tx, event).await?;
            }
            Ok(Portion { rows, is_last: is_short && !is_cut })
        })
        .await
    }

    /// What a sandbox's events come to, as far as they are stored; of a very long run, its first events.
    pub async fn guardian_trajectory(&self, of: &Subject) -> Result<Trajectory, Error> {
        let mut trajectory = Trajectory::new(of.charter.clone().into());
        while trajectory.events < EVENTS_MAX {
            let Portion { rows, is_last } =
                self.guardian_past(&of.id, trajectory.seq, i64::MAX, EVENTS_PAGE).await?;
            let take = move || {
                rows.iter().for_each(|event| drop(trajectory.take(event)));
                trajectory
            };
            trajectory = aside(take).await?;
            if is_last {
                break;
            }
        }
        Ok(trajectory)
    }

    /// What a policy would have made of a sandbox by its first events, about `most`, and whether there were more.
    pub async fn guardian_replay(
        &self,
        id: &SandboxId,
        policy: &Arc<Policy>,
        most: usize,
    ) -> Result<(Replay, bool), Error> {
        let charter = self.guardian_subject(id.as_str()).await?.charter;
        let mut replaying = Replaying::new(charter);
        loop {
            let Portion { rows, is_last } =
                self.guardian_past(id, replaying.seq(), i64::MAX, EVENTS_PAGE).await?;
            let policy = policy.clone();
            let take = move || {
                replaying.take(&rows, &policy);
                replaying
            };
            replaying = aside(take).await?;
            if is_last || replaying.events() >= most {
                return Ok((replaying.end(), !is_last));
            }
        }
    }
}

/// Runs what takes the processor for long beside those who answer requests.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::Statement(format!("events could not be read: {error}")))
}
