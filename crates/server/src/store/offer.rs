//! Offers: the next tasks to claim, remembered on PostgreSQL from one claim to the next.
//!
//! PostgreSQL keeps the index entry of a task that was claimed until the table is vacuumed, and whoever looks for the
//! first that waits passes all of them. So a few of each project and class are looked up together, and the next few from
//! where those ended. They are offered for as long as nobody else has written and nothing of this process has changed a
//! task, a project or a ticket (`tx.rs`), so a claim finds what it would have found by looking.

use std::{
    collections::{HashMap, VecDeque},
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

/// The rank and the id of the last task that was looked up.
#[derive(Clone)]
struct End(f64, String);

pub(super) struct Offers {
    /// The best first.
    lists: HashMap<Key, VecDeque<Row>>,
    /// Where lists end that may go on in the database.
    ends: HashMap<Key, End>,
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
        if let Some(mut offers) = still_good(tx).await? {
            go_on(tx, &mut offers).await?;
            let first = offers.first();
            tx.offers = Some(offers);
            return Ok((first, able));
        }
    }
    let rows = look_up(tx, agent).await?;
    let able = rows.first().ok_or_else(|| Error::not_found("agent", agent))?.json("able")?;
    let offers = Offers::new(rows, tx.now + OFFERED, tx.stamp().await?)?;
    let first = offers.first();
    tx.offers = Some(offers).filter(|offers| offers.lists.len() <= LISTS_MAX);
    Ok((first, able))
}

/// What is remembered, if it is what a look would find.
async fn still_good(tx: &mut Tx) -> Result<Option<Offers>, Error> {
    let (stamp, now) = (tx.stamp().await?, tx.now);
    let good =
        |offers: &Offers| offers.valid_at == stamp && now <= offers.until && !offers.lacks_near_deadline();
    Ok(tx.offers.take().filter(good))
}

/// Looks up what follows in lists that have come to their end here.
async fn go_on(tx: &mut Tx, offers: &mut Offers) -> Result<(), Error> {
    for (key, End(rank, id)) in offers.spent() {
        let of = format!("x.project_id = $1 AND x.rank_class = $2 AND {}", claimable("x"));
        // Tasks made together have the same rank. Each half is a range of the index.
        let sql = format!(
            "SELECT {COLUMNS}, {TICKET_COLUMNS}, t.rank FROM (\
             (SELECT x.id FROM tasks x WHERE {of} AND x.rank = $3 AND x.id > $4 ORDER BY x.id LIMIT {EACH}) UNION ALL \
             (SELECT x.id FROM tasks x WHERE {of} AND x.rank < $3 ORDER BY x.rank DESC, x.id LIMIT {EACH})) AS next \
             JOIN tasks t ON t.id = next.id {TICKET} ORDER BY t.rank DESC, t.id LIMIT {EACH}"
        );
        let rows = tx.query(&sql, params![key.0.as_str(), key.1, rank, id]).await?;
        offers.append(key, rows)?;
    }
    Ok(())
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
        let (mut looked_up, mut free) = (HashMap::<Key, Vec<_>>::new(), HashMap::new());
        for row in rows {
            // Without any there is one row, of the agent alone.
            let Some(list) = row.get::<Option<i64>>("list")? else { continue };
            let project: String = row.get("project_id")?;
            free.insert(project.clone(), row.get("free")?);
            let key = if list == NEAR { (String::new(), NEAR) } else { (project, list) };
            looked_up.entry(key).or_default().push((row.get::<f64>("rank")?, row.get::<String>("id")?, row));
        }
        let mut offers = Self { lists: HashMap::new(), ends: HashMap::new(), free, until, valid_at };
        for (key, mut ranked) in looked_up {
            ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
            offers.append(key, ranked.into_iter().map(|(_, _, row)| row).collect())?;
        }
        Ok(offers)
    }

    /// Takes in what was looked up of a list, in its order.
    fn append(&mut self, key: Key, rows: Vec<Row>) -> Result<(), Error> {
        let asked_for = if key.1 == NEAR { NEAR_DEADLINE_MAX } else { EACH };
        match rows.last() {
            Some(last) if rows.len() == asked_for => {
                self.ends.insert(key.clone(), End(last.get("rank")?, last.get("id")?));
            }
            _ => drop(self.ends.remove(&key)),
        }
        self.lists.entry(key).or_default().extend(rows);
        Ok(())
    }

    /// Whether more tasks are near their deadline than are known here: their order is another, so they are looked up anew.
    fn lacks_near_deadline(&self) -> bool {
        let near = (String::new(), NEAR);
        self.ends.contains_key(&near)
            && self.lists.get(&near).is_none_or(|rows| rows.len() < NEAR_DEADLINE_MAX)
    }

    /// The lists of which nothing is left here, of projects in which another task may run, and where they go on.
    fn spent(&self) -> Vec<(Key, End)> {
        let empty = |key: &Key| self.lists.get(key).is_none_or(VecDeque::is_empty);
        let spent = self.ends.iter().filter(|(key, _)| empty(key) && self.has_room(&key.0));
        spent.map(|(key, end)| (key.clone(), end.clone())).collect()
    }

    /// The first of each list, and all that are near their deadline.
    fn first(&self) -> Vec<Row> {
        let may = |row: &&Row| row.get::<String>("project_id").is_ok_and(|project| self.has_room(&project));
        let known = |(key, rows): (&Key, &'_ VecDeque<Row>)| {
            let most = if key.1 == NEAR { rows.len() } else { 1 };
            rows.iter().take(most).filter(may).cloned().collect::<Vec<_>>()
        };
        self.lists.iter().flat_map(known).collect()
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
