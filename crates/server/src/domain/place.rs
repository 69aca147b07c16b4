//! What is to be done next with a sandbox's place: it is made, looked after, brought to its end with its work kept, and
//! removed; never removed before it is kept.

use omoi_protocol::Place;

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
        (Place::Kept, _) => Some(Step::Remove),
        (Place::None | Place::Gone, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_removed_before_it_is_kept() {
        for place in Place::ALL {
            for live in [true, false] {
                assert_eq!(next(*place, live) == Some(Step::Remove), *place == Place::Kept, "{place} {live}");
            }
        }
    }

    #[test]
    fn each_place_has_its_step() {
        let table = [
            (Place::None, None, None),
            (Place::Wanted, Some(Step::Make), Some(Step::End)),
            (Place::Up, Some(Step::Watch), Some(Step::End)),
            (Place::Kept, Some(Step::Remove), Some(Step::Remove)),
            (Place::Gone, None, None),
        ];
        for (place, live, ended) in table {
            assert_eq!((next(place, true), next(place, false)), (live, ended), "{place}");
        }
    }
}
