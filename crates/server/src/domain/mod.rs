//! The rules: pure functions of what is stored and of the time the caller passes in. No `async`, no I/O, no
//! clock and no randomness live here, so every rule is tested as a table.

pub mod check;
pub mod lease;
pub mod retry;
pub mod task;

pub mod place;
pub mod prune;
pub mod report;
pub mod reported_cost;
pub mod score;
#[cfg(test)]
mod simulation;
pub mod spec_course;

pub mod author;
pub mod batch;
pub mod branch;
pub mod collaboration;
pub mod commit;
pub mod footprint;
pub mod graph;
pub mod push;
pub mod repository;

pub mod spec;

pub mod agent;
pub mod coherence;
pub mod diagnosis;
pub mod dispatch;
pub mod idle;
pub mod limit;
pub mod model_key;
pub mod monitor;
pub mod radar;
pub mod restart;
pub mod supervision;

pub mod budget;
pub mod charge;
pub mod egress;
pub mod money;
pub mod price;
