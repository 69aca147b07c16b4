//! The tools of one session: what it has, and the running of one call. Whatever happens in a call is an answer for the
//! model; nothing here fails otherwise.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use omoi_protocol::{
    event::CommandStream,
    launch::{ExecutionMode, PermissionMode},
};
use omoi_redact::Secrets;
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    task::{JoinError, spawn_blocking},
    time::timeout,
};

use super::{
    background::Background,
    bash,
    clean::shorten,
    edit, glob, grep,
    input::{self, Input},
    kind::{Effect, Kind},
    manual,
    reach::Reach,
    read,
    seen::Seen,
    shell::stopped,
    walk::{Cut, Halt, TIME_MAX},
    write,
};
use crate::agent::talk::ToolSpec;

/// How long a tool that was told to stop may take to do so.
const STOP_PATIENCE: Duration = Duration::from_millis(1000);
/// What an error may say.
const ERROR_BYTES_MAX: usize = 8 * 1024;
const NAME_BYTES_MAX: usize = 100;
const TEMPORARY: &str = "/tmp";
/// Whose commands are everybody's to end.
const ROOT: u64 = 0;

#[derive(Debug, Clone)]
pub struct Setup {
    pub workspace: PathBuf,
    /// Where long outputs go, outside of the workspace.
    pub outputs: PathBuf,
    /// What commands find, and nothing else.
    pub env: BTreeMap<String, String>,
    /// Masked in what commands write.
    pub secrets: Secrets,
    pub mode: ExecutionMode,
    pub permission: PermissionMode,
    /// None allows all.
    pub allowed: Option<Vec<String>>,
    pub disallowed: Vec<String>,
}

pub struct Tools {
    shared: Arc<Shared>,
    kinds: Vec<Kind>,
    seen: Arc<Seen>,
    owner: u64,
}

/// What a session shares with those that it starts.
struct Shared {
    outputs: PathBuf,
    env: BTreeMap<String, String>,
    secrets: Secrets,
    reach: Reach,
    background: Background,
    /// Held while a file is looked at and replaced: sessions may run side by side.
    writing: Mutex<()>,
    owners: AtomicU64,
}

/// What the model asks for.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    pub id: &'a str,
    pub name: &'a str,
    pub input: &'a Value,
}

pub struct Around<'a> {
    /// True ends the tool, and everything it has started.
    pub stop: watch::Receiver<bool>,
    /// Hears which process group runs.
    pub group: &'a watch::Sender<Option<i32>>,
    /// Hears what commands write while they run.
    pub listen: &'a (dyn Fn(Piece<'_>) + Send + Sync),
}

