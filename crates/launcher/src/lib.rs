//! What the server links of the launcher: the plan it hands over, the answers it gets, and the clients for the program and for
//! the sandboxes it made. Everything here blocks, briefly; callers on a runtime put it on a thread for that.

mod answer;
mod control;
pub mod directory;
mod plan;
mod program;
pub mod wire;

pub use answer::{Answer, Cgroups, DiskKind, Exit, How, Layer, Refusal, Report, State, Status, Usage};
pub use control::{Control, Running};
pub use directory::Directory;
pub use plan::{
    Allow, Bind, Door, Exec, File, Ids, Image, Limits, PLAN_BYTES_MAX, Plan, RUN_BYTES, Workspace,
};
pub use program::Launcher;
pub use wire::Error;
