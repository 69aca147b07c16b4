//! How much of a sandbox's events is kept. The sum is carried along from event to event (`events.total_bytes`), as the
//! numbers are, so that nothing is ever added up; events from before it was counted weigh nothing.

use omoi_protocol::event::{NewEvent, is_vital};

use super::{Error, stream::Stream};

/// What an event weighs besides its data: a flood of empty ones is one too.
const ROW_BYTES: i64 = 256;
/// Beyond the limit, for what must still get through: that the worker lives, and how its attempt ends.
const VITAL_BYTES: i64 = 16 * 1024 * 1024;

pub(super) fn of(data: &str) -> i64 {
    i64::try_from(data.len()).unwrap_or(i64::MAX).saturating_add(ROW_BYTES)
}

/// Refuses events that would fill the sandbox beyond `limit`; vital ones have some more room.
pub(super) fn has_room<'a>(
    stream: &Stream,
    new: impl Iterator<Item = &'a NewEvent>,
    limit: i64,
) -> Result<(), Error> {
    let mut new = new.peekable();
    // What the worker repeats is there already.
    if new.peek().is_none() {
        return Ok(());
    }
    let (mut sum, mut all_vital) = (stream.total_bytes, true);
    for event in new {
        sum = sum.saturating_add(of(event.event_data.get()));
        all_vital &= is_vital(&event.event_type);
    }
    if sum <= limit || all_vital && sum <= limit.saturating_add(VITAL_BYTES) {
        return Ok(());
    }
    let (id, kept) = (&stream.reporter.id, stream.total_bytes);
    let detail = format!(
        "the events of sandbox {id} have {kept} bytes; limits.sandbox_event_bytes_max allows {limit}. Signs of life and \
         what ends the attempt are still taken, by themselves"
    );
    Err(Error::Full { code: "sandbox_full", detail })
}
