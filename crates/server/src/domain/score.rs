//! The score that decides which ready task is claimed first, and the rank that keeps that order in an index.
//!
//! A score grows with time, so it cannot be stored; but until the age term reaches its cap every task gains
//! at the same speed, and after it none gains any more. Within each of these two classes the order of two
//! tasks never changes by itself, and a [`Rank`] holds a key with that order. The best task is the best by
//! [`score`] among the first of each class. A rank is stored with the time at which it is to be computed
//! anew.
//!
//! Ranks know nothing of deadlines. A deadline counts in its last stretch only, so the store looks at the few
//! tasks that are within [`Weights::deadline_window`] of theirs, or past it, on their own and by score.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use omoi_protocol::Priority;
use serde::{Deserialize, Deserializer, Serialize};

/// What the score of a task depends on, besides the time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    pub priority: Priority,
    pub created_at: Timestamp,
    pub deadline_at: Option<Timestamp>,
    /// Pending tasks that depend on this one.
    pub dependants_pending: i64,
    pub retry_count: i64,
    pub max_retries: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Weights {
    #[serde(deserialize_with = "amount")]
    pub priority: f64,
    #[serde(deserialize_with = "amount")]
    pub age: f64,
    #[serde(deserialize_with = "amount")]
    pub deadline: f64,
    #[serde(deserialize_with = "amount")]
    pub dependants: f64,
    /// For the retries a task has left.
    #[serde(deserialize_with = "amount")]
    pub retries: f64,
    /// Waiting longer than this adds nothing.
    #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::required")]
    pub age_cap: Duration,
    /// More dependants than this add nothing.
    pub dependants_cap: u32,
    /// How long before a deadline it begins to count.
    #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::required")]
    pub deadline_window: Duration,
    /// Multiplies the score within that window, while the deadline can still be met.
    #[serde(deserialize_with = "amount")]
    pub deadline_boost: f64,
    /// Who has waited this long gets at least the floor. Takes effect no earlier than the age cap.
    #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::required")]
    pub starvation_age: Duration,
    #[serde(deserialize_with = "amount")]
    pub starvation_floor: f64,
}

