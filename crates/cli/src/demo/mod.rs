//! `omoi demo`: a scripted model plays an agent's work, and everything else is real. No key and no service is needed.

pub mod house;
mod proof;
pub mod repository;
mod spec;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::Result;
use omoi_client::Client;
use omoi_protocol::{Place, SandboxId, sandbox::Sandbox, task::Reason};
use omoi_server::{clock::Clock, config::Flag};
use serde_json::json;
use tokio::time::{sleep, timeout};

use crate::{
    Context,
    connect::Connect,
    failure::{Code, FAILED, Failure, INTERRUPTED, Stop},
    project,
    run::{Errand, How, Status},
    sandbox::{follow::Follow, watch::never_was},
    settings::{Settings, flag, note_ineffective},
    text::moment,
};
use house::House;
use proof::Proof;

const MODEL: &str = "scripted/binomial";
const TASK: &str = "Calculate the binomial coefficient C(50,25)

Create binomial.py, a program that prints the binomial coefficient of its two arguments, first in a simple form. Then \
modify it so that it is fast, and run it for 50 and 25. C(50,25) = 126410606437752.";

/// Of the work; the scenario itself takes seconds.
const WORK_MAX: Duration = Duration::from_secs(300);
/// And of everything around it.
const WATCH_MAX: Duration = Duration::from_secs(360);
const GONE_MAX: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(100);

const EXAMPLES: &str = "\
Examples:
  omoi demo                       against the server that runs, or one that it starts and that goes on serving
  omoi demo --data-dir .omoi      a server of its own, whatever runs elsewhere
  omoi demo --spec                a spec, from an idea to proven tasks
  omoi demo --exit --json         in a directory that is removed again; one JSON object, and 0 only if all of it held";

/// Watch an agent work, without a key: a scripted model writes and runs a small program
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Use a server and a data directory of its own, which are gone in the end, and say whether everything held
    #[arg(long, conflicts_with_all = ["data_dir", "listen", "database_url"])]
    exit: bool,
    /// Show a spec instead: from an idea through six phases and two approvals to tasks, their checks and its coverage
    #[arg(long)]
    spec: bool,
    /// Address to listen on, for a server of its own; port 0 takes a free one [default: 127.0.0.1:18000]
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    #[command(flatten)]
    connect: Connect,
    #[command(flatten)]
    settings: Settings,
}

impl Args {
    pub async fn run(self, cx: &Context) -> Result<()> {
        cx.out.outlast_reader();
        // A configuration that cannot be read is refused where it is used.
        if let Ok(resolved) = self.settings.resolve(cx) {
            note_ineffective(cx, &resolved);
        }
        if self.exit && self.spec {
            let house = House::passing(cx, &self.settings, "omoi-demo-").await?;
            let played = spec::play(cx, &house).await;
            let stopped = house.leave(cx).await;
            return spec::tell(cx, played.and_then(|proof| stopped.map(|()| proof)));
        }
        if self.exit {
            return self.prove(cx).await;
        }
        let flags: Vec<Flag> =
            flag("--listen", "server.listen", self.listen.as_deref()).into_iter().collect();
        let wants_own = self.listen.is_some() || self.settings.names_data_dir();
        let config = self.settings.resolve_with(cx, flags)?.config;
        let running = if wants_own { None } else { House::running(&self.connect, config.clone()).await? };
        let house = match running {
            Some(house) => house,
            None => House::start(config, None).await?,
        };
        let verdict = if self.spec {
            spec::tell(cx, spec::play(cx, &house).await)
        } else {
            tell(cx, play(cx, &house).await)
        };
        let Some(own) = house.own else { return verdict };
        if verdict.as_ref().is_err_and(|error| error.downcast_ref() == Some(&Code(INTERRUPTED))) {
            cx.signals.unless_again(own.stop()).await?;
            return verdict;
        }
        if let Some(failure) = verdict.as_ref().err().and_then(Failure::of) {
            cx.out.failure(&failure);
        }
        let (url, token) = (&own.url, &own.token);
        let serves = json!({ "url": url, "token": token, "token_expires_at": own.token_until });
        cx.out.item(&serves, |_| {
            let until = own.token_until.map(|at| {
                let (at, dir) = (moment(Clock::Real.now(), at), house.config.data_dir.display());
                format!(
                    "\n\nThe token ends {at}, and with the next demo here. One that stays: \
                     omoi token create --data-dir {dir} --role operator"
                )
            });
            format!(
                "\nOmoi goes on serving at {url} until Ctrl-C\n\n  export OMOI_URL={url} OMOI_TOKEN={token}{}",
                until.unwrap_or_default()
            )
        })?;
        cx.signals.next().await;
        cx.signals.unless_again(own.stop()).await?;
        verdict.map_err(|error| error.downcast_ref::<Code>().map_or(Code(FAILED), |code| Code(code.0)).into())
    }

    /// Everything of its own, and nothing left of it.
    async fn prove(self, cx: &Context) -> Result<()> {
        let began = Instant::now();
        let played = async {
            let house = House::passing(cx, &self.settings, "omoi-demo-").await?;
            let started = ms(began);
            let played = play(cx, &house).await;
            let stopped = house.leave(cx).await;
            let mut proof = played?;
            stopped?;
            proof.durations_ms.extend([("server_start", started), ("total", ms(began))]);
            anyhow::Ok(proof)
        };
        tell(cx, Box::pin(played).await)
    }
}

