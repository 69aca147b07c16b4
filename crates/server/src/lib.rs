//! The control plane: rules, store, HTTP and live stream.

pub mod clock;
pub mod config;
pub mod crash;
pub mod data_dir;
pub mod directories;
pub mod disk;
mod nearest;
pub mod resolve;
pub mod telemetry;
pub mod usual;

pub mod domain;

pub mod store;

pub mod bus;
pub mod gateway;
pub mod git;
pub mod http;
pub mod orchestrator;
pub mod sandbox;

mod server;

pub use http::openapi_json;
pub use server::{Error, Server};
