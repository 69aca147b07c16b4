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

/// From 0 to 1, by the weights of all open findings of a sandbox.
pub fn alignment(weights: i64) -> f64 {
    (100 - weights).max(0) as f64 / 100.0
}

/// The severity of the heaviest open finding.
pub fn verdict(heaviest: Option<i64>) -> Option<FindingSeverity> {
    let heaviest = heaviest?;
    FindingSeverity::ALL.iter().rev().copied().find(|severity| weight(*severity) <= heaviest)
}

/// `weights` are those of each live sandbox with an open finding: all together, and the heaviest.
pub fn health(sandboxes: i64, weights: &[(i64, i64)]) -> GuardianHealth {
    let needs = |(_, heaviest): &&(i64, i64)| *heaviest >= weight(FindingSeverity::Warning);
    let need_steering = weights.iter().filter(needs).count() as i64;
    let lost: f64 = weights.iter().map(|(all, _)| 1.0 - alignment(*all)).sum();
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
        let system = |sandboxes, weights: &[(i64, i64)]| health(sandboxes, weights).system;
        assert_eq!(system(0, &[]), SystemHealth::Optimal);
        assert_eq!(system(3, &[(10, 10)]), SystemHealth::Optimal, "a notice is no reason to steer");
        assert_eq!(system(4, &[(30, 30)]), SystemHealth::Good);
        assert_eq!(system(3, &[(30, 30)]), SystemHealth::Warning, "a third has to be steered");
        assert_eq!(system(1, &[(60, 60)]), SystemHealth::Critical);
        assert_eq!(health(2, &[(200, 60)]).average_alignment, 0.5);
    }

    #[test]
    fn the_verdict_is_the_worst_that_is_open() {
        assert_eq!(verdict(None), None);
        for severity in FindingSeverity::ALL {
            assert_eq!(verdict(Some(weight(*severity))), Some(*severity));
        }
    }
}
