//! The events of one type of a sandbox. Of every few events in a row, a run, the index of types holds the first of each
//! type alone: an entry for every event would be a page more to write for it, and those are most of what an event costs.

use omoi_protocol::{SandboxId, event::StoredEvent};

use super::{
    Error, Tx, paging,
    portion::{PAGE_BYTES, Room},
    value::{Row, Value, params},
};

/// Events in a run: run 0 ends with `seq` 15. So many are looked through for one of them at most.
const RUN: i64 = 16;
/// Runs that are asked for at a time, and about how many events.
const PART: usize = 256;

/// Whether an event is the first of its type in its run, given the last of its type before it.
pub(super) fn opens_run(seq: i64, previous: Option<i64>) -> bool {
    previous.is_none_or(|previous| previous / RUN < seq / RUN)
}

/// SQL for the last event of a type, one row at most: `columns` of `e`, given SQL for the sandbox's id and the type. The run is a
/// value and not a table to join: PostgreSQL would walk back through the sandbox for it once it knows how many events there are.
pub(super) fn last(columns: &str, id: &str, event_type: &str) -> String {
    let run = format!(
        "(SELECT f.seq FROM events f WHERE f.entity_id = {id} AND f.event_type = {event_type} AND f.opens_run = 1 \
         ORDER BY f.seq DESC LIMIT 1)"
    );
    format!(
        "SELECT {columns} FROM events e WHERE e.entity_id = {id} AND e.seq IS NOT NULL AND e.seq >= {run} \
         AND e.seq < ({run} / {RUN} + 1) * {RUN} AND e.event_type = {event_type} ORDER BY e.seq DESC LIMIT 1"
    )
}

/// The first event of a type.
pub(super) async fn first(tx: &mut Tx, id: &SandboxId, event_type: &str) -> Result<Option<Row>, Error> {
    let sql = "SELECT seq, created_at FROM events WHERE entity_id = $1 AND event_type = $2 AND opens_run = 1 \
               ORDER BY seq LIMIT 1";
    tx.query_one(sql, params![id, event_type]).await
}

/// Which events of a type are wanted.
pub(super) struct TypedAsk<'a> {
    pub event_type: &'a str,
    pub after: i64,
    pub before: i64,
    pub oldest_first: bool,
    pub offset: usize,
    pub limit: usize,
}

/// The first of a type in its run: its `seq`, and its number among its like.
#[derive(Clone, Copy)]
struct Opener {
    seq: i64,
    count: i64,
}

/// Which numbers among their like are wanted, both ends included.
struct Numbers {
    from: i64,
    to: i64,
}

