//! What is left of ended sandboxes and is to go now. The rule is in `domain::prune`; here a sandbox is only marked, with
//! its reason, and the loop of places removes it.

use std::{collections::BTreeMap, time::Duration};

use omoi_protocol::{
    Removal,
    sandbox::{Prune, Pruned, Removed},
};
use serde_json::json;

use super::{
    Error, Store, Tx,
    value::{Row, params},
};
use crate::domain::prune::{self, Left, Limits};

/// What one look takes in.
const LIMIT: usize = 10_000;

impl Store {
    /// Marks what is to go on a machine, whose disk has so much room; says how many.
    pub async fn place_prune(&self, node: &str, free: Option<u64>) -> Result<usize, Error> {
        let node = node.to_owned();
        self.write(async move |tx| {
            let limits = tx.rules.prune.clone();
            let due = due(tx, Some(&node), &limits, free).await?;
            mark(tx, &due).await?;
            Ok(due.len())
        })
        .await
    }

    /// The same when a person asks, on all machines, or only what it would be. How full disks are is seen where they are.
    pub async fn sandbox_prune(&self, actor: &str, ask: Prune) -> Result<Pruned, Error> {
        let actor = actor.to_owned();
        self.write(async move |tx| {
            let mut limits = tx.rules.prune.clone();
            let asked = ask.older_than_seconds.and_then(|seconds| u64::try_from(seconds).ok());
            limits.keep = asked.map_or(limits.keep, Duration::from_secs);
            let items = due(tx, None, &limits, None).await?;
            if !ask.dry_run {
                mark(tx, &items).await?;
                for one in &items {
                    let detail = json!({ "reason": one.reason });
                    tx.record(&actor, "sandbox.prune", "sandbox", one.sandbox_id.as_str(), detail);
                }
            }
            Ok(Pruned { items })
        })
        .await
    }
}

/// What is kept and not on its way out yet, each machine for itself.
async fn due(
    tx: &mut Tx,
    node: Option<&str>,
    limits: &Limits,
    free: Option<u64>,
) -> Result<Vec<Removed>, Error> {
    let sql = "SELECT id, place, ended_at, disk_bytes, node FROM sandboxes \
               WHERE place IN ('wanted', 'up', 'kept') AND place = 'kept' AND removal IS NULL";
    let rows = match node {
        // One that ended before any machine took it is anybody's.
        Some(node) => {
            let own = format!("{sql} AND (node = $1 OR node IS NULL) LIMIT $2");
            tx.query(&own, params![node, LIMIT]).await?
        }
        None => tx.query(&format!("{sql} LIMIT $1"), params![LIMIT]).await?,
    };
    let mut by_node: BTreeMap<Option<String>, Vec<Left>> = BTreeMap::new();
    for row in rows {
        by_node.entry(row.get("node")?).or_default().push(read(&row)?);
    }
    let mut removed = Vec::new();
    for left in by_node.values() {
        for (id, reason) in prune::prune(left, limits, free, tx.now()) {
            let of = left.iter().find(|one| one.id == id);
            removed.push(Removed {
                ended_at: of.and_then(|one| one.ended_at),
                disk_bytes: of.map_or(0, |one| one.bytes),
                sandbox_id: id,
                reason,
            });
        }
    }
    Ok(removed)
}

async fn mark(tx: &mut Tx, due: &[Removed]) -> Result<(), Error> {
    for one in due {
        let sql = "UPDATE sandboxes SET removal = $2 WHERE id = $1 AND place = 'kept' AND removal IS NULL";
        tx.execute(sql, params![&one.sandbox_id, one.reason.as_str()]).await?;
    }
    Ok(())
}

/// Whether one that has just been kept goes at once.
pub(super) fn at_once(tx: &Tx) -> Option<Removal> {
    tx.rules.prune.keep.is_zero().then_some(Removal::Age)
}

fn read(row: &Row) -> Result<Left, Error> {
    Ok(Left {
        id: row.parse("id")?,
        place: row.parse("place")?,
        ended_at: row.get("ended_at")?,
        bytes: row.get::<Option<i64>>("disk_bytes")?.unwrap_or(0).unsigned_abs(),
    })
}
