//! The database goes away under load and comes back: nothing may be acknowledged that is not stored, and
//! everything must go on by itself. Writers do as workers do: what was not acknowledged is sent again.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::{Context, ensure};
use serde_json::json;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use crate::{
    bench::Bench,
    omoi::Omoi,
    place::{Kind, Place},
    proxy::Proxy,
    report::{Report, Row, Target, figure},
    sample::{self, Sandbox},
    wire::{Conn, Request},
};

const WRITERS: usize = 32;
const AWAY: Duration = Duration::from_secs(3);
const RETRY_PERIOD: Duration = Duration::from_millis(20);
const READY_PERIOD: Duration = Duration::from_millis(20);
/// For every writer to get through again, and for the last answers.
const RECOVERY_LIMIT: Duration = Duration::from_secs(60);

pub async fn away(bench: &Bench, kind: Kind, report: &mut Report) -> anyhow::Result<()> {
    if kind == Kind::Sqlite {
        return Ok(());
    }
    let postgres = bench.postgres.as_ref().context("no PostgreSQL was given")?;
    let mut place = Place::fresh(bench, kind).await?;
    let proxy = Proxy::start(postgres.at).await?;
    place.go_through(bench, proxy.at);
    let omoi = Omoi::start(bench, &place).await?;
    let sandboxes = omoi.sandboxes(WRITERS).await?;
    let run = Run::make(&omoi, &sandboxes, &proxy, bench.scale.measure).await?;
    omoi.stop().await?;
    let client = postgres.connect(place.database().context("no database")?).await?;
    let stored = Stored::read(&client, &sandboxes, &run.writers).await?;
    drop(client);
    place.remove(bench).await?;

    let acknowledged: u64 = run.writers.iter().map(|writer| writer.acknowledged).sum();
    let details = json!({
        "acknowledged": acknowledged,
        "acknowledged_while_away": run.count(|at| at > run.cut && at < run.mended),
        "answers": run.answers(),
        "connections_broken": run.writers.iter().map(|writer| writer.broken).sum::<u64>(),
        "longest_answer_ms": run.writers.iter().map(|writer| writer.longest.as_millis()).max(),
        "first_through_ms": run.first_after_mend().as_millis(),
        "ready_again_ms": run.ready_again.saturating_sub(run.mended).as_millis(),
        "duplicates": stored.duplicates,
        "out_of_order": stored.out_of_order,
    });
    report.push(
        Row::new("db_away: acknowledged and not stored", kind, figure(stored.missing as f64, "events"))
            .target(Target::AtMost(0.0))
            .wrong(run.wrong(&stored))
            .details(details),
    );
    let back = run.all_through.saturating_sub(run.mended);
    report.push(Row::new("db_away: all writers through again", kind, figure(back.as_secs_f64(), "s")));
    Ok(())
}

/// What the writers lived through; times count from the beginning.
struct Run {
    cut: Duration,
    mended: Duration,
    all_through: Duration,
    unready_seen: bool,
    ready_again: Duration,
    writers: Vec<Writer>,
}

impl Run {
    async fn make(omoi: &Omoi, sandboxes: &[Sandbox], proxy: &Proxy, calm: Duration) -> anyhow::Result<Self> {
        let began = Instant::now();
        let (stop, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        let mut last_acks = Vec::new();
        for (order, sandbox) in sandboxes.iter().enumerate() {
            let last_ack = Arc::new(AtomicU64::new(0));
            last_acks.push(Arc::clone(&last_ack));
            let writer = Writer { order, ..Writer::default() };
            tasks.spawn(writer.run(omoi.at, sandbox.clone(), began, last_ack, stopped.clone()));
        }
        let ready = tokio::spawn(watch_ready(omoi.get("/ready"), omoi.at, began, stopped));

        sleep(calm).await;
        let cut = began.elapsed();
        proxy.cut();
        sleep(AWAY).await;
        let mended = began.elapsed();
        proxy.mend();
        let through = async {
            while last_acks.iter().any(|ack| u128::from(ack.load(Relaxed)) <= mended.as_micros()) {
                sleep(Duration::from_millis(1)).await;
            }
            began.elapsed()
        };
        let all_through =
            timeout(RECOVERY_LIMIT, through).await.context("writers do not get through again")?;
        sleep(calm).await;
        stop.send_replace(true);
        let mut writers = timeout(RECOVERY_LIMIT, tasks.join_all()).await.context("answers are missing")?;
        writers.sort_by_key(|writer| writer.order);
        let ready = timeout(RECOVERY_LIMIT, ready).await.context("no answer from /ready")??;
        let unready_seen = ready.iter().any(|(at, status)| *at > cut && *at < mended && *status == 503);
        let again = ready.iter().find(|(at, status)| *at > mended && *status == 200);
        let ready_again = again.context("/ready stays away")?.0;
        Ok(Self { cut, mended, all_through, unready_seen, ready_again, writers })
    }

    fn count(&self, when: impl Fn(Duration) -> bool) -> usize {
        self.writers.iter().flat_map(|writer| &writer.acks).filter(|at| when(**at)).count()
    }

    fn first_after_mend(&self) -> Duration {
        let after = self.writers.iter().flat_map(|writer| &writer.acks).filter(|at| **at > self.mended);
        after.min().map_or(Duration::ZERO, |at| *at - self.mended)
    }

    fn answers(&self) -> BTreeMap<u16, u64> {
        let mut all = BTreeMap::new();
        for (status, count) in self.writers.iter().flat_map(|writer| &writer.answers) {
            *all.entry(*status).or_default() += count;
        }
        all
    }

    fn wrong(&self, stored: &Stored) -> Option<String> {
        let strange: Vec<u16> =
            self.answers().into_keys().filter(|status| !matches!(status, 200..=299 | 429 | 503)).collect();
        let hasty: u64 = self.writers.iter().map(|writer| writer.no_retry_after).sum();
        let Stored { missing, duplicates, out_of_order } = *stored;
        if missing + duplicates + out_of_order > 0 {
            Some(format!(
                "{missing} acknowledged and not stored, {duplicates} twice, {out_of_order} out of order"
            ))
        } else if !strange.is_empty() {
            Some(format!("answers other than 503: {strange:?}"))
        } else if hasty > 0 {
            Some(format!("{hasty} answers of 503 without Retry-After"))
        } else if !self.unready_seen {
            Some("/ready did not say that the database is away".to_owned())
        } else {
            None
        }
    }
}

#[derive(Default)]
struct Writer {
    /// Whose it is, among the sandboxes.
    order: usize,
    acknowledged: u64,
    acks: Vec<Duration>,
    answers: BTreeMap<u16, u64>,
    no_retry_after: u64,
    broken: u64,
    longest: Duration,
}

impl Writer {
    async fn run(
        mut self,
        at: SocketAddr,
        sandbox: Sandbox,
        began: Instant,
        last_ack: Arc<AtomicU64>,
        stopped: watch::Receiver<bool>,
    ) -> Self {
        let mut request = sample::single(at, &sandbox);
        let mut conn = None;
        while !*stopped.borrow() {
            request.number_from(self.acknowledged + 1);
            if self.send(at, &mut conn, &request).await {
                self.acknowledged += 1;
                self.acks.push(began.elapsed());
                last_ack.store(u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX), Relaxed);
            } else {
                sleep(RETRY_PERIOD).await;
            }
        }
        self
    }

