//! The threads that own connections: one that writes and some that read. SQLite's work is done where it is asked
//! for, so a future over it is ready at once; PostgreSQL's threads run a small runtime each.

use std::{
    cell::{Cell, RefCell},
    panic::AssertUnwindSafe,
    path::Path,
    rc::Rc,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::FutureExt;
use tokio::{
    sync::{Notify, mpsc, oneshot},
    task::LocalSet,
    time::Instant,
};

use super::{
    Announce, Error, Place, Rules, Tx, checkpoint,
    job::{Item, Job, Ran},
    migrate,
    postgres::Address,
    sqlite,
    tx::Conn,
    writer::Writer,
};
use crate::{clock::Clock, config::SqliteSynchronous};

/// More threads than these, or than there are processors, do not make SQLite read faster; each has a copy of the schema.
const SQLITE_READERS: std::ops::RangeInclusive<usize> = 2..=4;
/// After a failed attempt to connect, callers are refused at once for this long.
const RECONNECT_PAUSE: Duration = Duration::from_millis(250);

type Reads = mpsc::Receiver<Box<dyn Job>>;

pub(super) async fn start(
    place: &Place,
    rules: Arc<Rules>,
    clock: Clock,
    announce: Announce,
    write_queue: mpsc::Receiver<Item>,
    read_queue: Reads,
    pool_size: usize,
) -> Result<(), Error> {
    let writer = Writer { queue: write_queue, clock: clock.clone(), announce };
    let (ready, opened) = oneshot::channel();
    match place.clone() {
        Place::Sqlite { path, synchronous } => {
            let shared = (rules.clone(), clock.clone());
            spawn("omoi-write", move || sqlite_writer(&path, synchronous, rules, writer, ready))?;
            opened.await.map_err(|_| stopped())??;
            let reads = Arc::new(Mutex::new(read_queue));
            let Place::Sqlite { path, .. } = place.clone() else { return Err(stopped()) };
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            let useful = cores.clamp(*SQLITE_READERS.start(), *SQLITE_READERS.end());
            for _ in 0..pool_size.clamp(1, useful) {
                let conn = sqlite::open(&path, synchronous, true)?;
                let (reads, (rules, clock)) = (reads.clone(), shared.clone());
                spawn("omoi-read", move || sqlite_reader(conn, rules, &clock, &reads))?;
            }
        }
        Place::Postgres(address) => {
            let readers = (address.clone(), rules.clone());
            spawn("omoi-write", move || run_local(postgres_writer(*address, rules, writer, ready)))?;
            opened.await.map_err(|_| stopped())??;
            let (address, rules) = readers;
            spawn("omoi-read", move || {
                run_local(postgres_readers(*address, rules, clock, read_queue, pool_size));
            })?;
        }
    }
    Ok(())
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

fn sqlite_writer(
    path: &Path,
    synchronous: SqliteSynchronous,
    rules: Arc<Rules>,
    mut writer: Writer,
    ready: oneshot::Sender<Result<(), Error>>,
) {
    let opened = open_to_write(path, synchronous).map(|conn| Tx::new(Conn::Sqlite(conn), rules));
    let mut tx = match opened.and_then(|mut tx| at_once(migrate::run(&mut tx)).map(|_| tx)) {
        Ok(tx) => {
            let _ = ready.send(Ok(()));
            tx
        }
        Err(error) => {
            let _ = ready.send(Err(error));
            return;
        }
    };
    while let Some(first) = writer.queue.blocking_recv() {
        let batch = writer.gather(first);
        at_once(write(&writer, &mut tx, batch));
    }
}

/// The connection that writes, and a thread that copies what it wrote into the database.
fn open_to_write(path: &Path, synchronous: SqliteSynchronous) -> Result<rusqlite::Connection, Error> {
    let mut conn = sqlite::open(path, synchronous, false)?;
    let parts = checkpoint::watch(&mut conn)?;
    let copier = sqlite::open(path, synchronous, false)?;
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

async fn postgres_writer(
    address: Address,
    rules: Arc<Rules>,
    mut writer: Writer,
    ready: oneshot::Sender<Result<(), Error>>,
) {
    let mut link = Link::new(address, rules);
    let opened = match link.tx().await {
        Ok(tx) => migrate::run(tx).await.map(|_| ()),
        Err(error) => Err(error),
    };
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

    async fn tx(&mut self) -> Result<&mut Tx, Error> {
        let lost = self.tx.as_ref().is_none_or(|tx| match &tx.conn {
            Conn::Postgres(conn) => conn.is_closed(),
            Conn::Sqlite(_) => false,
        });
        if lost {
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
