//! What a run is given: the programs, the places, and how long everything takes.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use tempfile::TempDir;
use tokio::sync::Mutex;

use crate::{measure::page::Filled, place::Kind, postgres::Postgres};

#[derive(clap::Args)]
pub struct Args {
    /// The program to measure.
    #[arg(long)]
    omoi: PathBuf,
    /// A superuser on a private PostgreSQL, on loopback; without it only SQLite is measured.
    #[arg(long)]
    postgres: Option<String>,
    /// Where bench.json and bench.txt go. Everything that is measured is on its disk too, and removed again.
    #[arg(long)]
    out: PathBuf,
    /// Only these measurements, by name.
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
    /// Short: shows that everything works, measures little.
    #[arg(long)]
    quick: bool,
}

pub struct Bench {
    pub omoi: PathBuf,
    pub postgres: Option<Postgres>,
    pub out: PathBuf,
    pub scale: Scale,
    /// Sandboxes full of events, made by the first measurement that needs them.
    pub filled: Mutex<HashMap<Kind, Filled>>,
    dir: TempDir,
}

/// How much of everything.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub struct Scale {
    pub quick: bool,
    /// Turns of each side when two are compared; the median counts.
    pub rounds: usize,
    #[serde(serialize_with = "seconds")]
    pub warm_up: Duration,
    #[serde(serialize_with = "seconds")]
    pub measure: Duration,
    pub page_events: u64,
    pub page_requests: usize,
    pub viewers: usize,
    #[serde(serialize_with = "seconds")]
    pub view: Duration,
    pub messages: usize,
    pub tasks: u64,
    pub claims: u64,
    pub starts: usize,
    /// Sandboxes one after the other.
    pub spawns: usize,
    /// The same without a server.
    pub launches: usize,
    /// Sandboxes at once.
    pub crowd: usize,
    /// Sandboxes that live while a loop looks at them, and how often it does.
    pub live: usize,
    pub ticks: usize,
    /// Sandboxes that dispatch orders.
    pub orders: usize,
    /// Tasks that do nothing, in real sandboxes.
    pub works: usize,
    /// Events of each of the runs that are watched.
    pub watched_events: usize,
    #[serde(serialize_with = "seconds")]
    pub idle: Duration,
}

impl Scale {
    const FULL: Self = Self {
        quick: false,
        rounds: 3,
        warm_up: Duration::from_secs(1),
        measure: Duration::from_secs(4),
        page_events: 1_000_000,
        page_requests: 300,
        viewers: 1000,
        view: Duration::from_secs(10),
        messages: 500,
        tasks: 100_000,
        claims: 10_000,
        starts: 5,
        spawns: 50,
        launches: 20,
        crowd: 50,
        live: 1000,
        ticks: 100,
        orders: 300,
        works: 15,
        watched_events: 10_000,
        idle: Duration::from_secs(5),
    };

    const QUICK: Self = Self {
        quick: true,
        rounds: 1,
        warm_up: Duration::from_millis(200),
        measure: Duration::from_secs(1),
        page_events: 100_000,
        page_requests: 100,
        viewers: 200,
        view: Duration::from_secs(2),
        messages: 50,
        tasks: 5_000,
        claims: 1_000,
        starts: 2,
        spawns: 5,
        launches: 3,
        crowd: 5,
        live: 100,
        ticks: 10,
        orders: 30,
        works: 3,
        watched_events: 500,
        idle: Duration::from_secs(1),
    };
}

fn seconds<S: serde::Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(duration.as_secs_f64())
}

impl Bench {
    pub async fn new(args: Args) -> anyhow::Result<Self> {
        let omoi =
            args.omoi.canonicalize().with_context(|| format!("no program at {}", args.omoi.display()))?;
        std::fs::create_dir_all(&args.out).with_context(|| format!("cannot make {}", args.out.display()))?;
        let out = args.out.canonicalize()?;
        let postgres = match args.postgres {
            Some(url) => Some(Postgres::new(&url).await?),
            None => None,
        };
        let dir = tempfile::Builder::new().prefix("run.").tempdir_in(&out)?;
        let scale = if args.quick { Scale::QUICK } else { Scale::FULL };
        Ok(Self { omoi, postgres, out, scale, filled: Mutex::default(), dir })
    }

    /// For files of this run; gone after it.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn kinds(&self) -> Vec<Kind> {
        let postgres = self.postgres.as_ref().map(|_| Kind::Postgres);
        [Some(Kind::Sqlite), postgres].into_iter().flatten().collect()
    }
}
