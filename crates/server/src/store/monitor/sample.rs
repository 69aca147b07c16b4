//! Figures over time. A day is kept as it was measured, a week in stretches of ten minutes.

use std::time::Duration;

use jiff::Timestamp;
use omoi_protocol::{
    MetricRange,
    monitor::{Figures, MetricPoint, MetricSeries},
};

use super::super::{
    Error, Store, Tx,
    mark::{mark, marked},
    value::{Row, params},
};
use crate::domain::{money::Usd, monitor::merge};

const FINE_FOR: Duration = Duration::from_secs(24 * 3600);
const KEPT_FOR: Duration = Duration::from_secs(7 * 24 * 3600);
const COARSE_SECONDS: i64 = 600;
/// After a gap, what happened longer ago than this is not put into one figure.
const BACK_MAX: Duration = Duration::from_secs(600);
/// More of something is as good as this many.
const COUNT_MAX: usize = 100_000;
/// How long a sandbox may take to start, to be counted.
const SPAWN_MAX: Duration = Duration::from_secs(3600);
const ROWS_MAX: usize = 20_000;

/// What was last measured: when, and running sums.
struct Marks {
    at: Option<Timestamp>,
    position: i64,
    spent: i64,
}

impl Store {
    /// Measures a stretch of time, once for all processes; none where somebody else has.
    pub async fn monitor_measure(&self, step: Duration) -> Result<Option<MetricPoint>, Error> {
        let step_seconds = i64::try_from(step.as_secs()).unwrap_or(i64::MAX).max(1);
        let (point, position, spent) =
            self.read(async move |tx| measure(tx, step, step_seconds).await).await?;
        let kept = point.clone();
        let is_new = self
            .write(async move |tx| {
                let sql = "INSERT INTO monitor_samples (step_seconds, at, body) VALUES ($1, $2, $3) \
                           ON CONFLICT DO NOTHING RETURNING at";
                let body = serde_json::to_string(&kept.figures).unwrap_or_default();
                if tx.returning(sql, params![step_seconds, kept.at, body]).await?.is_empty() {
                    return Ok(false);
                }
                for (name, value) in
                    [("at", tx.now.as_microsecond()), ("position", position), ("spent", spent)]
                {
                    mark(tx, name, value).await?;
                }
                coarsen(tx).await?;
                Ok(true)
            })
            .await?;
        Ok(is_new.then_some(point))
    }

    /// The newest samples, oldest first.
    pub async fn monitor_history(&self, limit: usize) -> Result<Vec<MetricPoint>, Error> {
        self.read(async move |tx| {
            let since = tx.now - FINE_FOR;
            let sql = "SELECT at, body FROM monitor_samples WHERE at >= $1 ORDER BY at DESC LIMIT $2";
            let rows = tx.query(sql, params![since, limit]).await?;
            rows.iter().rev().map(read).collect()
        })
        .await
    }

    pub async fn monitor_series(&self, range: MetricRange) -> Result<MetricSeries, Error> {
        let (back, step) = match range {
            MetricRange::Hour => (3600, 30),
            MetricRange::Day => (24 * 3600, 300),
            MetricRange::Week => (7 * 24 * 3600, 1800),
        };
        self.read(async move |tx| {
            let since = tx.now - Duration::from_secs(back);
            let sql = "SELECT at, body FROM monitor_samples WHERE at >= $1 ORDER BY at LIMIT $2";
            let rows = tx.query(sql, params![since, ROWS_MAX]).await?;
            let points = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
            Ok(MetricSeries { range, step_seconds: step, points: merge(&points, step.cast_signed()) })
        })
        .await
    }
}

fn read(row: &Row) -> Result<MetricPoint, Error> {
    Ok(MetricPoint { at: row.get("at")?, figures: row.json("body")? })
}

async fn measure(tx: &mut Tx, step: Duration, step_seconds: i64) -> Result<(MetricPoint, i64, i64), Error> {
    let position = number(tx, "SELECT COALESCE(max(pos), 0) AS n FROM events", vec![]).await?;
    let spent = number(
        tx,
        "SELECT CAST(COALESCE(sum(spent), 0) AS BIGINT) AS n FROM spend WHERE level = 'all'",
        vec![],
    )
    .await?;
    let marks = Marks {
        at: marked(tx, "at").await?.and_then(|at| Timestamp::from_microsecond(at).ok()),
        position: marked(tx, "position").await?.unwrap_or(position),
        spent: marked(tx, "spent").await?.unwrap_or(spent),
    };
    let least = tx.now - BACK_MAX;
    let since = marks.at.unwrap_or(tx.now - step).max(least);
    let seconds = (tx.now - marks.at.unwrap_or(since)).total(jiff::Unit::Second).unwrap_or(0.0).max(1.0);
    let mut figures = Figures {
        events_per_second: (position - marks.position).max(0) as f64 / seconds,
        cost_usd: Usd::from_nanos((spent - marks.spent).max(0)).as_f64(),
        ..Figures::default()
    };
    happened(tx, since, &mut figures).await?;
    stands(tx, &mut figures).await?;
    let slot = tx.now.as_second().div_euclid(step_seconds) * step_seconds;
    let at = Timestamp::from_second(slot).unwrap_or(tx.now);
    Ok((MetricPoint { at, figures }, position, spent))
}

