//! The real program, as a person or a script runs it: what it prints, where, and with which exit code.
#![expect(
    clippy::disallowed_methods,
    reason = "the tests start the program under test, with an environment of their own"
)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod hand;
mod postgres;
mod program;
mod server;

mod demo;
mod guardian;
mod image;
mod local;
mod run;
mod sandbox;
mod served;
mod supervise;
mod task;
mod verify_flow;
