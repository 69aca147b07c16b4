//! Times in which nobody looked after leases, on whatever machine: the server was down, its machine asleep or its clock set,
//! or the database away. Who could not be heard meanwhile is not lost for it.

use std::time::Duration;

use jiff::Timestamp;

use super::{
    Error, Store, Tx,
    mark::{mark, marked},
    value::params,
};
use crate::domain::lease;

/// When a node last looked. Each has a mark of its own, since a time is compared with the clock that told it: two whose
/// clocks differ would otherwise each take the other's mark for an absence, and no lease would ever end.
const LOOKED: &str = "leases_looked_after";

/// When a lease ends that begins at `$1` and lasts as long as the sandbox asked for, or else `$2` microseconds.
const RENEWED: &str = "($1 + COALESCE(lease_seconds * 1000000, $2))";

impl Store {
    /// Notes that this node looks after leases. After an absence each live sandbox has its lease anew, a quiet one as long
    /// to stir as if it had just been at work, and what a task has of time is not counted on meanwhile. Says how many.
    pub async fn lease_resume(&self, node: &str) -> Result<usize, Error> {
        let name = format!("{LOOKED}:{node}");
        self.write(async move |tx| {
            let (now, lease) = (tx.now, tx.rules.lease_duration);
            let looked = marked(tx, &name).await?.and_then(|at| Timestamp::from_microsecond(at).ok());
            let absent = lease::was_absent(looked, now, lease);
            // Written seldom: an idle server leaves its disk alone.
            if absent || looked.is_none_or(|at| at > now || at < now - lease::absence(lease) / 3) {
                mark(tx, &name, now.as_microsecond()).await?;
            }
            // Where another node's clock is ahead, it may be ours that is wrong, and a lease is not shortened by that.
            if lease::was_set_back(looked, now, lease)
                && !lease::was_set_back(looked_elsewhere(tx, &name).await?, now, lease)
            {
                nothing_later(tx).await?;
            }
            if !absent {
                return Ok(0);
            }
            let rows = tx.query("SELECT id FROM sandboxes WHERE live = 1", params![]).await?;
            let sql = format!(
                "UPDATE sandboxes SET last_active_at = $1, lease_expires_at = \
                 CASE WHEN lease_expires_at > {RENEWED} THEN lease_expires_at ELSE {RENEWED} END WHERE live = 1"
            );
            if !rows.is_empty() {
                tx.execute(&sql, params![now, micros(lease)]).await?;
            }
            if let Some(looked) = looked {
                let away = now.as_microsecond() - looked.as_microsecond();
                // Nobody begins later than now: one may have begun since, where another node looked meanwhile.
                let sql = "UPDATE tasks SET started_at = CASE WHEN started_at + $1 > $3 THEN $3 ELSE started_at + $1 END \
                           WHERE status = 'running' AND timeout_seconds IS NOT NULL \
                           AND started_at + timeout_seconds * 1000000 > $2";
                tx.execute(sql, params![away, looked, now]).await?;
            }
            Ok(rows.len())
        })
        .await
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// When any other node looked last, by its own clock.
async fn looked_elsewhere(tx: &mut Tx, own: &str) -> Result<Option<Timestamp>, Error> {
    let sql = format!("SELECT max(value) AS last FROM marks WHERE name LIKE '{LOOKED}:%' AND name <> $1");
    let row = tx.query_one(&sql, params![own]).await?;
    row.map_or(Ok(None), |row| row.get("last"))
}

/// The clock was set back: what was to be done at times that it told before, is to be done no later than it would be if
/// it were decided now.
async fn nothing_later(tx: &mut Tx) -> Result<(), Error> {
    let now = tx.now;
    let (lease, wait) = (micros(tx.rules.lease_duration), now + tx.rules.retry.cap);
    let offer = now + tx.rules.message_offer_again_after;
    let shortened = format!(
        "UPDATE sandboxes SET lease_expires_at = {RENEWED} WHERE live = 1 AND lease_expires_at > {RENEWED}"
    );
    for (sql, values) in [
        (shortened.as_str(), params![now, lease]),
        ("UPDATE tasks SET not_before = $1 WHERE status = 'pending' AND not_before > $1", params![wait]),
        ("UPDATE messages SET offer_at = $1 WHERE state = 'delivered' AND offer_at > $1", params![offer]),
        (
            "UPDATE messages SET created_at = $1, offer_at = $1 WHERE state IN ('queued', 'delivered') \
             AND created_at > $1",
            params![now],
        ),
    ] {
        tx.execute(sql, values).await?;
    }
    Ok(())
}
