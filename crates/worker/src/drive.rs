//! Drives the built-in agent from its start to its last commit: opens its session, lets it work, waits with it for messages, and
//! brings what it made outside.

use std::{io, path::Path, sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use omoi_protocol::{
    FailureKind,
    event::{AgentResult, AgentTurnComplete, AgentWaiting, Decimal, WorkspaceProgress},
    launch::{ExecutionMode, LaunchSpec, PermissionMode, Wire},
    outcome::Failure,
};
use serde_json::json;
use tokio::{
    sync::{Notify, watch},
    task::JoinHandle,
    time::Instant,
};

use crate::{
    agent::{
        kit::Kit,
        log::{Log, Replay},
        mcp::Mcp,
        model::{Model, RetryPolicy, Settings},
        peer::Peers,
        prompt::COMPLETION_SIGNAL,
        session::{Ended, Parts, Session},
        skill::Skill,
        subagent::Helper,
        tell::{Tell, cut},
        tool::{Around, Call, Piece, Setup, Tools},
    },
    changes::{Changes, Opening},
    commit::{self, Committed},
    git, launch,
    outbox::Outbox,
    report::{self, Done, Figures},
    say::say,
    transcript::{self, Sent, Transcript},
    work::{Phase, Stop, Wish, Work, more_than},
    workspace::{Pushed, Workspace},
};

/// A stream of the model that is silent for so long has died.
const STALL: Duration = Duration::from_secs(60);
const ANSWER_LIMIT: Duration = Duration::from_secs(20 * 60);
/// How long the end of the log may take to reach the server.
const FLUSH: Duration = Duration::from_secs(10);
const FLUSH_LEAVING: Duration = Duration::from_secs(2);
/// How long a server may be away when the branch is to be pushed.
const AWAY_LIMIT: Duration = Duration::from_secs(30 * 60);
const PUSH_TRIES: u32 = 2;
const PUSH_PAUSE: Duration = Duration::from_secs(2);
const OUTPUT_CHARS_MAX: usize = 100_000;
/// How long the project's own preparations may take.
const SETUP_LIMIT: Duration = Duration::from_secs(15 * 60);
const SETUP_ID: &str = "setup";
const SHOWN_CHARS_MAX: usize = 200;
pub const INTERRUPTED: &str = "the agent was interrupted; it waits until somebody says how to go on";
/// As a shell says it of a command that failed, and of one that ran out of time.
pub const CODE_FAILED: u8 = 1;
pub const CODE_TIMED_OUT: u8 = 124;

/// What the work needs of the model, when the launch names none.
const MODEL: &str = "claude-sonnet-4-5";

/// Works on the task until it is done, has failed, or has to end.
pub async fn drive(work: &Work<'_>, workspace: Option<&Workspace<'_>>, stop: &mut Wish) -> Done {
    let opened = tokio::select! {
        opened = open(work) => opened,
        stop = more_than(stop, Stop::Interrupt) => return work.ended_early(stop).await,
    };
    let (mut session, size, path) = match opened {
        Ok(opened) => opened,
        Err(failure) => return Done::failed(CODE_FAILED, failure),
    };
    work.outbox.push(report::started(work.launch, &session.id));
    let hurry = Arc::new(Notify::new());
    let (mut sent, sending) = send_log(work, &session.id, size.clone(), &path, hurry.clone());
    let mut drive = Drive { work, workspace, session: &mut session };
    let done = match &work.launch.spec {
        Some(spec) => drive.phase(spec, stop).await,
        None if work.launch.is_continuous() => drive.iterate(stop).await,
        None => drive.run(stop).await,
    };
    session.close().await;
    let is_leaving = stop.borrow().is_some_and(|wish| wish > Stop::Deadline);
    let limit = if is_leaving { FLUSH_LEAVING } else { FLUSH };
    let whole = *size.borrow();
    transcript::flush(&mut sent, &hurry, whole, limit).await;
    sending.abort();
    done
}

/// The agent at work, with all that it works with.
pub struct Drive<'d, 'a> {
    pub work: &'d Work<'a>,
    pub workspace: Option<&'d Workspace<'a>>,
    pub session: &'d mut Session<'a>,
}

impl Drive<'_, '_> {
    async fn run(&mut self, stop: &mut Wish) -> Done {
        loop {
            match self.query(stop).await {
                Ended::Finished => {
                    let saved = match self.save().await {
                        Ok(saved) => saved,
                        Err(failure) => return self.done(CODE_FAILED, Err(failure), None),
                    };
                    if self.session.has_mail() {
                        continue;
                    }
                    match self.linger(stop).await {
                        Waited::Mail => {}
                        Waited::Enough => return self.done(0, Ok(()), saved),
                        Waited::Stop(Stop::Interrupt | Stop::Deadline) => return self.done(0, Ok(()), saved),
                        Waited::Stop(wish) => return self.work.ended_early(wish).await,
                    }
                }
                Ended::Interrupted => {
                    if let Waited::Stop(wish) = self.wait(INTERRUPTED, None, stop).await {
                        return self.stopped(wish).await;
                    }
                }
                Ended::OverBudget(why) => {
                    if let Waited::Stop(wish) = self.wait(&over_budget(&why), None, stop).await {
                        return self.stopped(wish).await;
                    }
                }
                Ended::Failed(failure) => return self.failed(CODE_FAILED, failure).await,
                Ended::Stopped(wish) => return self.stopped(wish).await,
            }
        }
    }

    /// Lets the agent work, and tells how that ended.
    pub async fn query(&mut self, stop: &mut Wish) -> Ended {
        self.work.phase.send_replace(Phase::Running);
        let begun = Instant::now();
        let ended = self.session.query(stop).await;
        self.tell_turn(&ended, begun);
        ended
    }

    /// Waits for more messages once the agent is done, for as long as the launch says.
    pub async fn linger(&mut self, stop: &mut Wish) -> Waited {
        let idle = Duration::from_secs(self.work.launch.limits.idle_seconds);
        if idle.is_zero() {
            return Waited::Enough;
        }
        let said = format!("the agent is done; it waits {} s for more messages", idle.as_secs());
        self.wait(&said, Some(idle), stop).await
    }

    pub async fn stopped(&mut self, wish: Stop) -> Done {
        match wish {
            Stop::Interrupt | Stop::Deadline => self.failed(CODE_TIMED_OUT, self.work.out_of_time()).await,
            Stop::Leave | Stop::Closed => self.work.ended_early(wish).await,
        }
    }

    /// What was made so far is worth as much as if all had gone well.
    pub async fn failed(&mut self, code: u8, failure: Failure) -> Done {
        let saved = self.save().await.unwrap_or_else(|error| {
            say(&error.to_string());
            None
        });
        self.done(code, Err(failure), saved)
    }

    pub fn done(&self, code: u8, result: Result<(), Failure>, saved: Option<Saved>) -> Done {
        let committed = saved.as_ref().is_some_and(|saved| saved.committed);
        let figures = Figures {
            session_id: self.session.id.clone(),
            turns: self.session.turn,
            cost_usd: self.session.spent.cost_usd,
            tokens: self.session.spent.tokens,
            final_output: cut(&self.session.last_words, OUTPUT_CHARS_MAX),
            committed,
        };
        Done {
            code,
            result,
            pushed: saved.map(|saved| saved.pushed),
            figures: Some(figures),
            ..Done::ended()
        }
    }

    /// Commits what is there and brings the branch outside.
    pub async fn save(&mut self) -> Result<Option<Saved>, Failure> {
        let Some(workspace) = self.workspace else { return Ok(None) };
        self.work.phase.send_replace(Phase::Ending);
        let begun = Instant::now();
        let unsaved = |what: &str, error: &dyn std::fmt::Display| {
            Failure::new(FailureKind::Unavailable, format!("{what}: {error}"))
        };
        let message = self.message();
        let committed = workspace.commit(&message).await;
        let committed = committed.map_err(|error| unsaved("the work cannot be committed", &error))?;
        let said = match &committed {
            Committed::Nothing => "there is nothing to commit".to_owned(),
            Committed::New { commit, files } => {
                format!("committed {files} file(s) as {}", &commit[..commit.len().min(12)])
            }
        };
        self.progress("commit", &said, begun);
        let pushed = self.push(workspace).await;
        let pushed = pushed.map_err(|error| unsaved("the branch cannot be pushed", &error))?;
        if !pushed.is_new {
            self.progress("push", "there is nothing to push", begun);
        }
        let committed = pushed.is_new || matches!(committed, Committed::New { .. });
        Ok(Some(Saved { pushed, committed }))
    }

    /// A server that is away for a while is waited for; one that is there has its reasons.
    async fn push(&self, workspace: &Workspace<'_>) -> Result<Pushed, git::Error> {
        let (begun, mut refused) = (Instant::now(), 0);
        loop {
            let error = match workspace.push(self.work.outbox).await {
                Ok(pushed) => return Ok(pushed),
                Err(error) => error,
            };
            match self.work.client.whoami().await {
                Err(away) if away.is_passing() && begun.elapsed() < AWAY_LIMIT => {}
                _ if refused < PUSH_TRIES => refused += 1,
                _ => return Err(error),
            }
            self.progress("push", &format!("tried again in a moment: {error}"), begun);
            tokio::time::sleep(PUSH_PAUSE).await;
        }
    }

    fn message(&self) -> String {
        let launch = self.work.launch;
        let title =
            launch.context.as_ref().map_or("Work in a sandbox", |context| context.task.title.as_str());
        // The signal is said to us, and to nobody who reads the history.
        let words = self.session.last_words.replace(COMPLETION_SIGNAL, "");
        let words = Some(words.trim()).filter(|words| !words.is_empty());
        let model = launch.agent.model.as_deref();
        let message = commit::message(title, words, launch.task_id.as_ref(), &launch.sandbox_id, model);
        self.work.outbox.secrets().owned(message)
    }

    pub async fn wait(&self, said: &str, limit: Option<Duration>, stop: &mut Wish) -> Waited {
        self.work.outbox.push(AgentWaiting { message: Some(said.to_owned()), ..AgentWaiting::default() });
        self.work.phase.send_replace(Phase::Waiting);
        let enough = async {
            match limit {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.work.steering.arrival() => Waited::Mail,
            stop = more_than(stop, Stop::Interrupt) => Waited::Stop(stop),
            () = enough => Waited::Enough,
        }
    }

    fn tell_turn(&self, ended: &Ended, begun: Instant) {
        let is_error = !matches!(ended, Ended::Finished | Ended::Interrupted);
        self.work.outbox.push(AgentTurnComplete {
            num_turns: Some(u64::from(self.session.spent.turns)),
            total_cost_usd: Decimal::new(self.session.spent.cost_usd),
            session_id: Some(self.session.id.clone()),
            is_error: Some(is_error),
            duration_ms: Decimal::new(begun.elapsed().as_millis() as f64),
            ..AgentTurnComplete::default()
        });
        if matches!(ended, Ended::Finished) {
            self.work.outbox.push(AgentResult {
                result: Some(cut(&self.session.last_words, OUTPUT_CHARS_MAX)),
                num_turns: Some(self.session.turn),
                total_cost_usd: Decimal::new(self.session.spent.cost_usd),
                session_id: Some(self.session.id.clone()),
                is_error: Some(false),
                ..AgentResult::default()
            });
        }
    }

    fn progress(&self, step: &str, message: &str, begun: Instant) {
        progress(self.work, step, message, begun);
    }
}

#[derive(Debug, Clone)]
pub struct Saved {
    pub pushed: Pushed,
    pub committed: bool,
}

pub enum Waited {
    Mail,
    Enough,
    Stop(Stop),
}

pub fn over_budget(why: &str) -> String {
    format!("{why}; raise the budget and send a message, and the agent goes on")
}

fn progress(work: &Work<'_>, step: &str, message: &str, begun: Instant) {
    tell(work.outbox, step, message, begun);
}

fn tell(outbox: &Outbox, step: &str, message: &str, begun: Instant) {
    outbox.push(WorkspaceProgress {
        step: Some(step.to_owned()),
        message: Some(message.to_owned()),
        elapsed_ms: Some(begun.elapsed().as_millis() as u64),
        ..WorkspaceProgress::default()
    });
}

/// Everything that the agent needs. Each part that may be slow says so.
async fn open<'a>(
    work: &Work<'a>,
) -> Result<(Session<'a>, watch::Receiver<u64>, std::path::PathBuf), Failure> {
    let (launch, begun) = (work.launch, Instant::now());
    let workspace = Path::new(&launch.workspace_path);
    let (log, replay) = open_log(launch, &work.dir).map_err(|error| {
        Failure::new(FailureKind::Invalid, format!("the agent's log cannot be opened: {error}"))
    })?;
    let model = Model::new(settings(launch)?)
        .map_err(|error| Failure::new(error.failure_kind(), error.to_string()))?;
    let agent = &launch.agent;
    let mut servers = Mcp::default();
    if !agent.mcp_servers.is_empty() {
        let names: Vec<&str> = agent.mcp_servers.keys().map(String::as_str).collect();
        progress(work, "tools", &format!("starting {}", names.join(", ")), begun);
        let mut tell = |said: String| progress(work, "tools", &said, begun);
        servers = Mcp::start(&agent.mcp_servers, &work.env, workspace, &mut tell).await;
    }
    let setup = Setup {
        workspace: workspace.to_owned(),
        outputs: work.dir.join("outputs"),
        env: work.env.clone(),
        secrets: work.outbox.secrets().clone(),
        mode: launch.mode,
        permission: agent.permission_mode,
        allowed: agent.allowed_tools.clone(),
        disallowed: agent.disallowed_tools.clone(),
    };
    let note = match &launch.setup {
        Some(command) => prepare(work, command, setup.clone()).await,
        None => None,
    };
    let changes = launch.repository.is_some().then(|| open_changes(work, workspace));
    let tools = Tools::new(setup);
    let kit = Kit {
        tools,
        helpers: Helper::all(workspace),
        skills: Skill::all(workspace),
        servers,
        peers: Some(Peers { client: work.client.clone(), own: launch.sandbox_id.clone() }),
        allowed: agent.allowed_tools.clone(),
        disallowed: agent.disallowed_tools.clone(),
    };
    let (size, path) = (log.size(), log.path().to_owned());
    let parts = Parts {
        launch,
        client: work.client,
        tell: Tell::new(work.outbox.clone()),
        steering: work.steering,
        model,
        kit,
        log,
        changes,
        group: work.group,
    };
    let session = Session::begin(parts, replay, note).map_err(|error| {
        Failure::new(FailureKind::Agent, format!("the agent's log cannot be written: {error}"))
    })?;
    Ok((session, size, path))
}

/// Runs what the project needs before anybody can work on it. What went wrong is for the agent to know.
async fn prepare(work: &Work<'_>, command: &str, setup: Setup) -> Option<String> {
    let begun = Instant::now();
    progress(
        work,
        "install",
        &format!("running the project's setup: {}", cut(command, SHOWN_CHARS_MAX)),
        begun,
    );
    let tools = Tools::new(Setup {
        mode: ExecutionMode::Implementation,
        permission: PermissionMode::AcceptEdits,
        allowed: None,
        disallowed: Vec::new(),
        ..setup
    });
    let tell = Tell::new(work.outbox.clone());
    let listen = |piece: Piece<'_>| tell.piece(SETUP_ID, &piece);
    let (_end, stop) = watch::channel(false);
    let input = json!({ "command": command, "timeout": SETUP_LIMIT.as_millis() as u64 });
    let call = Call { id: SETUP_ID, name: "Bash", input: &input };
    let done = tools.run(&call, &Around { stop, group: work.group, listen: &listen }).await;
    let said = if done.is_error { "the project's setup failed" } else { "the project's setup is done" };
    progress(work, "install", said, begun);
    done.is_error.then(|| {
        format!(
            "The project's setup command failed, so something that it installs may be missing:\n{}",
            done.content
        )
    })
}

fn open_log(launch: &LaunchSpec, dir: &Path) -> io::Result<(Log, Replay)> {
    std::fs::create_dir_all(dir)?;
    if let Some(transcript) = launch.resume.as_ref().and_then(|resume| resume.transcript_b64.as_deref()) {
        let bytes = STANDARD.decode(transcript).map_err(|error| {
            io::Error::other(format!("the transcript to go on from is no base64: {error}"))
        })?;
        Log::restore(dir, &bytes)?;
    }
    Log::open(dir, launch::secrets(launch))
}

/// Begun now, and waited for by whoever runs the first tool. Without it the agent works all the same, and nobody sees
/// what it changes until the end.
fn open_changes(work: &Work<'_>, workspace: &Path) -> Opening {
    let (workspace, dir, env) = (workspace.to_owned(), work.dir.join("changes"), work.env.clone());
    let outbox = work.outbox.clone();
    Opening::begin(async move {
        let begun = Instant::now();
        match Changes::open(&workspace, &dir, &env).await {
            Ok(changes) => Some(changes),
            Err(error) => {
                tell(&outbox, "changes", &format!("changes of files will not be shown: {error}"), begun);
                None
            }
        }
    })
}

fn settings(launch: &LaunchSpec) -> Result<Settings, Failure> {
    let model = launch.agent.model.clone().unwrap_or_else(|| MODEL.to_owned());
    let wire = launch.agent.wire.unwrap_or_else(|| Wire::of_model(&model));
    let door = launch
        .door
        .model_url
        .as_ref()
        .ok_or_else(|| Failure::new(FailureKind::Invalid, "the launch names no address for models"))?;
    let base_url = match wire {
        Wire::Messages => format!("{door}/anthropic"),
        Wire::Chat => format!("{door}/openai/v1"),
    };
    Ok(Settings {
        wire,
        base_url,
        token: launch.token.expose().to_owned(),
        model,
        stall: STALL,
        total: ANSWER_LIMIT,
        retry: RetryPolicy::default(),
    })
}

fn send_log(
    work: &Work<'_>,
    session_id: &str,
    size: watch::Receiver<u64>,
    path: &Path,
    hurry: Arc<Notify>,
) -> (watch::Receiver<Sent>, JoinHandle<()>) {
    let (sent, seen) = watch::channel(Sent::default());
    let transcript = Transcript {
        client: work.client.clone(),
        sandbox: work.launch.sandbox_id.clone(),
        session_id: session_id.to_owned(),
        path: path.to_owned(),
        hurry,
    };
    (seen, tokio::spawn(transcript.send(size, sent)))
}
