//! Conflicts: found, changed and cleared as the radar says. An agent gets one message per look, about all that is new to it.
//! What a look found is stored in one transaction, with the messages that follow from it.

use std::collections::{HashMap, HashSet};

use omoi_protocol::{
    ConflictId, ConflictKind, MessageId, MessageType, ProjectId, SandboxId,
    conductor::{Clash, Conflict, Matrix, Side},
    message::NewMessage,
};
use serde_json::{Value as Json, json};

use super::super::{
    Ask, Error, Store, Tx, message, project, system,
    value::{Row, params},
};
use crate::{
    config::OnConflict,
    domain::radar::{self, News, Verdict},
};

const COLUMNS: &str = "id, project_id, sandbox_id, other_id, side, other_side, kind, files, told, found_at, changed_at, cleared_at";
const SENDER: &str = "conductor";
/// Open conflicts of one project that are looked at.
const OPEN_MAX: usize = 5_000;
/// A pair that comes and goes is told of no more than this.
const TOLD_MAX: i64 = 3;

/// What the radar says of two. `b` without a sandbox is the default branch.
#[derive(Debug, Clone)]
pub struct Pair {
    pub a: Side,
    pub b: Side,
    pub verdict: Verdict,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    pub found: usize,
    pub cleared: usize,
    pub told: usize,
}

#[derive(Debug, Clone, Default)]
pub struct ConflictFilter {
    pub project_id: Option<ProjectId>,
    pub open: Option<bool>,
}

/// A pair by the ids of its sandboxes; the default branch has none.
type Key = (String, String);

impl Store {
    /// Stores a look at one project. Conflicts of those that are no longer looked at are over.
    pub async fn radar_apply(
        &self,
        project_id: &ProjectId,
        pairs: Vec<Pair>,
        matrix: Matrix,
        on_conflict: OnConflict,
    ) -> Result<Found, Error> {
        let project_id = project_id.clone();
        self.write(async move |tx| {
            let mut open = open(tx, &project_id).await?;
            let (mut done, mut new, mut known_causes) = (Found::default(), Vec::new(), Causes::default());
            for pair in &pairs {
                let known = open.remove(&key(pair));
                match (&pair.verdict, known) {
                    (Verdict::Conflict(kind, files), None) => {
                        new.push(Clashing { pair, kind: *kind, files, id: ConflictId::generate() });
                    }
                    (Verdict::Conflict(kind, files), Some(known)) => {
                        known_causes.add(&known);
                        change(tx, known, *kind, files).await?;
                    }
                    (Verdict::Clear, Some(known)) => {
                        done.cleared += 1;
                        clear(tx, known, "resolved").await?;
                    }
                    (Verdict::Unknown, Some(known)) => known_causes.add(&known),
                    (Verdict::Clear | Verdict::Unknown, None) => {}
                }
            }
            done.found = new.len();
            let told = match on_conflict {
                OnConflict::Tell => tell_agents(tx, &new, &known_causes).await?,
                OnConflict::Note => Told::default(),
            };
            done.told = told.agents;
            for one in &new {
                let agents = told.of.get(one.id.as_str()).map(Vec::as_slice).unwrap_or_default();
                begin(tx, &project_id, one, agents).await?;
            }
            for known in open.into_values() {
                done.cleared += 1;
                clear(tx, known, "gone").await?;
            }
            keep_matrix(tx, &matrix).await?;
            Ok(done)
        })
        .await
    }

    /// Projects with open conflicts or a matrix, so that one where nothing is under way any more is tidied as well.
    pub async fn radar_projects(&self) -> Result<Vec<ProjectId>, Error> {
        self.read(async |tx| {
            let sql = "SELECT project_id FROM radar WHERE matrix <> '' \
                       UNION SELECT project_id FROM conflicts WHERE cleared_at IS NULL LIMIT 1000";
            tx.query(sql, params![]).await?.iter().map(|row| row.parse("project_id")).collect()
        })
        .await
    }

    /// Newest first.
    pub async fn conflict_list(
        &self,
        filter: ConflictFilter,
        before: Option<ConflictId>,
        limit: usize,
    ) -> Result<Vec<Conflict>, Error> {
        self.read(async move |tx| {
            let mut ask = Ask::new(&format!("SELECT {COLUMNS} FROM conflicts"));
            ask.and_some("project_id =", filter.project_id.as_ref());
            match filter.open {
                Some(true) => ask.raw("cleared_at IS NULL"),
                Some(false) => ask.raw("cleared_at IS NOT NULL /* most */"),
                None => {}
            }
            ask.and_some("id <", before.as_ref());
            let (sql, values) = ask.order_limit("id DESC", limit);
            tx.query(&sql, values).await?.iter().map(read).collect()
        })
        .await
    }

