//! Sending: a batch at a time, again and again until it is acknowledged.

use std::time::Duration;

use omoi_client::{Client, Error, Retry};
use omoi_protocol::{
    EventSource, SandboxId,
    event::{AgentError, NewEvent, Payload, is_heartbeat, is_vital},
    sandbox::EventsReceived,
};

use super::{Outbox, Standing};
use crate::say::say;

/// Between attempts, for as long as it takes.
const RETRY: Retry =
    Retry { attempts_max: u32::MAX, base: Duration::from_millis(100), cap: Duration::from_secs(5) };
/// A number that no worker reaches: sent to hear which one the server expects.
const FAR_NUMBER: i64 = i64::MAX - 1;

/// What to do about a batch that was not taken.
enum Remedy {
    /// The same again, later.
    Wait,
    /// The numbers differ from what the server has: count from this one.
    Renumber(i64),
    /// There is no more room but for what is vital.
    Thin { why: String },
    /// Something in the batch is not acceptable: find it.
    Single,
    /// This one event is not acceptable.
    Replace { why: String },
    /// Nothing will be taken any more.
    Close { why: String },
}

pub async fn send(outbox: &Outbox, client: &Client, sandbox: &SandboxId) {
    let (mut failures, mut told, mut count_max) = (0, false, usize::MAX);
    loop {
        let batch = next_batch(outbox, count_max).await;
        sync(outbox).await;
        let error = match client.event_append_all(sandbox, &batch).await {
            Ok(received) => {
                (failures, told, count_max) = (0, false, usize::MAX);
                acknowledge(outbox, &batch, &received);
                continue;
            }
            Err(error) => error,
        };
        match remedy(client, sandbox, &batch, &error).await {
            Remedy::Wait => {
                failures += 1;
                // A heartbeat that is late is nothing to tell of: the next one says the same. The rest is told once.
                if !told && !batch.iter().all(|event| is_heartbeat(&event.event_type)) {
                    told = true;
                    say(&format!("events wait: {error}"));
                }
                let pause = RETRY.pause(failures, None).unwrap_or(RETRY.cap);
                tokio::time::sleep(pause).await;
            }
            Remedy::Renumber(first) => outbox.queue().renumber(first),
            Remedy::Thin { why } => {
                say(&format!("from now on, only signs of life and the end are reported: {why}"));
                outbox.queue().thin(full(&why));
            }
            Remedy::Single => count_max = 1,
            Remedy::Replace { why } => {
                let stand_in = refused(&batch, &why);
                outbox.queue().replace_first(stand_in);
            }
            Remedy::Close { why } => {
                say(&format!("the server takes no more events: {why}"));
                outbox.shared.progress.send_modify(|progress| progress.standing = Standing::Closed { why });
                return;
            }
        }
    }
}

async fn next_batch(outbox: &Outbox, count_max: usize) -> Vec<NewEvent> {
    loop {
        let added = outbox.shared.added.notified();
        let batch = outbox.queue().batch(count_max);
        if !batch.is_empty() {
            return batch;
        }
        added.await;
    }
}

/// What the server has must be on this disk as well: a number that was lost here would be given twice.
async fn sync(outbox: &Outbox) {
    let Some(file) = outbox.queue().disk() else { return };
    let _ = tokio::task::spawn_blocking(move || file.sync_data()).await;
}

fn acknowledge(outbox: &Outbox, batch: &[NewEvent], received: &EventsReceived) {
    let Some(last) = batch.last().and_then(|event| event.worker_seq) else { return };
    outbox.queue().acknowledge(last);
    let refused = received
        .events
        .iter()
        .find_map(|event| Some((event.refused.clone()?, event.refused_because.clone().unwrap_or_default())));
    outbox.shared.progress.send_modify(|progress| {
        progress.acknowledged = last;
        if let Some((code, because)) = refused {
            progress.standing = Standing::PassedOn { why: format!("{code}: {because}") };
        }
    });
}

async fn remedy(client: &Client, sandbox: &SandboxId, batch: &[NewEvent], error: &Error) -> Remedy {
    match (error.status(), error.code()) {
        (_, Some("sequence_gap")) => expected(error).map_or(Remedy::Wait, Remedy::Renumber),
        (_, Some("sequence_conflict")) => {
            ask_expected(client, sandbox).await.map_or(Remedy::Wait, Remedy::Renumber)
        }
        (Some(401 | 403 | 404), Some(_)) => Remedy::Close { why: error.to_string() },
        (_, Some("sandbox_full")) if !batch.iter().all(|event| is_vital(&event.event_type)) => {
            Remedy::Thin { why: error.to_string() }
        }
        (Some(400 | 413 | 422), Some(_)) if batch.len() > 1 => Remedy::Single,
        // Whatever stood in its place would find no room either.
        (_, Some("sandbox_full")) => Remedy::Close { why: error.to_string() },
        (Some(400 | 413 | 422), Some(_)) => Remedy::Replace { why: error.to_string() },
        _ => Remedy::Wait,
    }
}

fn expected(error: &Error) -> Option<i64> {
    match error {
        Error::Problem(problem) => problem.facts.get("expected")?.as_i64().filter(|number| *number > 0),
        _ => None,
    }
}

async fn ask_expected(client: &Client, sandbox: &SandboxId) -> Option<i64> {
    let mut probe = NewEvent::new(&Payload::from(AgentError::default()), EventSource::Worker);
    probe.worker_seq = Some(FAR_NUMBER);
    client.event_append(sandbox, &probe).await.err().as_ref().and_then(expected)
}

/// Says that there is more to tell than the server keeps.
fn full(why: &str) -> NewEvent {
    let error = format!("from here on, only signs of life and the end are reported: {why}");
    let phase = Some("report".to_owned());
    let event = AgentError { error: Some(error), phase, fatal: Some(false), ..AgentError::default() };
    NewEvent::new(&Payload::from(event), EventSource::Worker)
}

/// Says that there was an event which the server would not take.
fn refused(batch: &[NewEvent], why: &str) -> NewEvent {
    let event_type = batch.first().map_or("?", |event| event.event_type.as_str());
    let error = format!("an event of type {event_type} was refused and is lost: {why}");
    let phase = Some("report".to_owned());
    let event = AgentError { error: Some(error), phase, fatal: Some(false), ..AgentError::default() };
    NewEvent::new(&Payload::from(event), EventSource::Worker)
}
