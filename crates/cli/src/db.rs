//! `omoi db`: the database's schema, health and copies.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use omoi_server::store::Store;
use serde_json::json;

use crate::{
    Context, database,
    failure::{FAILED, Stop},
    settings::Settings,
};

const EXAMPLES: &str = "\
Examples:
  omoi db check --data-dir /srv/omoi
  omoi db backup /backups/omoi-$(date +%F).db      while the server runs
  OMOI_DATABASE_URL=postgres://... omoi db migrate   before many processes start at once

To restore a backup, stop the server and put the file in place of omoi.db in the data directory, and remove
omoi.db-wal and omoi.db-shm beside it. A PostgreSQL database is backed up with pg_dump.";

/// Migrate, check and back up the database
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
    /// Bring the schema up to date; `serve` does the same when it starts
    Migrate,
    /// Look for damage; exit code 1 when there is some
    Check,
    /// Copy an embedded database into a new file, also while it is in use
    Backup { file: PathBuf },
}

impl Args {
    pub async fn run(self, cx: &Context) -> Result<()> {
        let config = self.settings.resolve(cx)?.config;
        match self.verb {
            Verb::Migrate => {
                let store = database::open_or_make(config).await?;
                let (schema, name) = (store.schema_version().await?, store.name());
                cx.out.answer(&json!({ "store": name, "schema": schema }), |_| {
                    format!("{name}: schema {schema}")
                })
            }
            Verb::Check => {
                database::must_exist(&config)?;
                let (name, found) = (Store::name_of(&config)?, Store::check(&config).await?);
                cx.out.outlast_reader();
                cx.out.answer(&json!({ "store": name, "damage": found }), |_| match found.len() {
                    0 => format!("{name}: no damage"),
                    _ => found.join("\n"),
                })?;
                match found.len() {
                    0 => Ok(()),
                    n => Err(Stop::new(FAILED, format!("{name} is damaged in {n} places"))
                        .hint("stop the server, keep a copy of the files, and restore the last backup")
                        .into()),
                }
            }
            Verb::Backup { file } => {
                database::must_exist(&config)?;
                let to = file.clone();
                tokio::task::spawn_blocking(move || Store::backup(&config, &to))
                    .await?
                    .with_context(|| format!("no backup at {}", file.display()))?;
                let bytes = std::fs::metadata(&file)?.len();
                cx.out.answer(&json!({ "file": file, "bytes": bytes }), |_| {
                    format!("{}: {bytes} bytes", file.display())
                })
            }
        }
    }
}
