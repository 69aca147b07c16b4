//! Rescues that fail: how often each was tried, when the server gives up, and what a person decides then. The rule is in
//! `domain::place`; the loop of places runs the rescues.

use std::time::Duration;

use omoi_protocol::{
    Place, Removal, SandboxId,
    sandbox::{Kept, Sandbox},
};
use serde_json::{Value as Json, json};

use super::{
    Error, Store, Tx,
    sandbox::{self, must_exist},
    system,
    value::params,
};

/// How much of an error is stored.
const ERROR_CHARS: usize = 2_000;
/// The attempt's own failure stays to be read; any other problem is replaced by the newest.
const PROBLEM: &str = "CASE WHEN status = 'failed' AND place_error IS NOT NULL AND place_error <> COALESCE(rescue_error, '') \
                       THEN place_error ELSE $2 END";

impl Store {
    /// Stores that a try to keep a sandbox's work failed and when the next one begins.
    pub async fn place_rescue_again(&self, id: &SandboxId, error: &str, wait: Duration) -> Result<(), Error> {
        let (id, error) = (id.clone(), shortened(error));
        self.write(async move |tx| {
            let sql = format!(
                "UPDATE sandboxes SET rescue_tries = rescue_tries + 1, place_error = {PROBLEM}, rescue_error = $2, \
                 place_due_at = $3 WHERE id = $1 AND live = 0 AND place IN ('wanted', 'up')"
            );
            tx.execute(&sql, params![&id, error.as_str(), tx.now + wait]).await
        })
        .await
    }

    /// Stores that the last try failed. The disk stays, nothing waits for it any more, and a person decides.
    pub async fn place_unkept(&self, id: &SandboxId, error: &str, disk_bytes: u64) -> Result<(), Error> {
        self.unkept(id, None, error, disk_bytes).await
    }

    /// Stores what was kept of a sandbox's work and that a part could not be. The disk stays, and a person decides about
    /// that part.
    pub async fn place_kept_in_part(
        &self,
        id: &SandboxId,
        kept: Kept,
        loss: &str,
        disk_bytes: u64,
    ) -> Result<(), Error> {
        self.unkept(id, Some(kept), loss, disk_bytes).await
    }

    async fn unkept(
        &self,
        id: &SandboxId,
        kept: Option<Kept>,
        error: &str,
        disk_bytes: u64,
    ) -> Result<(), Error> {
        let (id, error) = (id.clone(), shortened(error));
        self.write(async move |tx| {
            let sql = format!(
                "UPDATE sandboxes SET place = 'unkept', rescue_tries = rescue_tries + 1, place_error = {PROBLEM}, \
                 rescue_error = $2, place_due_at = NULL, place_tries = 0, disk_bytes = $3, reports_until = $4, \
                 kept = COALESCE($5, kept) \
                 WHERE id = $1 AND live = 0 AND place IN ('wanted', 'up') RETURNING base_commit"
            );
            let bytes = i64::try_from(disk_bytes).unwrap_or(i64::MAX);
            let text = kept.as_ref().and_then(|kept| serde_json::to_string(kept).ok());
            let rows = tx.returning(&sql, params![&id, error.as_str(), bytes, tx.now, text]).await?;
            let Some(row) = rows.first() else { return Ok(()) };
            if let Some(kept) = &kept {
                preserved(tx, &id, kept, row.get("base_commit")?).await?;
            }
            let sandbox = sandbox::get(tx, &id).await?;
            let loss = loss(&sandbox);
            system::append(tx, &id, "sandbox.unkept", &loss).await?;
            let told = json!({ "sandbox_id": id, "task_id": sandbox.task_id, "unkept": loss });
            tx.tell("SANDBOX_UNKEPT", "sandbox", id.as_str(), &told);
            Ok(())
        })
        .await
    }

    /// Has the work of an ended sandbox rescued again because a person asks.
    pub async fn sandbox_rescue(&self, actor: &str, id: &SandboxId) -> Result<Sandbox, Error> {
        let (actor, id) = (actor.to_owned(), id.clone());
        self.write(async move |tx| {
            let sandbox = sandbox::get(tx, &id).await?;
            match sandbox.place {
                Place::Unkept => again(tx, &id).await?,
                // The server has not given up: the person only cuts the wait short.
                Place::Wanted | Place::Up if !sandbox.status.is_live() && sandbox.rescue.is_some() => {
                    let sql = "UPDATE sandboxes SET place_due_at = NULL WHERE id = $1";
                    tx.execute(sql, params![&id]).await?;
                }
                _ => return Err(not_unkept(&sandbox)),
            }
            tx.record(&actor, "sandbox.rescue", "sandbox", id.as_str(), loss(&sandbox));
            sandbox::get(tx, &id).await
        })
        .await
    }

