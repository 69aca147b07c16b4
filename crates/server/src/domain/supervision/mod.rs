//! Supervision of one sandbox, as rules: what its events come to (`trajectory`), what is wrong with that (`detect`), what
//! to do about it (`policy`, `decide`), what came of that (`effect`), when and how a model is asked for its opinion (`judge`),
//! and how good that is on recorded runs and on runs with a known fault (`replay`, `score`, `measure`).
//!
//! All of it is a function of events, a policy and the time that is passed in; what the model said is an event too. What runs live and what is replayed on
//! recordings is the same code, event by event, so a verdict does not depend on how events came in batches.

pub mod shell;
pub mod sign;
mod synthetic;
mod text;
pub mod trajectory;

pub mod detect;
pub mod finding;
pub mod guard;

pub mod decide;
pub mod effect;
pub mod health;
pub mod judge;
pub mod policy;
pub mod summary;

pub mod import;
pub mod measure;
pub mod replay;
pub mod score;

#[cfg(test)]
mod tests;
