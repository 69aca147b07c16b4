//! The threads that own connections: one that writes and some that read. SQLite's work is done where it is asked
//! for, so a future over it is ready at once; PostgreSQL's threads run a small runtime each.

use std::{
    cell::{Cell, RefCell},
    panic::AssertUnwindSafe,
    path::{Path, PathBuf},
    rc::Rc,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::{FutureExt, future::join};
use tokio::{
    sync::{Notify, mpsc, oneshot},
    task::LocalSet,
    time::Instant,
};

use super::{
    Error, Place, Rules, Tx, checkpoint,
    ground::Ground,
    job::{Job, Ran},
    migrate,
    postgres::Address,
    queue::Item,
    sqlite::{self, Access},
    tx::Conn,
    writer::Writer,
};
use crate::{clock::Clock, config::SqliteSynchronous};

/// More threads than these, or than there are processors, do not make SQLite read faster; each has a copy of the schema.
const SQLITE_READERS: std::ops::RangeInclusive<usize> = 2..=4;
/// After a failed attempt to connect, callers are refused at once for this long.
const RECONNECT_PAUSE: Duration = Duration::from_millis(250);

pub(super) type Reads = mpsc::Receiver<Box<dyn Job>>;

/// Brings the schema up to date and starts the thread that writes.
pub(super) async fn start_writer(place: &Place, rules: Arc<Rules>, writer: Writer) -> Result<(), Error> {
    let (ready, opened) = oneshot::channel();
    match place.clone() {
        Place::Sqlite { path, synchronous } => {
            let ground = writer.ground.clone();
            spawn("omoi-write", move || {
                sqlite_writer(File { path, synchronous, rules, ground, tx: None }, writer, ready);
            })?;
        }
        Place::Postgres(address) => {
            spawn("omoi-write", move || {
                run_local(postgres_writer(Link::new(*address, rules), writer, ready));
            })?;
        }
    }
    opened.await.map_err(|_| stopped())?
}

pub(super) fn start_readers(
    place: &Place,
    rules: &Arc<Rules>,
    clock: &Clock,
    queue: Reads,
    pool_size: usize,
) -> Result<(), Error> {
    match place.clone() {
        Place::Sqlite { path, synchronous } => {
            let reads = Arc::new(Mutex::new(queue));
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            let useful = cores.clamp(*SQLITE_READERS.start(), *SQLITE_READERS.end());
            for _ in 0..pool_size.clamp(1, useful) {
                let conn = sqlite::open(&path, synchronous, Access::Read)?;
                let (reads, rules, clock) = (reads.clone(), rules.clone(), clock.clone());
                spawn("omoi-read", move || sqlite_reader(conn, rules, &clock, &reads))?;
            }
        }
        Place::Postgres(address) => {
            let (rules, clock) = (rules.clone(), clock.clone());
            spawn("omoi-read", move || {
                run_local(postgres_readers(*address, rules, clock, queue, pool_size));
            })?;
        }
    }
    Ok(())
}

/// Asks one thing on a connection and a thread of its own, for as long as that takes.
pub(super) async fn apart<F, T>(place: Place, rules: Arc<Rules>, work: F) -> Result<T, Error>
where
    F: AsyncFnOnce(&mut Tx) -> Result<T, Error> + Send + 'static,
    T: Send + 'static,
{
    let (reply, answer) = oneshot::channel();
    spawn("omoi-apart", move || {
        run_local(async move {
            let conn = match place {
                Place::Sqlite { path, synchronous } => {
                    sqlite::open(&path, synchronous, Access::Read).map(Conn::Sqlite)
                }
                Place::Postgres(address) => {
                    address.unhurried().connect().await.map(|conn| Conn::Postgres(Box::new(conn)))
                }
            };
            let done = match conn {
                Ok(conn) => work(&mut Tx::new(conn, rules)).await,
                Err(error) => Err(error),
            };
            let _ = reply.send(done);
        });
    })?;
    answer.await.map_err(|_| stopped())?
}

fn stopped() -> Error {
    Error::Unavailable("a database thread has stopped".to_owned())
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    let started = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    started.map(|_| ()).map_err(|error| Error::Unavailable(format!("no thread for the database: {error}")))
}

/// Runs a future that is never pending.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    loop {
        if let std::task::Poll::Ready(done) = future.as_mut().poll(&mut context) {
            return done;
        }
    }
}

fn run_local(work: impl Future<Output = ()>) {
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => LocalSet::new().block_on(&runtime, work),
        Err(error) => tracing::error!(%error, "no runtime for the database"),
    }
}

