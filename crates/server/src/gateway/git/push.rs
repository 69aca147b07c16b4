//! A push: judged by what it asks for, handed to Git in the measure that it comes, and written down as events.

use std::{path::PathBuf, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, StatusCode},
    response::Response,
};
use omoi_protocol::{SandboxId, Stage, sandbox::Sandbox};
use serde_json::json;
use tokio::{io::AsyncWriteExt, process::ChildStdin};

use super::{
    Door,
    access::{Refused, Visit},
    answer,
    body::{Broken, Incoming},
    pkt::{Report, WISHES_BYTES_MAX, Wishes, side_note},
    turns::Turn,
};
use crate::{
    domain::push::{self, Pusher, RefUpdate},
    git::{self, Call, Failure, Hold, base_ref, bounded, branch_ref, preserved_ref, set_aside_ref, tail},
};

/// A push this many times too large is still heard to its end, so that the client hears why it is refused.
const HEARD_OUT: usize = 4;
const REPORT_BYTES_MAX: usize = 1 << 20;
const COMPLAINT_BYTES: usize = 4 << 10;
/// How many refs of one push become events.
const EVENTS_MAX: usize = 20;
/// How long Git may take to end after it has said all.
const LAST_BREATH: Duration = Duration::from_secs(10);

/// `git receive-pack` as this sandbox may use it.
pub fn call(door: &Door, sandbox: &Sandbox) -> Result<Call, git::Error> {
    let mut call = door.mirrors.git().call_nowhere("receive-pack");
    for setting in [
        "receive.denyDeletes=true",
        "receive.autogc=false",
        "receive.advertisePushOptions=false",
        "receive.shallowUpdate=false",
        "receive.updateServerInfo=false",
        "receive.hideRefs=refs",
    ] {
        call = call.config(setting);
    }
    let hooks = door.mirrors.hooks()?;
    call = call.config(format!("core.hooksPath={}", hooks.display()));
    call = call.config(format!("receive.maxInputSize={}", door.settings.push_bytes_max));
    for own in [preserved_ref(&sandbox.id), set_aside_ref(&sandbox.id)] {
        call = call.config(format!("receive.hideRefs=!{own}"));
    }
    // Shown to one that has ended as well, so that it need not send everything again; the hook knows better.
    if let Some(branch) = &sandbox.branch_name {
        call = call.config(format!("receive.hideRefs=!{}", branch_ref(branch)));
    }
    Ok(call)
}

pub async fn serve(
    door: Door,
    headers: HeaderMap,
    body: Body,
    visit: Visit,
    mirror: PathBuf,
    _turn: Turn,
) -> Result<Response, Refused> {
    let Some(Sandbox { id, branch_name, .. }) = &visit.sandbox else {
        return visit.pusher().and_then(|_| empty());
    };
    // Nor is the mirror exchanged for another meanwhile.
    let _stays = door.mirrors.in_use(&visit.project.id).await?;
    // Held until the end: whoever takes the branch over learns where it is when this push is through.
    let _next_waits = match branch_name {
        Some(branch) => Some(door.mirrors.push_lock(&visit.project.id, branch, Hold::Shared).await?),
        None => None,
    };
    let sandbox = door.api.store.sandbox_get(id).await?;
    let bytes_max = door.settings.push_bytes_max.saturating_mul(HEARD_OUT);
    let incoming = Incoming::new(&headers, body, bytes_max, visit.token.clone())?;
    let push = Push { door: &door, visit: &visit, sandbox: &sandbox, mirror };
    let limit = door.settings.timeout;
    match tokio::time::timeout(limit, push.run(incoming)).await {
        Ok(answered) => answered,
        Err(_) => {
            let why = format!("the push took longer than {limit:?}");
            push.record(&[], &Report::default(), &why).await;
            Err(Refused::new(StatusCode::REQUEST_TIMEOUT, why))
        }
    }
}

fn empty() -> Result<Response, Refused> {
    Ok(answer("application/x-git-receive-pack-result", Body::empty()))
}

struct Push<'a> {
    door: &'a Door,
    visit: &'a Visit,
    sandbox: &'a Sandbox,
    mirror: PathBuf,
}

