//! A place for a server to live: a data directory, and a database of its own on PostgreSQL.

use std::{
    fmt,
    fs::Permissions,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use anyhow::Context;
use serde::Serialize;
use tempfile::TempDir;

use crate::{bench::Bench, postgres::Postgres, proc::Meter};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Sqlite,
    Postgres,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Sqlite => "SQLite",
            Self::Postgres => "PostgreSQL",
        })
    }
}

pub struct Place {
    pub kind: Kind,
    dir: TempDir,
    /// Name and address.
    database: Option<(String, String)>,
}

impl Place {
    pub async fn fresh(bench: &Bench, kind: Kind) -> anyhow::Result<Self> {
        // Other files are put beside the server's own, so it would refuse a directory that others can read.
        let own = Permissions::from_mode(0o700);
        let dir = tempfile::Builder::new().prefix("data.").permissions(own).tempdir_in(bench.dir())?;
        let database = match kind {
            Kind::Sqlite => None,
            Kind::Postgres => {
                let postgres = bench.postgres.as_ref().context("no PostgreSQL was given")?;
                let name = postgres.create().await?;
                let url = postgres.url(&name, postgres.at);
                Some((name, url))
            }
        };
        Ok(Self { kind, dir, database })
    }

    /// Reaches its database by another address.
    pub fn go_through(&mut self, bench: &Bench, at: SocketAddr) {
        if let (Some(postgres), Some((name, url))) = (&bench.postgres, &mut self.database) {
            *url = postgres.url(name, at);
        }
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// What scripted models play, where there is any.
    pub fn scenarios(&self) -> PathBuf {
        self.dir().join("scenarios")
    }

    pub fn database(&self) -> Option<&str> {
        self.database.as_ref().map(|(name, _)| name.as_str())
    }

    pub fn database_url(&self) -> Option<&str> {
        self.database.as_ref().map(|(_, url)| url.as_str())
    }

    /// Charges a server that lives here with everything its store uses.
    pub fn meter(&self, bench: &Bench, pid: u32) -> Meter {
        let shared = bench.postgres.as_ref().filter(|_| self.kind == Kind::Postgres);
        Meter { pid, postmaster: shared.map(Postgres::postmaster) }
    }

    pub async fn remove(self, bench: &Bench) -> anyhow::Result<()> {
        if let (Some(postgres), Some((name, _))) = (&bench.postgres, &self.database) {
            postgres.drop(name).await?;
        }
        Ok(self.dir.close()?)
    }
}