/// What happens while a command runs, as `command.started`, `command.output` and `command.completed` tell it.
/// Commands in the background have none.
#[derive(Debug, Clone)]
pub enum Piece<'a> {
    Started {
        argv: &'a [String],
        cwd: &'a Path,
    },
    Output {
        stream: CommandStream,
        text: &'a str,
        /// Some of it was no text.
        lossy: bool,
        /// So much more was not told.
        dropped_bytes: Option<u64>,
    },
    Ended {
        exit_code: Option<i32>,
        signal: Option<i32>,
        duration: Duration,
        output_bytes: u64,
        dropped_bytes: u64,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub struct Done {
    /// What the model is shown.
    pub content: String,
    pub is_error: bool,
    /// The same for programs.
    pub response: Value,
    pub exit_code: Option<i32>,
    pub interrupted: bool,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("there is no tool {name:?} here; there are {}", names(.kinds))]
    Unknown { name: String, kinds: Vec<Kind> },
    #[error("stopped before it began")]
    NotBegun,
    #[error("stopped; how far it came is not known")]
    Abandoned,
    #[error("the tool failed inside: {0}")]
    Broken(#[from] JoinError),
    #[error(transparent)]
    Input(#[from] input::Error),
    #[error(transparent)]
    Read(#[from] read::Error),
    #[error(transparent)]
    Write(#[from] write::Error),
    #[error(transparent)]
    Edit(#[from] edit::Error),
    #[error(transparent)]
    Glob(#[from] glob::Error),
    #[error(transparent)]
    Grep(#[from] grep::Error),
    #[error(transparent)]
    Bash(#[from] bash::Error),
}

impl Tools {
    pub fn new(setup: Setup) -> Self {
        let Setup { workspace, outputs, env, secrets, mode, permission, allowed, disallowed } = setup;
        let temporary = env.get("TMPDIR").map_or(TEMPORARY, String::as_str);
        let reach = Reach::new(&workspace, Path::new(temporary), &outputs, mode, permission);
        let shared = Shared {
            outputs,
            env,
            secrets,
            reach,
            background: Background::default(),
            writing: Mutex::new(()),
            owners: AtomicU64::new(ROOT + 1),
        };
        let kinds = Kind::offered(mode, permission, allowed.as_deref(), &disallowed);
        Self { shared: Arc::new(shared), kinds, seen: Arc::default(), owner: ROOT }
    }

    pub fn specs(&self) -> Vec<ToolSpec> {
        self.kinds.iter().map(|kind| manual::spec(*kind)).collect()
    }

    /// A tool that there is not touches nothing.
    pub fn effect(&self, name: &str) -> Effect {
        self.kind(name).map_or(Effect::Reads, Kind::effect)
    }

    /// A part of them for somebody else, who knows no file yet.
    pub fn only(&self, names: &[&str]) -> Self {
        let kinds = self.kinds.iter().copied().filter(|kind| names.contains(&kind.name())).collect();
        let owner = self.shared.owners.fetch_add(1, Ordering::Relaxed);
        Self { shared: self.shared.clone(), kinds, seen: Arc::default(), owner }
    }

    pub async fn run(&self, call: &Call<'_>, around: &Around<'_>) -> Done {
        match self.try_run(call, around).await {
            Ok(done) => done,
            Err(error) => {
                let interrupted = matches!(error, Error::NotBegun | Error::Abandoned);
                Done { interrupted, ..Done::failed(&error.to_string()) }
            }
        }
    }

    /// Ends what this session has put in the background; the first session ends that of all.
    pub async fn end_background(&self) {
        self.shared.background.end(Some(self.owner).filter(|owner| *owner != ROOT)).await;
    }

    async fn try_run(&self, call: &Call<'_>, around: &Around<'_>) -> Result<Done, Error> {
        let kind = self.kind(call.name).ok_or_else(|| Error::Unknown {
            name: shorten(call.name, NAME_BYTES_MAX),
            kinds: self.kinds.clone(),
        })?;
        let input = Input::new(kind.name(), call.input)?;
        if *around.stop.borrow() {
            return Err(Error::NotBegun);
        }
        if kind != Kind::Bash {
            return self.run_blocking(kind, call.input, around).await;
        }
        let place = bash::Place {
            workspace: &self.shared.reach.workspace,
            outputs: &self.shared.outputs,
            env: &self.shared.env,
            background: &self.shared.background,
            secrets: &self.shared.secrets,
            owner: self.owner,
        };
        Ok(Box::pin(place.run(call.id, &input, around)).await?)
    }

    async fn run_blocking(&self, kind: Kind, input: &Value, around: &Around<'_>) -> Result<Done, Error> {
        let (shared, seen) = (self.shared.clone(), self.seen.clone());
        let (input, halt) = (input.clone(), Halt::new(around.stop.clone(), TIME_MAX));
        let mut work = spawn_blocking(move || shared.run(kind, &input, &seen, &halt));
        let mut stop = around.stop.clone();
        tokio::select! {
            done = &mut work => done?,
            () = stopped(&mut stop) => match timeout(STOP_PATIENCE, work).await {
                Ok(done) => done?,
                Err(_) => Err(Error::Abandoned),
            },
        }
    }

    fn kind(&self, name: &str) -> Option<Kind> {
        self.kinds.iter().copied().find(|kind| kind.name() == name)
    }
}

impl Shared {
    fn run(&self, kind: Kind, input: &Value, seen: &Seen, halt: &Halt) -> Result<Done, Error> {
        let (reach, input) = (&self.reach, Input::new(kind.name(), input)?);
        let writing = || self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(match kind {
            Kind::Read => read::run(reach, seen, &input, halt)?,
            Kind::Glob => glob::run(reach, &input, halt)?,
            Kind::Grep => grep::run(reach, &input, halt)?,
            Kind::Write => {
                let _alone = writing();
                write::run(reach, seen, &input)?
            }
            Kind::Edit => {
                let _alone = writing();
                edit::run(reach, seen, &input)?
            }
            // Waits for others, so it does not run here.
            Kind::Bash => return Err(Error::NotBegun),
        })
    }
}

impl Done {
    pub fn good(content: String, response: Value) -> Self {
        Self { content, is_error: false, response, exit_code: None, interrupted: false }
    }

    pub fn failed(text: &str) -> Self {
        let content = shorten(text, ERROR_BYTES_MAX);
        let response = json!({ "error": content });
        Self { content, is_error: true, response, exit_code: None, interrupted: false }
    }

    /// What was stopped is no answer, what was cut is a part of one.
    pub fn cut_by(self, cut: Option<Cut>) -> Self {
        let stopped = cut == Some(Cut::Stopped);
        Self { is_error: self.is_error || stopped, interrupted: stopped, ..self }
    }
}

fn names(kinds: &[Kind]) -> String {
    kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ")
}
