//! Offers: the next tasks to claim, remembered on PostgreSQL from one claim to the next.
//!
//! PostgreSQL keeps the index entry of a task that was claimed until the table is vacuumed, and whoever looks for the
//! first that waits passes all of them. So a few of each project and class are looked up together. They are offered
//! for as long as nobody else has written and nothing of this process has changed a task, a project or a ticket
//! (`tx.rs`), so a claim finds what it would have found by looking.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    time::Duration,
};

use jiff::Timestamp;
use omoi_protocol::AgentId;

use super::{
    Error, Tx,
    claim::{NEAR_DEADLINE_MAX, TICKET, TICKET_COLUMNS, claimable},
    task::COLUMNS,
    value::{Row, params},
};

/// Tasks of one project and class that are looked up together.
const EACH: usize = 16;
/// With more projects than this, a claim looks for itself.
const LISTS_MAX: usize = 256;
/// How long they are offered: so much sooner are tasks taken for near their deadline, which their score then tells.
const OFFERED: Duration = Duration::from_secs(1);
/// The list of tasks near their deadline, whatever their project; the classes have their own numbers.
const NEAR: i64 = 2;

/// A project and a class.
type Key = (String, i64);

pub(super) struct Offers {
    /// The best first.
    lists: HashMap<Key, VecDeque<Row>>,
    /// Lists that may go on in the database.
    open_ended: HashSet<Key>,
    /// How many more tasks of each project may be claimed.
    free: HashMap<String, i64>,
    until: Timestamp,
    /// The stamp of the transaction in which they are as the database says.
    valid_at: i64,
}

/// The first task of each project and class, those near their deadline, and what the agent can do.
pub(super) async fn first(tx: &mut Tx, agent: &AgentId) -> Result<(Vec<Row>, Vec<String>), Error> {
    if tx.offers.is_some() {
        let sql = "SELECT capabilities AS able FROM agents WHERE id = $1";
        let row = tx.query_one(sql, params![agent]).await?;
        let able = row.ok_or_else(|| Error::not_found("agent", agent))?.json("able")?;
        let stamp = tx.stamp().await?;
        let offers = tx.offers.as_ref().filter(|offers| offers.valid_at == stamp && tx.now <= offers.until);
        if let Some(first) = offers.and_then(Offers::first) {
            return Ok((first, able));
        }
    }
    let rows = look_up(tx, agent).await?;
    let able = rows.first().ok_or_else(|| Error::not_found("agent", agent))?.json("able")?;
    let offers = Offers::new(rows, tx.now + OFFERED, tx.stamp().await?)?;
    let first = offers.first().unwrap_or_default();
    tx.offers = Some(offers).filter(|offers| offers.lists.len() <= LISTS_MAX);
    Ok((first, able))
}

async fn look_up(tx: &mut Tx, agent: &AgentId) -> Result<Vec<Row>, Error> {
    let free = "COALESCE(p.max_concurrent, $1) - p.live_sandboxes";
    let open = format!("p.archived = 0 AND p.paused = 0 AND {free} > 0");
    let ready = claimable("x");
    let sql = format!(
        "SELECT {COLUMNS}, {TICKET_COLUMNS}, t.rank, front.list, front.free, a.capabilities AS able FROM agents a \
         LEFT JOIN (SELECT best.id, class.list, {free} AS free FROM projects p CROSS JOIN (VALUES (0), (1)) AS class (list) \
         CROSS JOIN LATERAL (SELECT x.id FROM tasks x WHERE x.project_id = p.id AND x.rank_class = class.list \
         AND {ready} ORDER BY x.rank DESC, x.id LIMIT {EACH}) AS best WHERE {open} \
         UNION ALL SELECT id, {NEAR}, free FROM (SELECT x.id, {free} AS free FROM tasks x \
         JOIN projects p ON p.id = x.project_id WHERE {ready} AND x.deadline_at IS NOT NULL AND x.deadline_at <= $2 \
         AND {open} ORDER BY x.deadline_at LIMIT {NEAR_DEADLINE_MAX}) AS near) AS front ON front.id IS NOT NULL \
         LEFT JOIN tasks t ON t.id = front.id {TICKET} WHERE a.id = $3"
    );
    let window = tx.now + tx.rules.weights.deadline_window + OFFERED;
    let per_project = tx.rules.max_concurrent_per_project;
    tx.query(&sql, params![per_project, window, agent]).await
}

impl Offers {
    fn new(rows: Vec<Row>, until: Timestamp, valid_at: i64) -> Result<Self, Error> {
        let (mut lists, mut free) = (HashMap::<Key, VecDeque<Row>>::new(), HashMap::new());
        for row in rows {
            // Without any there is one row, of the agent alone.
            let Some(list) = row.get::<Option<i64>>("list")? else { continue };
            let project: String = row.get("project_id")?;
            free.insert(project.clone(), row.get("free")?);
            let key = if list == NEAR { (String::new(), NEAR) } else { (project, list) };
            lists.entry(key).or_default().push_back(row);
        }
        let mut open_ended = HashSet::new();
        for (key, rows) in &mut lists {
            let full = if key.1 == NEAR { NEAR_DEADLINE_MAX } else { EACH };
            if rows.len() == full {
                open_ended.insert(key.clone());
            }
            let mut ranked = Vec::with_capacity(rows.len());
            for row in rows.drain(..) {
                ranked.push((row.get::<f64>("rank")?, row.get::<String>("id")?, row));
            }
            ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
            rows.extend(ranked.into_iter().map(|(_, _, row)| row));
        }
        Ok(Self { lists, open_ended, free, until, valid_at })
    }

    /// None if a list has come to its end here and may go on in the database.
    fn first(&self) -> Option<Vec<Row>> {
        let may = |row: &&Row| row.get::<String>("project_id").is_ok_and(|project| self.has_room(&project));
        let mut first = Vec::new();
        for (key, rows) in &self.lists {
            if key.1 == NEAR {
                if rows.len() < NEAR_DEADLINE_MAX && self.open_ended.contains(key) {
                    return None;
                }
                first.extend(rows.iter().filter(may).cloned());
            } else if let Some(row) = rows.front() {
                first.extend(Some(row).filter(may).cloned());
            } else if self.open_ended.contains(key) && self.has_room(&key.0) {
                return None;
            }
        }
        Some(first)
    }

    fn has_room(&self, project: &str) -> bool {
        self.free.get(project).is_some_and(|free| *free > 0)
    }

    /// What is left once a task was taken by a claim.
    pub fn without(mut self, taken: &Row) -> Result<Self, Error> {
        let (id, project): (String, String) = (taken.get("id")?, taken.get("project_id")?);
        for rows in self.lists.values_mut() {
            rows.retain(|row| row.get::<String>("id").is_ok_and(|other| other != id));
        }
        self.free.entry(project).and_modify(|free| *free -= 1);
        Ok(self)
    }

    /// A transaction of ours has ended, and the next one's stamp is known if nobody comes between.
    pub fn go_on(&mut self, from: i64, to: i64) {
        if self.valid_at == from {
            self.valid_at = to;
        }
    }
}