fn sqlite_writer(mut file: File, mut writer: Writer, ready: oneshot::Sender<Result<(), Error>>) {
    let opened = sqlite::make(&file.path)
        .and_then(|()| file.tx().and_then(|tx| at_once(migrate::run(tx)).map(|_| ())));
    writer.ground.note_opened();
    let failed = opened.is_err();
    let _ = ready.send(opened);
    if failed {
        return;
    }
    while let Some(first) = writer.queue.blocking_recv() {
        let batch = writer.gather(first);
        match file.tx() {
            Ok(tx) => at_once(write(&writer, tx, batch)),
            Err(error) => Writer::refuse(batch, &writer.ground.judge(error)),
        }
    }
}

/// A file and the connection that writes to it, which is made again when it was lost.
struct File {
    path: PathBuf,
    synchronous: SqliteSynchronous,
    rules: Arc<Rules>,
    ground: Arc<Ground>,
    tx: Option<Tx>,
}

impl File {
    fn tx(&mut self) -> Result<&mut Tx, Error> {
        if self.tx.as_ref().is_none_or(Tx::is_lost) {
            // It may be in the midst of a transaction, for which the next one would wait.
            self.tx = None;
            // A connection to another file would lose all that was acknowledged.
            self.ground.in_place()?;
            let conn = open_to_write(&self.path, self.synchronous)?;
            self.tx = Some(Tx::new(Conn::Sqlite(conn), self.rules.clone()));
        }
        self.tx.as_mut().ok_or_else(stopped)
    }
}

/// The connection that writes, and a thread that copies what it wrote into the database.
fn open_to_write(path: &Path, synchronous: SqliteSynchronous) -> Result<rusqlite::Connection, Error> {
    let mut conn = sqlite::open(path, synchronous, Access::Write)?;
    let parts = checkpoint::watch(&mut conn)?;
    let copier = sqlite::open(path, synchronous, Access::Write)?;
    spawn("omoi-copy", move || checkpoint::run(&copier, &parts))?;
    Ok(conn)
}

fn sqlite_reader(conn: rusqlite::Connection, rules: Arc<Rules>, clock: &Clock, reads: &Mutex<Reads>) {
    let mut tx = Tx::new(Conn::Sqlite(conn), rules);
    loop {
        let next = reads.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
        let Some(job) = next else { return };
        tx.now = clock.now();
        at_once(answer(&mut tx, job));
    }
}

/// A panic is a defect of one request and must not take the thread with it. Whoever waited is told that the store
/// has stopped, which to them it has.
async fn write(writer: &Writer, tx: &mut Tx, batch: Vec<Item>) {
    if AssertUnwindSafe(writer.write(tx, batch)).catch_unwind().await.is_err() {
        tx.rollback().await;
    }
}

async fn answer(tx: &mut Tx, mut job: Box<dyn Job>) {
    match AssertUnwindSafe(job.run(tx)).catch_unwind().await {
        Ok(Ran::Done | Ran::Refused) => job.finish(Ok(())),
        Ok(Ran::Fault(fault)) => job.finish(Err(fault)),
        Err(_) => job.finish(Err(Error::Statement("the request panicked".to_owned()))),
    }
}

async fn postgres_writer(mut link: Link, mut writer: Writer, ready: oneshot::Sender<Result<(), Error>>) {
    let opened = link.open().await;
    writer.ground.note_opened();
    let failed = opened.is_err();
    let _ = ready.send(opened);
    if failed {
        return;
    }
    while let Some(first) = writer.queue.recv().await {
        let batch = writer.gather(first);
        match link.tx().await {
            Ok(tx) => write(&writer, tx, batch).await,
            Err(error) => Writer::refuse(batch, &error),
        }
    }
}

async fn postgres_readers(address: Address, rules: Arc<Rules>, clock: Clock, mut reads: Reads, count: usize) {
    let (connected, line) = (Rc::new(Cell::new(0)), Rc::new(Line::default()));
    let readers = (0..count.max(1)).map(|_| {
        let link = Link { connected: connected.clone(), ..Link::new(address.clone(), rules.clone()) };
        tokio::task::spawn_local(postgres_reader(link, clock.clone(), line.clone()))
    });
    let readers: Vec<_> = readers.collect();
    while let Some(job) = reads.recv().await {
        line.hand(job).await;
    }
    line.close();
    for reader in readers {
        let _ = reader.await;
    }
}

