//! The flags that say where the server's things are, and the configuration they are the first source of.

use std::path::PathBuf;

use anyhow::Result;
use omoi_server::config::{self, Flag, Resolved};

use crate::Context;

#[derive(Debug, clap::Args)]
pub struct Settings {
    /// Where Omoi keeps what it owns [default: ~/.local/share/omoi] [env: OMOI_DATA_DIR]
    #[arg(long, value_name = "DIR", global = true, help_heading = "Configuration")]
    data_dir: Option<String>,
    /// Configuration file [default: omoi.yaml in the data directory] [env: OMOI_CONFIG]
    #[arg(long, value_name = "FILE", global = true, help_heading = "Configuration")]
    config: Option<PathBuf>,
    /// Which database, as sqlite:PATH or postgres://USER@HOST/DATABASE; with a password, better given in the
    /// environment [default: SQLite in the data directory] [env: OMOI_DATABASE_URL]
    #[arg(long, value_name = "URL", global = true, help_heading = "Configuration")]
    database_url: Option<String>,
}

impl Settings {
    /// Whether somebody said where, on the command line.
    pub fn names_data_dir(&self) -> bool {
        self.data_dir.is_some()
    }

    pub fn resolve(&self, cx: &Context) -> Result<Resolved> {
        self.resolve_with(cx, Vec::new())
    }

    /// With flags of one command's own.
    pub fn resolve_with(&self, cx: &Context, more: Vec<Flag>) -> Result<Resolved> {
        let ours = [
            ("--data-dir", "data_dir", &self.data_dir),
            ("--database-url", "database.url", &self.database_url),
        ];
        let mut flags = more;
        flags.extend(ours.into_iter().filter_map(|(name, key, value)| flag(name, key, value.as_deref())));
        Ok(config::load(&flags, cx.env, self.config.as_deref())?)
    }
}

/// Warns once of each setting that is made and has no effect.
pub fn note_ineffective(cx: &Context, resolved: &Resolved) {
    for setting in &resolved.ineffective {
        cx.out.note(&format!("warning: {setting}"));
    }
}

pub fn flag(name: &'static str, key: &'static str, value: Option<&str>) -> Option<Flag> {
    value.map(|value| Flag { name, key, value: value.to_owned() })
}
