//! The process inside a sandbox. It says that it is there, prepares the workspace, runs what it is told to run,
//! reports what happens, takes messages, keeps the work and leaves. `rescue` keeps the work of one that died.

mod args;
mod attach;
mod launch;

mod inbox;
mod outbox;
mod report;
mod run;
mod signals;
mod work;

mod agent;
mod changes;
mod commit;
mod continuous;
mod drive;
mod spec;
mod transcript;

mod check;
mod command;
mod group;
mod output;
mod record;

mod end;
mod proc;
mod say;

mod git;
mod keep;
mod rescue;
mod workspace;

use std::process::ExitCode;

use clap::Parser;

use crate::{args::Args, say::say};

/// What the worker's own process was started with. Code below takes it from here.
pub struct Surroundings {
    pub env: fn(&str) -> Option<String>,
    pub all: fn() -> Vec<(String, String)>,
}

/// Two threads: one may be busy with a disk while the other keeps the heartbeats going.
#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    let around = Surroundings { env: variable, all: variables };
    match Box::pin(Args::parse().run(&around)).await {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            say(&error.to_string());
            ExitCode::from(args::FAILED)
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "main reads the environment for all")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

#[expect(clippy::disallowed_methods, reason = "main reads the environment for all")]
fn variables() -> Vec<(String, String)> {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(text).collect()
}
