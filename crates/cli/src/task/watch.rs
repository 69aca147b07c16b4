//! A task as somebody watches it: one attempt after the other, until nothing more becomes of it. Whoever turns away ends
//! nothing.

use std::{collections::HashSet, time::Duration};

use anyhow::Result;
use futures_util::StreamExt;
use jiff::Timestamp;
use omoi_client::{Client, LiveFilter, SandboxQuery};
use omoi_protocol::{SandboxId, TaskId, TaskStatus, sandbox::Sandbox, task::Task};
use omoi_server::clock::Clock;
use tokio::time::timeout;

use crate::{
    Context,
    failure::{Code, FAILED, INTERRUPTED, Stop},
    out::clean,
    run::attempt::{Attempt, Seen},
    sandbox::{follow::patiently, told::usd},
    text::relative,
};

/// What a lost wake-up costs.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const ATTEMPTS_MAX: usize = 100;

/// Follow a task over all of its attempts, as they happen
///
/// Earlier attempts are told in a line, the one under way as it happens, and so is every one that follows. Ctrl-C stops
/// watching and nothing else. Ends with 0 when the task is completed, with 1 when it failed or was cancelled.
#[derive(Debug, clap::Args)]
pub struct Watch {
    /// As `omoi task list` shows it
    id: TaskId,
}

impl Watch {
    pub async fn run(self, cx: &Context, client: &Client) -> Result<()> {
        cx.out.outlast_reader();
        let mut watched = Watched { cx, client, id: &self.id, shown: HashSet::new(), waits: None };
        let task = watched.until_over().await?;
        cx.out.answer(&task, |_| format!("\n{}", sum(&task, watched.shown.len())))?;
        match task.status {
            TaskStatus::Completed => Ok(()),
            status => {
                let why = task.error_message.as_deref().unwrap_or("nobody said why");
                Err(Stop::new(FAILED, format!("{} is {status}: {why}", task.id))
                    .hint(format!("`omoi task retry {}` offers it again", task.id))
                    .into())
            }
        }
    }
}

struct Watched<'a> {
    cx: &'a Context,
    client: &'a Client,
    id: &'a TaskId,
    shown: HashSet<SandboxId>,
    /// What it was said to wait for last.
    waits: Option<String>,
}

impl Watched<'_> {
    async fn until_over(&mut self) -> Result<Task> {
        self.tell_earlier().await?;
        let filter = LiveFilter { entity_ids: vec![self.id.to_string()], ..LiveFilter::default() };
        let mut news = Box::pin(self.client.stream(&filter, None));
        loop {
            let task = patiently(async || self.client.task_get(self.id).await).await?;
            if let Some(sandbox) = task.sandbox_id.as_ref().filter(|id| !self.shown.contains(*id)) {
                self.attempt(sandbox).await?;
                continue;
            }
            if is_over(task.status) {
                return Ok(task);
            }
            self.tell_waiting(&task);
            tokio::select! {
                _ = timeout(LOOK_EVERY, news.next()) => {}
                _ = self.cx.signals.next() => return Err(Code(INTERRUPTED).into()),
            }
        }
    }

    /// Those before the last.
    async fn tell_earlier(&mut self) -> Result<()> {
        let query = SandboxQuery {
            task_id: Some(self.id.clone()),
            limit: Some(ATTEMPTS_MAX),
            ..SandboxQuery::default()
        };
        let mut all = self.client.sandbox_list(&query).await?.items;
        all.reverse();
        all.pop();
        for sandbox in all {
            self.say(&format!("attempt {}: {}", self.shown.len() + 1, outcome(&sandbox)));
            self.shown.insert(sandbox.id);
        }
        Ok(())
    }

    async fn attempt(&mut self, id: &SandboxId) -> Result<()> {
        self.say(&format!("attempt {}: {id}", self.shown.len() + 1));
        self.shown.insert(id.clone());
        self.waits = None;
        match Box::pin(Attempt::looked_at(self.cx, self.client, id).run()).await? {
            Seen::Settled(sandbox) | Seen::Interrupted(sandbox) => self.say(&outcome(&sandbox)),
            Seen::Detached => {
                self.cx.out.note(&format!("{id} goes on; `omoi task watch {}` shows it again", self.id));
                return Err(Code(INTERRUPTED).into());
            }
        }
        Ok(())
    }

    fn tell_waiting(&mut self, task: &Task) {
        let waits = waiting(task, Clock::Real.now());
        if self.waits.as_ref() != Some(&waits.0) {
            self.say(&format!("{} is {}: {}", task.id, task.status, waits.1));
            self.waits = Some(waits.0);
        }
    }

    fn say(&self, text: &str) {
        if !self.cx.out.is_json() {
            self.cx.out.note(&clean(text));
        }
    }
}

