//! The command line: what there is to say, and what `--help` says of it.

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use crate::{
    Context, agent, audit, conductor, config, db, demo, doctor, guardian, image, monitor, project, run,
    sandbox, serve, spec, supervise, task, ticket, token, verify_flow, verify_monitoring, whoami,
};

const ABOUT: &str = "Runs AI coding agents in sandboxes, watches them work, and hands back reviewed branches";

const EXAMPLES: &str = "\
Start here:
  omoi doctor                                   what this machine can do
  omoi demo                                     an agent at work, without a key
  omoi verify-flow                              checks the whole way of a task
  omoi serve                                    the server; the first start shows a token
  export OMOI_TOKEN=omoi_op_...                 the other commands use it
  omoi run 'Fix the parser' --project ~/src/shop
                                                gives an agent a task, and shows how it works on it
  omoi project add ~/src/shop                   a repository to work on
  omoi sandbox create --project shop -- make test
                                                runs a command in a sandbox, on a branch of its own
  omoi sandbox create --project shop            one that stays, for `omoi sandbox exec`
  omoi task create --project shop 'Fix the parser'
                                                a task that gets its sandbox when it is its turn
  omoi sandbox events sbx-... --follow          watch it

Environment:
  OMOI_URL       address of the server (default http://127.0.0.1:18000)
  OMOI_TOKEN     operator token for the commands that ask the server
  OMOI_DATA_DIR  where serve, token, db, image and audit verify find the server's data
  OMOI_CONFIG    configuration file; `omoi config default` prints one with every key
  NO_COLOR       set to anything: no colours

Exit codes:
  0  done                     3  not found
  1  failed                   4  refused: no token, a wrong one, or one without the right
  2  wrong usage or setting   5  server not to be reached
`omoi sandbox create` and `exec` end with the code of the command they ran. They, and `omoi run`, end with 130 after Ctrl-C.";

#[derive(Debug, Parser)]
#[command(name = "omoi", version, about = ABOUT, after_help = EXAMPLES, disable_help_subcommand = true)]
pub struct Cli {
    /// Print JSON for programs instead of tables for people
    #[arg(long, global = true, display_order = 900)]
    pub json: bool,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Serve(serve::Args),
    Run(Box<run::Args>),
    Demo(Box<demo::Args>),
    VerifyFlow(Box<verify_flow::Args>),
    VerifyMonitoring(Box<verify_monitoring::Args>),
    Config(config::Args),
    Doctor(doctor::Args),
    Token(token::Args),
    Db(db::Args),
    Audit(audit::Args),
    Project(project::Args),
    Ticket(ticket::Args),
    Task(task::Args),
    Spec(spec::Args),
    Sandbox(sandbox::Args),
    Guardian(guardian::Args),
    Supervise(supervise::Args),
    Monitor(monitor::Args),
    Conductor(conductor::Args),
    Image(image::Args),
    Agent(agent::Args),
    Whoami(whoami::Args),
    /// Print a script that completes commands in your shell
    ///
    /// For bash: omoi completions bash > ~/.local/share/bash-completion/completions/omoi
    Completions {
        shell: Shell,
    },
    /// Print the description of the HTTP API
    #[command(hide = true)]
    Openapi,
}

impl Command {
    /// Whether the command has something to end or to tell when a signal asks it to stop. The system ends every other.
    pub fn answers_signals(&self) -> bool {
        match self {
            Self::Serve(_)
            | Self::Run(_)
            | Self::Demo(_)
            | Self::VerifyFlow(_)
            | Self::VerifyMonitoring(_) => true,
            Self::Task(args) => args.answers_signals(),
            Self::Sandbox(args) => args.answers_signals(),
            Self::Monitor(args) => args.answers_signals(),
            Self::Config(_)
            | Self::Doctor(_)
            | Self::Token(_)
            | Self::Db(_)
            | Self::Audit(_)
            | Self::Project(_)
            | Self::Ticket(_)
            | Self::Spec(_)
            | Self::Guardian(_)
            | Self::Supervise(_)
            | Self::Conductor(_)
            | Self::Image(_)
            | Self::Agent(_)
            | Self::Whoami(_)
            | Self::Completions { .. }
            | Self::Openapi => false,
        }
    }

    pub async fn run(self, cx: &Context) -> anyhow::Result<()> {
        match self {
            Self::Serve(args) => args.run(cx).await,
            Self::Run(args) => Box::pin(args.run(cx)).await,
            Self::Demo(args) => Box::pin(args.run(cx)).await,
            Self::VerifyFlow(args) => Box::pin(args.run(cx)).await,
            Self::VerifyMonitoring(args) => Box::pin(args.run(cx)).await,
            Self::Config(args) => args.run(cx),
            Self::Doctor(args) => args.run(cx).await,
            Self::Token(args) => args.run(cx).await,
            Self::Db(args) => args.run(cx).await,
            Self::Audit(args) => args.run(cx).await,
            Self::Project(args) => args.run(cx).await,
            Self::Ticket(args) => args.run(cx).await,
            Self::Task(args) => args.run(cx).await,
            Self::Spec(args) => args.run(cx).await,
            Self::Sandbox(args) => args.run(cx).await,
            Self::Guardian(args) => Box::pin(args.run(cx)).await,
            Self::Supervise(args) => args.run(cx).await,
            Self::Monitor(args) => args.run(cx).await,
            Self::Conductor(args) => args.run(cx).await,
            Self::Image(args) => args.run(cx).await,
            Self::Agent(args) => args.run(cx).await,
            Self::Whoami(args) => args.run(cx).await,
            Self::Completions { shell } => {
                let mut script = Vec::new();
                clap_complete::generate(shell, &mut Cli::command(), "omoi", &mut script);
                cx.out.raw(&String::from_utf8_lossy(&script))
            }
            Self::Openapi => cx.out.line(omoi_server::openapi_json().trim_end()),
        }
    }
}

/// A parser of one of the closed sets of words, in capitals or not.
macro_rules! word {
    ($set:ty) => {
        clap::builder::TypedValueParser::map(
            clap::builder::PossibleValuesParser::new(<$set>::ALL.iter().map(|word| word.as_str())),
            |text: String| {
                let named = <$set>::ALL.iter().find(|word| word.as_str().eq_ignore_ascii_case(&text));
                *named.expect("only the listed words come through")
            },
        )
    };
}
pub(crate) use word;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn words_are_taken_in_capitals_or_not() {
        for text in ["high", "HIGH", "High"] {
            let parsed =
                Cli::try_parse_from(["omoi", "task", "create", "--project", "p", "--priority", text, "t"]);
            assert!(parsed.is_ok(), "{text}");
        }
        assert!(Cli::try_parse_from(["omoi", "task", "list", "--status", "sleeping"]).is_err());
    }
}