    /// Whether it was acknowledged. A connection that breaks is made anew.
    async fn send(&mut self, at: SocketAddr, conn: &mut Option<Conn>, request: &Request) -> bool {
        let began = Instant::now();
        let answered = async {
            if conn.is_none() {
                *conn = Some(Conn::open(at).await?);
            }
            let conn = conn.as_mut().ok_or(std::io::ErrorKind::NotConnected)?;
            let answer = conn.ask(request).await?;
            let waits = answer.header("retry-after").is_some();
            std::io::Result::Ok((answer.status, answer.is_success(), waits))
        };
        let answered = answered.await;
        self.longest = self.longest.max(began.elapsed());
        match answered {
            Ok((status, success, waits)) => {
                *self.answers.entry(status).or_default() += 1;
                self.no_retry_after += u64::from(!success && !waits);
                success
            }
            Err(_) => {
                self.broken += 1;
                *conn = None;
                false
            }
        }
    }
}

/// What /ready said, and when.
async fn watch_ready(
    request: Request,
    at: SocketAddr,
    began: Instant,
    stopped: watch::Receiver<bool>,
) -> Vec<(Duration, u16)> {
    let mut said = Vec::new();
    while !*stopped.borrow() {
        if let Ok(mut conn) = Conn::open(at).await
            && let Ok(answer) = conn.ask(&request).await
        {
            said.push((began.elapsed(), answer.status));
        }
        sleep(READY_PERIOD).await;
    }
    said
}

/// What the database holds against what was acknowledged, asked of the database itself.
struct Stored {
    missing: u64,
    duplicates: u64,
    out_of_order: u64,
}

impl Stored {
    async fn read(
        client: &tokio_postgres::Client,
        sandboxes: &[Sandbox],
        writers: &[Writer],
    ) -> anyhow::Result<Self> {
        ensure!(sandboxes.len() == writers.len(), "a writer is missing");
        let (mut missing, mut duplicates) = (0, 0);
        for (sandbox, writer) in sandboxes.iter().zip(writers) {
            let acknowledged = i64::try_from(writer.acknowledged)?;
            let sql = "SELECT count(*), count(DISTINCT worker_seq), \
                       count(DISTINCT worker_seq) FILTER (WHERE worker_seq BETWEEN 1 AND $2) \
                       FROM events WHERE entity_id = $1 AND worker_seq IS NOT NULL";
            let row = client.query_one(sql, &[&sandbox.id, &acknowledged]).await?;
            let (all, different, promised): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
            missing += u64::try_from(acknowledged - promised)?;
            duplicates += u64::try_from(all - different)?;
        }
        let sql = "SELECT count(*) FROM (SELECT worker_seq - lag(worker_seq) OVER (PARTITION BY entity_id ORDER BY seq) \
                   AS step FROM events WHERE worker_seq IS NOT NULL) AS steps WHERE step <> 1";
        let out_of_order: i64 = client.query_one(sql, &[]).await?.get(0);
        Ok(Self { missing, duplicates, out_of_order: u64::try_from(out_of_order)? })
    }
}