    /// Discards what an unkept sandbox holds because a person asks; the loop of places then removes it.
    pub async fn sandbox_discard(
        &self,
        actor: &str,
        id: &SandboxId,
        reason: Option<String>,
    ) -> Result<Sandbox, Error> {
        let (actor, id) = (actor.to_owned(), id.clone());
        self.write(async move |tx| {
            let sandbox = sandbox::get(tx, &id).await?;
            if sandbox.place != Place::Unkept {
                return Err(not_unkept(&sandbox));
            }
            let sql = "UPDATE sandboxes SET place = 'discarded', removal = $2, place_tries = 0, place_due_at = NULL \
                       WHERE id = $1 AND place = 'unkept'";
            tx.execute(sql, params![&id, Removal::Discarded.as_str()]).await?;
            let mut loss = loss(&sandbox);
            loss["actor"] = json!(actor);
            loss["reason"] = json!(reason);
            system::append(tx, &id, "sandbox.discarded", &loss).await?;
            tx.record(&actor, "sandbox.discard", "sandbox", id.as_str(), loss);
            sandbox::get(tx, &id).await
        })
        .await
    }
}

/// Puts an unkept sandbox back to where its work is rescued, with all tries before it.
async fn again(tx: &mut Tx, id: &SandboxId) -> Result<(), Error> {
    must_exist(tx, id).await?;
    let sql = "SELECT o.id FROM sandboxes s JOIN sandboxes o ON o.node = s.node AND o.slot = s.slot \
               AND o.slot IS NOT NULL AND o.place IN ('wanted', 'up', 'kept') WHERE s.id = $1";
    if let Some(holder) = tx.query_one(sql, params![id]).await? {
        let holder: String = holder.get("id")?;
        let detail = format!("sandbox {holder} uses the user ids of {id} now; try again when it is removed");
        return Err(Error::conflict("id_range_in_use", detail));
    }
    let sql = "UPDATE sandboxes SET place = 'up', rescue_tries = 0, place_tries = 0, place_due_at = NULL \
               WHERE id = $1 AND place = 'unkept'";
    tx.execute(sql, params![id]).await
}

/// Tells where the work of a sandbox is kept, and what of it could not be.
pub(super) async fn preserved(
    tx: &mut Tx,
    id: &SandboxId,
    kept: &Kept,
    base: Option<String>,
) -> Result<(), Error> {
    let mut told = json!({
        "ref_name": kept.reference, "commit": kept.commit, "base_commit": base, "files_changed": kept.files,
    });
    if let Some(aside) = &kept.set_aside {
        told["set_aside"] = json!(aside);
    }
    name_left_out(&mut told, kept);
    system::append(tx, id, "sandbox.preserved", &told).await
}

fn name_left_out(told: &mut Json, kept: &Kept) {
    if kept.left_out_files > 0 {
        told["left_out"] = json!(kept.left_out);
        told["left_out_files"] = json!(kept.left_out_files);
        told["left_out_bytes"] = json!(kept.left_out_bytes);
    }
}

/// Everything that is known of what would be lost with the disk.
fn loss(sandbox: &Sandbox) -> Json {
    let rescue = sandbox.rescue.as_ref();
    let mut loss = json!({
        "branch_name": sandbox.branch_name,
        "base_commit": sandbox.base_commit,
        "error": rescue.map(|rescue| &rescue.error),
        "tries": rescue.map(|rescue| rescue.tries),
        "disk_bytes": rescue.and_then(|rescue| rescue.disk_bytes),
    });
    if let Some(kept) = &sandbox.kept {
        name_left_out(&mut loss, kept);
    }
    loss
}

fn not_unkept(sandbox: &Sandbox) -> Error {
    let id = &sandbox.id;
    if sandbox.status.is_live() {
        let detail = format!("sandbox {id} is live; terminate it first, and its work is kept");
        return Error::conflict("sandbox_live", detail);
    }
    let detail = match (sandbox.place, &sandbox.rescue) {
        (Place::None, _) => format!("sandbox {id} runs elsewhere; there is nothing of it here"),
        (Place::Wanted | Place::Up, Some(rescue)) => format!(
            "the work of sandbox {id} is still being rescued, and {} tries have failed; wait until the server gives up, \
             or have it tried now with `omoi sandbox rescue {id}`",
            rescue.tries
        ),
        (Place::Wanted | Place::Up, None) => {
            format!("the work of sandbox {id} is being kept; wait until that has ended")
        }
        (Place::Kept | Place::Gone, None) if sandbox.kept.is_some() => {
            format!("the work of sandbox {id} is kept, so there is nothing to decide")
        }
        _ => format!("sandbox {id} was discarded"),
    };
    Error::conflict("nothing_to_decide", detail)
}

fn shortened(error: &str) -> String {
    error.chars().take(ERROR_CHARS).collect()
}
