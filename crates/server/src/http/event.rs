//! Events of a sandbox: posted by its worker, read by anybody who may.

use std::borrow::Cow;

use axum::{
    Json as Answer,
    extract::State,
    response::{IntoResponse, Response},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::{SignedDuration, Timestamp};
use omoi_protocol::{
    EventId, EventSource, SandboxId,
    event::{NewEvent, is_reserved},
    sandbox::{EventPage, EventReceived, EventsReceived, Trajectory},
};
use serde::Deserialize;
use serde_json::{
    Map, Value,
    value::{RawValue, to_raw_value},
};
use utoipa::{IntoParams, ToSchema};

use super::{
    Api,
    auth::{Caller, ReaderOf, WorkerOf},
    check,
    extract::{JsonBytes, Path, Query, lines_without_secrets, parse},
    page,
    problem::{ApiError, ApiResult},
    route::{Routes, routes},
};
use crate::{
    config::Limits,
    domain::report,
    store::{EventAsk, TrajectoryAsk},
};

/// How far ahead of ours a worker's clock may be.
const CLOCK_AHEAD_MAX: SignedDuration = SignedDuration::from_mins(5);
const TYPE_CHARS_MAX: usize = 100;
const TRAJECTORY_LIMIT_MAX: i64 = 1000;

pub fn routes() -> Routes {
    Routes::new().routes(routes!(post_events, get_events)).routes(routes!(get_trajectory))
}

/// One event, or several in `events`.
#[derive(Deserialize, ToSchema)]
struct PostedEvents {
    /// Dotted, as `agent.tool_use`.
    #[schema(min_length = 1, max_length = 100)]
    event_type: Option<String>,
    #[schema(value_type = Option<Object>)]
    event_data: Option<Box<RawValue>>,
    source: Option<EventSource>,
    /// Counts the worker's events from 1 without a gap. A repeat is harmless.
    #[schema(minimum = 1)]
    worker_seq: Option<i64>,
    /// The worker's clock.
    timestamp: Option<Timestamp>,
    #[schema(min_items = 1, max_items = 1000)]
    events: Option<Vec<PostedEvent>>,
}

#[derive(Deserialize, ToSchema)]
struct PostedEvent {
    #[schema(min_length = 1, max_length = 100)]
    event_type: String,
    #[schema(value_type = Option<Object>)]
    event_data: Option<Box<RawValue>>,
    source: Option<EventSource>,
    #[schema(minimum = 1)]
    worker_seq: Option<i64>,
    timestamp: Option<Timestamp>,
}

impl PostedEvent {
    fn checked(self, who: &Caller, limits: &Limits, now: Timestamp) -> ApiResult<NewEvent> {
        let invalid = |why| ApiError::invalid("validation_failed", why);
        check::text("event_type", &self.event_type, 1, TYPE_CHARS_MAX).map_err(invalid)?;
        if self.event_type.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(invalid("event_type is one word, as agent.tool_use".to_owned()));
        }
        let source = self.source.unwrap_or(EventSource::Agent);
        may_say(who, &self.event_type, source)?;
        check::range("worker_seq", self.worker_seq, 1, i64::MAX - 1).map_err(invalid)?;
        if self.timestamp.is_some_and(|at| at.duration_since(now) > CLOCK_AHEAD_MAX) {
            let detail = format!("timestamp lies in the future: here it is {now}; set the worker's clock");
            return Err(ApiError::invalid("clock_in_future", detail));
        }
        let data = match self.event_data {
            Some(data) if data.get().starts_with('{') => data,
            Some(_) => return Err(invalid("event_data is an object".to_owned())),
            None => RawValue::from_string("{}".to_owned()).map_err(|error| invalid(error.to_string()))?,
        };
        if data.get().len() > limits.event_bytes_max {
            let detail =
                format!("event_data has {} bytes; {} are allowed", data.get().len(), limits.event_bytes_max);
            return Err(ApiError::too_large("event_too_large", detail));
        }
        Ok(NewEvent { event_type: self.event_type, event_data: data, source, worker_seq: self.worker_seq })
    }
}

