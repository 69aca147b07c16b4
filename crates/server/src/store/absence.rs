//! Times in which nobody looked after leases, on whatever machine: the server was down, its machine asleep or its clock set,
//! or the database away. Who could not be heard meanwhile is not lost for it.

use jiff::Timestamp;

use super::{
    Error, Store,
    mark::{mark, marked},
    value::params,
};
use crate::domain::lease;

/// When somebody last looked.
const LOOKED: &str = "leases_looked_after";

impl Store {
    /// Notes that leases are looked after. After an absence each live sandbox has its lease anew, and a quiet one as long
    /// to stir as if it had just been at work. Says how many.
    pub async fn lease_resume(&self) -> Result<usize, Error> {
        self.write(async move |tx| {
            let (now, lease) = (tx.now, tx.rules.lease_duration);
            let looked = marked(tx, LOOKED).await?.and_then(|at| Timestamp::from_microsecond(at).ok());
            let absent = lease::was_absent(looked, now, lease);
            // Written seldom: an idle server leaves its disk alone.
            if absent || looked.is_none_or(|at| at > now || at < now - lease::absence(lease) / 3) {
                mark(tx, LOOKED, now.as_microsecond()).await?;
            }
            if !absent {
                return Ok(0);
            }
            let rows = tx.query("SELECT id FROM sandboxes WHERE live = 1", params![]).await?;
            let sql = "UPDATE sandboxes SET last_active_at = $1, lease_expires_at = \
                       CASE WHEN lease_expires_at > $2 THEN lease_expires_at ELSE $2 END WHERE live = 1";
            if !rows.is_empty() {
                tx.execute(sql, params![now, now + lease]).await?;
            }
            Ok(rows.len())
        })
        .await
    }
}
