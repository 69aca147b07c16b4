//! What runs inside the sandbox: the init that builds it, starts its commands and keeps it.

pub mod connection;
pub mod doors;
pub mod init;
pub mod log;
pub mod mounts;
pub mod restrict;
pub mod root;
pub mod seccomp;
pub mod setup;
pub mod spawn;
pub mod system;