async fn postgres_reader(mut link: Link, clock: Clock, line: Rc<Line>) {
    loop {
        // One without a connection leaves the work to those that have one.
        while link.connected.get() > 0 && link.tx().await.is_err() {
            tokio::time::sleep_until(link.not_before).await;
        }
        let Some(job) = line.next().await else { return };
        match link.tx().await {
            Ok(tx) => {
                tx.now = clock.now();
                answer(tx, job).await;
            }
            Err(error) => job.finish(Err(error)),
        }
    }
}

/// Readers that have nothing to do. The one that worked last is given the next job: its statements are prepared and
/// planned, while taken in turn all of them would be cold for long.
#[derive(Default)]
struct Line {
    idle: RefCell<Vec<oneshot::Sender<Box<dyn Job>>>>,
    came: Notify,
    closed: Cell<bool>,
}

impl Line {
    async fn next(&self) -> Option<Box<dyn Job>> {
        if self.closed.get() {
            return None;
        }
        let (give, given) = oneshot::channel();
        self.idle.borrow_mut().push(give);
        self.came.notify_one();
        given.await.ok()
    }

    async fn hand(&self, mut job: Box<dyn Job>) {
        loop {
            let last = self.idle.borrow_mut().pop();
            let Some(reader) = last else {
                self.came.notified().await;
                continue;
            };
            match reader.send(job) {
                Ok(()) => return,
                Err(back) => job = back,
            }
        }
    }

    fn close(&self) {
        self.closed.set(true);
        self.idle.borrow_mut().clear();
    }
}

/// A connection that is made when it is needed and made again when it was lost.
struct Link {
    address: Address,
    rules: Arc<Rules>,
    tx: Option<Tx>,
    not_before: Instant,
    last_error: String,
    /// How many of those that share the work have a connection, for all they know.
    connected: Rc<Cell<usize>>,
}

impl Link {
    fn new(address: Address, rules: Arc<Rules>) -> Self {
        Self {
            address,
            rules,
            tx: None,
            not_before: Instant::now(),
            last_error: String::new(),
            connected: Rc::default(),
        }
    }

    /// Brings the schema up to date, without the limits of requests, and connects.
    async fn open(&mut self) -> Result<(), Error> {
        let (unhurried, rules) = (self.address.clone().unhurried(), self.rules.clone());
        let migrate = async move {
            let conn = unhurried.connect().await?;
            migrate::run(&mut Tx::new(Conn::Postgres(Box::new(conn)), rules)).await
        };
        // Each connection takes the database some milliseconds.
        let (migrated, connected) = join(migrate, self.tx()).await;
        connected.and(migrated).map(|_| ())
    }

    async fn tx(&mut self) -> Result<&mut Tx, Error> {
        if self.tx.as_ref().is_none_or(Tx::is_lost) {
            if self.tx.take().is_some() {
                self.connected.update(|count| count - 1);
            }
            if Instant::now() < self.not_before {
                return Err(Error::Unavailable(self.last_error.clone()));
            }
            match self.address.connect().await {
                Ok(conn) => {
                    self.tx = Some(Tx::new(Conn::Postgres(Box::new(conn)), self.rules.clone()));
                    self.connected.update(|count| count + 1);
                }
                Err(error) => {
                    self.not_before = Instant::now() + RECONNECT_PAUSE;
                    self.last_error = error.to_string();
                    return Err(error);
                }
            }
        }
        self.tx.as_mut().ok_or_else(|| Error::Unavailable(self.last_error.clone()))
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::hooks::{AuthAction, AuthContext, Authorization, TransactionOperation};

    use super::*;
    use crate::config::Config;

    #[test]
    fn a_connection_that_cannot_undo_is_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let rules = Arc::new(Rules::new(&Config::default()));
        let (path, synchronous) = (dir.path().join("omoi.db"), SqliteSynchronous::Normal);
        sqlite::make(&path).unwrap();
        let ground = Arc::new(Ground::new(dir.path(), &Place::Sqlite { path: path.clone(), synchronous }));
        let mut file = File { path, synchronous, rules, ground, tx: None };
        let now = Clock::Real.now();
        let tx = file.tx().unwrap();
        at_once(tx.begin(now)).unwrap();
        let Conn::Sqlite(conn) = &mut tx.conn else { panic!("on SQLite") };
        let no_rollback = |asked: AuthContext<'_>| match asked.action {
            AuthAction::Transaction { operation: TransactionOperation::Rollback } => Authorization::Deny,
            _ => Authorization::Allow,
        };
        conn.authorizer(Some(no_rollback)).unwrap();
        at_once(tx.rollback());
        assert!(tx.is_lost() && !tx.can_go_on());
        at_once(file.tx().unwrap().begin(now)).unwrap();
    }
}
