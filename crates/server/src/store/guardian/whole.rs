//! Whole diffs for the rules that judge tests. A long diff is stored beside its event, which keeps only the first 100 lines of
//! it; a mark that skips a test may stand further down.

use omoi_protocol::event::StoredEvent;
use serde_json::{Map, Value, value::to_raw_value};

use super::super::{Error, Store, Tx, blob, value::params};
use crate::domain::supervision::sign::Sign;

impl Store {
    /// Puts the whole diff back into an event, if a rule needs it.
    pub async fn guardian_whole(&self, event: StoredEvent) -> Result<StoredEvent, Error> {
        if !Sign::lacks_diff(&event) {
            return Ok(event);
        }
        self.read(async move |tx| {
            let mut event = event.clone();
            restore(tx, &mut event).await?;
            Ok(event)
        })
        .await
    }
}

/// Leaves an event as it is when its diff is not there any more.
pub(super) async fn restore(tx: &mut Tx, event: &mut StoredEvent) -> Result<(), Error> {
    if !Sign::lacks_diff(event) {
        return Ok(());
    }
    let sql = "SELECT blob_hash FROM diffs WHERE sandbox_id = $1 AND seq = $2";
    let Some(row) = tx.query_one(sql, params![&event.sandbox_id, event.seq]).await? else { return Ok(()) };
    let diff = blob::get_text(tx, &row.get::<String>("blob_hash")?).await?;
    let Ok(mut data) = serde_json::from_str::<Map<String, Value>>(event.event_data.get()) else {
        return Ok(());
    };
    data.insert("full_diff".to_owned(), diff.into());
    if let Ok(whole) = to_raw_value(&data) {
        event.event_data = whole;
    }
    Ok(())
}