impl Default for Weights {
    fn default() -> Self {
        Self {
            priority: 0.45,
            age: 0.20,
            deadline: 0.15,
            dependants: 0.15,
            retries: 0.05,
            age_cap: Duration::from_secs(3_600),
            dependants_cap: 10,
            deadline_window: Duration::from_secs(900),
            deadline_boost: 1.25,
            starvation_age: Duration::from_secs(7_200),
            starvation_floor: 0.6,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RankClass {
    /// Younger than the age cap.
    Aging,
    /// As old as the age cap, or older.
    Aged,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rank {
    pub class: RankClass,
    /// Higher is better, and comparable within one class only.
    pub key: f64,
    /// When the rank is to be computed anew.
    pub next_at: Option<Timestamp>,
}

pub fn score(facts: &Facts, weights: &Weights, now: Timestamp) -> f64 {
    let slack = facts.deadline_at.map(|deadline| deadline.duration_since(now));
    let sum = constant_part(facts, weights)
        + weights.age * age_share(facts, weights, now)
        + weights.deadline * slack.map_or(0.0, |slack| urgency(slack, weights));
    let can_still_be_met =
        |slack: SignedDuration| !slack.is_negative() && slack.unsigned_abs() <= weights.deadline_window;
    let boosted = if slack.is_some_and(can_still_be_met) { sum * weights.deadline_boost } else { sum };
    if now >= starving_at(facts, weights) { boosted.max(weights.starvation_floor) } else { boosted }
}

pub fn rank(facts: &Facts, weights: &Weights, now: Timestamp) -> Rank {
    let constant = constant_part(facts, weights);
    let aged_at = aged_at(facts, weights);
    let starving_at = starving_at(facts, weights);
    if now < aged_at {
        // At any time, the score is this key plus a number that is the same for all tasks of the class.
        let created = facts.created_at.duration_since(RANK_EPOCH).as_secs_f64();
        let key = constant - weights.age * created / weights.age_cap.as_secs_f64();
        Rank { class: RankClass::Aging, key, next_at: Some(aged_at) }
    } else if now < starving_at {
        Rank { class: RankClass::Aged, key: constant + weights.age, next_at: Some(starving_at) }
    } else {
        let key = (constant + weights.age).max(weights.starvation_floor);
        Rank { class: RankClass::Aged, key, next_at: None }
    }
}

/// 2025-01-01. Near enough to every `created_at` for keys to tell microseconds apart.
const RANK_EPOCH: Timestamp = Timestamp::constant(1_735_689_600, 0);

/// All that time does not change.
fn constant_part(facts: &Facts, weights: &Weights) -> f64 {
    let priority = match facts.priority {
        Priority::Critical => 1.0,
        Priority::High => 0.75,
        Priority::Medium => 0.5,
        Priority::Low => 0.25,
    };
    let dependants = share(facts.dependants_pending, i64::from(weights.dependants_cap));
    let retries_left = 1.0 - share(facts.retry_count, facts.max_retries);
    weights.priority * priority + weights.dependants * dependants + weights.retries * retries_left
}

/// How much of `whole` is in `part`, from 0 to 1; a whole below one counts as one.
fn share(part: i64, whole: i64) -> f64 {
    (part.max(0) as f64 / whole.max(1) as f64).min(1.0)
}

fn age_share(facts: &Facts, weights: &Weights, now: Timestamp) -> f64 {
    if now >= aged_at(facts, weights) {
        return 1.0;
    }
    let age = now.duration_since(facts.created_at).as_secs_f64();
    (age / weights.age_cap.as_secs_f64()).max(0.0)
}

fn urgency(slack: SignedDuration, weights: &Weights) -> f64 {
    if slack <= SignedDuration::ZERO {
        return 1.0;
    }
    (1.0 - slack.as_secs_f64() / weights.deadline_window.as_secs_f64()).max(0.0)
}

fn aged_at(facts: &Facts, weights: &Weights) -> Timestamp {
    facts.created_at.saturating_add(weights.age_cap).unwrap_or(Timestamp::MAX)
}

fn starving_at(facts: &Facts, weights: &Weights) -> Timestamp {
    let age = weights.starvation_age.max(weights.age_cap);
    facts.created_at.saturating_add(age).unwrap_or(Timestamp::MAX)
}

fn amount<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let amount = f64::deserialize(deserializer)?;
    if amount.is_finite() && amount >= 0.0 {
        return Ok(amount);
    }
    Err(serde::de::Error::custom(format_args!("{amount} is not a number from 0 up")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Timestamp = Timestamp::constant(1_750_000_000, 0);
    const MAX_BY_DEFAULT: f64 = 1.25;

    fn seconds(count: i64) -> SignedDuration {
        SignedDuration::from_secs(count)
    }

    fn fresh(priority: Priority) -> Facts {
        Facts {
            priority,
            created_at: NOW,
            deadline_at: None,
            dependants_pending: 0,
            retry_count: 0,
            max_retries: 3,
        }
    }

    fn waiting(age: i64) -> Facts {
        Facts { created_at: NOW - seconds(age), ..fresh(Priority::Low) }
    }

    fn due_in(slack: i64) -> Facts {
        Facts { deadline_at: Some(NOW + seconds(slack)), ..fresh(Priority::Medium) }
    }

    #[test]
    fn the_score_is_the_weighted_sum_of_its_terms() {
        let table = [
            ("critical", fresh(Priority::Critical), 0.50),
            ("high", fresh(Priority::High), 0.3875),
            ("medium", fresh(Priority::Medium), 0.275),
            ("low", fresh(Priority::Low), 0.1625),
            ("half an hour old", waiting(1_800), 0.2625),
            ("an hour old", waiting(3_600), 0.3625),
            ("almost starving", waiting(7_199), 0.3625),
            ("starving", waiting(7_200), 0.6),
            ("not yet created", waiting(-60), 0.1625),
            ("3 dependants", Facts { dependants_pending: 3, ..waiting(0) }, 0.2075),
            ("many dependants", Facts { dependants_pending: 99, ..waiting(0) }, 0.3125),
            ("one retry of two", Facts { retry_count: 1, max_retries: 2, ..waiting(0) }, 0.1375),
            ("no retry left", Facts { retry_count: 5, ..waiting(0) }, 0.1125),
            ("no retries at all", Facts { max_retries: 0, ..waiting(0) }, 0.1625),
            ("deadline far away", due_in(901), 0.275),
            ("deadline at the window's edge", due_in(900), 0.275 * 1.25),
            ("deadline in half a window", due_in(450), 0.35 * 1.25),
            ("deadline now", due_in(0), 0.425 * 1.25),
            ("deadline missed", due_in(-1), 0.425),
        ];
        for (what, facts, expected) in table {
            let score = score(&facts, &Weights::default(), NOW);
            assert!((score - expected).abs() < 1e-12, "{what}: {score}, not {expected}");
        }
    }

    #[test]
    fn a_rank_says_when_it_is_to_be_computed_anew() {
        let table = [
            (0, RankClass::Aging, Some(3_600)),
            (3_599, RankClass::Aging, Some(3_600)),
            (3_600, RankClass::Aged, Some(7_200)),
            (7_199, RankClass::Aged, Some(7_200)),
            (7_200, RankClass::Aged, None),
        ];
        for (age, class, next_age) in table {
            let facts = waiting(age);
            let rank = rank(&facts, &Weights::default(), NOW);
            let next_at = next_age.map(|age| facts.created_at + seconds(age));
            assert_eq!((rank.class, rank.next_at), (class, next_at), "at the age of {age} s");
        }
    }

    #[test]
    fn the_floor_waits_for_the_age_cap_so_that_ranks_stay_true() {
        let weights = Weights { starvation_age: Duration::from_secs(60), ..Weights::default() };
        for (age, expected) in [(60, 0.165_833), (3_599, 0.362_444), (3_600, 0.6)] {
            let score = score(&waiting(age), &weights, NOW);
            assert!((score - expected).abs() < 1e-6, "at the age of {age} s: {score}");
        }
        assert_eq!(rank(&waiting(60), &weights, NOW).class, RankClass::Aging);
        assert_eq!(rank(&waiting(3_600), &weights, NOW).next_at, None);
    }

    #[test]
    fn weights_are_configured_key_by_key_and_refuse_nonsense() {
        let weights: Weights = serde_json::from_str(r#"{"age": 0.3, "age_cap": "2h"}"#).unwrap();
        let expected = Weights { age: 0.3, age_cap: Duration::from_secs(7_200), ..Weights::default() };
        assert_eq!(weights, expected);
        for bad in [r#"{"agee": 1}"#, r#"{"age": -0.1}"#, r#"{"age_cap": "soon"}"#] {
            assert!(serde_json::from_str::<Weights>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn zero_caps_and_windows_are_harmless() {
        let zero = Duration::ZERO;
        let weights = Weights {
            age_cap: zero,
            deadline_window: zero,
            starvation_age: zero,
            dependants_cap: 0,
            ..Weights::default()
        };
        for facts in [waiting(0), waiting(1), due_in(0), due_in(1)] {
            assert!(score(&facts, &weights, NOW).is_finite(), "{facts:?}");
            assert!(rank(&facts, &weights, NOW).key.is_finite(), "{facts:?}");
        }
    }

    prop_compose! {
        fn any_facts(age_max: i64)(
            priority in prop::sample::select(Priority::ALL),
            age_millis in 0..age_max * 1_000,
            slack in prop::option::of(-10_000i64..10_000),
            dependants_pending in 0i64..20,
            retry_count in 0i64..5,
            max_retries in 0i64..5,
        ) -> Facts {
            let created_at = NOW - SignedDuration::from_millis(age_millis);
            let deadline_at = slack.map(|slack| NOW + seconds(slack));
            Facts { priority, created_at, deadline_at, dependants_pending, retry_count, max_retries }
        }
    }

    prop_compose! {
        fn any_weights()(
            (priority, age, dependants, retries) in (0.0..2.0, 0.0..2.0, 0.0..2.0, 0.0..2.0),
            (age_cap, starvation_age) in (60u64..10_000, 0u64..20_000),
            dependants_cap in 0u32..20,
            starvation_floor in 0.0..2.0,
        ) -> Weights {
            let [age_cap, starvation_age] = [age_cap, starvation_age].map(Duration::from_secs);
            Weights {
                priority, age, dependants, retries, age_cap, starvation_age, dependants_cap, starvation_floor,
                ..Weights::default()
            }
        }
    }

    /// Two numbers that differ by less than rounding can tell count as equal.
    fn agree(a: f64, b: f64) -> bool {
        a.abs() < 1e-9 || b.abs() < 1e-9 || (a > 0.0) == (b > 0.0)
    }

    proptest! {
        #[test]
        fn within_a_class_ranks_order_like_scores(
            a in any_facts(20_000), b in any_facts(20_000), weights in any_weights(),
        ) {
            let [a, b] = [a, b].map(|facts| Facts { deadline_at: None, ..facts });
            let (rank_a, rank_b) = (rank(&a, &weights, NOW), rank(&b, &weights, NOW));
            if rank_a.class != rank_b.class {
                return Ok(());
            }
            let by_score = score(&a, &weights, NOW) - score(&b, &weights, NOW);
            prop_assert!(agree(rank_a.key - rank_b.key, by_score), "{rank_a:?} {rank_b:?} {by_score}");
        }

        #[test]
        fn a_rank_holds_until_it_is_due(
            facts in any_facts(20_000), weights in any_weights(), wait in 0i64..20_000,
        ) {
            let before = rank(&facts, &weights, NOW);
            let later = NOW + seconds(wait);
            let due = before.next_at.is_some_and(|at| later >= at);
            let after = rank(&facts, &weights, later);
            prop_assert_eq!(before.next_at == after.next_at, !due);
            if !due {
                prop_assert_eq!(before, after);
            }
        }

        #[test]
        fn scores_stay_within_bounds(facts in any_facts(20_000)) {
            let score = score(&facts, &Weights::default(), NOW);
            prop_assert!((0.1125..=MAX_BY_DEFAULT).contains(&score), "{score}");
        }

        #[test]
        fn a_higher_priority_never_scores_lower(facts in any_facts(20_000), weights in any_weights()) {
            let with = |priority| Facts { priority, ..facts.clone() };
            let scores = Priority::ALL.iter().map(|priority| score(&with(*priority), &weights, NOW));
            prop_assert!(scores.is_sorted_by(|higher, lower| higher >= lower));
        }

        #[test]
        fn an_older_task_never_scores_lower(
            facts in any_facts(20_000), weights in any_weights(), extra in 0i64..20_000,
        ) {
            let older = Facts { created_at: facts.created_at - seconds(extra), ..facts.clone() };
            prop_assert!(score(&older, &weights, NOW) >= score(&facts, &weights, NOW) - 1e-12);
        }
    }
}
