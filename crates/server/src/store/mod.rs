//! The store: all SQL, a file per noun, on SQLite or PostgreSQL behind one set of methods.
//!
//! Statements are written once, in PostgreSQL's way; SQLite's differences are few and translated (`sqlite.rs`).
//! Every write goes through one thread per process (`thread.rs`, `writer.rs`), which runs all that waits in one
//! transaction and answers after its commit. On PostgreSQL that transaction holds one lock across processes. So a
//! method that reads, decides and writes is never overtaken, and rows get their positions in the order of commit.

mod absence;
mod account;
mod action;
mod agent;
mod artifact;
mod ask;
mod attempt;
mod audit;
mod batch;
mod blob;
mod bulk;
mod call;
mod checkpoint;
mod claim;
mod collaboration;
mod command;
mod conductor;
mod cost;
mod dependency;
mod diagnosis;
mod dispatch;
mod egress;
mod entry;
mod error;
mod event;
mod footprint;
mod graph;
mod ground;
mod guardian;
mod head;
mod job;
mod keep;
mod lapse;
mod mark;
mod message;
mod migrate;
mod monitor;
mod offer;
mod paging;
mod place;
mod portion;
mod postgres;
mod project;
mod proof;
mod prune;
mod queue;
mod reported_cost;
mod rescue;
mod result;
mod rules;
mod salvage;
mod sandbox;
mod session;
mod spec;
mod spend;
mod sqlite;
mod stream;
mod system;
mod task;
mod thread;
mod ticket;
mod tls;
mod token;
mod transcript;
mod transition;
mod tx;
mod typed;
mod value;
mod watch;
mod weight;
mod writer;

use std::{path::PathBuf, sync::Arc, time::Duration};

use omoi_protocol::{SandboxId, event::NewEvent, sandbox::EventReceived};
use omoi_redact::Secrets;
use secrecy::ExposeSecret;
use tokio::sync::{mpsc, oneshot};

pub use self::{
    attempt::Before,
    audit::AuditFilter,
    batch::Made as BatchMade,
    call::{EndedCall, KEEP_PERIOD as CALL_KEEP_PERIOD, NewCall, Opened},
    conductor::{
        Alike, ConflictFilter, Found as ConflictsFound, Kept as DuplicatesKept, Member, OpenConflicts, Pair,
    },
    cost::CallFilter,
    diagnosis::DiagnosisFilter,
    dispatch::Dispatched,
    egress::Denial,
    entry::Entry,
    error::Error,
    guardian::{
        Change, ELSEWHERE as GUARDIAN_ELSEWHERE, FindingFilter, Found, Hold, InterventionFilter,
        JudgementEnded, Known, Mark, Question, Spoken, StoredPolicy, Subject, Taken as GuardianTaken,
    },
    message::QUEUED as MESSAGE_QUEUED,
    monitor::Working,
    paging::{EventAsk, TrajectoryAsk},
    place::{Facts, Placed},
    portion::{PAGE_BYTES, Portion},
    proof::Owed,
    rules::Rules,
    sandbox::SandboxFilter,
    session::{NewSession, SessionBearer},
    spec::{BranchDue, BranchPart, Combined, Due, Handed, Judged, Judgement, SpecFilter},
    task::TaskFilter,
    token::{Bearer, Hash as TokenHash, hash as token_hash},
    transcript::Session,
    tx::Tx,
    watch::Quiet,
};
pub(crate) use ask::Ask;

use crate::{
    clock::Clock,
    config::{Config, DatabaseUrl},
    disk::Room,
};
use event::Append;
use ground::Ground;
use head::HeadFile;
use job::{Closure, Job};
use postgres::Address;
use queue::{Queue, Work};
use writer::Writer;

/// Called after each commit with the rows it added.
pub type Announce = Box<dyn Fn(Vec<Entry>) + Send>;

const SQLITE_FILE: &str = "omoi.db";
/// The mark of the last write that was made to see whether one succeeds.
const WRITE_TRIED: &str = "write_tried";
/// What a write of a few words holds while it waits.
const WRITE_BYTES: usize = 1024;

#[derive(Clone)]
pub struct Store {
    writes: Queue,
    reads: mpsc::Sender<Box<dyn Job>>,
    place: Place,
    ground: Arc<Ground>,
    head: Arc<HeadFile>,
    secrets: Secrets,
    /// How long an answer is waited for.
    patience: Duration,
}

/// Where the database is.
#[derive(Clone)]
enum Place {
    Sqlite { path: PathBuf, synchronous: crate::config::SqliteSynchronous },
    Postgres(Box<Address>),
}

impl Place {
    fn new(config: &Config) -> Result<Self, Error> {
        if let Some(path) = Store::file(config) {
            return Ok(Self::Sqlite { path, synchronous: config.store.sqlite_synchronous });
        }
        let DatabaseUrl::Postgres(url) = &config.database.url else {
            return Err(Error::invalid("database_url", "database.url names no database"));
        };
        let (connect, statement) = (config.database.connect_timeout, config.database.statement_timeout);
        Ok(Self::Postgres(Box::new(Address::parse(url.expose_secret(), connect, statement)?)))
    }

