//! Specs: what makes a phase's output good enough, what it looks like to people, and what becomes of it. An agent wrote the
//! outputs, so nothing they say about themselves is believed: whatever can be worked out is worked out again.

mod evaluate;
mod flow;

mod design;
mod explore;
mod prd;
mod requirement;
mod sync;
mod task;

pub mod exchange;

mod ears;
mod fact;
mod name;
mod work;

mod coverage;
mod plan;
mod render;
mod similar;
#[cfg(test)]
mod tests;

pub use coverage::{Coverage, CoverageRow, CoveringTask, Proof, ProofCheck, coverage, proven_percent};
pub use evaluate::{Evaluation, Finding, Known, Severity, THRESHOLD, evaluate, evaluate_at};
pub use flow::{Flow, UnknownFlow};
pub use plan::{Plan, PlanError, PlannedTask, PlannedTicket, plan};
pub use render::render;
pub use similar::{Likeness, SIMILAR};
