//! A load program: drives the real HTTP API of `omoi serve` processes that it starts itself, on both stores, and
//! prints each figure beside the raw limit of the same machine, measured in the same run.
//!
//! The timing decides nothing: the exit code is 0 unless something failed or came out wrong, such as an
//! acknowledged event that is not stored.

mod bare;
mod bench;
mod copies;
mod inside;
mod latency;
mod launch;
mod load;
mod machine;
mod measure;
mod omoi;
mod place;
mod postgres;
mod proc;
mod proxy;
mod raw;
mod report;
mod repository;
mod sample;
mod sandboxes;
mod viewer;
mod wire;

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context;
use clap::{Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

#[derive(Parser)]
#[command(about, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
struct Program {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: Option<bench::Args>,
}

#[derive(Subcommand)]
enum Command {
    /// The raw limit of single posts: appends each body to a file and answers once it is on disk.
    #[command(hide = true)]
    BareServer {
        #[arg(long)]
        file: PathBuf,
    },
}

fn main() -> ExitCode {
    run(Program::parse()).unwrap_or_else(|error| {
        // The chain of causes; a backtrace tells a user nothing.
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(args: Program) -> anyhow::Result<ExitCode> {
    if let Some(Command::BareServer { file }) = args.command {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(bare::serve(&file))?;
        return Ok(ExitCode::SUCCESS);
    }
    let run = args.run.context("nothing to measure: --omoi is missing")?;
    // One thread, so that the generator leaves as much of the machine as it can to what it measures.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        // Before the first line is printed.
        let mut interrupted = signal(SignalKind::interrupt())?;
        let mut terminated = signal(SignalKind::terminate())?;
        // What runs when this is dropped are the children's ends.
        tokio::select! {
            done = measure::all(run) => done,
            _ = interrupted.recv() => Ok(ExitCode::from(130)),
            _ = terminated.recv() => Ok(ExitCode::from(143)),
        }
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Program::command().debug_assert();
        assert!(Program::try_parse_from(["omoi-bench", "bare-server", "--file", "x"]).unwrap().run.is_none());
        assert!(Program::try_parse_from(["omoi-bench", "--omoi", "x"]).is_err());
        let run = Program::try_parse_from(["omoi-bench", "--omoi", "x", "--out", "y", "--only", "a,b"])
            .unwrap()
            .run;
        assert_eq!(run.unwrap().only, ["a", "b"]);
    }
}
