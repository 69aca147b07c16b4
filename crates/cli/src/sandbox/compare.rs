//! Two sandboxes side by side.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use jiff::SignedDuration;
use omoi_client::{Client, EventQuery};
use omoi_protocol::{
    SandboxId,
    event::{StoredEvent, is_heartbeat},
    sandbox::Sandbox,
};
use serde::Serialize;

use crate::{
    Context,
    out::Style,
    table::{Table, number},
    text::span,
};

const PAGE: usize = 500;
/// What goes beyond is not counted, and the answer says so.
const EVENTS_MAX: usize = 100_000;

pub async fn run(cx: &Context, client: &Client, a: &SandboxId, b: &SandboxId) -> Result<()> {
    let both = [Summary::fetch(client, a).await?, Summary::fetch(client, b).await?];
    cx.out.answer(&both, |style| table(&both, style))?;
    for summary in both.iter().filter(|summary| !summary.complete) {
        cx.out.note(&format!("{} has more events; its newest {EVENTS_MAX} are counted", summary.sandbox_id));
    }
    Ok(())
}

#[derive(Debug, Serialize)]
struct Summary {
    sandbox_id: SandboxId,
    status: &'static str,
    end_reason: Option<String>,
    /// From when it was made to when it ended, or to its last event.
    duration_ms: Option<i64>,
    /// From when it was made to the first event that shows work.
    first_work_ms: Option<i64>,
    events: usize,
    heartbeats: usize,
    by_type: BTreeMap<String, usize>,
    /// Whether all events were counted.
    complete: bool,
}

impl Summary {
    async fn fetch(client: &Client, id: &SandboxId) -> Result<Self> {
        let sandbox = client.sandbox_get(id).await?;
        let mut events: Vec<StoredEvent> = Vec::new();
        let mut complete = true;
        loop {
            let before = events.last().map(|event| event.seq);
            let query = EventQuery { before, limit: Some(PAGE), ..EventQuery::default() };
            let page = client.event_list(id, &query).await?.events;
            let last = page.len() < PAGE;
            events.extend(page);
            if last {
                break;
            }
            if events.len() >= EVENTS_MAX {
                complete = false;
                break;
            }
        }
        Ok(Self::of(&sandbox, &events, complete))
    }

    fn of(sandbox: &Sandbox, events: &[StoredEvent], complete: bool) -> Self {
        let mut by_type = BTreeMap::new();
        for event in events {
            *by_type.entry(event.event_type.clone()).or_insert(0) += 1;
        }
        let since_made = |at: jiff::Timestamp| millis(at.duration_since(sandbox.created_at));
        let last = events.iter().map(|event| event.created_at).max();
        let first_work = events.iter().filter(|event| event.is_work()).map(|event| event.created_at).min();
        Self {
            sandbox_id: sandbox.id.clone(),
            status: sandbox.status.as_str(),
            end_reason: sandbox.end_reason.clone(),
            duration_ms: sandbox.ended_at.or(last).map(since_made),
            first_work_ms: first_work.map(since_made),
            events: events.len(),
            heartbeats: events.iter().filter(|event| is_heartbeat(&event.event_type)).count(),
            by_type,
            complete,
        }
    }
}

