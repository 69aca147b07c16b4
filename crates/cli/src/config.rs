//! `omoi config`: every setting with where it came from, and the file that documents them.

use anyhow::Result;
use omoi_server::config::{Config, Entry, KEYS, Key, Origin};
use serde::Serialize;

use crate::{Context, settings::Settings, table::Table};

const EXAMPLES: &str = "\
Examples:
  omoi config show                               every value and where it came from
  OMOI_LISTEN=0.0.0.0:80 omoi config show --json
  omoi config default > omoi.yaml                a file with every key, all commented out

A value comes from the first of these that has it: a flag, the environment, the file, the default.";

/// Show the configuration, or print the default file
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Print each value and where it came from; secrets are masked
    Show,
    /// Print the default file, which documents every key; with --json the same as a list
    Default,
}

impl Args {
    pub fn run(self, cx: &Context) -> Result<()> {
        match self.verb {
            Verb::Show => {
                let entries = self.settings.resolve(cx)?.entries;
                let lines: Vec<_> = entries.iter().map(Line::from).collect();
                cx.out.answer(&lines, |style| {
                    let table = Table::new(style, &["key", "value", "origin"]);
                    let row = |table: Table, line: &Line<'_>| {
                        table.row([line.key.into(), line.value.into(), line.origin.as_str().into()])
                    };
                    lines.iter().fold(table, row).render()
                })
            }
            Verb::Default => {
                let keys: Vec<_> = KEYS.iter().map(Known::from).collect();
                cx.out.answer(&keys, |_| Config::default_file())
            }
        }
    }
}

#[derive(Serialize)]
struct Line<'a> {
    key: &'static str,
    value: &'a str,
    origin: String,
    doc: &'a str,
}

impl<'a> From<&'a Entry> for Line<'a> {
    fn from(Entry { key, value, origin, doc, .. }: &'a Entry) -> Self {
        let origin = match origin {
            Origin::Default => "default".to_owned(),
            origin => origin.to_string(),
        };
        Self { key, value, origin, doc }
    }
}

/// A key as the default file tells of it.
#[derive(Serialize)]
struct Known {
    key: &'static str,
    default: &'static str,
    takes: &'static str,
    environment: &'static [&'static str],
    doc: String,
}

impl From<&Key> for Known {
    fn from(key: &Key) -> Self {
        let Key { name, default, accepts, env, .. } = *key;
        Self { key: name, default, takes: accepts, environment: env, doc: key.doc() }
    }
}
