//! The real program with real sandboxes: what every provider must do, what a hostile sandbox may try, and what a crash
//! at any moment may leave behind. Needs root, as the embedded provider's tests do; some cases give it up on purpose.
#![allow(clippy::unwrap_used)]

mod git;
mod omoi;
mod traces;

mod agent;
mod checks;
mod conductor;
mod conformance;
mod continuous;
mod crash;
mod demo;
mod diamond;
mod dispatch;
mod faults;
mod finish;
mod guardian;
mod hostile;
mod masked;
mod model;
mod preserve;
mod prune;
mod resume;
mod seeds;
mod spec;
mod unkept;
