//! `omoi supervise`: supervision on recorded runs.

mod cost;
mod files;
mod labels;
mod measure;
mod replay;
mod run;
mod show;

use anyhow::Result;
use omoi_server::domain::supervision::policy::DEFAULT;
use serde_json::Value;

use crate::Context;

/// See what supervision makes of recorded runs
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    Replay(replay::Replay),
    Measure(measure::Measure),
    #[command(hide = true)]
    Cost(cost::Cost),
    /// Print the policy that comes with the program
    Policy,
}

impl Args {
    pub async fn run(self, cx: &Context) -> Result<()> {
        match self.verb {
            Verb::Replay(replay) => replay.run(cx).await,
            Verb::Measure(measure) => measure.run(cx),
            Verb::Cost(cost) => cost.run(cx),
            Verb::Policy => cx.out.answer(&tree(DEFAULT)?, |_| DEFAULT.to_owned()),
        }
    }
}

fn tree(policy: &str) -> Result<Value> {
    // What it explains to people is no part of it, and more than is kept by default.
    let options = serde_saphyr::options! { emit_comments: false };
    Ok(serde_saphyr::from_str_with_options(policy, options)?)
}
