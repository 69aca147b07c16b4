//! Typed HTTP for the worker and the command line: one method per endpoint, limits on every wait, repeats where
//! they are harmless, and a live stream that resumes where it broke off.

mod call;
mod client;
mod error;
mod retry;

mod agent;
mod artifact;
mod conductor;
mod cost;
mod event;
mod git;
mod guardian;
mod message;
mod project;
mod result;
mod sandbox;
mod spec;
mod task;
mod ticket;
mod token;

mod live;
mod sse;

pub use client::{Client, Whoami, install_crypto};
pub use cost::CostQuery;
pub use error::Error;
pub use event::{EventQuery, TrajectoryQuery};
pub use guardian::{FindingQuery, InterventionQuery};
pub use live::LiveFilter;
pub use retry::Retry;
pub use sandbox::SandboxQuery;
pub use spec::SpecQuery;
pub use task::TaskQuery;
pub use ticket::TicketQuery;
