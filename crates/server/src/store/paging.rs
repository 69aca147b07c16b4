//! Pages of a sandbox's events: by number, by type, or without the heartbeats. A page of numbers or of a type costs the same
//! wherever it begins; one without the heartbeats walks over those that lie in it.

use jiff::Timestamp;
use omoi_protocol::{
    EventId, SandboxId,
    event::StoredEvent,
    sandbox::{EventPage, HeartbeatSummary, Trajectory},
};
use serde_json::value::RawValue;

use super::{
    Error, Store, Tx,
    portion::{self, PAGE_BYTES, Room},
    sandbox,
    typed::{self, TypedAsk},
    value::{Row, params},
};
use crate::domain::report;

impl Store {
    /// A page, newest first. `before` and `after` bound it by `seq`.
    pub async fn event_page(&self, id: &SandboxId, ask: EventAsk) -> Result<EventPage, Error> {
        let id = id.clone();
        self.read(async move |tx| {
            sandbox::must_exist(tx, &id).await?;
            let total_count = match &ask.event_type {
                Some(kind) => total_of(tx, &id, kind).await?,
                None => total(tx, &id).await?,
            };
            let (events, has_more) = ask.page(tx, &id, total_count).await?;
            Ok(EventPage { events, total_count, has_more, sandbox_id: id.clone() })
        })
        .await
    }

    /// Events without heartbeats, from a cursor on.
    pub async fn event_trajectory(&self, id: &SandboxId, ask: TrajectoryAsk) -> Result<Trajectory, Error> {
        let id = id.clone();
        self.read(async move |tx| {
            sandbox::must_exist(tx, &id).await?;
            let (total_events, heartbeat_summary) = (total(tx, &id).await?, heartbeats(tx, &id).await?);
            let cursor = match ask.cursor {
                Some(cursor) => Some(seq_of(tx, &id, cursor).await?),
                None => None,
            };
            let (mut events, has_more) = ask.page(tx, &id, cursor).await?;
            if ask.newer {
                events.reverse();
            }
            Ok(Trajectory {
                sandbox_id: id.clone(),
                total_events,
                trajectory_events: total_events - heartbeat_summary.count,
                next_cursor: events.last().filter(|_| has_more && !ask.newer).map(|e| e.id),
                prev_cursor: events.first().map(|e| e.id),
                has_more,
                heartbeat_summary,
                events,
            })
        })
        .await
    }
}

/// Which page of events is wanted.
#[derive(Debug, Clone)]
pub struct EventAsk {
    pub limit: usize,
    pub offset: usize,
    pub event_type: Option<String>,
    pub after: Option<i64>,
    pub before: Option<i64>,
}

impl EventAsk {
    /// Newest first, and whether there are more in the direction of the page.
    async fn page(&self, tx: &mut Tx, id: &SandboxId, total: i64) -> Result<(Vec<StoredEvent>, bool), Error> {
        // From `after` alone on, the events right behind it are meant, not the newest.
        let oldest_first = self.after.is_some() && self.before.is_none();
        let (mut events, has_more) = match &self.event_type {
            None => self.any_page(tx, id, total, oldest_first).await?,
            Some(event_type) => {
                let (after, before) = (self.after.unwrap_or(0), self.before.unwrap_or(i64::MAX));
                let (offset, limit) = (self.offset, self.limit);
                TypedAsk { event_type, after, before, oldest_first, offset, limit }.page(tx, id).await?
            }
        };
        if oldest_first {
            events.reverse();
        }
        Ok((events, has_more))
    }

    /// Of whatever type. Numbers are dense, so the last one tells whether more follow.
    async fn any_page(
        &self,
        tx: &mut Tx,
        id: &SandboxId,
        total: i64,
        oldest_first: bool,
    ) -> Result<(Vec<StoredEvent>, bool), Error> {
        // And an offset moves a bound: nothing is passed by.
        let offset = i64::try_from(self.offset).unwrap_or(i64::MAX);
        let (mut after, mut before) = (self.after.unwrap_or(0).max(0), total.saturating_add(1));
        before = before.min(self.before.unwrap_or(before));
        match oldest_first {
            true => after = after.saturating_add(offset),
            false => before = before.saturating_sub(offset),
        }
        let order = if oldest_first { "ASC" } else { "DESC" };
        let sql = select(&format!(
            "WHERE entity_id = $1 AND seq IS NOT NULL AND seq > $2 AND seq < $3 ORDER BY seq {order} LIMIT $4"
        ));
        let rows = tx.query(&sql, params![id, after, before, self.limit]).await?;
        let (rows, _) = Room::new(PAGE_BYTES).fill(tx, rows).await?;
        let events = rows.iter().map(|row| stored(row, id)).collect::<Result<Vec<_>, _>>()?;
        let has_more = events.last().is_some_and(|last| match oldest_first {
            true => last.seq < total,
            false => last.seq > self.after.unwrap_or(0).saturating_add(1),
        });
        Ok((events, has_more))
    }
}

