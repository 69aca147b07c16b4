//! What the Conductor reads and keeps: who is under way with what, the conflicts among them, and what it made of it all.

mod analysis;
mod conflict;
mod duplicate;
mod member;

pub use analysis::OpenConflicts;
pub use conflict::{ConflictFilter, Found, Pair};
pub use duplicate::{Alike, Kept};
pub use member::Member;
