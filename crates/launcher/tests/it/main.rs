//! Real sandboxes on the machine that runs the tests. They need root; without it each test says so and passes.
#![allow(clippy::unwrap_used)]

mod escape;
mod image;
mod life;
mod limits;
mod network;
mod sandbox;
mod sight;
mod user;
