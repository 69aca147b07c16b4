//! What the Guardian needs to watch: the right to, and what there is to be known of a sandbox.

use jiff::Timestamp;
use omoi_protocol::{
    EventId, FindingKind, InterventionId, MessageId, ProjectId, SandboxId, TaskId, event::StoredEvent,
};

use super::super::{
    Entry, Error, Store, paging,
    value::{Row, params},
};
use crate::domain::supervision::trajectory::{Charter, Trajectory};

/// Events that a trajectory is made of, and how many are read at a time.
const EVENTS_MAX: u64 = 200_000;
const EVENTS_PAGE: usize = 1_000;

/// What one look says of itself when it takes or renews the right to watch.
#[derive(Debug, Clone)]
pub struct Hold {
    /// The machine that watches.
    pub node: String,
    pub until: Timestamp,
    /// Everything up to here was looked at, and nothing of it is left to be stored.
    pub mark: Option<Mark>,
    pub tick_us: i64,
    pub watched: i64,
    pub bytes: i64,
}

/// How far it has looked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    pub position: i64,
    /// When that happened.
    pub at: Timestamp,
    /// How many events that were.
    pub events: i64,
}

/// A sandbox, as far as no event tells.
#[derive(Debug, Clone)]
pub struct Subject {
    pub id: SandboxId,
    pub task_id: Option<TaskId>,
    pub project_id: Option<ProjectId>,
    pub charter: Charter,
    pub ended_at: Option<Timestamp>,
}

/// What was found and done in a sandbox so far.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// The last of each kind, and its occurrence where it goes on or ended with the sandbox.
    pub findings: Vec<(FindingKind, u32, Option<u64>)>,
    /// Interventions by time.
    pub made: Vec<(FindingKind, Timestamp)>,
    /// Those whose effect is not known.
    pub spoken: Vec<Spoken>,
    /// When the judge was asked last.
    pub asked_at: Option<Timestamp>,
}

/// An intervention that was said to the agent.
#[derive(Debug, Clone)]
pub struct Spoken {
    pub id: InterventionId,
    pub message_id: MessageId,
    pub kind: FindingKind,
}

impl Store {
    /// Takes or keeps the right to watch, and says how far was looked; none while another machine has it.
    pub async fn guardian_hold(&self, hold: Hold) -> Result<Option<Mark>, Error> {
        self.write(async move |tx| {
            let mark = hold.mark;
            let sql = "UPDATE guardian SET holder = $1, held_until = $2, ticked_at = $3, tick_us = $4, watched = $5, \
                       bytes = $6, events = CASE WHEN $7 > position THEN $9 ELSE events END, \
                       taken_at = CASE WHEN $7 > position THEN $8 ELSE taken_at END, \
                       position = CASE WHEN $7 > position THEN $7 ELSE position END \
                       WHERE id = 1 AND (holder IS NULL OR holder = $1 OR held_until < $3) \
                       RETURNING position, taken_at, events";
            let rows = tx
                .returning(
                    sql,
                    params![
                        hold.node.as_str(),
                        hold.until,
                        tx.now(),
                        hold.tick_us,
                        hold.watched,
                        hold.bytes,
                        mark.map_or(-1, |mark| mark.position),
                        mark.map_or(Timestamp::UNIX_EPOCH, |mark| mark.at),
                        mark.map_or(0, |mark| mark.events)
                    ],
                )
                .await?;
            rows.first().map(read_mark).transpose()
        })
        .await
    }

    /// All that live, oldest first.
    pub async fn guardian_live(&self, limit: usize) -> Result<Vec<SandboxId>, Error> {
        self.read(async move |tx| {
            let sql = "SELECT id FROM sandboxes WHERE live = 1 ORDER BY lease_expires_at LIMIT $1";
            tx.query(sql, params![limit]).await?.iter().map(|row| row.parse("id")).collect()
        })
        .await
    }

    pub async fn guardian_subjects(&self, ids: Vec<SandboxId>) -> Result<Vec<Subject>, Error> {
        self.read(async move |tx| {
            let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
            let sql = "SELECT s.id, s.task_id, s.project_id, s.ended_at, t.owned_files, t.execution_config \
                       FROM sandboxes s LEFT JOIN tasks t ON t.id = s.task_id WHERE s.id = ANY($1)";
            tx.query(sql, params![ids]).await?.iter().map(subject).collect()
        })
        .await
    }

    /// The sandbox of this name, or the one that the attached agent of this name works in or worked in last.
    pub async fn guardian_subject(&self, name: &str) -> Result<Subject, Error> {
        let name = name.to_owned();
        self.read(async move |tx| {
            let select = "SELECT s.id, s.task_id, s.project_id, s.ended_at, t.owned_files, t.execution_config \
                          FROM sandboxes s LEFT JOIN tasks t ON t.id = s.task_id WHERE";
            let own = format!("{select} s.id = $1");
            let by_agent = format!("{select} s.agent_id = $1 ORDER BY s.id DESC LIMIT 1");
            for sql in [own, by_agent] {
                if let Some(row) = tx.query_one(&sql, params![name.as_str()]).await? {
                    return subject(&row);
                }
            }
            Err(Error::not_found("sandbox", &name))
        })
        .await
    }

