//! Watching one sandbox to where it is wanted: until it can be used, or until it has ended and its work is kept.

use std::time::Duration;

use anyhow::Result;
use omoi_client::Client;
use omoi_protocol::{Place, SandboxStatus, sandbox::Sandbox, task::Reason};
use tokio::time::Instant;

use super::{
    follow::{Follow, News},
    told::Told,
};
use crate::{
    Context,
    failure::{Code, FAILED, INTERRUPTED, Stop},
};

/// How long the work of a sandbox that has ended may take to be kept.
const KEEP_MAX: Duration = Duration::from_secs(20 * 60);
/// After so many failed tries to keep its work nothing is waited for any more: it may take long, or a person.
const TRIES_MAX: i64 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// Its worker has reported.
    Running,
    /// It has ended and what it did is kept.
    Kept,
}

pub struct Watch<'a> {
    cx: &'a Context,
    client: &'a Client,
    follow: Follow<'a>,
    pub told: Told,
    /// Whether it has been asked to end.
    ending: bool,
}

impl<'a> Watch<'a> {
    /// One that was just asked for.
    pub fn new(cx: &'a Context, client: &'a Client, sandbox: &Sandbox) -> Self {
        let follow = Follow::from_start(client, &sandbox.id);
        let mut told = Told::default();
        told.sandbox(cx, sandbox);
        Self { cx, client, follow, told, ending: false }
    }

    /// One that somebody has asked to end.
    pub fn ending(cx: &'a Context, client: &'a Client, follow: Follow<'a>) -> Self {
        Self { cx, client, follow, told: Told::default(), ending: true }
    }

    /// The sandbox as it then stands. Ctrl-C ends it, and once more leaves it to end by itself.
    pub async fn run(&mut self, until: Until) -> Result<Sandbox> {
        let cx = self.cx;
        let mut over_since = None;
        loop {
            let sandbox = tokio::select! {
                sandbox = self.look() => sandbox?,
                _ = cx.signals.next() => {
                    self.interrupted().await?;
                    continue;
                }
            };
            let Some(sandbox) = sandbox else { continue };
            self.told.sandbox(self.cx, &sandbox);
            if is_settled(&sandbox) {
                return self.rest(sandbox).await;
            }
            if until == Until::Running && sandbox.status == SandboxStatus::Running && !self.ending {
                return Ok(sandbox);
            }
            if !sandbox.status.is_live() {
                let since = *over_since.get_or_insert_with(Instant::now);
                if since.elapsed() > KEEP_MAX {
                    return Err(not_kept(&sandbox, self.told.exit_code).into());
                }
            }
        }
    }

    /// Shows what is new; the sandbox when nothing is.
    async fn look(&mut self) -> Result<Option<Sandbox>> {
        match self.follow.next().await? {
            News::Events(events) => {
                events.iter().try_for_each(|event| self.told.event(self.cx, event))?;
                Ok(None)
            }
            News::Quiet => Ok(Some(self.follow.sandbox().await?)),
        }
    }

    /// What came between the last event that was read and the end.
    async fn rest(&mut self, sandbox: Sandbox) -> Result<Sandbox> {
        let events = self.follow.rest().await?;
        events.iter().try_for_each(|event| self.told.event(self.cx, event))?;
        Ok(sandbox)
    }

    async fn interrupted(&mut self) -> Result<()> {
        let id = self.follow.id().clone();
        if std::mem::replace(&mut self.ending, true) {
            self.cx.out.note(&format!("{id} ends by itself; `omoi sandbox show {id}` says what was kept"));
            return Err(Code(INTERRUPTED).into());
        }
        self.cx
            .out
            .note(&format!("ending {id} and keeping its work; Ctrl-C once more does not wait for that"));
        let reason = Reason { reason: Some("interrupted".to_owned()) };
        tokio::select! {
            ended = self.client.sandbox_terminate(&id, &reason) => { ended?; }
            _ = self.cx.signals.next() => return Err(Code(INTERRUPTED).into()),
        }
        Ok(())
    }

    /// How the whole ended, for whoever started it.
    pub fn verdict(&self, sandbox: &Sandbox) -> Result<()> {
        if self.ending {
            return Err(Code(INTERRUPTED).into());
        }
        let code = self.told.exit_code;
        match (code, sandbox.status) {
            (Some(code @ 1..), _) => Err(Code(u8::try_from(code).unwrap_or(1)).into()),
            _ if !is_kept(sandbox) && sandbox.rescue.is_some() => Err(not_kept(sandbox, code).into()),
            (_, SandboxStatus::Completed) => Ok(()),
            _ => {
                let said = self.told.error.as_deref().or(self.follow.failure.as_deref());
                Err(failed(sandbox, said).into())
            }
        }
    }
}

/// Nothing more becomes of it that is worth waiting for.
pub fn is_settled(sandbox: &Sandbox) -> bool {
    let keeps_failing = sandbox.rescue.as_ref().is_some_and(|rescue| rescue.tries >= TRIES_MAX);
    let is_decided = matches!(sandbox.place, Place::Unkept | Place::Discarded);
    !sandbox.status.is_live() && (is_kept(sandbox) || never_was(sandbox) || is_decided || keeps_failing)
}

