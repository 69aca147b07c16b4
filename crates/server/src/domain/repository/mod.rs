//! A project's repository: the forms of its address, which addresses a person may set, and what is told
//! of a mirror that was rebuilt.

mod reach;
mod rebuilt;
mod remote;

pub use reach::{Opened, Refusal, Route, judge, judge_address, judge_path};
pub use rebuilt::{LostRef, Rebuilt};
pub use remote::{NotAnAddress, Remote, Source, Transport};
