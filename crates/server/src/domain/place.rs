//! What is to be done next with a sandbox's place: it is made, looked after, brought to its end with its work kept, and
//! removed; never removed before it is kept, unless a person discards the work. Which rescues may run at once, and what
//! follows when one fails.

use std::time::Duration;

use omoi_protocol::{Place, ProjectId};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Make,
    Watch,
    /// Stop it and keep what it holds.
    End,
    Remove,
}

/// `live`: the sandbox may still act for its task.
pub fn next(place: Place, live: bool) -> Option<Step> {
    match (place, live) {
        (Place::Wanted, true) => Some(Step::Make),
        (Place::Up, true) => Some(Step::Watch),
        // One that ended while it was being made may have left something.
        (Place::Wanted | Place::Up, false) => Some(Step::End),
        (Place::Kept | Place::Discarded, _) => Some(Step::Remove),
        (Place::None | Place::Unkept | Place::Gone, _) => None,
    }
}

/// The first wait after a failed rescue; each further wait is twice as long.
const WAIT_MIN: Duration = Duration::from_secs(2);
const DOUBLINGS_MAX: u32 = 16;

/// How often a rescue is tried, and how long the waits between the tries may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    pub tries: u32,
    pub wait_max: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterFailure {
    TryAgain(Duration),
    /// A person decides.
    GiveUp,
}

impl Patience {
    /// What follows when this many tries have failed.
    pub fn after(&self, failed: u32) -> AfterFailure {
        if failed >= self.tries {
            return AfterFailure::GiveUp;
        }
        let doublings = failed.saturating_sub(1).min(DOUBLINGS_MAX);
        AfterFailure::TryAgain((WAIT_MIN * (1 << doublings)).min(self.wait_max))
    }
}

/// How many rescues may run at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    pub at_once: usize,
    pub per_project: usize,
}

/// A rescue that runs or is about to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rescuing {
    pub project: ProjectId,
    /// An earlier try failed.
    pub is_repeated: bool,
}

impl Share {
    /// Whether `next` may begin beside those under way. One project cannot take every place, and repeated tries take at
    /// most half: whatever keeps failing leaves room for the work that can be kept.
    pub fn admits<'a>(&self, under_way: impl Iterator<Item = &'a Rescuing>, next: &Rescuing) -> bool {
        let (mut all, mut of_project, mut repeated) = (0, 0, 0);
        for one in under_way {
            all += 1;
            of_project += usize::from(one.project == next.project);
            repeated += usize::from(one.is_repeated);
        }
        let project_max = self.per_project.min(self.at_once.saturating_sub(1)).max(1);
        let repeated_max = (self.at_once / 2).max(1);
        all < self.at_once && of_project < project_max && (!next.is_repeated || repeated < repeated_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_removed_before_it_is_kept_or_discarded_by_a_person() {
        for place in Place::ALL {
            for live in [true, false] {
                let may_go = matches!(place, Place::Kept | Place::Discarded);
                assert_eq!(next(*place, live) == Some(Step::Remove), may_go, "{place} {live}");
            }
        }
    }

    #[test]
    fn each_place_has_its_step() {
        let table = [
            (Place::None, None, None),
            (Place::Wanted, Some(Step::Make), Some(Step::End)),
            (Place::Up, Some(Step::Watch), Some(Step::End)),
            (Place::Unkept, None, None),
            (Place::Discarded, Some(Step::Remove), Some(Step::Remove)),
            (Place::Kept, Some(Step::Remove), Some(Step::Remove)),
            (Place::Gone, None, None),
        ];
        assert_eq!(table.len(), Place::ALL.len());
        for (place, live, ended) in table {
            assert_eq!((next(place, true), next(place, false)), (live, ended), "{place}");
        }
    }

    #[test]
    fn a_rescue_is_tried_a_bounded_number_of_times_with_growing_waits() {
        let patience = Patience { tries: 6, wait_max: Duration::from_secs(10) };
        let waits = [2, 4, 8, 10, 10].map(|seconds| AfterFailure::TryAgain(Duration::from_secs(seconds)));
        for (failed, expected) in (1..).zip(waits) {
            assert_eq!(patience.after(failed), expected, "{failed} failed");
        }
        for failed in [6, 7, 1_000, u32::MAX] {
            assert_eq!(patience.after(failed), AfterFailure::GiveUp, "{failed} failed");
        }
        let long = Patience { tries: u32::MAX, wait_max: Duration::from_secs(300) };
        assert_eq!(long.after(u32::MAX - 1), AfterFailure::TryAgain(long.wait_max), "no wait overflows");
        let once = Patience { tries: 1, ..long };
        assert_eq!(once.after(1), AfterFailure::GiveUp);
    }

    fn rescuing(of: &[(&str, bool)]) -> Vec<Rescuing> {
        let one = |&(project, is_repeated): &(&str, bool)| Rescuing {
            project: project.parse().unwrap(),
            is_repeated,
        };
        of.iter().map(one).collect()
    }

    #[test]
    fn no_project_and_no_failing_rescue_takes_every_place() {
        const FIRST: bool = false;
        const AGAIN: bool = true;
        let share = |at_once, per_project| Share { at_once, per_project };
        type Row = (&'static str, Share, &'static [(&'static str, bool)], (&'static str, bool), bool);
        #[rustfmt::skip]
        let table: [Row; 12] = [
            ("nothing runs", share(4, 3), &[], ("a", FIRST), true),
            ("all places are taken", share(2, 2), &[("a", FIRST), ("b", FIRST)], ("c", FIRST), false),
            ("a project has its share", share(4, 3), &[("a", FIRST); 3], ("a", FIRST), false),
            ("another project has room", share(4, 3), &[("a", FIRST); 3], ("b", FIRST), true),
            ("a share as large as the whole leaves one place", share(4, 9), &[("a", FIRST); 3], ("a", FIRST), false),
            ("the place that is left is another's", share(4, 9), &[("a", FIRST); 3], ("b", FIRST), true),
            ("repeated tries take half", share(4, 3), &[("a", AGAIN), ("b", AGAIN)], ("c", AGAIN), false),
            ("a first try goes on beside them", share(4, 3), &[("a", AGAIN), ("b", AGAIN)], ("a", FIRST), true),
            ("first tries are no repeated ones", share(4, 3), &[("a", FIRST), ("b", FIRST)], ("c", AGAIN), true),
            ("the only place is free for any", share(1, 1), &[], ("a", AGAIN), true),
            ("the only place is taken", share(1, 1), &[("a", AGAIN)], ("b", FIRST), false),
            ("of two places a project has one", share(2, 6), &[("a", FIRST)], ("a", FIRST), false),
        ];
        for (what, share, under_way, (project, is_repeated), expected) in table {
            let next = Rescuing { project: project.parse().unwrap(), is_repeated };
            assert_eq!(share.admits(rescuing(under_way).iter(), &next), expected, "{what}");
        }
    }
}