    /// A sandbox's events behind `after`, oldest first, as far as they stand at or before a position.
    pub async fn guardian_past(
        &self,
        id: &SandboxId,
        after: i64,
        until: i64,
        limit: usize,
    ) -> Result<Vec<StoredEvent>, Error> {
        let id = id.clone();
        self.read(async move |tx| {
            let sql = "SELECT pos, seq, worker_seq, event_type, source, data, created_at FROM events \
                       WHERE entity_id = $1 AND seq IS NOT NULL AND seq > $2 AND pos <= $3 ORDER BY seq LIMIT $4";
            let rows = tx.query(sql, params![&id, after, until, limit]).await?;
            rows.iter().map(|row| paging::stored(row, &id)).collect()
        })
        .await
    }

    /// What a sandbox's events come to, as far as they are stored; of a very long run, its first events.
    pub async fn guardian_trajectory(&self, of: &Subject) -> Result<Trajectory, Error> {
        let mut trajectory = Trajectory::new(of.charter.clone().into());
        while trajectory.events < EVENTS_MAX {
            let page = self.guardian_past(&of.id, trajectory.seq, i64::MAX, EVENTS_PAGE).await?;
            page.iter().for_each(|event| drop(trajectory.take(event)));
            if page.len() < EVENTS_PAGE {
                break;
            }
        }
        Ok(trajectory)
    }

    pub async fn guardian_known(&self, id: &SandboxId) -> Result<Known, Error> {
        let id = id.clone();
        self.read(async move |tx| {
            let mut known = Known::default();
            let sql = "SELECT kind, number, occurrence, cleared_at, cleared_by FROM findings \
                       WHERE sandbox_id = $1 ORDER BY kind, number DESC";
            for row in tx.query(sql, params![&id]).await? {
                let kind: FindingKind = row.parse("kind")?;
                if known.findings.last().is_some_and(|(last, ..)| *last == kind) {
                    continue;
                }
                let open = row.get::<Option<i64>>("cleared_at")?.is_none()
                    || row.get::<Option<String>>("cleared_by")?.as_deref() == Some("ended");
                let occurrence = row.get::<i64>("occurrence")?.cast_unsigned();
                let number = u32::try_from(row.get::<i64>("number")?).unwrap_or(u32::MAX);
                known.findings.push((kind, number, open.then_some(occurrence)));
            }
            let sql = "SELECT id, kind, created_at, message_id, effect FROM interventions \
                       WHERE sandbox_id = $1 AND kind IS NOT NULL AND mode <> 'record' ORDER BY created_at, id";
            for row in tx.query(sql, params![&id]).await? {
                let kind = row.parse("kind")?;
                known.made.push((kind, row.get("created_at")?));
                let undecided = row.get::<Option<String>>("effect")?.is_none();
                if let (true, Some(message_id)) = (undecided, row.parse_opt("message_id")?) {
                    known.spoken.push(Spoken { id: row.parse("id")?, message_id, kind });
                }
            }
            let sql = "SELECT asked_at FROM judgements WHERE sandbox_id = $1 ORDER BY id DESC LIMIT 1";
            let row = tx.query_one(sql, params![&id]).await?;
            known.asked_at = row.map(|row| row.get("asked_at")).transpose()?;
            Ok(known)
        })
        .await
    }

    /// The interventions that these messages bring, as far as they are about a finding.
    pub async fn guardian_spoken(&self, messages: Vec<String>) -> Result<Vec<Spoken>, Error> {
        self.read(async move |tx| {
            let sql = "SELECT id, kind, message_id FROM interventions WHERE message_id = ANY($1) \
                       AND message_id IS NOT NULL AND kind IS NOT NULL AND effect IS NULL";
            let rows = tx.query(sql, params![messages.clone()]).await?;
            let spoken = |row: &Row| {
                let (id, message_id) = (row.parse("id")?, row.parse("message_id")?);
                Ok(Spoken { id, message_id, kind: row.parse("kind")? })
            };
            rows.iter().map(spoken).collect()
        })
        .await
    }
}

impl Entry {
    /// A sandbox's own event; none for a notice.
    pub fn into_event(self) -> Option<StoredEvent> {
        let (seq, sandbox_id) = (self.seq?, self.entity_id.parse().ok()?);
        Some(StoredEvent {
            id: EventId(self.pos),
            sandbox_id,
            seq,
            worker_seq: self.worker_seq,
            event_type: self.event_type,
            event_data: serde_json::value::RawValue::from_string(self.data).ok()?,
            source: self.source,
            created_at: self.created_at,
        })
    }
}

pub(super) fn read_mark(row: &Row) -> Result<Mark, Error> {
    Ok(Mark { position: row.get("position")?, at: row.get("taken_at")?, events: row.get("events")? })
}

fn subject(row: &Row) -> Result<Subject, Error> {
    let charter = match row.get::<Option<String>>("owned_files")? {
        Some(_) => Charter::of_task(row.json("owned_files")?, &row.json("execution_config")?),
        None => Charter::default(),
    };
    Ok(Subject {
        id: row.parse("id")?,
        task_id: row.parse_opt("task_id")?,
        project_id: row.parse_opt("project_id")?,
        ended_at: row.get("ended_at")?,
        charter,
    })
}