    /// As it was last seen; empty before the first look.
    pub async fn radar_matrix(&self, project_id: &ProjectId) -> Result<Matrix, Error> {
        let project_id = project_id.clone();
        self.read(async move |tx| {
            project::get(tx, &project_id).await?;
            let sql = "SELECT matrix FROM radar WHERE project_id = $1 AND matrix <> ''";
            match tx.query_one(sql, params![&project_id]).await? {
                Some(row) => row.json("matrix"),
                None => {
                    let project_id = project_id.clone();
                    Ok(Matrix { project_id, at: None, members: Vec::new(), pairs: Vec::new() })
                }
            }
        })
        .await
    }
}

fn key(pair: &Pair) -> Key {
    let id = |side: &Side| side.sandbox_id.as_ref().map(ToString::to_string).unwrap_or_default();
    (id(&pair.a), id(&pair.b))
}

async fn open(tx: &mut Tx, project: &ProjectId) -> Result<HashMap<Key, Conflict>, Error> {
    let sql =
        format!("SELECT {COLUMNS} FROM conflicts WHERE project_id = $1 AND cleared_at IS NULL LIMIT $2");
    let rows = tx.query(&sql, params![project, OPEN_MAX]).await?;
    rows.iter().map(|row| Ok(((row.get("sandbox_id")?, row.get("other_id")?), read(row)?))).collect()
}

/// A conflict that was not known.
struct Clashing<'a> {
    pair: &'a Pair,
    kind: ConflictKind,
    files: &'a [Clash],
    id: ConflictId,
}

/// What agents know of conflicts that last: files, and whether it is the default branch that they meet there.
#[derive(Default)]
struct Causes(HashSet<(SandboxId, bool, String)>);

impl Causes {
    fn add(&mut self, known: &Conflict) {
        let is_default = known.b.sandbox_id.is_none();
        for agent in &known.told {
            self.0.extend(known.files.iter().map(|file| (agent.clone(), is_default, file.path.clone())));
        }
    }

    /// Whether the agent knows of every place of a conflict that somebody else works there.
    fn covers(&self, agent: &SandboxId, news: &News<'_>) -> bool {
        let is_known =
            |file: &Clash| self.0.contains(&(agent.clone(), news.is_with_default(), file.path.clone()));
        !news.files.is_empty() && news.files.iter().all(is_known)
    }
}

/// Who was told of which conflict, and how many agents got a message.
#[derive(Default)]
struct Told {
    of: HashMap<String, Vec<SandboxId>>,
    agents: usize,
}