fn millis(duration: SignedDuration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn table(both: &[Summary; 2], style: Style) -> String {
    let [a, b] = both;
    let mut table = Table::new(style, &["", a.sandbox_id.as_str(), b.sandbox_id.as_str(), "difference"]);
    let time =
        |ms: Option<i64>| ms.map_or_else(|| "-".to_owned(), |ms| span(SignedDuration::from_millis(ms)));
    let apart = |a: Option<i64>, b: Option<i64>| match (a, b) {
        (Some(a), Some(b)) if a != b => {
            format!("{}{}", if b > a { "+" } else { "-" }, span(SignedDuration::from_millis(b - a)))
        }
        _ => String::new(),
    };
    let reason = |summary: &Summary| match &summary.end_reason {
        Some(reason) => format!("{} ({reason})", summary.status),
        None => summary.status.to_owned(),
    };
    table = table.row(["status".into(), reason(a).into(), reason(b).into(), "".into()]);
    for (name, a, b) in
        [("duration", a.duration_ms, b.duration_ms), ("first work after", a.first_work_ms, b.first_work_ms)]
    {
        table = table.row([name.into(), number(&time(a)), number(&time(b)), number(&apart(a, b))]);
    }
    for (name, a, b) in counts(a, b) {
        table = table.row([name.into(), number(&a), number(&b), number(&difference(a, b))]);
    }
    table.render()
}

/// All events first, then each type that either of them has.
fn counts<'a>(a: &'a Summary, b: &'a Summary) -> Vec<(&'a str, usize, usize)> {
    let types: BTreeSet<_> = a.by_type.keys().chain(b.by_type.keys()).collect();
    let of = |summary: &Summary, kind: &String| summary.by_type.get(kind).copied().unwrap_or(0);
    let each = types.into_iter().map(|kind| (kind.as_str(), of(a, kind), of(b, kind)));
    [("events", a.events, b.events), ("heartbeats", a.heartbeats, b.heartbeats)]
        .into_iter()
        .chain(each)
        .collect()
}

fn difference(a: usize, b: usize) -> String {
    match b.cmp(&a) {
        std::cmp::Ordering::Equal => String::new(),
        std::cmp::Ordering::Greater => format!("+{}", b - a),
        std::cmp::Ordering::Less => format!("-{}", a - b),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn summary(id: &str, ended_at: Option<&str>, events: &[(&str, &str)]) -> Summary {
        let sandbox: Sandbox = serde_json::from_value(json!({
            "id": id, "provider": "external", "status": "completed", "generation": 0, "labels": {},
            "created_at": "2026-01-01T00:00:00Z", "ended_at": ended_at, "place": "none",
        }))
        .unwrap();
        let events: Vec<StoredEvent> = events
            .iter()
            .enumerate()
            .map(|(at, (event_type, created_at))| {
                serde_json::from_value(json!({
                    "id": format!("evt-{at}"), "sandbox_id": id, "seq": at, "event_type": event_type,
                    "event_data": {}, "source": "agent", "created_at": created_at,
                }))
                .unwrap()
            })
            .collect();
        Summary::of(&sandbox, &events, true)
    }

    #[test]
    fn two_sandboxes_are_counted_type_by_type() {
        let a = summary(
            "a",
            Some("2026-01-01T00:02:00Z"),
            &[
                ("agent.started", "2026-01-01T00:00:01Z"),
                ("agent.heartbeat", "2026-01-01T00:00:02Z"),
                ("agent.tool_use", "2026-01-01T00:00:05Z"),
                ("agent.tool_use", "2026-01-01T00:00:06Z"),
            ],
        );
        let b = summary(
            "b",
            None,
            &[("agent.started", "2026-01-01T00:00:01Z"), ("agent.message", "2026-01-01T00:00:45Z")],
        );
        assert_eq!((a.duration_ms, a.first_work_ms, a.heartbeats), (Some(120_000), Some(5_000), 1));
        assert_eq!((b.duration_ms, b.first_work_ms, b.heartbeats), (Some(45_000), Some(45_000), 0));
        assert_eq!(
            counts(&a, &b),
            [
                ("events", 4, 2),
                ("heartbeats", 1, 0),
                ("agent.heartbeat", 1, 0),
                ("agent.message", 0, 1),
                ("agent.started", 1, 1),
                ("agent.tool_use", 2, 0),
            ]
        );
        let text = table(&[a, b], Style::PLAIN);
        let words: Vec<Vec<_>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        for line in [
            "duration 2m 45s -1m 15s",
            "first work after 5s 45s +40s",
            "agent.message 0 1 +1",
            "agent.started 1 1",
            "agent.tool_use 2 0 -2",
        ] {
            assert!(words.iter().any(|found| found.join(" ") == line), "{line}\nis not in\n{text}");
        }
    }
}