/// What has happened since then.
async fn happened(tx: &mut Tx, since: Timestamp, figures: &mut Figures) -> Result<(), Error> {
    let now = tx.now;
    let sql = "SELECT count(*) AS n, CAST(avg(completed_at - started_at) AS DOUBLE PRECISION) AS mean FROM tasks \
               WHERE completed_at > $1 AND completed_at <= $2 AND status = 'completed'";
    if let Some(row) = tx.query_one(sql, params![since, now]).await? {
        figures.completions = row.get::<i64>("n")? as f64;
        figures.task_duration_seconds = seconds(row.get("mean")?);
    }
    let sql = "SELECT count(*) AS n FROM sandboxes WHERE ended_at > $1 AND ended_at <= $2 AND status IN ('failed', 'lost')";
    figures.failures = number(tx, sql, params![since, now]).await? as f64;
    let sql = "SELECT CAST(avg(s.created_at - t.created_at) AS DOUBLE PRECISION) AS mean FROM sandboxes s \
               JOIN tasks t ON t.id = s.task_id WHERE s.created_at > $1 AND s.created_at <= $2 AND s.generation = 1";
    figures.queue_wait_seconds = seconds(mean(tx, sql, params![since, now]).await?);
    let sql = "SELECT CAST(avg(started_at - created_at) AS DOUBLE PRECISION) AS mean FROM sandboxes \
               WHERE created_at > $1 AND started_at > $2 AND started_at <= $3";
    figures.spawn_seconds = seconds(mean(tx, sql, params![since - SPAWN_MAX, since, now]).await?);
    Ok(())
}

/// How things stand.
async fn stands(tx: &mut Tx, figures: &mut Figures) -> Result<(), Error> {
    let pending =
        "SELECT count(*) AS n FROM (SELECT 1 FROM tasks WHERE status = 'pending' LIMIT $1) AS some_tasks";
    figures.queue_depth = number(tx, pending, params![COUNT_MAX]).await? as f64;
    let running = "SELECT count(*) AS n FROM tasks WHERE status IN ('assigned', 'running')";
    figures.running_tasks = number(tx, running, vec![]).await? as f64;
    let waiting = "SELECT count(*) AS n FROM tasks WHERE waiting_reason IS NOT NULL \
                   AND status IN ('pending', 'assigned', 'running')";
    figures.waiting_tasks = number(tx, waiting, vec![]).await? as f64;
    let sql = "SELECT count(*) AS n, min(last_heartbeat_at) AS oldest FROM sandboxes WHERE live = 1";
    if let Some(row) = tx.query_one(sql, vec![]).await? {
        figures.live_sandboxes = row.get::<i64>("n")? as f64;
        let oldest: Option<Timestamp> = row.get("oldest")?;
        figures.heartbeat_age_seconds =
            oldest.and_then(|at| (tx.now - at).total(jiff::Unit::Second).ok()).map(|age| age.max(0.0));
    }
    let conflicts = "SELECT count(*) AS n FROM conflicts WHERE cleared_at IS NULL";
    figures.open_conflicts = number(tx, conflicts, vec![]).await? as f64;
    Ok(())
}

/// What is older than a day becomes fewer rows, and what is older than a week goes.
async fn coarsen(tx: &mut Tx) -> Result<(), Error> {
    let whole = (tx.now - FINE_FOR).as_second().div_euclid(COARSE_SECONDS) * COARSE_SECONDS;
    let until = Timestamp::from_second(whole).unwrap_or(tx.now - FINE_FOR);
    let sql =
        "SELECT at, body FROM monitor_samples WHERE step_seconds <> $1 AND at < $2 ORDER BY at LIMIT $3";
    let rows = tx.query(sql, params![COARSE_SECONDS, until, ROWS_MAX]).await?;
    // Ten minutes' worth at a time: there is no hurry.
    if rows.len() > 1 {
        let points = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        for point in merge(&points, COARSE_SECONDS) {
            let sql = "INSERT INTO monitor_samples (step_seconds, at, body) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
            let body = serde_json::to_string(&point.figures).unwrap_or_default();
            tx.execute(sql, params![COARSE_SECONDS, point.at, body]).await?;
        }
        let last = points.last().map_or(until, |point| point.at);
        let sql = "DELETE FROM monitor_samples WHERE step_seconds <> $1 AND at <= $2";
        tx.execute(sql, params![COARSE_SECONDS, last]).await?;
    }
    tx.execute("DELETE FROM monitor_samples WHERE at < $1", params![tx.now - KEPT_FOR]).await
}

async fn number(tx: &mut Tx, sql: &str, values: Vec<super::super::value::Value>) -> Result<i64, Error> {
    tx.query_one(sql, values).await?.map_or(Ok(0), |row| row.get("n"))
}

async fn mean(tx: &mut Tx, sql: &str, values: Vec<super::super::value::Value>) -> Result<Option<f64>, Error> {
    tx.query_one(sql, values).await?.map_or(Ok(None), |row| row.get("mean"))
}

fn seconds(micros: Option<f64>) -> Option<f64> {
    micros.map(|micros| (micros / 1e6).max(0.0))
}