    fn name(&self) -> String {
        match self {
            Self::Sqlite { path, .. } => format!("SQLite at {}", path.display()),
            Self::Postgres(_) => "PostgreSQL".to_owned(),
        }
    }
}

impl Store {
    /// Opens the database, brings its schema up to date and starts the threads that serve it.
    pub async fn open(config: &Config, clock: Clock, announce: Announce) -> Result<Self, Error> {
        let (place, rules) = (Place::new(config)?, Arc::new(Rules::new(config)));
        let (writes, queue) = Queue::new(config.limits.write_queue_max, config.limits.write_queue_bytes_max);
        let ground = Arc::new(Ground::new(&config.data_dir, &place));
        let head = Arc::new(HeadFile::new(&config.data_dir));
        let writer = Writer { queue, clock: clock.clone(), announce, ground: ground.clone(), head };
        thread::start_writer(&place, rules.clone(), writer).await?;
        Self::serve(config, place, ground, &rules, &clock, writes)
    }

    /// What is masked in all that is written here. Events, artefacts and transcripts are stored as they are handed over, so
    /// whoever takes them in masks them before.
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// Opens the database to read what is there, and changes nothing: a schema that is not this program's is refused.
    pub async fn open_to_read(config: &Config, clock: Clock) -> Result<Self, Error> {
        let (place, rules) = (Place::new(config)?, Arc::new(Rules::new(config)));
        let (writes, _) = Queue::new(1, 1);
        let ground = Arc::new(Ground::new(&config.data_dir, &place));
        let store = Self::serve(config, place, ground, &rules, &clock, writes)?;
        store.read(async |tx| migrate::must_be_done(tx).await).await?;
        Ok(store)
    }

    fn serve(
        config: &Config,
        place: Place,
        ground: Arc<Ground>,
        rules: &Arc<Rules>,
        clock: &Clock,
        writes: Queue,
    ) -> Result<Self, Error> {
        let (reads, queue) = mpsc::channel(config.limits.write_queue_max);
        thread::start_readers(&place, rules, clock, queue, config.database.pool_size)?;
        let head = Arc::new(HeadFile::new(&config.data_dir));
        let (secrets, patience) = (rules.secrets.clone(), config.limits.request_timeout);
        Ok(Self { writes, reads, place, ground, head, secrets, patience })
    }

    /// Where the embedded database is, unless another is configured.
    pub fn file(config: &Config) -> Option<PathBuf> {
        match &config.database.url {
            DatabaseUrl::DataDir => Some(config.data_dir.join(SQLITE_FILE)),
            DatabaseUrl::Sqlite(path) => Some(path.clone()),
            DatabaseUrl::Postgres(_) => None,
        }
    }

    /// What it is on, for people.
    pub fn name(&self) -> String {
        self.place.name()
    }

    /// The same of one that is not open.
    pub fn name_of(config: &Config) -> Result<String, Error> {
        Place::new(config).map(|place| place.name())
    }

    /// Runs a closure in a transaction that may write; answers after commit. It may run more than once, and whatever
    /// it has written is undone when it refuses.
    pub(crate) async fn write<F, T>(&self, work: F) -> Result<T, Error>
    where
        F: AsyncFn(&mut Tx) -> Result<T, Error> + Send + 'static,
        T: Send + 'static,
    {
        self.write_large(0, work).await
    }

    /// The same for a closure that holds about so many bytes besides.
    pub(crate) async fn write_large<F, T>(&self, bytes: usize, work: F) -> Result<T, Error>
    where
        F: AsyncFn(&mut Tx) -> Result<T, Error> + Send + 'static,
        T: Send + 'static,
    {
        self.write_of(None, bytes, work).await
    }

