//! The configuration: one struct, read once in `main` from flags, environment, a YAML file and defaults.
//!
//! `key` is the table that names every key; the struct, `omoi config show` and the default file are made from it.

mod error;
mod file;
mod form;
mod key;
mod load;
mod rule;
mod value;

pub use error::Error;
pub use key::{
    Agent, Config, Database, Egress, KEYS, Key, Lease, Limits, Live, Log, Message, Retry, Server, Store,
    TaskQueue, Telemetry,
};
pub use load::{Entry, Flag, Origin, Resolved, load};
pub use value::{DatabaseUrl, HostPort, LogFormat, ServerRole, SqliteSynchronous};

#[cfg(test)]
mod tests;
