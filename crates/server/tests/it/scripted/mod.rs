//! The model that plays scenarios, over HTTP as a sandbox calls it.

mod client;

mod branch;
mod fault;
mod file;
mod play;
