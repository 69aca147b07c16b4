//! How far an agent may go: the limits of a launch, from a task's `execution_config` and the defaults. Money is also
//! counted by the server itself (`budget.rs`).

use std::time::Duration;

use omoi_protocol::launch::Limits;
use serde_json::{Map, Value as Json};

const YEAR_SECONDS: u64 = 31_536_000;
/// Whole numbers that a task may set, from and to. The lease outlasts two of the longest pauses between heartbeats.
const WHOLE: &[(&str, u64, u64)] = &[
    ("max_turns", 1, 1_000_000),
    ("max_iterations", 1, 1_000_000),
    ("max_duration_seconds", 1, YEAR_SECONDS),
    ("max_output_tokens", 1, 1_000_000_000_000),
    ("max_consecutive_errors", 1, 1_000_000),
    ("idle_seconds", 0, 86_400),
    ("wall_clock_seconds", 1, YEAR_SECONDS),
    ("heartbeat_seconds", 1, 60),
];
const MONEY: &[&str] = &["max_budget_usd", "max_total_cost_usd"];
/// Zero is no limit, as it is with budgets; the worker is told one that it cannot reach.
const NO_LIMIT_USD: f64 = 1e12;

/// What a task asks for over the defaults; what cannot be read was refused when it was set, and counts for nothing.
pub fn limits(defaults: Limits, config: &Map<String, Json>) -> Limits {
    let Ok(Json::Object(mut all)) = serde_json::to_value(defaults) else { return defaults };
    for (key, min, max) in WHOLE {
        let asked = config.get(*key).and_then(Json::as_u64);
        if let Some(number) = asked.filter(|number| (min..=max).contains(&number)) {
            all.insert((*key).to_owned(), number.into());
        }
    }
    for key in MONEY {
        let asked = config.get(*key).and_then(Json::as_f64).filter(|usd| *usd >= 0.0);
        if let Some(usd) = asked {
            all.insert((*key).to_owned(), if usd > 0.0 { usd } else { NO_LIMIT_USD }.into());
        }
    }
    serde_json::from_value(Json::Object(all)).unwrap_or(defaults)
}

/// How long a task wants its worker to wait for more once its work is done.
pub fn stays(config: &Map<String, Json>) -> Option<Duration> {
    config.get("idle_seconds").and_then(Json::as_u64).map(Duration::from_secs)
}

/// What is wrong with the limits that somebody wrote into a task's settings, naming the field.
pub fn check(config: &Map<String, Json>) -> Result<(), String> {
    for (key, min, max) in WHOLE {
        match config.get(*key) {
            None | Some(Json::Null) => {}
            Some(value) if value.as_u64().is_some_and(|number| (min..=max).contains(&&number)) => {}
            Some(value) => {
                return Err(format!(
                    "execution_config.{key} is {value}; it must be a whole number from {min} to {max}"
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_task_s_limits_win_each_by_itself() {
        let config = json!({
            "max_turns": 7, "idle_seconds": 0, "max_output_tokens": "many", "max_budget_usd": 0, "max_total_cost_usd": 2.5,
            "other": 1, "max_iterations": null,
        });
        let defaults = Limits { idle_seconds: 60, ..Limits::DEFAULT };
        let found = limits(defaults, config.as_object().unwrap());
        let expected = Limits {
            max_turns: 7,
            idle_seconds: 0,
            max_budget_usd: NO_LIMIT_USD,
            max_total_cost_usd: 2.5,
            ..Limits::DEFAULT
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn a_limit_that_cannot_be_read_is_named() {
        for (config, fine) in [
            (json!({ "max_turns": 1, "idle_seconds": null, "anything": "x" }), true),
            (json!({ "max_turns": 0 }), false),
            (json!({ "max_turns": 1.5 }), false),
            (json!({ "idle_seconds": -1 }), false),
            (json!({ "heartbeat_seconds": 600 }), false),
            (json!({ "max_output_tokens": "1" }), false),
        ] {
            let checked = check(config.as_object().unwrap());
            assert_eq!(checked.is_ok(), fine, "{config}");
        }
    }
}
