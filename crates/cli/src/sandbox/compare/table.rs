//! Summaries as tables: a few sandboxes side by side, or many with one row each.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;

use super::{super::told::usd, summary::Summary};
use crate::{
    out::Style,
    table::{Item, Table, maybe, number},
    text::span,
};

/// One column for each sandbox; with two of them a further one says by how much they differ.
pub fn side_by_side(all: &[Summary], style: Style) -> String {
    let both = if let [a, b] = all { Some((a, b)) } else { None };
    let ids = all.iter().map(|summary| summary.sandbox_id.as_str());
    let header: Vec<&str> = [""].into_iter().chain(ids).chain(both.map(|_| "difference")).collect();
    let row =
        |name: &str, cell: &dyn Fn(&Summary) -> Item, difference: &dyn Fn(&Summary, &Summary) -> Item| {
            let last = both.map(|(a, b)| difference(a, b));
            let cells: Vec<Item> =
                [Item::from(name)].into_iter().chain(all.iter().map(cell)).chain(last).collect();
            cells
        };
    let none = |_: &Summary, _: &Summary| Item::from("");
    let mut table = Table::new(style, &header)
        .row(row("status", &|one| reason(one).into(), &none))
        .row(row("outcome", &|one| maybe(one.outcome.as_ref()), &none))
        .row(row("cost", &|one| number(&usd(cost(one))), &|a, b| number(&more(cost(a), cost(b), usd))))
        .row(row("duration", &|one| number(&time(one.duration_ms)), &|a, b| {
            later(a.duration_ms, b.duration_ms)
        }))
        .row(row("first work after", &|one| number(&time(one.first_work_ms)), &|a, b| {
            later(a.first_work_ms, b.first_work_ms)
        }));
    for (name, count) in counts(all) {
        table = table.row(row(&name, &|one| number(&count(one)), &|a, b| {
            number(&more(count(a), count(b), |n| n.to_string()))
        }));
    }
    table.render()
}

/// One row for each sandbox, and below how many events of each type they have together.
pub fn one_by_one(all: &[Summary], style: Style) -> String {
    let header = [
        "id",
        "status",
        "outcome",
        "cost",
        "duration",
        "turns",
        "files",
        "added",
        "removed",
        "events",
        "heartbeats",
    ];
    let rows = all.iter().fold(Table::new(style, &header), |table, one| {
        table.row([
            one.sandbox_id.to_string().into(),
            reason(one).into(),
            maybe(one.outcome.as_ref()),
            number(&usd(cost(one))),
            number(&time(one.duration_ms)),
            number(&one.turns),
            number(&one.files_changed),
            number(&one.lines_added),
            number(&one.lines_removed),
            number(&one.events),
            number(&one.heartbeats),
        ])
    });
    let mut types: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (kind, count) in all.iter().flat_map(|one| &one.by_type) {
        let (sandboxes, events) = types.entry(kind).or_default();
        (*sandboxes, *events) = (*sandboxes + 1, *events + count);
    }
    let by_type = types.into_iter().fold(
        Table::new(style, &["event type", "sandboxes", "events"]),
        |table, (kind, (sandboxes, events))| table.row([kind.into(), number(&sandboxes), number(&events)]),
    );
    [rows.render(), by_type.render()].join("\n\n").trim_end().to_owned()
}

/// A figure of a summary.
type Count<'a> = Box<dyn Fn(&Summary) -> i64 + 'a>;

