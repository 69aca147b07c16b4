//! Specs: what makes a phase's output good enough, what it looks like to people, and what becomes of it. An agent wrote the
//! outputs, so nothing they say about themselves is believed: whatever can be worked out is worked out again.

mod ears;
mod evaluate;
mod fact;
mod name;

mod design;
mod explore;
mod prd;
mod requirement;
mod sync;
mod task;

pub use evaluate::{Evaluation, Finding, Known, Severity, THRESHOLD, evaluate, evaluate_at};