impl Push<'_> {
    async fn run(&self, mut incoming: Incoming) -> Result<Response, Refused> {
        let (wishes, start) = match wishes(&mut incoming).await {
            Ok(read) => read,
            Err(why) => {
                incoming.drain().await;
                self.record(&[], &Report::default(), &why).await;
                return Err(Refused::new(StatusCode::BAD_REQUEST, format!("the push cannot be read: {why}")));
            }
        };
        // Nothing but an end: a client asks whether it would be let in.
        if wishes.updates.is_empty() {
            return empty();
        }
        let output = match self.judge(&wishes.updates) {
            Some(refusals) => {
                incoming.drain().await;
                self.record(&wishes.updates, &refusals, "").await;
                refusals.write(&wishes)
            }
            None => self.receive(&wishes, start, incoming).await?,
        };
        Ok(answer("application/x-git-receive-pack-result", output.into()))
    }

    fn pusher(&self) -> Pusher<'_> {
        // What is being checked stays as it is.
        let works = self.sandbox.stage == Stage::Work;
        let (sandbox, branch) = (&self.sandbox.id, self.sandbox.branch_name.as_deref().filter(|_| works));
        match self.sandbox.status.is_live() {
            true => Pusher::Live { sandbox, branch, default_branch: &self.visit.project.default_branch },
            false => Pusher::Ended { sandbox },
        }
    }

    /// All is let through, or nothing is.
    fn judge(&self, updates: &[RefUpdate]) -> Option<Report> {
        let verdicts: Vec<_> = updates.iter().map(|update| push::judge(self.pusher(), update)).collect();
        if verdicts.iter().all(Result::is_ok) {
            return None;
        }
        let refs = updates.iter().zip(verdicts).map(|(update, verdict)| {
            let why = verdict
                .err()
                .map_or("not alone: another ref of the push is refused".to_owned(), |no| no.to_string());
            (update.name.clone(), Err(why))
        });
        Some(Report { refs: refs.collect(), said: String::new() })
    }

    /// Lets Git take it; answers with what Git says.
    async fn receive(&self, wishes: &Wishes, start: Bytes, incoming: Incoming) -> Result<Vec<u8>, Refused> {
        let call = self.call(&wishes.updates).await?;
        let mut running = call.arg("--stateless-rpc").arg(&self.mirror).start().map_err(git::Error::from)?;
        let (stdin, stdout, stderr) = (running.stdin(), running.stdout(), running.stderr());
        let (_, output, said) = tokio::join!(
            feed(start, incoming, stdin),
            bounded(stdout, REPORT_BYTES_MAX),
            tail(stderr, COMPLAINT_BYTES)
        );
        let output = output.map_err(|source| Failure::Broken { name: "receive-pack".to_owned(), source });
        let output = output.map_err(git::Error::from)?;
        let _ = tokio::time::timeout(LAST_BREATH, running.wait()).await;
        let mut report = Report::read(&output, wishes.can("side-band-64k"));
        report.said.push_str(&String::from_utf8_lossy(&said));
        let explained = self.explain(&mut report).filter(|_| wishes.can("side-band-64k"));
        self.look_after(&wishes.updates, &mut report).await;
        self.record(&wishes.updates, &report, "").await;
        if output.is_empty() && wishes.can("report-status") {
            tracing::warn!(sandbox.id = %self.sandbox.id, said = report.said, "git receive-pack broke off");
            let detail = "the push broke off before it was whole; push again";
            return Err(Refused::new(StatusCode::BAD_REQUEST, detail));
        }
        Ok([explained.unwrap_or_default(), output].concat())
    }

    /// Git says that a limit was passed, but not always which, and never who has set it.
    fn explain(&self, report: &mut Report) -> Option<Vec<u8>> {
        report.said.contains("pack exceeds maximum allowed size").then(|| {
            let bytes = self.door.settings.push_bytes_max;
            let said = format!("omoi: one push may bring at most {bytes} bytes (git.push_bytes_max)\n");
            report.said.insert_str(0, &said);
            side_note(&said)
        })
    }

    async fn call(&self, updates: &[RefUpdate]) -> Result<Call, Refused> {
        let (project, id) = (&self.visit.project.id, &self.sandbox.id);
        let mut call = call(self.door, self.sandbox)?
            .env("OMOI_PUSH_PRESERVED", preserved_ref(id))
            .env("OMOI_PUSH_SET_ASIDE", set_aside_ref(id));
        if let Pusher::Live { branch: Some(branch), .. } = self.pusher() {
            let name = branch_ref(branch);
            let base = self.door.mirrors.ref_tip(project, &base_ref(id)).await?;
            let old =
                updates.iter().find(|update| update.name == name).and_then(|update| update.old.as_ref());
            let holds = push::must_hold(base.as_ref(), old).map_or("", |commit| commit.as_str());
            call = call.env("OMOI_PUSH_BRANCH", name).env("OMOI_PUSH_HOLDS", holds);
        }
        Ok(call)
    }

    /// A client that wants no report, or a Git that broke off, leaves open what became of a ref.
    async fn look_after(&self, updates: &[RefUpdate], report: &mut Report) {
        for update in updates {
            if !report.refs.contains_key(&update.name) {
                let tip = self.door.mirrors.ref_tip(&self.visit.project.id, &update.name).await;
                let done = if tip.is_ok_and(|tip| tip == update.new) { Ok(()) } else { Err(String::new()) };
                report.refs.insert(update.name.clone(), done);
            }
        }
    }

    /// Tells people what was pushed, and what was not and why.
    async fn record(&self, updates: &[RefUpdate], report: &Report, otherwise: &str) {
        let mut events = Vec::new();
        for update in updates.iter().take(EVENTS_MAX) {
            let done = report.refs.get(&update.name).cloned().unwrap_or(Err(String::new()));
            let reason = done.as_ref().err().map(|why| reason(why, &report.said));
            let (old, new) =
                (update.old.as_ref().map(ToString::to_string), update.new.as_ref().map(ToString::to_string));
            events.push(json!({ "ref": update.name, "old": old, "new": new, "accepted": done.is_ok(), "reason": reason }));
        }
        if updates.is_empty() {
            events.push(
                json!({ "ref": null, "old": null, "new": null, "accepted": false, "reason": otherwise }),
            );
        }
        let id: &SandboxId = &self.sandbox.id;
        for event in &events {
            if let Err(error) = self.door.api.store.event_tell(id, "git.push", event).await {
                tracing::warn!(sandbox.id = %id, %error, "a push of {id} could not be written down");
            }
        }
    }
}