fn is_over(status: TaskStatus) -> bool {
    matches!(status, TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Cancelled)
}

/// What it waits for: in a form that stays the same while it does, and in words of this moment.
fn waiting(task: &Task, now: Timestamp) -> (String, String) {
    let same = |text: String| (text.clone(), text);
    match (&task.waiting_reason, task.not_before.filter(|at| *at > now)) {
        (Some(reason), _) => same(reason.clone()),
        (None, Some(at)) => (at.to_string(), format!("the next attempt begins {}", relative(now, at))),
        (None, None) if task.unmet_dependencies > 0 => {
            same(format!("{} of the tasks it depends on are not completed", task.unmet_dependencies))
        }
        (None, None) => same("it waits for a sandbox".to_owned()),
    }
}

fn outcome(sandbox: &Sandbox) -> String {
    let reason = sandbox.end_reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!("{} {}{reason}", sandbox.id, sandbox.status)
}

fn sum(task: &Task, attempts: usize) -> String {
    let branch = task.branch_name.as_ref().map(|branch| format!(" on {branch}")).unwrap_or_default();
    // Far below what a whole number holds.
    let micro = (task.cost_usd * 1e6).round() as i64;
    let cost = if micro > 0 { format!(", {}", usd(micro)) } else { String::new() };
    format!("{} {} after {attempts} attempt(s){branch}{cost}", task.id, task.status)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn task(more: Value) -> Task {
        let mut task = json!({
            "id": "task-1", "project_id": "prj-1", "phase_id": "p", "task_type": "t", "title": "t", "description": "",
            "priority": "MEDIUM", "status": "pending", "score": 0.0, "dependencies": [], "unmet_dependencies": 0,
            "dependency_policy": "block", "required_capabilities": [], "owned_files": [], "retry_count": 0, "max_retries": 0,
            "execution_config": {}, "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z",
        });
        task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(task).unwrap()
    }

    #[test]
    fn a_task_says_what_it_waits_for_and_says_it_once() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let later = "2026-01-01T00:00:01Z".parse().unwrap();
        for (more, words) in [
            (json!({}), "waits for a sandbox"),
            (json!({ "not_before": "2026-01-01T00:01:00Z" }), "next attempt begins in 1m"),
            (json!({ "not_before": "2025-01-01T00:01:00Z" }), "waits for a sandbox"),
            (json!({ "unmet_dependencies": 2 }), "2 of the tasks"),
            (json!({ "waiting_reason": "budget_exceeded: x", "unmet_dependencies": 2 }), "budget_exceeded"),
        ] {
            let task = task(more);
            let (same, said) = waiting(&task, now);
            assert!(said.contains(words), "{said}");
            assert_eq!(waiting(&task, later).0, same, "a second later it is nothing new");
        }
    }

    #[test]
    fn the_end_tells_how_many_attempts_it_took() {
        let done = task(json!({ "status": "completed", "branch_name": "fix/1", "cost_usd": 0.5 }));
        assert_eq!(sum(&done, 2), "task-1 completed after 2 attempt(s) on fix/1, $0.500000");
    }
}
