//! Two sandboxes side by side.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use jiff::SignedDuration;
use omoi_client::{Client, EventQuery};
use omoi_protocol::{
    SandboxId,
    event::{Payload, StoredEvent, is_heartbeat},
    sandbox::Sandbox,
};
use serde::Serialize;

use super::told::usd;
use crate::{
    Context,
    out::Style,
    table::{Table, maybe, number},
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
    /// What its worker reported last of how it went.
    outcome: Option<String>,
    /// Answers of the model to the agent itself.
    turns: usize,
    cost_usd: f64,
    files_changed: usize,
    lines_added: u64,
    lines_removed: u64,
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
            let page = client.event_list(id, &query).await?;
            events.extend(page.events);
            if !page.has_more {
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
        let work = Work::of(events);
        let first_work = events.iter().filter(|event| event.is_work()).map(|event| event.created_at).min();
        Self {
            sandbox_id: sandbox.id.clone(),
            status: sandbox.status.as_str(),
            end_reason: sandbox.end_reason.clone(),
            duration_ms: sandbox.ended_at.or(last).map(since_made),
            first_work_ms: first_work.map(since_made),
            outcome: work.outcome,
            turns: work.turns.len(),
            cost_usd: sandbox.cost_usd,
            files_changed: work.files.len(),
            lines_added: work.lines_added,
            lines_removed: work.lines_removed,
            events: events.len(),
            heartbeats: events.iter().filter(|event| is_heartbeat(&event.event_type)).count(),
            by_type,
            complete,
        }
    }
}

/// What an agent did, as its events tell.
#[derive(Default)]
struct Work {
    outcome: Option<String>,
    turns: BTreeSet<u64>,
    files: BTreeSet<String>,
    lines_added: u64,
    lines_removed: u64,
}

impl Work {
    /// Events come newest first.
    fn of(events: &[StoredEvent]) -> Self {
        let mut work = Self::default();
        for event in events {
            match event.payload() {
                Payload::AgentAssistantMessage(data) if data.parent_tool_use_id.is_none() => {
                    work.turns.extend(data.turn);
                }
                Payload::AgentFileEdited(data) => {
                    work.files.extend(data.file_path);
                    work.lines_added += data.lines_added.unwrap_or(0);
                    work.lines_removed += data.lines_removed.unwrap_or(0);
                }
                Payload::AgentCompleted(data) => work.end("completed", data.final_output),
                Payload::AgentFailed(data) => {
                    work.end(data.failure_kind.as_deref().unwrap_or("failed"), data.error);
                }
                Payload::ContinuousCompleted(data) => {
                    let stop = data.stop_reason.as_ref().map_or("completed", |stop| stop.as_str());
                    work.end(stop, data.error.or(data.final_output));
                }
                _ => {}
            }
        }
        work
    }

    fn end(&mut self, how: &str, words: Option<String>) {
        let words = words.map(|words| format!(": {words}")).unwrap_or_default();
        self.outcome.get_or_insert_with(|| format!("{how}{words}"));
    }
}

/// As far below what a whole number holds as any budget is.
fn micro_usd(usd: f64) -> i64 {
    (usd * 1e6).round().clamp(0.0, 1e15) as i64
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
    let outcome = |summary: &Summary| maybe(summary.outcome.as_ref());
    table = table.row(["outcome".into(), outcome(a), outcome(b), "".into()]);
    let cost = |summary: &Summary| micro_usd(summary.cost_usd);
    let (cost_a, cost_b) = (cost(a), cost(b));
    let more = match cost_b - cost_a {
        0 => String::new(),
        more => format!("{}{}", if more > 0 { "+" } else { "-" }, usd(more.abs())),
    };
    table = table.row(["cost".into(), number(&usd(cost_a)), number(&usd(cost_b)), number(&more)]);
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

/// What the agents did and all events first, then each type that either of them has.
fn counts<'a>(a: &'a Summary, b: &'a Summary) -> Vec<(&'a str, usize, usize)> {
    let types: BTreeSet<_> = a.by_type.keys().chain(b.by_type.keys()).collect();
    let of = |summary: &Summary, kind: &String| summary.by_type.get(kind).copied().unwrap_or(0);
    let each = types.into_iter().map(|kind| (kind.as_str(), of(a, kind), of(b, kind)));
    let lines = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    let sums = [
        ("turns", a.turns, b.turns),
        ("files changed", a.files_changed, b.files_changed),
        ("lines added", lines(a.lines_added), lines(b.lines_added)),
        ("lines removed", lines(a.lines_removed), lines(b.lines_removed)),
        ("events", a.events, b.events),
        ("heartbeats", a.heartbeats, b.heartbeats),
    ];
    sums.into_iter().chain(each).collect()
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
    use serde_json::{Value, json};

    use super::*;

    fn summary(id: &str, ended_at: Option<&str>, events: &[(&str, &str)]) -> Summary {
        let events: Vec<_> = events.iter().map(|(kind, at)| (*kind, *at, json!({}))).collect();
        summary_of(id, ended_at, 0.0, &events)
    }

    fn summary_of(id: &str, ended_at: Option<&str>, usd: f64, events: &[(&str, &str, Value)]) -> Summary {
        let sandbox: Sandbox = serde_json::from_value(json!({
            "id": id, "provider": "external", "status": "completed", "generation": 0, "labels": {},
            "created_at": "2026-01-01T00:00:00Z", "ended_at": ended_at, "place": "none", "cost_usd": usd,
        }))
        .unwrap();
        let events: Vec<StoredEvent> = events
            .iter()
            .enumerate()
            .map(|(at, (event_type, created_at, data))| {
                serde_json::from_value(json!({
                    "id": format!("evt-{at}"), "sandbox_id": id, "seq": at, "event_type": event_type,
                    "event_data": data, "source": "agent", "created_at": created_at,
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
                ("turns", 0, 0),
                ("files changed", 0, 0),
                ("lines added", 0, 0),
                ("lines removed", 0, 0),
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

    #[test]
    fn what_two_agents_did_stands_side_by_side() {
        let at = "2026-01-01T00:00:01Z";
        let edit = |file: &str| {
            ("agent.file_edited", at, json!({ "file_path": file, "lines_added": 3, "lines_removed": 1 }))
        };
        let answer = |turn: u64, parent: Option<&str>| {
            ("agent.assistant_message", at, json!({ "turn": turn, "parent_tool_use_id": parent }))
        };
        let done = ("agent.completed", at, json!({ "final_output": "It works." }));
        let failed = ("agent.failed", at, json!({ "failure_kind": "limit", "error": "no turns left" }));
        let a = summary_of(
            "a",
            Some(at),
            0.5,
            &[done, edit("x"), edit("x"), answer(2, None), answer(2, Some("t")), answer(1, None)],
        );
        let b = summary_of("b", Some(at), 0.25, &[failed, edit("y"), answer(1, None)]);
        assert_eq!((a.turns, a.files_changed, a.lines_added), (2, 1, 6));
        let text = table(&[a, b], Style::PLAIN);
        for line in [
            "outcome completed: It works. limit: no turns left",
            "cost $0.500000 $0.250000 -$0.250000",
            "turns 2 1 -1",
            "files changed 1 1",
            "lines added 6 3 -3",
        ] {
            let found =
                text.lines().any(|found| found.split_whitespace().collect::<Vec<_>>().join(" ") == line);
            assert!(found, "{line}\nis not in\n{text}");
        }
    }
}