/// What the agents did and all events first, then each type that any of them has.
fn counts(all: &[Summary]) -> Vec<(String, Count<'static>)> {
    let whole = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let sums: [(&str, Count<'static>); 6] = [
        ("turns", Box::new(|one| one.turns as i64)),
        ("files changed", Box::new(|one| one.files_changed as i64)),
        ("lines added", Box::new(move |one| whole(one.lines_added))),
        ("lines removed", Box::new(move |one| whole(one.lines_removed))),
        ("events", Box::new(|one| one.events as i64)),
        ("heartbeats", Box::new(|one| one.heartbeats as i64)),
    ];
    let types: BTreeSet<&String> = all.iter().flat_map(|one| one.by_type.keys()).collect();
    let each = types.into_iter().map(|kind| {
        let name = kind.clone();
        let count: Count<'static> = Box::new(move |one| one.by_type.get(&name).copied().unwrap_or(0) as i64);
        (kind.clone(), count)
    });
    sums.into_iter().map(|(name, count)| (name.to_owned(), count)).chain(each).collect()
}

fn reason(summary: &Summary) -> String {
    match &summary.end_reason {
        Some(reason) => format!("{} ({reason})", summary.status),
        None => summary.status.to_owned(),
    }
}

fn time(ms: Option<i64>) -> String {
    ms.map_or_else(|| "-".to_owned(), |ms| span(SignedDuration::from_millis(ms)))
}

/// By how much the second time is longer or shorter.
fn later(a: Option<i64>, b: Option<i64>) -> Item {
    let (Some(a), Some(b)) = (a, b) else { return "".into() };
    number(&more(a, b, |ms| span(SignedDuration::from_millis(ms))))
}

/// By how much the second figure is larger or smaller; empty if they are the same.
fn more(a: i64, b: i64, shown: impl Fn(i64) -> String) -> String {
    match b - a {
        0 => String::new(),
        more => format!("{}{}", if more > 0 { "+" } else { "-" }, shown(more.abs())),
    }
}

fn cost(summary: &Summary) -> i64 {
    micro_usd(summary.cost_usd)
}

/// As far below what a whole number holds as any budget is.
fn micro_usd(usd: f64) -> i64 {
    (usd * 1e6).round().clamp(0.0, 1e15) as i64
}

#[cfg(test)]
mod tests {
    use omoi_protocol::{event::StoredEvent, sandbox::Sandbox};
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
        let counted: Vec<_> =
            counts(&[]).iter().map(|(name, count)| (name.clone(), count(&a), count(&b))).collect();
        let sums = [("turns", 0, 0), ("files changed", 0, 0), ("lines added", 0, 0), ("lines removed", 0, 0)];
        let sums = sums.into_iter().chain([("events", 4, 2), ("heartbeats", 1, 0)]);
        assert_eq!(counted, sums.map(|(name, a, b)| (name.to_owned(), a, b)).collect::<Vec<_>>());
        let text = side_by_side(&[a, b], Style::PLAIN);
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
        let text = side_by_side(&[a, b], Style::PLAIN);
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

    #[test]
    fn any_number_of_sandboxes_stand_side_by_side_and_only_two_have_a_difference() {
        let at = "2026-01-01T00:00:01Z";
        let all =
            ["a", "b", "c"].map(|id| summary(id, Some(at), &[("agent.started", at), ("agent.tool_use", at)]));
        for count in 1..=3 {
            let text = side_by_side(&all[..count], Style::PLAIN);
            assert_eq!(text.contains("difference"), count == 2, "{text}");
            let line = text.lines().find(|line| line.starts_with("agent.tool_use")).unwrap();
            assert_eq!(line.split_whitespace().skip(1).collect::<Vec<_>>(), vec!["1"; count], "{text}");
        }
    }

    #[test]
    fn a_summary_has_a_row_for_each_sandbox_and_adds_events_up_by_type() {
        let at = "2026-01-01T00:00:01Z";
        let a =
            summary("a", Some(at), &[("agent.started", at), ("agent.tool_use", at), ("agent.tool_use", at)]);
        let b = summary("b", Some(at), &[("agent.started", at)]);
        let text = one_by_one(&[a, b], Style::PLAIN);
        let lines: Vec<_> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert!(lines.iter().any(|line| line.starts_with("a completed") && line.ends_with(" 3 0")), "{text}");
        assert!(lines.iter().any(|line| line.starts_with("b completed") && line.ends_with(" 1 0")), "{text}");
        for line in ["agent.started 2 2", "agent.tool_use 1 2"] {
            assert!(lines.iter().any(|found| found == line), "{line}\nis not in\n{text}");
        }
        assert_eq!(one_by_one(&[], Style::PLAIN), "");
    }
}