impl TypedAsk<'_> {
    /// Those that were asked for, and whether there are more.
    pub async fn page(&self, tx: &mut Tx, id: &SandboxId) -> Result<(Vec<StoredEvent>, bool), Error> {
        let (order, mut events) = (self.order(), Vec::new());
        let (mut room, wanted) = (Room::new(PAGE_BYTES), self.limit + 1);
        let (mut after, mut before) = (self.after / RUN * RUN - 1, self.before);
        let mut numbers = Numbers { from: 0, to: i64::MAX };
        if self.offset > 0 {
            let Some(number) = self.number(tx, id).await? else { return Ok((events, false)) };
            let Some(opener) = self.opener_of(tx, id, number).await? else { return Ok((events, false)) };
            match self.oldest_first {
                true => (numbers.from, after) = (number, opener.seq - 1),
                false => (numbers.to, before) = (number, opener.seq + 1),
            }
        }
        let sql = format!(
            "SELECT seq, type_count FROM events WHERE entity_id = $1 AND event_type = $2 AND opens_run = 1 AND seq > $3 \
             AND seq < $4 ORDER BY seq {order} LIMIT $5"
        );
        while events.len() < wanted {
            let part = PART.min(wanted - events.len());
            let rows = tx.query(&sql, params![id, self.event_type, after, before, part]).await?;
            let openers = enough(&rows, part)?;
            let Some(last) = openers.last() else { break };
            match self.oldest_first {
                true => after = *last,
                false => before = *last,
            }
            let mut found = self.within(tx, id, &openers, &numbers).await?;
            found.truncate(wanted - events.len());
            let (found, is_cut) = room.fill(tx, found).await?;
            for row in &found {
                events.push(paging::stored(row, id)?);
            }
            if is_cut {
                return Ok((events, true));
            }
        }
        let has_more = events.len() > self.limit;
        events.truncate(self.limit);
        Ok((events, has_more))
    }

    /// The number among its like of the first event that is wanted. Numbers have no gap, so nothing is passed by to find it.
    async fn number(&self, tx: &mut Tx, id: &SandboxId) -> Result<Option<i64>, Error> {
        let offset = i64::try_from(self.offset).unwrap_or(i64::MAX);
        let number = match self.oldest_first {
            true => {
                self.count_until(tx, id, self.after).await?.checked_add(offset).and_then(|n| n.checked_add(1))
            }
            false => self.count_until(tx, id, self.before.saturating_sub(1)).await?.checked_sub(offset),
        };
        Ok(number.filter(|number| *number > 0))
    }

    /// How many there are up to and with a `seq`.
    async fn count_until(&self, tx: &mut Tx, id: &SandboxId, seq: i64) -> Result<i64, Error> {
        let Some(opener) = self.opener_until(tx, id, seq).await? else { return Ok(0) };
        let sql = "SELECT max(type_count) AS count FROM events WHERE entity_id = $1 AND seq IS NOT NULL AND seq >= $2 \
                   AND seq < $3 AND seq <= $4 AND event_type = $5";
        let values = params![id, opener.seq, (opener.seq / RUN + 1) * RUN, seq, self.event_type];
        let row = tx.query_one(sql, values).await?;
        Ok(row.map_or(Ok(None), |row| row.get("count"))?.unwrap_or(opener.count))
    }

    async fn opener_until(&self, tx: &mut Tx, id: &SandboxId, seq: i64) -> Result<Option<Opener>, Error> {
        let sql = "SELECT seq, type_count FROM events WHERE entity_id = $1 AND event_type = $2 AND opens_run = 1 \
                   AND seq <= $3 ORDER BY seq DESC LIMIT 1";
        let row = tx.query_one(sql, params![id, self.event_type, seq]).await?;
        row.map(|row| Ok(Opener { seq: row.get("seq")?, count: row.get("type_count")? })).transpose()
    }

    /// The opener of the run that holds the event of this number, or the last of all. Numbers grow with `seq`, and no faster,
    /// so it is found by halving what lies between.
    async fn opener_of(&self, tx: &mut Tx, id: &SandboxId, number: i64) -> Result<Option<Opener>, Error> {
        let Some(last) = self.opener_until(tx, id, i64::MAX).await? else { return Ok(None) };
        if last.count <= number {
            return Ok(Some(last));
        }
        let (mut least, mut most) = (number / RUN * RUN, last.seq - (last.count - number));
        let mut found = None;
        while least <= most {
            let middle = least + (most - least + 1) / 2;
            match self.opener_until(tx, id, middle).await? {
                Some(opener) if opener.count > number => most = opener.seq - (opener.count - number),
                opener => {
                    found = opener.or(found);
                    least = middle + 1;
                }
            }
        }
        Ok(found)
    }

    /// Those in the runs that begin with these.
    async fn within(
        &self,
        tx: &mut Tx,
        id: &SandboxId,
        openers: &[i64],
        numbers: &Numbers,
    ) -> Result<Vec<Row>, Error> {
        let run = |first: &i64| *first..(*first / RUN + 1) * RUN;
        let seqs: Vec<_> = openers.iter().flat_map(run).map(Some).collect();
        let sql = paging::select(&format!(
            "WHERE entity_id = $1 AND seq IS NOT NULL AND seq = ANY($2) AND event_type = $3 AND seq > $4 AND seq < $5 \
             AND type_count >= $6 AND type_count <= $7 ORDER BY seq {}",
            self.order()
        ));
        let (from, to) = (numbers.from, numbers.to);
        let values = params![id, Value::Ints(seqs), self.event_type, self.after, self.before, from, to];
        tx.query(&sql, values).await
    }

    fn order(&self) -> &'static str {
        if self.oldest_first { "ASC" } else { "DESC" }
    }
}

/// As many of them as have that many events, by the numbers of the first in each among their like.
fn enough(openers: &[Row], events: usize) -> Result<Vec<i64>, Error> {
    let Some(first) = openers.first() else { return Ok(Vec::new()) };
    let from: i64 = first.get("type_count")?;
    let mut taken = Vec::with_capacity(openers.len());
    for opener in openers {
        taken.push(opener.get("seq")?);
        if opener.get::<i64>("type_count")?.abs_diff(from) >= events as u64 {
            break;
        }
    }
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_its_type_in_each_run_opens_it() {
        for (seq, previous, opens) in [
            (1, None, true),
            (2, Some(1), false),
            (15, Some(1), false),
            (16, Some(15), true),
            (31, Some(16), false),
            (40, Some(16), true),
            (33, None, true),
        ] {
            assert_eq!(opens_run(seq, previous), opens, "{seq} after {previous:?}");
        }
    }
}
