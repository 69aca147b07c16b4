//! The configuration: one struct, read once in `main` from flags, environment, a YAML file and defaults.
//!
//! `key` is the table that names every key; the struct, `omoi config show` and the default file are made from it.

mod earlier;
mod error;
mod file;
mod form;
mod key;
mod load;
mod rule;
mod secrets;
mod value;

pub use earlier::Ineffective;
pub use error::Error;
pub(crate) use form::parse_duration;
pub use key::*;
pub use load::{Entry, Flag, Origin, Resolved, load};
pub use value::{DatabaseUrl, HostPort, LogFormat, OnConflict, Secret, ServerRole, SqliteSynchronous};

#[cfg(test)]
mod tests;