/// Gives the task to the agent, and judges what comes of it. Nothing goes on that nobody watches.
async fn play(cx: &Context, house: &House) -> Result<Proof> {
    let client = &house.client;
    let directory = repository::make(&house.config.data_dir, &repository::BINOMIAL).await?;
    let (project, _) = project::of_directory(client, &directory).await?;
    let how = How { model: Some(MODEL.to_owned()), timeout: Some(WORK_MAX), ..How::default() };
    let mut errand = Errand::order(client, project, TASK, &how).await?;
    errand.mirrors = house.mirrors();
    let watched = timeout(WATCH_MAX, watch(cx, house, &errand)).await.unwrap_or_else(|_| {
        Ok(Proof::failed(format!("{} has not ended within {} s", errand.task.id, WATCH_MAX.as_secs())))
    });
    if !matches!(&watched, Ok(proof) if proof.is_detached()) {
        end(client, &errand.sandbox.id, "the demo is over").await?;
    }
    watched
}

async fn watch(cx: &Context, house: &House, errand: &Errand) -> Result<Proof> {
    let client = &house.client;
    let mut summary = errand.watch(cx, client).await?;
    if house.is_passing() {
        summary.fetch = None;
    }
    if !cx.out.is_json() {
        cx.out.line(&format!("\n{}", summary.text()))?;
    }
    match summary.status {
        Status::Interrupted => return Err(Code(INTERRUPTED).into()),
        Status::Detached => return Ok(Proof::detached()),
        Status::Completed | Status::Failed => {}
    }
    let sandbox = gone(client, &errand.sandbox.id).await?;
    let task = client.task_get(&errand.task.id).await?;
    let events = Follow::from_start(client, &sandbox.id).rest().await?;
    let branch = house.branch(errand, sandbox.base_commit.as_deref()).await?;
    let mut proof = Proof::judge(&task, &sandbox, &events, branch);
    proof.durations_ms = durations(&sandbox, summary.duration_ms);
    Ok(proof)
}

/// One object for programs; for people the verdict, since they have seen the rest.
fn tell(cx: &Context, played: Result<Proof>) -> Result<()> {
    let (proof, code) = match played {
        Ok(proof) => (proof, FAILED),
        Err(error) => match error.downcast_ref::<Code>() {
            Some(Code(code)) => (Proof::failed("interrupted".to_owned()), *code),
            None => {
                let failure = Failure::of(&error);
                let code = failure.as_ref().map_or(FAILED, |failure| failure.code);
                if !cx.out.is_json() {
                    return Err(error);
                }
                (Proof::failed(failure.map(|failure| failure.cause).unwrap_or_default()), code)
            }
        },
    };
    cx.out.item(&proof, |_| match &proof.error {
        None if proof.is_detached() => "It goes on by itself.".to_owned(),
        None => format!(
            "All of it held: {} was created and modified on {}, and {} printed.",
            proof::FILE,
            proof.branch.as_deref().unwrap_or("its branch"),
            proof::RESULT
        ),
        Some(_) => "Not all of it held.".to_owned(),
    })?;
    match &proof.error {
        None => Ok(()),
        Some(_) if cx.out.is_json() || code == INTERRUPTED => Err(Code(code).into()),
        Some(error) => Err(Stop::new(code, error.clone())
            .hint("`omoi doctor` says what this machine cannot do; `omoi sandbox logs` what the agent did")
            .into()),
    }
}

/// Ends a sandbox that has not ended by itself, and waits until nothing is left of it.
pub async fn end(client: &Client, id: &SandboxId, why: &str) -> Result<()> {
    if client.sandbox_get(id).await?.status.is_live() {
        let reason = Reason { reason: Some(why.to_owned()) };
        client.sandbox_terminate(id, &reason).await?;
    }
    gone(client, id).await.map(|_| ())
}

/// Waits until nothing of it is left on its machine, so that the server can go.
async fn gone(client: &Client, id: &SandboxId) -> Result<Sandbox> {
    let give_up = Instant::now() + GONE_MAX;
    loop {
        let sandbox = client.sandbox_get(id).await?;
        let stays = sandbox.place == Place::Unkept;
        let gone = matches!(sandbox.place, Place::Gone | Place::None) || stays || never_was(&sandbox);
        if gone || Instant::now() > give_up {
            return Ok(sandbox);
        }
        sleep(LOOK_EVERY).await;
    }
}

fn durations(sandbox: &Sandbox, run: u64) -> BTreeMap<&'static str, u64> {
    let between = |from: Option<jiff::Timestamp>, to: Option<jiff::Timestamp>| {
        u64::try_from(to?.duration_since(from?).as_millis()).ok()
    };
    let all = [
        ("sandbox_start", between(Some(sandbox.created_at), sandbox.started_at)),
        ("work", between(sandbox.started_at, sandbox.ended_at)),
        ("run", Some(run)),
    ];
    all.into_iter().filter_map(|(name, ms)| Some((name, ms?))).collect()
}

pub fn ms(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
