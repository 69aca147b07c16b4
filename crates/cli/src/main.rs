//! The `omoi` program: serves, looks after its own database, and speaks to a server over HTTP.

mod args;
mod failure;
mod out;
mod signals;
mod table;
mod text;

mod connect;
mod database;
mod page;
mod settings;

mod audit;
mod config;
mod db;
mod doctor;
mod image;
mod serve;
mod token;

mod agent;
mod conductor;
mod demo;
mod guardian;
mod import;
mod monitor;
mod project;
mod run;
mod sandbox;
mod spec;
mod supervise;
mod task;
mod ticket;
mod verify_flow;
mod verify_monitoring;
mod whoami;

use std::{process::ExitCode, time::Duration};

use clap::Parser;
use omoi_server::config::KEYS;

use crate::{
    args::Cli,
    failure::{Code, FAILED, Failure, USAGE},
    out::Out,
    signals::Signals,
};

/// A request allocates much and briefly; the system's allocator took a seventh of the server's time for it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long a thread for work that blocks waits for more of it. Each holds memory of its own.
const THREAD_KEPT: Duration = Duration::from_secs(2);

/// What every command is given: where to speak, what asks it to stop, and the environment, which is read through here alone.
pub struct Context {
    pub out: Out,
    pub signals: Signals,
    pub env: fn(&str) -> Option<String>,
}

fn main() -> ExitCode {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().thread_keep_alive(THREAD_KEPT).build();
    runtime.expect("the system has threads for a runtime").block_on(run())
}

async fn run() -> ExitCode {
    let no_color = environment("NO_COLOR").is_some_and(|value| !value.is_empty());
    if let Some(name) = unreadable() {
        let cause = format!("the environment variable {name} is not text in UTF-8");
        Out::new(false, no_color).failure(&Failure { code: USAGE, cause, hint: None });
        return ExitCode::from(USAGE);
    }
    let cli = Cli::parse();
    let context =
        Context { out: Out::new(cli.json, no_color), signals: Signals::default(), env: environment };
    if cli.command.answers_signals()
        && let Err(error) = context.signals.install()
    {
        let cause = format!("signals cannot be handled: {error}");
        context.out.failure(&Failure { code: FAILED, cause, hint: None });
        return ExitCode::from(FAILED);
    }
    match Box::pin(cli.command.run(&context)).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => match (error.downcast_ref(), Failure::of(&error)) {
            (Some(Code(code)), _) => ExitCode::from(*code),
            (None, Some(failure)) => {
                context.out.failure(&failure);
                ExitCode::from(failure.code)
            }
            (None, None) => ExitCode::SUCCESS,
        },
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// A variable of ours whose value cannot be read; it would count as not set.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
fn unreadable() -> Option<String> {
    let is_key = |name: &str| KEYS.iter().any(|key| key.env.contains(&name));
    let broken = std::env::vars_os().filter(|(_, value)| value.to_str().is_none());
    broken
        .filter_map(|(name, _)| name.into_string().ok())
        .find(|name| name.starts_with("OMOI_") || is_key(name))
}