/// What the server says is not a sandbox's to say; what is thought of an agent is nobody's else at all.
fn may_say(who: &Caller, event_type: &str, source: EventSource) -> ApiResult<()> {
    let is_own = who.is_sandbox();
    if is_reserved(event_type) && (is_own || event_type.starts_with("guardian.")) {
        let detail = format!("{event_type} is not a worker's to report: the server alone tells it");
        return Err(ApiError::invalid("reserved_event_type", detail));
    }
    if is_own && source == EventSource::System {
        let detail = "source `system` is the server's own; a worker says `agent` or `worker`";
        return Err(ApiError::invalid("reserved_event_source", detail));
    }
    Ok(())
}

/// Store events
///
/// One event, or a batch that is stored whole or not at all. The answer comes after commit: what is acknowledged is
/// kept. With `worker_seq`, sending again after a lost answer is harmless.
#[utoipa::path(post, path = "/api/v1/sandboxes/{id}/events", params(("id" = SandboxId, Path)), request_body = PostedEvents,
    responses((status = 200, body = Acknowledged)), tag = "sandboxes")]
async fn post_events(
    State(api): State<Api>,
    who: WorkerOf,
    Path(id): Path<SandboxId>,
    body: JsonBytes,
) -> ApiResult<Response> {
    let mut posted: PostedEvents = parse(&body.clean)?;
    if body.clean != body.raw {
        keep_transcripts(&api, &mut posted, parse(&body.raw)?)?;
    }
    let now = api.clock.now();
    match posted {
        PostedEvents { events: Some(batch), event_type: None, .. } => {
            if batch.is_empty() || batch.len() > api.limits.batch_events_max {
                let detail =
                    format!("events holds {}; 1 to {} are allowed", batch.len(), api.limits.batch_events_max);
                return Err(ApiError::invalid("batch_size", detail));
            }
            let events = batch
                .into_iter()
                .map(|event| event.checked(&who, &api.limits, now))
                .collect::<ApiResult<Vec<_>>>()?;
            let events = append(&api, &who, &id, events).await?;
            let status = "received".to_owned();
            Ok(Answer(EventsReceived { status, sandbox_id: id, events }).into_response())
        }
        PostedEvents {
            event_type: Some(event_type),
            event_data,
            source,
            worker_seq,
            timestamp,
            events: None,
        } => {
            let event = PostedEvent { event_type, event_data, source, worker_seq, timestamp };
            let event = event.checked(&who, &api.limits, now)?;
            let received = append(&api, &who, &id, vec![event]).await?.pop();
            received
                .map(|one| Answer(one).into_response())
                .ok_or_else(|| ApiError::invalid("batch_size", "no event"))
        }
        PostedEvents { events: None, event_type: None, .. } => {
            Err(ApiError::invalid("validation_failed", "event_type is missing"))
        }
        PostedEvents { events: Some(_), event_type: Some(_), .. } => {
            Err(ApiError::invalid("validation_failed", "send one event or `events`, not both"))
        }
    }
}

/// Puts transcripts back that are masked as what they are: in base64, what follows a token's prefix cannot be told from a
/// token.
fn keep_transcripts(api: &Api, posted: &mut PostedEvents, raw: PostedEvents) -> ApiResult<()> {
    keep_transcript(api, posted.event_type.as_deref(), &mut posted.event_data, raw.event_data)?;
    for (event, raw) in posted.events.iter_mut().flatten().zip(raw.events.into_iter().flatten()) {
        keep_transcript(api, Some(&event.event_type), &mut event.event_data, raw.event_data)?;
    }
    Ok(())
}

fn keep_transcript(
    api: &Api,
    event_type: Option<&str>,
    data: &mut Option<Box<RawValue>>,
    raw: Option<Box<RawValue>>,
) -> ApiResult<()> {
    let (Some("agent.completed"), Some(clean), Some(raw)) = (event_type, &data, raw) else { return Ok(()) };
    let Ok(Brought { transcript_b64: Some(transcript) }) = serde_json::from_str(raw.get()) else {
        return Ok(());
    };
    let (Ok(transcript), Ok(mut fields)) =
        (STANDARD.decode(&*transcript), serde_json::from_str::<Map<String, Value>>(clean.get()))
    else {
        return Ok(());
    };
    let transcript = STANDARD.encode(lines_without_secrets(api, &transcript));
    fields.insert("transcript_b64".to_owned(), transcript.into());
    *data =
        Some(to_raw_value(&fields).map_err(|error| ApiError::invalid("invalid_json", error.to_string()))?);
    Ok(())
}