fn is_kept(sandbox: &Sandbox) -> bool {
    matches!(sandbox.place, Place::None | Place::Kept | Place::Gone)
}

/// It could not be made, so that there is nothing to keep.
pub fn never_was(sandbox: &Sandbox) -> bool {
    sandbox.place == Place::Wanted && sandbox.isolation.is_none() && sandbox.status == SandboxStatus::Failed
}

/// Why it did not do what it was to do.
pub fn failed(sandbox: &Sandbox, said: Option<&str>) -> Stop {
    let id = &sandbox.id;
    let why = said.or(sandbox.place_error.as_deref()).or(sandbox.end_reason.as_deref());
    let why = why.unwrap_or("nobody said why");
    if sandbox.started_at.is_none() && sandbox.status == SandboxStatus::Failed {
        let hint = if why.starts_with("layer ") {
            "`omoi doctor`, on the server's machine, tries every layer and says how to get what is missing"
                .to_owned()
        } else {
            format!("`omoi sandbox show {id}` has more")
        };
        return Stop::new(FAILED, format!("{id} could not be made: {why}")).hint(hint);
    }
    Stop::new(FAILED, format!("{id} is {}: {why}", sandbox.status))
        .hint(format!("`omoi sandbox logs {id}` shows what it did"))
}

fn not_kept(sandbox: &Sandbox, code: Option<i64>) -> Stop {
    let id = &sandbox.id;
    let tried = sandbox.rescue.as_ref().map(|rescue| rescue.error.as_str());
    let why = tried.or(sandbox.place_error.as_deref()).unwrap_or("it takes long");
    let with = code.map(|code| format!(" with exit code {code}")).unwrap_or_default();
    let hint = match sandbox.place {
        Place::Unkept => {
            format!("`omoi sandbox rescue {id}` tries again, `omoi sandbox discard {id}` gives the work up")
        }
        _ => format!(
            "the server tries again and removes nothing before; `omoi sandbox show {id}` says how it goes"
        ),
    };
    Stop::new(FAILED, format!("{id} has ended{with} and its work is not kept yet: {why}")).hint(hint)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::failure::Failure;

    fn sandbox(status: &str, place: &str, more: Value) -> Sandbox {
        let mut sandbox = json!({
            "id": "sbx-1", "provider": "local", "status": status, "generation": 0, "labels": {},
            "created_at": "2026-01-01T00:00:00Z", "place": place,
        });
        sandbox.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(sandbox).unwrap()
    }

    #[test]
    fn a_sandbox_is_settled_when_it_has_ended_and_is_kept() {
        for (status, place, isolation, settled) in [
            ("creating", "wanted", None, false),
            ("running", "up", Some("full"), false),
            ("completed", "up", Some("full"), false),
            ("completed", "kept", Some("full"), true),
            ("terminated", "gone", Some("full"), true),
            ("completed", "none", None, true),
            ("failed", "wanted", None, true),
            ("terminated", "wanted", None, false),
            ("failed", "up", Some("full"), false),
            ("completed", "unkept", Some("full"), true),
            ("terminated", "discarded", Some("full"), true),
        ] {
            let sandbox = sandbox(status, place, json!({ "isolation": isolation }));
            assert_eq!(is_settled(&sandbox), settled, "{status} {place}");
        }
    }

    #[test]
    fn work_that_is_tried_in_vain_is_not_waited_for_without_end() {
        for (tries, settled) in [(1, false), (2, false), (3, true), (8, true)] {
            let rescue = json!({ "rescue": { "tries": tries, "error": "the push is refused" } });
            let sandbox = sandbox("completed", "up", rescue);
            assert_eq!(is_settled(&sandbox), settled, "{tries}");
            let failure = Failure::of(&not_kept(&sandbox, Some(0)).into()).unwrap();
            let cause = "sbx-1 has ended with exit code 0 and its work is not kept yet: the push is refused";
            assert_eq!(failure.cause, cause);
        }
    }

    #[test]
    fn a_failure_names_its_cause_and_the_next_step() {
        let told = |sandbox: &Sandbox, said| Failure::of(&failed(sandbox, said).into()).unwrap();
        let layer = "layer seccomp: the kernel has none; use another";
        let failure = told(&sandbox("failed", "wanted", json!({ "place_error": layer })), None);
        assert!(failure.cause.contains("could not be made: layer seccomp"), "{failure:?}");
        assert!(failure.hint.unwrap().contains("omoi doctor"));
        let started = json!({ "started_at": "2026-01-01T00:00:00Z" });
        let failure = told(&sandbox("failed", "gone", started), Some("the branch cannot be pushed"));
        assert_eq!(failure.cause, "sbx-1 is failed: the branch cannot be pushed");
        assert!(failure.hint.unwrap().contains("omoi sandbox logs sbx-1"));
    }
}
