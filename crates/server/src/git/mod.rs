//! Projects' repositories on the host: a bare mirror of each, and checkouts of its commits for sandboxes to start
//! from. Nothing here trusts what is in a repository. What a sandbox may do with its mirror is the gateway's affair.

mod command;
mod error;
mod fault;
mod file;

mod build;
mod checkout;
mod far;
mod health;
mod local;
mod merge;
mod mirror;
mod publish;
mod rebuild;
mod salvage;
mod suspect;
mod trial;
mod wanted;

pub use checkout::{Checkouts, References, Swept};
pub use command::{Call, Failure, Git, Running, bounded, tail};
pub use error::Error;
pub use fault::Fault;
pub use file::{Hold, Lock, is_at, replace, unique};
pub use merge::Merge;
pub use mirror::{Mirrors, base_ref, branch_ref, preserved_ref, set_aside_ref};
pub use rebuild::broken;