    /// The same for what a sandbox sent, which has a share of the queue and no more.
    async fn write_of<F, T>(&self, from: Option<SandboxId>, bytes: usize, work: F) -> Result<T, Error>
    where
        F: AsyncFn(&mut Tx) -> Result<T, Error> + Send + 'static,
        T: Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let job = Box::new(Closure { work, answer: None, reply });
        self.writes.push(Work::Job(job, WRITE_BYTES + bytes, from))?;
        self.received(answer).await
    }

    pub(crate) async fn read<F, T>(&self, work: F) -> Result<T, Error>
    where
        F: AsyncFn(&mut Tx) -> Result<T, Error> + Send + 'static,
        T: Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let job: Box<dyn Job> = Box::new(Closure { work, answer: None, reply });
        self.reads.try_send(job).map_err(|_| Error::Busy)?;
        self.received(answer).await
    }

    async fn append(&self, id: SandboxId, events: Vec<NewEvent>) -> Result<Vec<EventReceived>, Error> {
        let (reply, answer) = oneshot::channel();
        self.writes.push(Work::Append(Append::new(id, events, reply)))?;
        self.received(answer).await
    }

    /// What was not answered in time may still be done: it was not promised, and was not refused either.
    async fn received<T>(&self, answer: oneshot::Receiver<Result<T, Error>>) -> Result<T, Error> {
        match tokio::time::timeout(self.patience, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(Error::Unavailable("the store has stopped".to_owned())),
            Err(_) => Err(Error::Unavailable(format!("no answer within {:?}", self.patience))),
        }
    }

    /// Whether the database answers.
    pub async fn ping(&self) -> Result<(), Error> {
        self.read(async |tx| tx.query("SELECT 1 AS one", vec![]).await.map(|_| ())).await
    }

    /// Whether everything that a write needs is there: the database answers, its files are those that were opened, and the
    /// disks have room. After a write that failed for lack of room, a small one has to succeed.
    pub async fn ready(&self) -> Result<(), Error> {
        self.ping().await?;
        let ground = self.ground.clone();
        let looked = tokio::task::spawn_blocking(move || ground.in_place().and_then(|()| ground.has_room()));
        looked.await.map_err(|error| Error::Unavailable(error.to_string()))??;
        if self.ground.has_failed() {
            let at = async |tx: &mut Tx| mark::mark(tx, WRITE_TRIED, tx.now.as_microsecond()).await;
            self.write(at).await?;
        }
        Ok(())
    }

    /// Logs what `ready` finds when it changes, until the task is dropped. Where the database's file was removed, a write is
    /// tried, since the thread that writes saves what the file held.
    pub async fn watch_ground(&self, period: Duration) {
        let mut was_ready = true;
        let mut ticks = tokio::time::interval(period);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if self.ground.missing().is_some() {
                let _ = self.write(async |_| Ok(())).await;
            }
            match self.ready().await {
                Err(error @ (Error::DiskFull(_) | Error::Removed(_))) if was_ready => {
                    tracing::error!(%error, "the server is not ready: {error}");
                    was_ready = false;
                }
                Ok(()) if !was_ready => {
                    tracing::info!("the server is ready again");
                    was_ready = true;
                }
                _ => {}
            }
        }
    }

    /// The disk with the least free space among those that hold data, with a directory on it.
    pub async fn disk(&self) -> Option<(PathBuf, Room)> {
        let ground = self.ground.clone();
        tokio::task::spawn_blocking(move || ground.tightest()).await.ok().flatten()
    }

    /// The schema's version.
    pub async fn schema_version(&self) -> Result<i64, Error> {
        self.read(async |tx| migrate::version(tx).await).await
    }

    /// Hears of rows that other processes have written, until the connection ends. Nothing to hear on SQLite.
    pub async fn listen(&self, heard: impl Fn(i64)) -> Result<(), Error> {
        match &self.place {
            Place::Sqlite { .. } => std::future::pending().await,
            Place::Postgres(address) => address.listen(heard).await,
        }
    }

    pub fn is_shared(&self) -> bool {
        matches!(self.place, Place::Postgres(_))
    }

    /// Empties SQLite's log into the database, so that its one file is all there is to keep or to replace. Others who use it
    /// may stand in the way; nothing is lost by that.
    pub async fn empty_log(&self) -> Result<(), Error> {
        if self.is_shared() {
            return Ok(());
        }
        self.read(async |tx| checkpoint::empty(tx).await).await
    }

    /// Copies an embedded database into a new file, while it is in use.
    pub fn backup(config: &Config, to: &std::path::Path) -> Result<(), Error> {
        match Place::new(config)? {
            Place::Sqlite { path, synchronous } => sqlite::backup(&path, synchronous, to),
            Place::Postgres(_) => {
                Err(Error::invalid("backup_elsewhere", "back up PostgreSQL with its own pg_dump"))
            }
        }
    }

    /// Looks for damage, for as long as that takes; the lines it finds, or none.
    pub async fn check(config: &Config) -> Result<Vec<String>, Error> {
        let place = Place::new(config)?;
        if let Place::Sqlite { path, synchronous } = place.clone() {
            // Before anything else is asked of it, which would only fail.
            let looked = tokio::task::spawn_blocking(move || sqlite::check(&path, synchronous)).await;
            let found = looked.map_err(|error| Error::Statement(error.to_string()))??;
            if !found.is_empty() {
                return Ok(found);
            }
        }
        thread::apart(place, Arc::new(Rules::new(config)), async move |tx| {
            migrate::must_be_done(tx).await?;
            let mut found = Vec::new();
            let sql = "SELECT /* all */ count(*) AS rows_kept, COALESCE(max(pos), 0) AS last FROM events";
            if let Some(row) = tx.query_one(sql, vec![]).await? {
                let (kept, last): (i64, i64) = (row.get("rows_kept")?, row.get("last")?);
                if kept != last {
                    found.push(format!("{kept} events are stored, but the last has position {last}"));
                }
            }
            Ok(found)
        })
        .await
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |n: u8| char::from(DIGITS[usize::from(n)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// A random number in `0..1`, to spread what would otherwise come together.
pub(crate) fn jitter() -> f64 {
    let mut bytes = [0u8; 4];
    match getrandom::fill(&mut bytes) {
        Ok(()) => f64::from(u32::from_be_bytes(bytes)) / (f64::from(u32::MAX) + 1.0),
        Err(_) => 0.5,
    }
}
