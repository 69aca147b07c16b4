//! The monitor: takes the figures of each stretch of time, learns what is usual, and tells of what is not. The rules are in
//! `domain::monitor`.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use jiff::Timestamp;
use omoi_protocol::{
    AnomalyId, AnomalyType, SandboxId,
    monitor::{Anomaly, MetricPoint},
};

use super::node::Node;
use crate::{
    clock::Clock,
    config,
    domain::monitor::{
        Baseline, Deviation, HISTORY_MAX, METRICS, Metric, Score, THRESHOLD, deviation, is_busy, is_new,
        score, streak,
    },
    store::{Error, Store, Working},
};

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub anomalies: usize,
}

#[derive(Clone)]
pub struct Monitor {
    store: Store,
    clock: Clock,
    node: Node,
    pub settings: config::Monitor,
    /// How many unusual readings each sandbox has had in a row.
    rows: Arc<Mutex<HashMap<SandboxId, u32>>>,
}

impl Monitor {
    pub fn new(store: Store, clock: Clock, node: Node, settings: config::Monitor) -> Self {
        Self { store, clock, node, settings, rows: Arc::default() }
    }

    pub async fn tick(&self) -> Result<Report, Error> {
        if !self.node.is_keeper() {
            return Ok(Report::default());
        }
        let Some(point) = self.store.monitor_measure(self.settings.period).await? else {
            return Ok(Report::default());
        };
        publish(&point);
        self.store.monitor_learn().await?;
        let mut found = self.figures().await?;
        found.extend(self.agents().await?);
        let anomalies = found.len();
        if anomalies > 0 {
            metrics::counter!("omoi_anomalies_total").increment(anomalies as u64);
            self.store.anomaly_add(found).await?;
        }
        Ok(Report { anomalies })
    }

    /// Figures that are far from what they were. One that stays there is told of once.
    async fn figures(&self) -> Result<Vec<Anomaly>, Error> {
        let points = self.store.monitor_history(HISTORY_MAX + 2).await?;
        let now = self.clock.now();
        Ok(METRICS.iter().filter_map(|metric| unusual(metric, &points, now)).collect())
    }

    /// Agents whose readings have been unusual some times in a row.
    async fn agents(&self) -> Result<Vec<Anomaly>, Error> {
        let usual = self.store.monitor_baselines().await?;
        let working = self.store.monitor_working().await?;
        let now = self.clock.now();
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = HashMap::with_capacity(working.len());
        let (mut found, mut worst) = (Vec::new(), BTreeMap::new());
        for agent in &working {
            let baseline = usual.get(&agent.subject).copied().unwrap_or_default();
            let scored = score(&agent.reading, agent.impact, &baseline);
            if let Some(score) = &scored {
                let worst = worst.entry(&agent.subject).or_insert(0.0f64);
                *worst = worst.max(score.total);
            }
            let row = streak(rows.get(&agent.sandbox_id).copied().unwrap_or(0), scored.as_ref());
            if let (true, Some(score)) = (is_new(row), &scored) {
                found.push(of_agent(agent, score, &baseline, now));
            }
            next.insert(agent.sandbox_id.clone(), row);
        }
        *rows = next;
        for ((kind, phase), score) in worst {
            metrics::gauge!("omoi_agent_anomaly_score", "kind" => kind.clone(), "phase" => phase.clone())
                .set(score);
        }
        Ok(found)
    }
}

/// The newest figures, for whoever collects them.
fn publish(point: &MetricPoint) {
    for metric in METRICS {
        if let Some(value) = (metric.get)(&point.figures) {
            metrics::gauge!(format!("omoi_monitor_{}", metric.name)).set(value);
        }
    }
}

/// Only stretches with work in them are compared: that work begins is nothing unusual.
fn unusual(metric: &Metric, points: &[MetricPoint], now: Timestamp) -> Option<Anomaly> {
    let (last, before) = points.split_last().filter(|(last, _)| is_busy(&last.figures))?;
    let value = (metric.get)(&last.figures)?;
    let busy = before.iter().filter(|point| is_busy(&point.figures));
    let history: Vec<f64> = busy.filter_map(|point| (metric.get)(&point.figures)).collect();
    let found = deviation(&history, value, metric.noise, metric.rise)?;
    if let Some((previous, earlier)) = history.split_last()
        && let Some(known) = deviation(earlier, *previous, metric.noise, metric.rise)
        && known.severity >= found.severity
    {
        return None;
    }
    Some(of_metric(metric, value, &found, now))
}

fn of_metric(metric: &Metric, value: f64, found: &Deviation, now: Timestamp) -> Anomaly {
    Anomaly {
        id: AnomalyId::generate(),
        metric: metric.name.to_owned(),
        sandbox_id: None,
        subject: None,
        anomaly_type: AnomalyType::Spike,
        severity: found.severity,
        value,
        baseline: found.mean,
        deviation: found.by,
        description: format!(
            "{} is {value:.2}, {:.1} standard deviations above its mean of {:.2} while there is work",
            metric.name, found.by, found.mean
        ),
        detected_at: now,
        acknowledged_at: None,
        acknowledged_by: None,
    }
}

fn of_agent(agent: &Working, score: &Score, usual: &Baseline, now: Timestamp) -> Anomaly {
    let (kind, phase) = &agent.subject;
    Anomaly {
        id: AnomalyId::generate(),
        metric: "agent_score".to_owned(),
        sandbox_id: Some(agent.sandbox_id.clone()),
        subject: Some(format!("{kind} {phase}")),
        anomaly_type: AnomalyType::Spike,
        severity: score.severity(),
        value: score.total,
        baseline: THRESHOLD,
        deviation: score.total / THRESHOLD,
        description: format!(
            "scores {:.2} of 1: time {:.2} ({:.0} s, usually {:.0} s), failures {:.2}, resources {:.2}, tasks that wait for it {:.2}",
            score.total,
            score.latency,
            agent.reading.latency_ms / 1000.0,
            usual.latency_ms / 1000.0,
            score.errors,
            score.resources,
            score.impact
        ),
        detected_at: now,
        acknowledged_at: None,
        acknowledged_by: None,
    }
}