/// What our hook or Git said is more to people than the word that Git sums it up with.
fn reason(why: &str, said: &str) -> String {
    let said = said.lines().map(str::trim).find_map(|line| {
        line.strip_prefix("omoi: ")
            .or_else(|| line.strip_prefix("fatal: "))
            .or_else(|| line.strip_prefix("error: "))
    });
    match (why, said) {
        ("", None) => "the push broke off".to_owned(),
        (why, None) => why.to_owned(),
        (_, Some(said)) => said.to_owned(),
    }
}

/// The list in front of the pack, and all that has come so far.
async fn wishes(incoming: &mut Incoming) -> Result<(Wishes, Bytes), String> {
    let mut start = Vec::new();
    loop {
        if let Some(wishes) = Wishes::read(&start)? {
            return Ok((wishes, start.into()));
        }
        if start.len() > 2 * WISHES_BYTES_MAX {
            return Err("it asks for more than 64 KiB of refs".to_owned());
        }
        match incoming.next().await {
            Ok(Some(part)) => start.extend_from_slice(&part),
            Ok(None) => return Err("it ends before it says what it is for".to_owned()),
            Err(broken) => return Err(broken.to_string()),
        }
    }
}

/// Ends with what Git reads. A client that goes away ends it early, and Git knows a pack that is not whole.
async fn feed(start: Bytes, mut incoming: Incoming, stdin: Option<ChildStdin>) {
    let Some(mut stdin) = stdin else { return };
    let mut part = Ok::<_, Broken>(Some(start));
    while let Ok(Some(bytes)) = part {
        if stdin.write_all(&bytes).await.is_err() {
            // Git has seen enough, and its answer says why.
            drop(stdin);
            return incoming.drain().await;
        }
        part = incoming.next().await;
    }
}
