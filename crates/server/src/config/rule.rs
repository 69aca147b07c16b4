//! Values that depend on one another. Each alone is acceptable; together they must make sense.

use super::{Config, Entry, Error};

pub(super) fn check(config: &Config, entries: &[Entry]) -> Result<(), Error> {
    let Config { limits, lease, message, retry, agent, model, .. } = config;
    let rules = [
        (
            limits.event_bytes_max <= limits.body_bytes_max,
            ("limits.event_bytes_max", "may not exceed", "limits.body_bytes_max"),
        ),
        (
            limits.event_bytes_max <= limits.sandbox_event_bytes_max,
            ("limits.event_bytes_max", "may not exceed", "limits.sandbox_event_bytes_max"),
        ),
        (
            limits.message_bytes_max <= limits.body_bytes_max,
            ("limits.message_bytes_max", "may not exceed", "limits.body_bytes_max"),
        ),
        (
            limits.viewers_max <= limits.connections_max,
            ("limits.viewers_max", "may not exceed", "limits.connections_max"),
        ),
        (
            message.long_poll_max <= limits.request_timeout,
            ("message.long_poll_max", "may not exceed", "limits.request_timeout"),
        ),
        (
            message.offer_again_after < message.expire_after,
            ("message.offer_again_after", "must be shorter than", "message.expire_after"),
        ),
        (
            lease.request_min <= lease.request_max,
            ("lease.request_min", "may not exceed", "lease.request_max"),
        ),
        (retry.base <= retry.cap, ("retry.base", "may not exceed", "retry.cap")),
        (
            agent.missed_degraded <= agent.missed_failed,
            ("agent.missed_degraded", "may not exceed", "agent.missed_failed"),
        ),
        (
            agent.heartbeat_ttl_idle < lease.duration,
            ("agent.heartbeat_ttl_idle", "must be shorter than", "lease.duration"),
        ),
        (
            agent.heartbeat_ttl_running < lease.duration,
            ("agent.heartbeat_ttl_running", "must be shorter than", "lease.duration"),
        ),
        (
            model.first_byte_timeout <= model.call_timeout,
            ("model.first_byte_timeout", "may not exceed", "model.call_timeout"),
        ),
        (
            model.chunk_timeout <= model.call_timeout,
            ("model.chunk_timeout", "may not exceed", "model.call_timeout"),
        ),
        (
            model.sandbox_calls_max <= model.calls_max,
            ("model.sandbox_calls_max", "may not exceed", "model.calls_max"),
        ),
    ];
    match rules.into_iter().find(|(holds, _)| !holds) {
        Some((_, (one, rule, other))) => {
            Err(Error::Conflict { one: entry(entries, one), rule, other: entry(entries, other) })
        }
        None => Ok(()),
    }
}

fn entry(entries: &[Entry], key: &str) -> Box<Entry> {
    Box::new(entries.iter().find(|entry| entry.key == key).expect("rules name keys of the table").clone())
}