/// One message to each agent that has something new to know.
async fn tell_agents(tx: &mut Tx, new: &[Clashing<'_>], known: &Causes) -> Result<Told, Error> {
    let mut by_agent: Vec<(&SandboxId, Vec<(&ConflictId, News<'_>)>)> = Vec::new();
    for one in new {
        if times_told(tx, one.pair).await? >= TOLD_MAX {
            continue;
        }
        for (agent, other) in [(&one.pair.a, &one.pair.b), (&one.pair.b, &one.pair.a)] {
            let news = News { kind: one.kind, other, files: one.files };
            let Some(agent) = agent.sandbox_id.as_ref().filter(|agent| !known.covers(agent, &news)) else {
                continue;
            };
            match by_agent.iter_mut().find(|(known, _)| *known == agent) {
                Some((_, all)) => all.push((&one.id, news)),
                None => by_agent.push((agent, vec![(&one.id, news)])),
            }
        }
    }
    let mut told = Told::default();
    for (agent, all) in by_agent {
        let news: Vec<News<'_>> = all.iter().map(|(_, news)| *news).collect();
        if say(tx, agent, radar::told(&news)).await? {
            told.agents += 1;
            for (id, _) in all {
                told.of.entry(id.to_string()).or_default().push(agent.clone());
            }
        }
    }
    Ok(told)
}

/// How often two were told of each other.
async fn times_told(tx: &mut Tx, pair: &Pair) -> Result<i64, Error> {
    let (sandbox, other) = key(pair);
    let sql =
        "SELECT count(*) AS times FROM conflicts WHERE sandbox_id = $1 AND other_id = $2 AND told <> '[]'";
    let row = tx.query_one(sql, params![sandbox.as_str(), other.as_str()]).await?;
    row.map_or(Ok(0), |row| row.get("times"))
}

async fn begin(
    tx: &mut Tx,
    project: &ProjectId,
    Clashing { pair, kind, files, id }: &Clashing<'_>,
    told: &[SandboxId],
) -> Result<(), Error> {
    let (sandbox, other) = key(pair);
    tx.execute(
        "INSERT INTO conflicts (id, project_id, sandbox_id, other_id, side, other_side, kind, files, told, found_at, \
         changed_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10)",
        params![
            id,
            project,
            sandbox,
            other,
            text(&pair.a),
            text(&pair.b),
            kind.as_str(),
            text(files),
            text(&told),
            tx.now
        ],
    )
    .await?;
    let news = json!({
        "conflict_id": id, "project_id": project, "kind": kind, "files": files, "a": pair.a, "b": pair.b, "told": told,
    });
    tx.tell("conductor.conflict.found", "project", project.as_str(), &news);
    for (side, about) in [(&pair.a, &pair.b), (&pair.b, &pair.a)] {
        if let Some(sandbox) = &side.sandbox_id {
            let news = json!({ "conflict_id": id, "kind": kind, "files": files, "with": about });
            system::append(tx, sandbox, "conductor.conflict.found", &news).await?;
        }
    }
    Ok(())
}

/// Says whether the agent lives and its queue has taken the message.
async fn say(tx: &mut Tx, to: &SandboxId, content: String) -> Result<bool, Error> {
    let row = tx.query_one("SELECT live FROM sandboxes WHERE id = $1", params![to]).await?;
    if !row.map_or(Ok(false), |row| row.get("live"))? {
        return Ok(false);
    }
    let new = NewMessage { content, message_type: MessageType::System };
    match message::queue(tx, MessageId::generate(), SENDER, to, &new).await {
        Ok(_) => Ok(true),
        Err(fault) if fault.is_fault() => Err(fault),
        // A full queue: the conflict is shown all the same.
        Err(_) => Ok(false),
    }
}

async fn change(tx: &mut Tx, known: Conflict, kind: ConflictKind, files: &[Clash]) -> Result<(), Error> {
    if known.kind == kind && known.files == files {
        return Ok(());
    }
    let sql = "UPDATE conflicts SET kind = $2, files = $3, changed_at = $4 WHERE id = $1";
    tx.execute(sql, params![&known.id, kind.as_str(), text(&files), tx.now]).await?;
    if known.kind != kind {
        tell(tx, "conductor.conflict.changed", &known, &json!({ "kind": kind, "files": files }));
    }
    Ok(())
}

async fn clear(tx: &mut Tx, known: Conflict, reason: &str) -> Result<(), Error> {
    let sql = "UPDATE conflicts SET cleared_at = $2 WHERE id = $1";
    tx.execute(sql, params![&known.id, tx.now]).await?;
    tell(tx, "conductor.conflict.cleared", &known, &json!({ "reason": reason }));
    for side in [&known.a, &known.b] {
        if let Some(sandbox) = &side.sandbox_id {
            let news = json!({ "conflict_id": known.id, "reason": reason });
            system::append(tx, sandbox, "conductor.conflict.cleared", &news).await?;
        }
    }
    Ok(())
}

fn tell(tx: &mut Tx, event_type: &str, known: &Conflict, more: &Json) {
    let mut news =
        json!({ "conflict_id": known.id, "project_id": known.project_id, "a": known.a, "b": known.b });
    if let (Some(news), Some(more)) = (news.as_object_mut(), more.as_object()) {
        news.extend(more.clone());
    }
    tx.tell(event_type, "project", known.project_id.as_str(), &news);
}

/// Nothing under way is kept as nothing.
async fn keep_matrix(tx: &mut Tx, matrix: &Matrix) -> Result<(), Error> {
    let body = if matrix.members.is_empty() { String::new() } else { text(matrix) };
    let sql = "INSERT INTO radar (project_id, at, matrix) VALUES ($1, $2, $3) \
               ON CONFLICT (project_id) DO UPDATE SET at = excluded.at, matrix = excluded.matrix";
    tx.execute(sql, params![&matrix.project_id, tx.now, body]).await
}

fn text(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn read(row: &Row) -> Result<Conflict, Error> {
    Ok(Conflict {
        id: row.parse("id")?,
        project_id: row.parse("project_id")?,
        a: row.json("side")?,
        b: row.json("other_side")?,
        kind: row.parse("kind")?,
        files: row.json("files")?,
        since: row.get("found_at")?,
        changed_at: row.get("changed_at")?,
        cleared_at: row.get("cleared_at")?,
        told: row.json("told")?,
    })
}
