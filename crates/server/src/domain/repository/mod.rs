//! A project's repository: the forms of its address, and which addresses a person may set.

mod reach;
mod remote;

pub use reach::{Opened, Refusal, Route, judge, judge_address, judge_path};
pub use remote::{NotAnAddress, Remote, Source, Transport};