/// What the end of an attempt brings.
#[derive(Deserialize)]
struct Brought<'a> {
    #[serde(borrow, default)]
    transcript_b64: Option<Cow<'a, str>>,
}

/// Whoever looks after sandboxes is told when one may have ended.
async fn append(
    api: &Api,
    who: &Caller,
    id: &SandboxId,
    events: Vec<NewEvent>,
) -> ApiResult<Vec<EventReceived>> {
    let may_end = events.iter().any(|event| report::may_end(&event.event_type));
    let received = api.store.event_append(id, events).await.map_err(|error| who.refused(error))?;
    if may_end {
        api.wake.notify_one();
    }
    Ok(received)
}

/// The answer to one event, or to a batch.
#[derive(ToSchema)]
#[schema(as = Acknowledged)]
#[expect(dead_code, reason = "describes the answer; handlers send its parts")]
#[serde(untagged)]
enum Acknowledged {
    One(EventReceived),
    Batch(EventsReceived),
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct EventsQuery {
    #[param(minimum = 1, maximum = 500, default = 100)]
    limit: Option<i64>,
    /// Skips the newest. `before` is the faster way to page.
    #[param(minimum = 0)]
    offset: Option<i64>,
    event_type: Option<String>,
    /// Only events with a greater `seq`; alone, the ones right behind it.
    #[param(minimum = 0)]
    after: Option<i64>,
    /// Only events with a smaller `seq`.
    #[param(minimum = 0)]
    before: Option<i64>,
}

/// List events, newest first
#[utoipa::path(get, path = "/api/v1/sandboxes/{id}/events", params(("id" = SandboxId, Path), EventsQuery),
    responses((status = 200, body = EventPage)), tag = "sandboxes")]
async fn get_events(
    State(api): State<Api>,
    _: ReaderOf,
    Path(id): Path<SandboxId>,
    Query(query): Query<EventsQuery>,
) -> ApiResult<Answer<EventPage>> {
    let invalid = |why| ApiError::invalid("validation_failed", why);
    for (field, value) in [("offset", query.offset), ("after", query.after), ("before", query.before)] {
        check::range(field, value, 0, i64::MAX - 1).map_err(invalid)?;
    }
    if let Some(kind) = &query.event_type {
        check::text("event_type", kind, 1, TYPE_CHARS_MAX).map_err(invalid)?;
    }
    let ask = EventAsk {
        limit: page::limit(query.limit, 100, 500)?,
        offset: usize::try_from(query.offset.unwrap_or(0)).unwrap_or(usize::MAX),
        event_type: query.event_type,
        after: query.after,
        before: query.before,
    };
    Ok(Answer(api.store.event_page(&id, ask).await?))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct TrajectoryQuery {
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<i64>,
    /// An event of this sandbox, as an answer named it.
    cursor: Option<EventId>,
    /// Which side of the cursor.
    #[param(inline)]
    direction: Option<Direction>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Direction {
    Older,
    Newer,
}

/// List events without heartbeats, newest first, by cursor
#[utoipa::path(get, path = "/api/v1/sandboxes/{id}/trajectory", params(("id" = SandboxId, Path), TrajectoryQuery),
    responses((status = 200, body = Trajectory)), tag = "sandboxes")]
async fn get_trajectory(
    State(api): State<Api>,
    _: ReaderOf,
    Path(id): Path<SandboxId>,
    Query(query): Query<TrajectoryQuery>,
) -> ApiResult<Answer<Trajectory>> {
    let ask = TrajectoryAsk {
        limit: page::limit(query.limit, 100, TRAJECTORY_LIMIT_MAX)?,
        cursor: query.cursor,
        newer: query.direction == Some(Direction::Newer),
    };
    Ok(Answer(api.store.event_trajectory(&id, ask).await?))
}