#[derive(Debug, Clone)]
pub struct TrajectoryAsk {
    pub limit: usize,
    pub cursor: Option<EventId>,
    pub newer: bool,
}

impl TrajectoryAsk {
    async fn page(
        &self,
        tx: &mut Tx,
        id: &SandboxId,
        cursor: Option<i64>,
    ) -> Result<(Vec<StoredEvent>, bool), Error> {
        let (compare, order, cursor) = match (self.newer, cursor) {
            (true, cursor) => (">", "ASC", cursor.unwrap_or(0)),
            (false, cursor) => ("<", "DESC", cursor.unwrap_or(i64::MAX)),
        };
        let sql = select(&format!(
            "WHERE entity_id = $1 AND seq IS NOT NULL AND seq {compare} $2 \
             AND event_type NOT IN ('agent.heartbeat', 'heartbeat') ORDER BY seq {order} LIMIT $3"
        ));
        let mut rows = tx.query(&sql, params![id, cursor, self.limit + 1]).await?;
        let is_full = rows.len() > self.limit;
        rows.truncate(self.limit);
        let (rows, is_cut) = Room::new(PAGE_BYTES).fill(tx, rows).await?;
        let events = rows.iter().map(|row| stored(row, id)).collect::<Result<_, _>>()?;
        Ok((events, is_full || is_cut))
    }
}

/// The place of an event in its sandbox; another sandbox's event is no cursor here.
pub(super) async fn seq_of(tx: &mut Tx, id: &SandboxId, event: EventId) -> Result<i64, Error> {
    let row = tx
        .query_one(
            "SELECT seq FROM events WHERE pos = $1 AND entity_id = $2 AND seq IS NOT NULL",
            params![event.0, id],
        )
        .await?;
    row.ok_or_else(|| Error::not_found("event of that sandbox", event))?.get("seq")
}

/// Numbers are dense, so the last one says how many there are.
async fn total(tx: &mut Tx, id: &SandboxId) -> Result<i64, Error> {
    let sql = "SELECT seq FROM events WHERE entity_id = $1 AND seq IS NOT NULL ORDER BY seq DESC LIMIT 1";
    tx.query_one(sql, params![id]).await?.map_or(Ok(0), |row| row.get("seq"))
}

async fn total_of(tx: &mut Tx, id: &SandboxId, event_type: &str) -> Result<i64, Error> {
    Ok(last_of(tx, id, event_type).await?.map_or(0, |(count, _)| count))
}

/// The last event of a type: its number among its like, and when it came.
async fn last_of(tx: &mut Tx, id: &SandboxId, event_type: &str) -> Result<Option<(i64, Timestamp)>, Error> {
    let sql = typed::last("e.type_count, e.created_at", "$1", "$2");
    let row = tx.query_one(&sql, params![id, event_type]).await?;
    row.map(|row| Ok((row.get("type_count")?, row.get("created_at")?))).transpose()
}

async fn heartbeats(tx: &mut Tx, id: &SandboxId) -> Result<HeartbeatSummary, Error> {
    let mut summary = HeartbeatSummary { count: 0, first_heartbeat: None, last_heartbeat: None };
    for kind in report::TRAJECTORY_NOISE {
        let Some((count, last)) = last_of(tx, id, kind).await? else { continue };
        let first = typed::first(tx, id, kind).await?.map_or(Ok(last), |row| row.get("created_at"))?;
        summary.count += count;
        summary.first_heartbeat = Some(summary.first_heartbeat.map_or(first, |other| other.min(first)));
        summary.last_heartbeat = Some(summary.last_heartbeat.map_or(last, |other| other.max(last)));
    }
    Ok(summary)
}

/// SQL for events of a sandbox, whose rows are filled up by a [`Room`].
pub(super) fn select(from_where_on: &str) -> String {
    format!(
        "SELECT pos, seq, worker_seq, event_type, source, {}, created_at FROM events {from_where_on}",
        portion::data()
    )
}

pub(super) fn stored(row: &Row, id: &SandboxId) -> Result<StoredEvent, Error> {
    Ok(StoredEvent {
        id: EventId(row.get("pos")?),
        sandbox_id: id.clone(),
        seq: row.get("seq")?,
        worker_seq: row.get("worker_seq")?,
        event_type: row.get("event_type")?,
        event_data: raw(row.get("data")?)?,
        source: row.parse("source")?,
        created_at: row.get("created_at")?,
    })
}

fn raw(data: String) -> Result<Box<RawValue>, Error> {
    RawValue::from_string(data).map_err(|_| Error::corrupt("data", "not JSON"))
}
