//! How well sandboxes do, as a number: by what is found in their work and goes on.

use omoi_protocol::{FindingSeverity, SystemHealth, guardian::GuardianHealth};

/// What an open finding takes off a sandbox's alignment, in hundredths.
pub const fn weight(severity: FindingSeverity) -> i64 {
    match severity {
        FindingSeverity::Notice => 10,
        FindingSeverity::Warning => 30,
        FindingSeverity::Critical => 60,
    }
}

/// From 0 to 1, by the weights of all open findings of a sandbox or by what the judge said last, whichever is less. A
/// judge that has said nothing raises nothing.
pub fn alignment(weights: i64, judged: Option<f64>) -> f64 {
    let found = (100 - weights).max(0) as f64 / 100.0;
    judged.map_or(found, |judged| judged.clamp(0.0, found))
}

/// The severity of the heaviest open finding.
pub fn verdict(heaviest: Option<i64>) -> Option<FindingSeverity> {
    let heaviest = heaviest?;
    FindingSeverity::ALL.iter().rev().copied().find(|severity| weight(*severity) <= heaviest)
}

/// A live sandbox of which something is known: the weights of its open findings all together, the heaviest of them, and
/// what the judge said.
#[derive(Debug, Clone, Copy, Default)]
pub struct Standing {
    pub weights: i64,
    pub heaviest: i64,
    pub judged: Option<f64>,
}

/// The others have nothing against them.
pub fn health(sandboxes: i64, standings: &[Standing]) -> GuardianHealth {
    let needs = |one: &&Standing| one.heaviest >= weight(FindingSeverity::Warning);
    let need_steering = standings.iter().filter(needs).count() as i64;
    let lost: f64 = standings.iter().map(|one| 1.0 - alignment(one.weights, one.judged)).sum();
    let average_alignment = if sandboxes > 0 { 1.0 - lost / sandboxes as f64 } else { 1.0 };
    let share = if sandboxes > 0 { need_steering as f64 / sandboxes as f64 } else { 0.0 };
    let system = match () {
        () if average_alignment > 0.8 && need_steering == 0 => SystemHealth::Optimal,
        () if average_alignment > 0.6 && share < 0.3 => SystemHealth::Good,
        () if average_alignment > 0.4 => SystemHealth::Warning,
        () => SystemHealth::Critical,
    };
    GuardianHealth { system, sandboxes, need_steering, average_alignment }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_follows_what_is_open() {
        let all = |sandboxes, weights: &[(i64, i64)]| {
            let one = |(weights, heaviest): &(i64, i64)| Standing {
                weights: *weights,
                heaviest: *heaviest,
                judged: None,
            };
            health(sandboxes, &weights.iter().map(one).collect::<Vec<_>>())
        };
        let system = |sandboxes, weights: &[(i64, i64)]| all(sandboxes, weights).system;
        assert_eq!(system(0, &[]), SystemHealth::Optimal);
        assert_eq!(system(3, &[(10, 10)]), SystemHealth::Optimal, "a notice is no reason to steer");
        assert_eq!(system(4, &[(30, 30)]), SystemHealth::Good);
        assert_eq!(system(3, &[(30, 30)]), SystemHealth::Warning, "a third has to be steered");
        assert_eq!(system(1, &[(60, 60)]), SystemHealth::Critical);
        assert_eq!(all(2, &[(200, 60)]).average_alignment, 0.5);
        let judged = Standing { judged: Some(0.2), ..Standing::default() };
        assert_eq!(health(2, &[judged]).average_alignment, 0.6);
    }

    #[test]
    fn the_judge_lowers_an_alignment_and_never_raises_it() {
        for (weights, judged, expected) in [
            (0, None, 1.0),
            (30, None, 0.7),
            (30, Some(0.9), 0.7),
            (30, Some(0.2), 0.2),
            (200, Some(0.5), 0.0),
        ] {
            assert_eq!(alignment(weights, judged), expected, "{weights} {judged:?}");
        }
    }

    #[test]
    fn the_verdict_is_the_worst_that_is_open() {
        assert_eq!(verdict(None), None);
        for severity in FindingSeverity::ALL {
            assert_eq!(verdict(Some(weight(*severity))), Some(*severity));
        }
    }
}
