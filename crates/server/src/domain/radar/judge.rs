//! What is to be said of two tasks. A merge that was tried is surer than lines, and lines are surer than files; a merge
//! without conflict has the last word only where both have pushed all there is.

use std::collections::BTreeMap;

use omoi_protocol::{
    ConflictKind, PairState,
    conductor::{Clash, LineRange},
};

use super::{FILES_MAX, touched::Touched};

/// What is known of one side.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// It may go on changing things that it has not pushed.
    pub is_working: bool,
    /// The files that it was seen to change; without lines where nobody knows them.
    pub files: BTreeMap<String, Option<Touched>>,
}

/// What came of merging two branches for a try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trial {
    /// There is nothing to try: one of the two has pushed no work.
    Nothing,
    /// It was not tried yet, or could not be.
    Untried,
    Clean,
    Clashes(Vec<Clash>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Unknown,
    Clear,
    Conflict(ConflictKind, Vec<Clash>),
}

impl Verdict {
    pub fn state(&self) -> PairState {
        match self {
            Self::Unknown => PairState::Unknown,
            Self::Clear => PairState::Clear,
            Self::Conflict(ConflictKind::Files, _) => PairState::Files,
            Self::Conflict(ConflictKind::Lines, _) => PairState::Lines,
            Self::Conflict(ConflictKind::Merge, _) => PairState::Merge,
        }
    }

    pub fn files(&self) -> &[Clash] {
        match self {
            Self::Conflict(_, files) => files,
            Self::Unknown | Self::Clear => &[],
        }
    }
}

/// The same whichever of the two comes first.
pub fn judge(trial: &Trial, a: &Seen, b: &Seen) -> Verdict {
    let both_done = !a.is_working && !b.is_working;
    match trial {
        Trial::Clashes(files) => Verdict::Conflict(ConflictKind::Merge, first(files.clone())),
        Trial::Clean | Trial::Nothing if both_done => Verdict::Clear,
        Trial::Untried if both_done => Verdict::Unknown,
        Trial::Clean | Trial::Nothing | Trial::Untried => by_lines(a, b),
    }
}

fn by_lines(a: &Seen, b: &Seen) -> Verdict {
    let (mut lines, mut files) = (Vec::new(), Vec::new());
    for (path, one) in &a.files {
        let Some(other) = b.files.get(path) else { continue };
        match (one, other) {
            (Some(one), Some(other)) => {
                let places = one.meets(other);
                if !places.is_empty() {
                    lines.push(Clash { path: path.clone(), lines: places });
                }
            }
            (Some(known), None) | (None, Some(known)) if known.is_empty() => {}
            _ => files.push(Clash { path: path.clone(), lines: Vec::<LineRange>::new() }),
        }
    }
    match (lines.is_empty(), files.is_empty()) {
        (false, _) => Verdict::Conflict(ConflictKind::Lines, first(lines)),
        (true, false) => Verdict::Conflict(ConflictKind::Files, first(files)),
        (true, true) => Verdict::Clear,
    }
}

fn first(mut files: Vec<Clash>) -> Vec<Clash> {
    files.truncate(FILES_MAX);
    files
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::radar::Hunk;

    fn seen(is_working: bool, files: &[(&str, Option<u32>)]) -> Seen {
        let touched = |line: u32| Touched::from(vec![Hunk { start: line, old: 1, new: 1 }]);
        let files = files.iter().map(|(path, line)| ((*path).to_owned(), line.map(touched)));
        Seen { is_working, files: files.collect() }
    }

    fn clash(path: &str) -> Clash {
        Clash { path: path.to_owned(), lines: Vec::new() }
    }

    #[test]
    fn the_surest_sign_decides() {
        let (same, far) = ([("a.rs", Some(4))], [("a.rs", Some(40))]);
        let (unknown, other) = ([("a.rs", None)], [("b.rs", Some(4))]);
        let clashes = Trial::Clashes(vec![clash("a.rs")]);
        let table: &[(&Trial, Seen, Seen, PairState)] = &[
            (&Trial::Nothing, seen(true, &same), seen(true, &same), PairState::Lines),
            (&Trial::Nothing, seen(true, &same), seen(true, &far), PairState::Clear),
            (&Trial::Nothing, seen(true, &same), seen(true, &other), PairState::Clear),
            (&Trial::Nothing, seen(true, &same), seen(true, &unknown), PairState::Files),
            (&Trial::Nothing, seen(true, &[]), seen(true, &[]), PairState::Clear),
            (&Trial::Untried, seen(true, &same), seen(false, &same), PairState::Lines),
            (&Trial::Clean, seen(true, &same), seen(false, &same), PairState::Lines),
            // Both have pushed all there is: what was edited on the way no longer matters.
            (&Trial::Clean, seen(false, &same), seen(false, &same), PairState::Clear),
            (&Trial::Untried, seen(false, &same), seen(false, &same), PairState::Unknown),
            (&clashes, seen(false, &[]), seen(false, &[]), PairState::Merge),
            (&clashes, seen(true, &other), seen(true, &same), PairState::Merge),
        ];
        for (trial, a, b, expected) in table {
            assert_eq!(judge(trial, a, b).state(), *expected, "{trial:?} {a:?} {b:?}");
        }
    }

    proptest! {
        #[test]
        fn the_radar_says_the_same_of_a_and_b_as_of_b_and_a(
            a in prop::collection::btree_map("[a-d]", prop::option::of(0u32..6), 0..4),
            b in prop::collection::btree_map("[a-d]", prop::option::of(0u32..6), 0..4),
            working in any::<(bool, bool)>(), trial in 0..3usize,
        ) {
            let of = |is_working, files: &BTreeMap<String, Option<u32>>| {
                let files: Vec<(&str, Option<u32>)> = files.iter().map(|(path, line)| (path.as_str(), *line)).collect();
                seen(is_working, &files)
            };
            let (a, b) = (of(working.0, &a), of(working.1, &b));
            let trial = [Trial::Nothing, Trial::Untried, Trial::Clean][trial].clone();
            prop_assert_eq!(judge(&trial, &a, &b), judge(&trial, &b, &a));
        }
    }
}
