//! The numbers that rules need inside a transaction, taken from the configuration once.

use std::time::Duration;

use omoi_redact::Secrets;

use crate::{
    config::Config,
    domain::{
        budget, model_key::Keys, money::Usd, price::Prices, prune, restart, retry::Policy, score::Weights,
    },
};

const DAY: Duration = Duration::from_secs(24 * 3600);

#[derive(Debug, Clone)]
pub struct Rules {
    pub weights: Weights,
    pub retry: Policy,
    pub lease_duration: Duration,
    /// The shortest and the longest lease that may be asked for.
    pub lease_min: Duration,
    pub lease_max: Duration,
    pub unreachable_after: Duration,
    pub late_report_grace: Duration,
    /// What is kept of one sandbox's events.
    pub sandbox_event_bytes_max: i64,
    pub message_offer_again_after: Duration,
    pub message_expire_after: Duration,
    pub message_deliveries_max: i64,
    pub message_queue_max: i64,
    pub max_concurrent_per_project: i64,
    /// Whether projects that say nothing are autonomous.
    pub autonomous: bool,
    pub dispatch_max_live: i64,
    pub egress_kept: Duration,
    pub agent_ttl_idle: Duration,
    pub agent_ttl_running: Duration,
    pub agent_missed_degraded: u32,
    pub agent_missed_failed: u32,
    pub agent_restarts: restart::Limits,
    pub prune: prune::Limits,
    pub prices: Prices,
    /// The keys for models that the server has.
    pub keys: Keys,
    /// The model of agents whose project and task name none.
    pub model: String,
    pub budgets: budget::Defaults,
    /// What the judge may spend in a day; none is no limit.
    pub judge_day_budget: Option<Usd>,
    /// Masked in all that is written.
    pub secrets: Secrets,
}

impl Rules {
    pub fn new(config: &Config) -> Self {
        let queue = &config.task_queue;
        Self {
            weights: Weights {
                priority: queue.weight_priority,
                age: queue.weight_age,
                deadline: queue.weight_deadline,
                dependants: queue.weight_blockers,
                retries: queue.weight_retry,
                age_cap: queue.age_cap,
                dependants_cap: queue.blocker_cap,
                deadline_window: queue.deadline_slack,
                deadline_boost: queue.deadline_boost,
                starvation_age: queue.starvation_age,
                starvation_floor: queue.starvation_floor,
            },
            retry: Policy {
                max_retries: i64::from(config.retry.max_retries),
                base: config.retry.base,
                cap: config.retry.cap,
                jitter_percent: (config.retry.jitter * 100.0).round() as u32,
                ..Policy::default()
            },
            lease_duration: config.lease.duration,
            lease_min: config.lease.request_min,
            lease_max: config.lease.request_max,
            unreachable_after: config.lease.unreachable_after,
            late_report_grace: config.lease.late_report_grace,
            sandbox_event_bytes_max: i64::try_from(config.limits.sandbox_event_bytes_max).unwrap_or(i64::MAX),
            message_offer_again_after: config.message.offer_again_after,
            message_expire_after: config.message.expire_after,
            message_deliveries_max: i64::from(config.message.deliveries_max),
            message_queue_max: config.message.queue_max as i64,
            max_concurrent_per_project: i64::from(queue.max_concurrent_per_project),
            autonomous: config.dispatch.autonomous,
            dispatch_max_live: i64::from(config.dispatch.max_live),
            egress_kept: DAY * config.retention.egress_days,
            agent_ttl_idle: config.agent.heartbeat_ttl_idle,
            agent_ttl_running: config.agent.heartbeat_ttl_running,
            agent_missed_degraded: config.agent.missed_degraded,
            agent_missed_failed: config.agent.missed_failed,
            agent_restarts: restart::Limits {
                restarts_max: config.agent.restarts_max as usize,
                cooldown: config.agent.restart_cooldown,
            },
            prune: prune::Limits {
                keep: config.sandbox.keep_ended,
                count_max: config.sandbox.keep_ended_max,
                bytes_max: config.sandbox.keep_ended_bytes_max as u64,
                free_min: config.sandbox.disk_free_min as u64,
            },
            prices: Prices::new(&config.model.prices),
            keys: Keys {
                anthropic: config.model.anthropic_api_key.expose().is_some(),
                openai: config.model.openai_api_key.expose().is_some(),
            },
            model: config.worker.model.clone(),
            budgets: budget::Defaults {
                attempt: config.model.attempt_budget_usd,
                task: config.model.task_budget_usd,
                project: config.model.project_budget_usd,
            },
            judge_day_budget: Some(config.judge.day_budget_usd).filter(|limit| *limit > Usd::ZERO),
            secrets: config.secrets(),
        }
    }
}
