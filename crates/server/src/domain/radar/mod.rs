//! The conflict radar: whether two tasks get in each other's way, before either is done. What is known of a task is the
//! branch that it has pushed and the lines that it was seen to change; this decides what the two together mean.

mod diff;
mod judge;
mod say;
mod touched;

pub use diff::hunks;
pub use judge::{Seen, Trial, Verdict, judge};
pub use say::{News, told};
pub use touched::{Hunk, Touched};

/// So many files of a conflict are named, and so many places in one.
pub const FILES_MAX: usize = 20;
pub const PLACES_MAX: usize = 20;
