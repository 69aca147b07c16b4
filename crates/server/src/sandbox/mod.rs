//! Where sandboxes live. A provider makes, looks at, stops and removes them, and knows nothing of tasks; what is to be
//! made and when is decided by the orchestrator, which alone holds providers.

pub mod image;
pub mod local;

use std::{net::TcpListener, path::PathBuf, pin::Pin, time::Duration};

use omoi_protocol::{FailureKind, ProviderKind, SandboxId, launch::LaunchSpec, sandbox::Kept};
use serde_json::Value as Json;
use tokio::sync::mpsc;

pub use local::Local;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Isolation that the configuration asks for cannot be had here. A repeat would meet the same.
    #[error("layer {layer}: {detail}; {fix}")]
    Refused { layer: String, detail: String, fix: String },
    #[error("the image {name:?}: {detail}")]
    Image { name: String, detail: String },
    #[error("no sandbox {0} here")]
    Absent(SandboxId),
    /// Something that may pass.
    #[error("{0}")]
    Failed(String),
}

impl Error {
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Refused { .. } | Self::Image { .. } => FailureKind::Invalid,
            Self::Absent(_) | Self::Failed(_) => FailureKind::Spawn,
        }
    }

    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Failed(_))
    }
}

pub type Doing<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// What to make a sandbox from.
#[derive(Debug, Clone)]
pub struct Order {
    pub launch: LaunchSpec,
    /// A checkout of the base commit on this machine that nobody changes.
    pub checkout: Option<PathBuf>,
    /// Which range of user ids it has, of those that no other sandbox of this machine has.
    pub slot: i64,
}

/// A sandbox that is there.
#[derive(Debug)]
pub struct Made {
    /// Each layer of isolation and how it was had, for people.
    pub isolation: Json,
}

/// Listening sockets inside the sandbox, to be served from here.
#[derive(Debug)]
pub struct DoorSockets {
    pub api: TcpListener,
    pub proxy: TcpListener,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inspection {
    Running,
    /// Its worker has ended; what it left is there.
    Exited(Ended),
    /// It is not running and says not why; what it left is there.
    Dead,
    /// Nothing of it is here.
    Absent,
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The exit code, or 128 and the number of the signal.
    pub code: i32,
    pub out_of_memory: bool,
}

impl Ended {
    pub fn kind(&self) -> FailureKind {
        if self.out_of_memory { FailureKind::OutOfMemory } else { FailureKind::Crashed }
    }
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.code {
            signal @ 129.. => write!(f, "ended by signal {}", signal - 128)?,
            code => write!(f, "ended with code {code}")?,
        }
        if self.out_of_memory { write!(f, ", out of memory") } else { Ok(()) }
    }
}

/// What a further command in a sandbox writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
}

/// One way to run sandboxes. Every method may be called again after a crash of the caller, for the same sandbox and at
/// any time.
pub trait Provider: Send + Sync {
    fn kind(&self) -> ProviderKind;

    /// Makes a sandbox and starts its worker; finds it when it is there already.
    fn create<'a>(&'a self, order: &'a Order) -> Doing<'a, Made>;

    /// The sockets that this machine has to serve for a running sandbox; none where the sandbox reaches the server by
    /// itself.
    fn doors<'a>(&'a self, id: &'a SandboxId) -> Doing<'a, Option<DoorSockets>>;

    fn inspect<'a>(&'a self, id: &'a SandboxId) -> Doing<'a, Inspection>;

    /// Looks at each of these, for little more than at one. Answers in their order.
    fn inspect_all<'a>(&'a self, ids: Vec<SandboxId>) -> Doing<'a, Vec<Result<Inspection, Error>>>;

    /// Asks the worker to end, and ends everything after the grace. What it left stays.
    fn stop<'a>(&'a self, id: &'a SandboxId, grace: Duration) -> Doing<'a, ()>;

    /// Starts a worker on what a stopped sandbox left, to bring out what would be lost. `doors` serves it meanwhile.
    fn rescue<'a>(&'a self, order: &'a Order) -> Doing<'a, ()>;

    /// Waits until a rescue has ended, and says what it kept.
    fn rescued<'a>(&'a self, id: &'a SandboxId) -> Doing<'a, Kept>;

    /// Removes everything of a sandbox.
    fn remove<'a>(&'a self, id: &'a SandboxId) -> Doing<'a, ()>;

    /// The end of what the worker wrote.
    fn logs<'a>(&'a self, id: &'a SandboxId, bytes_max: usize) -> Doing<'a, Vec<u8>>;

    /// What is left of a sandbox that has ended takes so much of the disk.
    fn disk_bytes<'a>(&'a self, id: &'a SandboxId) -> Doing<'a, u64>;

    /// Every sandbox of which anything is here.
    fn list<'a>(&'a self) -> Doing<'a, Vec<SandboxId>>;

    /// Runs a further command in a running sandbox, to its end.
    fn exec<'a>(
        &'a self,
        id: &'a SandboxId,
        argv: &'a [String],
        env: &'a std::collections::BTreeMap<String, String>,
        output: mpsc::Sender<Output>,
    ) -> Doing<'a, Ended>;
}
