//! One attempt at a task, watched to its end. Ctrl-C asks what is wanted; where nobody can be asked, it ends the sandbox, and
//! so does SIGTERM.

use std::{
    io::{IsTerminal, stdin},
    time::Duration,
};

use anyhow::Result;
use omoi_client::Client;
use omoi_protocol::{Place, SandboxId, sandbox::Sandbox, task::Reason};
use tokio::{sync::oneshot, time::Instant};

use super::story::Story;
use crate::{
    Context,
    failure::{Code, INTERRUPTED},
    out::clean,
    sandbox::{
        follow::{Follow, News},
        watch::is_settled,
    },
    signals::Asked,
};

/// How long the work of a sandbox that has ended may take to be kept.
const KEEP_MAX: Duration = Duration::from_secs(20 * 60);

pub struct Attempt<'a> {
    cx: &'a Context,
    client: &'a Client,
    follow: Follow<'a>,
    pub story: Story,
    ending: bool,
    /// Whoever only looks on ends nothing.
    only_looks: bool,
    place: Option<Place>,
    place_error: Option<String>,
}

/// How watching it ended.
pub enum Seen {
    /// It has ended, and what it did is kept.
    Settled(Box<Sandbox>),
    /// Somebody ended it.
    Interrupted(Box<Sandbox>),
    /// It goes on without us.
    Detached,
}

/// What somebody wants who has pressed Ctrl-C.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    GoOn,
    Stop,
    Detach,
}

impl<'a> Attempt<'a> {
    pub fn new(cx: &'a Context, client: &'a Client, id: &SandboxId) -> Self {
        Self {
            cx,
            client,
            follow: Follow::from_start(client, id),
            story: Story::new(cx.out.style),
            ending: false,
            only_looks: false,
            place: None,
            place_error: None,
        }
    }

    /// For somebody who did not order it: Ctrl-C turns away, and it goes on.
    pub fn looked_at(cx: &'a Context, client: &'a Client, id: &SandboxId) -> Self {
        Self { only_looks: true, ..Self::new(cx, client, id) }
    }

    pub async fn run(&mut self) -> Result<Seen> {
        let cx = self.cx;
        let mut over_since = None;
        loop {
            let sandbox = tokio::select! {
                sandbox = self.look() => sandbox?,
                asked = cx.signals.next() => match self.interrupted(asked).await? {
                    Wish::Detach => return Ok(Seen::Detached),
                    Wish::GoOn | Wish::Stop => continue,
                },
            };
            let Some(sandbox) = sandbox else { continue };
            self.tell_place(&sandbox);
            let over = !sandbox.status.is_live();
            let since = over.then(|| *over_since.get_or_insert_with(Instant::now));
            if is_settled(&sandbox) || since.is_some_and(|since| since.elapsed() > KEEP_MAX) {
                let events = self.follow.rest().await?;
                events.iter().try_for_each(|event| self.print(event))?;
                let sandbox = Box::new(sandbox);
                return Ok(if self.ending { Seen::Interrupted(sandbox) } else { Seen::Settled(sandbox) });
            }
        }
    }

    /// Why it could not be made, as far as was heard.
    pub fn failure(&self) -> Option<&str> {
        self.follow.failure.as_deref()
    }

    /// Shows what is new; the sandbox when nothing is.
    async fn look(&mut self) -> Result<Option<Sandbox>> {
        match self.follow.next().await? {
            News::Events(events) => {
                events.iter().try_for_each(|event| self.print(event))?;
                Ok(None)
            }
            News::Quiet => Ok(Some(self.follow.sandbox().await?)),
        }
    }

    fn print(&mut self, event: &omoi_protocol::event::StoredEvent) -> Result<()> {
        let lines = self.story.tell(event);
        if self.cx.out.is_json() {
            return Ok(());
        }
        lines.iter().try_for_each(|line| self.cx.out.line(line))
    }

    fn tell_place(&mut self, sandbox: &Sandbox) {
        let place_error = sandbox.place_error.clone().filter(|_| sandbox.status.is_live());
        if place_error != self.place_error {
            if let Some(error) = place_error.as_ref().filter(|_| !self.cx.out.is_json()) {
                self.cx.out.note(&clean(&format!("{} is tried again: {error}", sandbox.id)));
            }
            self.place_error = place_error;
        }
        let is_new = self.place.replace(sandbox.place) != Some(sandbox.place);
        if is_new && sandbox.place == Place::Wanted && sandbox.status.is_live() && !self.cx.out.is_json() {
            self.cx.out.note(&format!("{} is being made", sandbox.id));
        }
    }

    /// Ends the sandbox, unless somebody says otherwise. The second Ctrl-C does not wait.
    async fn interrupted(&mut self, asked: Asked) -> Result<Wish> {
        let id = self.follow.id().clone();
        if self.only_looks {
            return Ok(Wish::Detach);
        }
        if self.ending {
            self.cx.out.note(&format!("{id} ends by itself; `omoi sandbox show {id}` says what was kept"));
            return Err(Code(INTERRUPTED).into());
        }
        let can_ask = asked == Asked::Interrupted && stdin().is_terminal() && self.cx.out.style.tty;
        let wish = if can_ask && !self.cx.out.is_json() { self.ask().await } else { Wish::Stop };
        if wish == Wish::Stop {
            self.ending = true;
            self.cx.out.note(&format!(
                "stopping {id} and keeping its work; Ctrl-C once more does not wait for that"
            ));
            let reason = Reason { reason: Some("interrupted".to_owned()) };
            tokio::select! {
                ended = self.client.sandbox_terminate(&id, &reason) => { ended?; }
                _ = self.cx.signals.next() => return Err(Code(INTERRUPTED).into()),
            }
        }
        Ok(wish)
    }

    /// Another Ctrl-C, or no answer at all, is an answer too.
    async fn ask(&self) -> Wish {
        self.cx.out.note("\n[d]etach and leave it working, [s]top it, or go on (Enter)?");
        let (answer, answered) = oneshot::channel();
        // A thread of its own: the runtime would wait for the answer when the program ends.
        std::thread::spawn(move || {
            let mut line = String::new();
            let read = stdin().read_line(&mut line);
            let _ = answer.send(read.ok().filter(|bytes| *bytes > 0).map(|_| line));
        });
        tokio::select! {
            line = answered => parse(line.ok().flatten().as_deref()),
            _ = self.cx.signals.next() => Wish::Stop,
        }
    }
}

fn parse(line: Option<&str>) -> Wish {
    match line.map(|line| line.trim().to_ascii_lowercase()).as_deref() {
        Some("d" | "detach") => Wish::Detach,
        Some("s" | "stop") | None => Wish::Stop,
        Some(_) => Wish::GoOn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_one_letter_or_nothing() {
        for (line, wish) in [
            (Some("d\n"), Wish::Detach),
            (Some(" STOP \n"), Wish::Stop),
            (Some("\n"), Wish::GoOn),
            (Some("what?\n"), Wish::GoOn),
            (None, Wish::Stop),
        ] {
            assert_eq!(parse(line), wish, "{line:?}");
        }
    }
}
