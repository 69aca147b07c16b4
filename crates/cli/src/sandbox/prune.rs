//! Ending what nobody uses any more: a person's sandboxes in which nothing happens, the last word of those that ended
//! long ago, and what is left of them on their machines.

use std::time::Duration;

use anyhow::Result;
use jiff::Timestamp;
use omoi_client::{Client, EventQuery, SandboxQuery, TrajectoryQuery};
use omoi_protocol::{
    CommandState, EndReason, Place, SandboxId, SandboxStatus,
    sandbox::{Prune as Ask, Removed, Sandbox},
    task::Reason,
};
use omoi_server::clock::Clock;
use serde::Serialize;

use super::show::{HEADER, rows};
use crate::{
    Context,
    failure::{FAILED, Stop},
    page::collect,
    table::{Table, maybe},
    text::parse_span,
};

/// The rest is pruned by the next call.
const SANDBOXES_MAX: usize = 10_000;
const COMMANDS: usize = 100;

/// Terminate sandboxes that are idle or ended long ago, and remove what is left of them
///
/// A live sandbox is idle when it was made for a person, holds no task, runs no command, and nothing has happened in it for
/// that long; it is terminated, and its work is kept, as always. A sandbox that ended that long ago is closed: nothing can
/// report for it any more.
/// What is left of one on its machine goes by the rule that the server itself follows (sandbox.keep_ended and what comes
/// with it); those that cannot be removed are named. A sandbox whose work could not be kept is never removed by this: you decide
/// with `omoi sandbox discard` or `omoi sandbox rescue`.
#[derive(Debug, clap::Args)]
pub struct Prune {
    /// For how long nothing must have happened
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = parse_span)]
    older_than: Duration,
    /// Only show which
    #[arg(long)]
    dry_run: bool,
}

#[derive(Serialize)]
struct Pruned {
    /// Live and idle: they end.
    terminated: Vec<Sandbox>,
    /// Ended long ago: nothing can report for them any more.
    closed: Vec<Sandbox>,
    /// What goes from the disk, and why.
    removed: Vec<Removed>,
    /// Ended, and still there.
    stuck: Vec<Sandbox>,
    /// Ended, and not removed until a person decides.
    unkept: Vec<Sandbox>,
    /// Requests that failed.
    failed: Vec<FailedEnd>,
}

#[derive(Serialize)]
struct FailedEnd {
    sandbox_id: SandboxId,
    error: String,
}

impl Prune {
    pub async fn run(self, cx: &Context, client: &Client) -> Result<()> {
        let before = Clock::Real.now() - self.older_than;
        let mut terminated = Vec::new();
        for sandbox in list(client, true).await? {
            if is_persons(&sandbox)
                && sandbox.created_at < before
                && is_idle(client, &sandbox.id, before).await?
            {
                terminated.push(sandbox);
            }
        }
        let ended = list(client, false).await?;
        let closed = ended.iter().filter(|sandbox| is_due(sandbox, before)).cloned().collect();
        let (unkept, ended): (Vec<_>, Vec<_>) =
            ended.into_iter().partition(|sandbox| sandbox.place == Place::Unkept);
        let stuck = ended.into_iter().filter(is_stuck).collect();
        let ask =
            Ask { older_than_seconds: i64::try_from(self.older_than.as_secs()).ok(), dry_run: self.dry_run };
        let removed = client.sandbox_prune(&ask).await?.items;
        let mut pruned = Pruned { terminated, closed, removed, stuck, unkept, failed: Vec::new() };
        if !self.dry_run {
            for list in [&mut pruned.terminated, &mut pruned.closed] {
                pruned.failed.extend(end(client, list).await);
            }
        }
        self.tell(cx, &pruned)?;
        let Some(first) = pruned.failed.first() else { return Ok(()) };
        let count = pruned.failed.len();
        let what =
            format!("{count} of these sandboxes could not be ended: {}: {}", first.sandbox_id, first.error);
        Err(Stop::new(FAILED, what).hint("run `omoi sandbox prune` again").into())
    }

    fn tell(&self, cx: &Context, pruned: &Pruned) -> Result<()> {
        if cx.out.is_json() {
            return cx.out.answer(pruned, |_| String::new());
        }
        let did = if self.dry_run { "would be terminated" } else { "terminated" };
        Self::tell_of(cx, &pruned.terminated, &format!("live and idle: {did}"))?;
        let did = match (self.dry_run, pruned.closed.len()) {
            (true, _) => "had already ended and would be closed",
            (false, 1) => "had already ended and is now closed",
            (false, _) => "had already ended and are now closed",
        };
        Self::tell_of(cx, &pruned.closed, &format!("{did}: late reports are refused"))?;
        if !pruned.removed.is_empty() {
            let did = if self.dry_run { "would be removed" } else { "are removed" };
            cx.out.note(&format!("what is left of {} {did}:", pruned.removed.len()));
            cx.out.answer(&(), |style| {
                let row = |table: Table, one: &Removed| {
                    let bytes = format!("{} MiB", one.disk_bytes >> 20);
                    table.row([one.sandbox_id.to_string().into(), one.reason.as_str().into(), bytes.into()])
                };
                pruned.removed.iter().fold(Table::new(style, &["id", "reason", "disk"]), row).render()
            })?;
        }
        if !pruned.stuck.is_empty() {
            cx.out.note("these have ended and cannot be removed yet; the server goes on trying:");
            problems(cx, &pruned.stuck)?;
        }
        if !pruned.unkept.is_empty() {
            cx.out.note("the work of these is not kept: decide with `omoi sandbox discard ID` or `omoi sandbox rescue ID`:");
            problems(cx, &pruned.unkept)?;
        }
        for one in &pruned.failed {
            cx.out.note(&format!("{} could not be ended: {}", one.sandbox_id, one.error));
        }
        Ok(())
    }

