//! The words that the server, the worker, the command line and the pages share. Data only: no I/O, no rules.

pub mod action;
pub mod agent;
pub mod artifact;
pub mod batch;
pub mod collaboration;
pub mod conductor;
pub mod cost;
pub mod diagnosis;
pub mod egress;
pub mod event;
pub mod git;
pub mod graph;
pub mod guardian;
pub mod id;
pub mod launch;
pub mod live;
pub mod message;
pub mod model;
pub mod monitor;
pub mod outcome;
pub mod page;
pub mod problem;
pub mod project;
pub mod result;
pub mod sandbox;
pub mod session;
pub mod spec;
pub mod task;
pub mod ticket;
pub mod token;
pub mod word;

pub use id::*;
pub use word::*;
