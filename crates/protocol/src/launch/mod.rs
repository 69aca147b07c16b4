//! Everything a provider needs to start one sandbox, and the environment that its worker finds there.
//!
//! A launch has one secret, the sandbox's own token, and no place for another: what is added to the
//! environment is a `PlainEnv`, which refuses names that carry secrets. It is made anew for each attempt and
//! handed to the worker as a JSON file that the worker alone can read, and deletes when it has (`LAUNCH_FILE`).

mod context;
mod door;
mod env;
mod net;
mod place;
mod spec;
mod work;

pub use context::{Revision, TaskBrief, TaskContext, TicketBrief};
pub use door::{Door, LAUNCH_FILE, SandboxToken};
pub use env::{ENV_VALUE_BYTES_MAX, EnvError, PlainEnv, base64, fitting};
pub use place::{Repository, Resources, SPOOL_PATH, WORKSPACE_PATH};
pub use spec::LaunchSpec;
pub use work::{
    AgentKind, AgentLaunch, Check, ExecutionMode, Gates, Limits, McpServer, PermissionMode, Resume,
    SpecLaunch, Wire, spec_artifact,
};
