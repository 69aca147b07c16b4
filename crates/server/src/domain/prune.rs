//! Which ended sandboxes go now. Their work is kept elsewhere, so what is left of them is only for whoever wants to look
//! into it, as long as there is room.

use std::time::Duration;

use jiff::Timestamp;
use omoi_protocol::{Place, Removal, SandboxId};

/// What is left of sandboxes, and how long it may stay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    pub keep: Duration,
    pub count_max: usize,
    pub bytes_max: u64,
    /// Free space of the disk below which something has to go.
    pub free_min: u64,
}

/// A sandbox on a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    pub id: SandboxId,
    pub place: Place,
    pub ended_at: Option<Timestamp>,
    pub bytes: u64,
}

/// The oldest first, each with the one reason for it. Only what has ended and is kept may go. `free` is the disk's, where
/// it is known.
pub fn prune(left: &[Left], limits: &Limits, free: Option<u64>, now: Timestamp) -> Vec<(SandboxId, Removal)> {
    let mut kept: Vec<(Timestamp, &Left)> = left
        .iter()
        .filter(|one| one.place == Place::Kept)
        .filter_map(|one| Some((one.ended_at?, one)))
        .collect();
    kept.sort_by_key(|(ended_at, one)| (*ended_at, &one.id));
    let mut bytes: u64 = kept.iter().map(|(_, one)| one.bytes).sum();
    let (mut count, mut free) = (kept.len(), free);
    let mut pruned = Vec::new();
    for (ended_at, one) in kept {
        let age = Duration::try_from(now.duration_since(ended_at)).unwrap_or_default();
        let reason = if age >= limits.keep {
            Removal::Age
        } else if count > limits.count_max {
            Removal::TooMany
        } else if bytes > limits.bytes_max {
            Removal::DiskUse
        } else if free.is_some_and(|free| free < limits.free_min) {
            Removal::DiskFree
        } else {
            // Those behind it are younger, and what is too much is too much for the oldest first.
            break;
        };
        count -= 1;
        bytes -= one.bytes;
        free = free.map(|free| free.saturating_add(one.bytes));
        pruned.push((one.id.clone(), reason));
    }
    pruned
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const GIB: u64 = 1 << 30;

    fn at(hour: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + hour * 3600).unwrap()
    }

    fn left(name: &str, hour: i64, gib: u64) -> Left {
        Left { id: name.parse().unwrap(), place: Place::Kept, ended_at: Some(at(hour)), bytes: gib * GIB }
    }

    fn limits() -> Limits {
        Limits { keep: 24 * HOUR, count_max: 10, bytes_max: 100 * GIB, free_min: 5 * GIB }
    }

    /// What is the matter, the limits, the free space, the hour, and what goes.
    type Case<'a> = (&'a str, &'a Limits, Option<u64>, i64, Vec<(&'a str, Removal)>);

    fn names(pruned: &[(SandboxId, Removal)]) -> Vec<(&str, Removal)> {
        pruned.iter().map(|(id, why)| (id.as_str(), *why)).collect()
    }

    #[test]
    fn the_oldest_go_first_each_for_one_reason() {
        // Not in their order.
        let three = [left("b", 2, 3), left("a", 1, 2), left("c", 3, 4)];
        let roomy = limits();
        let few = Limits { count_max: 1, ..limits() };
        let small = Limits { bytes_max: 7 * GIB, ..limits() };
        let gone = Limits { keep: Duration::ZERO, ..limits() };
        #[rustfmt::skip]
        let table: [Case<'_>; 11] = [
            ("all are young", &roomy, Some(50 * GIB), 4, vec![]),
            ("nobody knows the disk", &roomy, None, 4, vec![]),
            ("one is old", &roomy, None, 25, vec![("a", Removal::Age)]),
            ("all are old", &roomy, None, 27, vec![("a", Removal::Age), ("b", Removal::Age), ("c", Removal::Age)]),
            ("nothing is to stay", &gone, None, 3, vec![("a", Removal::Age), ("b", Removal::Age), ("c", Removal::Age)]),
            ("too many", &few, None, 4, vec![("a", Removal::TooMany), ("b", Removal::TooMany)]),
            ("too large together", &small, None, 4, vec![("a", Removal::DiskUse)]),
            ("an old one makes the room", &small, None, 25, vec![("a", Removal::Age)]),
            ("the disk is nearly full", &roomy, Some(4 * GIB), 4, vec![("a", Removal::DiskFree)]),
            ("and fuller", &roomy, Some(GIB), 4, vec![("a", Removal::DiskFree), ("b", Removal::DiskFree)]),
            ("and all of it is not enough", &roomy, Some(0), 1_000, vec![("a", Removal::Age), ("b", Removal::Age), ("c", Removal::Age)]),
        ];
        for (what, limits, free, hour, expected) in table {
            assert_eq!(names(&prune(&three, limits, free, at(hour))), expected, "{what}");
        }
    }

    #[test]
    fn what_is_not_kept_stays_however_old_it_is_and_however_full_the_disk() {
        let none = Limits { keep: Duration::ZERO, count_max: 0, bytes_max: 0, free_min: u64::MAX };
        for place in Place::ALL {
            let one = [Left { place: *place, ..left("a", 1, 50) }];
            let pruned = prune(&one, &none, Some(0), at(10_000));
            assert_eq!(!pruned.is_empty(), *place == Place::Kept, "{place}");
        }
        let lives = [Left { ended_at: None, ..left("a", 1, 50) }];
        assert_eq!(prune(&lives, &none, Some(0), at(10_000)), []);
    }
}
