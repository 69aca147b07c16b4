//! What the program can be told to do.

use std::path::PathBuf;

use clap::{Args as Flags, Parser, Subcommand};
use omoi_protocol::{ProjectId, TaskId, launch::LAUNCH_FILE};

use crate::{Surroundings, attach, launch, rescue, run, signals::Signals};

/// The worker could not do what it is for; what it ran may not even have begun.
pub const FAILED: u8 = 70;

/// The process inside a sandbox: runs the work, reports events, takes messages.
#[derive(Debug, Parser)]
#[command(
    name = "omoi-worker",
    version,
    args_conflicts_with_subcommands = true,
    arg_required_else_help = true
)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    attach: Option<Attach>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Do the work of a launch, and leave with the exit code of what was run
    Run {
        /// Readable by the worker alone; deleted once it is read
        #[arg(long, value_name = "FILE", default_value = LAUNCH_FILE)]
        launch: PathBuf,
    },
    /// Keep the work that a dead sandbox has left on this disk, and say in one line of JSON what was kept
    Rescue {
        /// Readable by the worker alone; deleted once it is read
        #[arg(long, value_name = "FILE", default_value = LAUNCH_FILE)]
        launch: PathBuf,
        /// Where new objects go, since the disk itself may be full
        #[arg(long, value_name = "DIR", default_value = "/tmp")]
        scratch: PathBuf,
    },
}

/// Join a server from here, as a sandbox of the provider `external`.
#[derive(Debug, Clone, Flags)]
pub struct Attach {
    /// The server to join, as http://HOST:PORT
    #[arg(long = "attach", value_name = "URL")]
    pub url: String,
    /// A file that holds an operator's token
    #[arg(long, value_name = "FILE")]
    pub token_file: PathBuf,
    /// The task to take
    #[arg(long, value_name = "ID", conflicts_with = "project")]
    pub task: Option<TaskId>,
    /// Take a pending task of this project
    #[arg(long, value_name = "ID")]
    pub project: Option<ProjectId>,
    /// Where the command runs; the current directory if not given
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
    /// The program to run and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot listen for signals: {0}")]
    Signals(#[from] std::io::Error),
    #[error(transparent)]
    Launch(#[from] launch::Error),
    #[error(transparent)]
    Attach(#[from] attach::Error),
    #[error(transparent)]
    Run(#[from] run::Error),
    #[error(transparent)]
    Rescue(#[from] rescue::Error),
    #[error("say `run`, `rescue` or `--attach URL`; `--help` tells more")]
    Nothing,
}

impl Args {
    /// The code to leave with.
    pub async fn run(self, around: &Surroundings) -> Result<u8, Error> {
        launch::hide_memory()?;
        match (self.command, self.attach) {
            (Some(Command::Run { launch }), _) => {
                let signals = Signals::catch()?;
                Ok(run::run(launch::read(&launch)?, signals, around).await?)
            }
            (Some(Command::Rescue { launch, scratch }), _) => {
                Ok(rescue::rescue(launch::read(&launch)?, &scratch, around).await?)
            }
            (None, Some(attach)) => {
                let mut signals = Signals::catch()?;
                let Some(launch) = signals.through(attach::join(attach)).await else {
                    return Ok(run::INTERRUPTED);
                };
                Ok(run::run(launch?, signals, around).await?)
            }
            (None, None) => Err(Error::Nothing),
        }
    }
}