    /// How many there are and what happens to them, and then which they are.
    fn tell_of(cx: &Context, sandboxes: &[Sandbox], what: &str) -> Result<()> {
        cx.out.note(&format!("{} {what}", sandboxes.len()));
        if sandboxes.is_empty() {
            return Ok(());
        }
        cx.out.answer(&(), |style| rows(Table::new(style, HEADER), sandboxes).render())
    }
}

fn problems(cx: &Context, sandboxes: &[Sandbox]) -> Result<()> {
    cx.out.answer(&(), |style| {
        let row = |table: Table, sandbox: &Sandbox| {
            let rescue = sandbox.rescue.as_ref().map(|rescue| rescue.error.as_str());
            table.row([
                sandbox.id.to_string().into(),
                sandbox.place.as_str().into(),
                maybe(rescue.or(sandbox.place_error.as_deref())),
            ])
        };
        sandboxes.iter().fold(Table::new(style, &["id", "place", "problem"]), row).render()
    })
}

/// Ends sandboxes and leaves those in the list whose requests succeeded.
async fn end(client: &Client, list: &mut Vec<Sandbox>) -> Vec<FailedEnd> {
    let reason = Reason { reason: Some(EndReason::Pruned.to_string()) };
    let mut failed = Vec::new();
    for sandbox in std::mem::take(list) {
        match client.sandbox_terminate(&sandbox.id, &reason).await {
            Ok(ended) => list.push(ended),
            Err(error) => failed.push(FailedEnd { sandbox_id: sandbox.id, error: error.to_string() }),
        }
    }
    failed
}

async fn list(client: &Client, live: bool) -> Result<Vec<Sandbox>> {
    let fetch = async |size, cursor| {
        let query = SandboxQuery { live: Some(live), limit: Some(size), cursor, ..SandboxQuery::default() };
        client.sandbox_list(&query).await
    };
    Ok(collect(SANDBOXES_MAX, fetch).await?.items)
}

/// Made by the server for a person, not for a task.
fn is_persons(sandbox: &Sandbox) -> bool {
    sandbox.place != Place::None && sandbox.task_id.is_none()
}

async fn is_idle(client: &Client, id: &SandboxId, before: Timestamp) -> Result<bool> {
    let query = TrajectoryQuery { limit: Some(1), ..TrajectoryQuery::default() };
    let newest = client.trajectory(id, &query).await?.events.pop();
    if newest.is_some_and(|event| event.created_at >= before) {
        return Ok(false);
    }
    let commands = client.command_list(id, COMMANDS, None).await?.items;
    if commands.iter().any(|command| command.state != CommandState::Done) {
        return Ok(false);
    }
    // Its own command runs without being asked for by anybody.
    let count = async |event_type: &str| {
        let event_type = Some(event_type.to_owned());
        let query = EventQuery { event_type, limit: Some(1), ..EventQuery::default() };
        Ok::<_, omoi_client::Error>(client.event_list(id, &query).await?.total_count)
    };
    Ok(count("command.started").await? <= count("command.completed").await?)
}

fn is_stuck(sandbox: &Sandbox) -> bool {
    let has_problem = sandbox.place_error.is_some() || sandbox.rescue.is_some();
    has_problem && matches!(sandbox.place, Place::Wanted | Place::Up | Place::Discarded | Place::Kept)
}

fn is_due(sandbox: &Sandbox, before: Timestamp) -> bool {
    let ended_at = sandbox.ended_at.unwrap_or(sandbox.created_at);
    match sandbox.status {
        SandboxStatus::Completed | SandboxStatus::Failed | SandboxStatus::Lost => ended_at < before,
        SandboxStatus::Creating | SandboxStatus::Running | SandboxStatus::Terminated => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sandbox(status: &str, place: &str, more: serde_json::Value) -> Sandbox {
        let mut sandbox = json!({
            "id": "sbx-1", "provider": "local", "status": status, "generation": 0, "labels": {},
            "created_at": "2026-01-01T00:00:00Z", "place": place,
        });
        sandbox.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(sandbox).unwrap()
    }

    #[test]
    fn only_what_ended_long_ago_and_is_not_closed_is_due() {
        let before: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
        let (old, young) = ("2026-01-01T23:59:59Z", "2026-01-02T00:00:00Z");
        for (status, ended_at, due) in [
            ("completed", old, true),
            ("failed", old, true),
            ("lost", old, true),
            ("lost", young, false),
            ("running", old, false),
            ("creating", old, false),
            ("terminated", old, false),
        ] {
            let sandbox = sandbox(status, "gone", json!({ "ended_at": ended_at }));
            assert_eq!(is_due(&sandbox, before), due, "{status}");
        }
    }

    #[test]
    fn a_sandbox_of_a_task_or_of_somebody_else_is_nobody_s_to_prune() {
        assert!(is_persons(&sandbox("running", "up", json!({}))));
        assert!(!is_persons(&sandbox("running", "up", json!({ "task_id": "task-1" }))));
        assert!(!is_persons(&sandbox("running", "none", json!({}))));
    }

    #[test]
    fn one_that_is_there_with_a_problem_is_stuck() {
        let problem = json!({ "place_error": "the disk is busy" });
        for (place, stuck) in [
            ("wanted", true),
            ("up", true),
            ("kept", true),
            ("unkept", false),
            ("gone", false),
            ("none", false),
        ] {
            assert_eq!(is_stuck(&sandbox("completed", place, problem.clone())), stuck, "{place}");
        }
        assert!(!is_stuck(&sandbox("completed", "kept", json!({}))));
    }
}
