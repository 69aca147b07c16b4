//! The lines of a file that somebody has changed, step by step, told in the lines of the file as it was at first. So the
//! changes of two who began with the same file can be compared, whatever each has added meanwhile.

use omoi_protocol::conductor::LineRange;
use serde::{Deserialize, Serialize};

use super::PLACES_MAX;

/// More places of one file become fewer and wider ones.
const HUNKS_MAX: usize = 100;
/// No file has more lines; it stands for the end.
const END: u32 = u32::MAX / 2;

/// One place: so many lines from `start` on, counted from zero, are replaced by so many others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u32, u32, u32)", into = "(u32, u32, u32)")]
pub struct Hunk {
    pub start: u32,
    pub old: u32,
    pub new: u32,
}

impl Hunk {
    pub const WHOLE: Self = Self { start: 0, old: END, new: END };

    fn end(self) -> u32 {
        self.start.saturating_add(self.old).min(END)
    }

    /// Whether two changes cannot be made side by side. Git refuses those that touch as well, since there is no line
    /// between them to tell one from the other.
    fn meets(self, other: Self) -> bool {
        self.start <= other.end() && other.start <= self.end()
    }
}

impl From<(u32, u32, u32)> for Hunk {
    fn from((start, old, new): (u32, u32, u32)) -> Self {
        Self { start: start.min(END), old: old.min(END), new: new.min(END) }
    }
}

impl From<Hunk> for (u32, u32, u32) {
    fn from(hunk: Hunk) -> Self {
        (hunk.start, hunk.old, hunk.new)
    }
}

/// All places of one file, in order and apart from each other.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Touched(Vec<Hunk>);

impl Touched {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes in a further change, whose lines are those of the file as the changes before have left it.
    pub fn change(&mut self, hunks: &[Hunk]) {
        // From the last to the first: so what one changes does not move those that are still to come.
        let mut hunks = hunks.to_vec();
        hunks.sort_by_key(|hunk| std::cmp::Reverse(hunk.start));
        for hunk in hunks {
            self.change_one(hunk);
        }
        self.bound();
    }

    /// Takes in what was changed elsewhere in the same file.
    pub fn join(&mut self, other: &Self) {
        self.0.extend(&other.0);
        self.0.sort_by_key(|hunk| hunk.start);
        let all = std::mem::take(&mut self.0);
        for hunk in all {
            match self.0.last_mut().filter(|last| last.meets(hunk)) {
                Some(last) => {
                    let end = last.end().max(hunk.end());
                    last.old = end - last.start;
                    last.new = last.new.saturating_add(hunk.new).min(END);
                }
                None => self.0.push(hunk),
            }
        }
        self.bound();
    }

    /// Where the changes of two meet, the same whoever is asked; the first places.
    pub fn meets(&self, other: &Self) -> Vec<LineRange> {
        let mut places: Vec<(u32, u32)> = Vec::new();
        let pairs = self.0.iter().flat_map(|one| other.0.iter().map(move |another| (*one, *another)));
        for (one, another) in pairs.filter(|(one, another)| one.meets(*another)) {
            places.push((one.start.min(another.start), one.end().max(another.end())));
        }
        places.sort_unstable();
        let mut apart: Vec<(u32, u32)> = Vec::new();
        for (start, end) in places {
            match apart.last_mut().filter(|(_, last)| start <= *last) {
                Some((_, last)) => *last = end.max(*last),
                None => apart.push((start, end)),
            }
        }
        let range = |(start, end): (u32, u32)| LineRange {
            first: start + 1,
            last: (end < END).then_some(end.max(start + 1)),
        };
        apart.into_iter().take(PLACES_MAX).map(range).collect()
    }

    fn change_one(&mut self, hunk: Hunk) {
        let (start, end) = (i64::from(hunk.start), i64::from(hunk.end()));
        let (mut delta, mut before, mut behind) = (0i64, Vec::new(), Vec::new());
        // Where what is replaced begins and ends, in the lines of now and of then.
        let (mut now, mut then) = ((start, end), None);
        for known in std::mem::take(&mut self.0) {
            let (from, to) =
                (i64::from(known.start) + delta, i64::from(known.start) + delta + i64::from(known.new));
            if to < start {
                before.push(known);
                delta += i64::from(known.new) - i64::from(known.old);
            } else if from > end {
                behind.push(known);
            } else {
                let first = if start < from { start - delta } else { i64::from(known.start) };
                let after = delta + i64::from(known.new) - i64::from(known.old);
                let last = if end > to { end - after } else { i64::from(known.end()) };
                now = (now.0.min(from), now.1.max(to));
                then = Some((then.map_or(first, |(first, _)| first), last));
                delta = after;
            }
        }
        let (first, last) = then.unwrap_or((start - delta, end - delta));
        let new = now.1 - now.0 - i64::from(hunk.old) + i64::from(hunk.new);
        self.0 = before;
        self.0.push(Hunk { start: line(first), old: line(last) - line(first), new: line(new) });
        self.0.extend(behind);
    }

    fn bound(&mut self) {
        while self.0.len() > HUNKS_MAX {
            let join = |pair: &[Hunk]| match pair {
                [one, other] => Hunk {
                    start: one.start,
                    old: other.end() - one.start,
                    new: one.new.saturating_add(other.new).saturating_add(other.start - one.end()).min(END),
                },
                all => all[0],
            };
            self.0 = self.0.chunks(2).map(join).collect();
        }
    }
}

impl From<Vec<Hunk>> for Touched {
    fn from(hunks: Vec<Hunk>) -> Self {
        let mut touched = Self::default();
        touched.change(&hunks);
        touched
    }
}

fn line(n: i64) -> u32 {
    u32::try_from(n.clamp(0, i64::from(END))).unwrap_or(END)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Places = [(u32, u32, u32)];
    type Ranges = [(u32, Option<u32>)];

    fn touched(hunks: &[(u32, u32, u32)]) -> Touched {
        Touched::from(hunks.iter().map(|hunk| Hunk::from(*hunk)).collect::<Vec<_>>())
    }

    fn steps(steps: &[&[(u32, u32, u32)]]) -> Vec<(u32, u32, u32)> {
        let mut all = Touched::default();
        for step in steps {
            all.change(&step.iter().map(|hunk| Hunk::from(*hunk)).collect::<Vec<_>>());
        }
        all.0.into_iter().map(Into::into).collect()
    }

    #[test]
    fn later_changes_are_told_in_the_lines_of_the_beginning() {
        let table: &[(&[&Places], &Places)] = &[
            (&[&[(5, 1, 1)]], &[(5, 1, 1)]),
            // Ten lines are put in front; the twentieth is then the tenth of the beginning.
            (&[&[(0, 0, 10)], &[(20, 1, 1)]], &[(0, 0, 10), (10, 1, 1)]),
            (&[&[(5, 2, 4)], &[(6, 1, 1)]], &[(5, 2, 4)]),
            (&[&[(5, 2, 4)], &[(8, 3, 1)]], &[(5, 4, 4)]),
            (&[&[(5, 2, 4)], &[(3, 3, 3)]], &[(3, 4, 6)]),
            // One that covers two others.
            (&[&[(2, 1, 1), (6, 1, 3)], &[(1, 10, 2)]], &[(1, 8, 2)]),
            (&[&[(2, 3, 0)], &[(2, 1, 1)]], &[(2, 4, 1)]),
            (&[&[(9, 1, 1), (1, 1, 1)]], &[(1, 1, 1), (9, 1, 1)]),
        ];
        for (done, expected) in table {
            assert_eq!(steps(done), *expected, "{done:?}");
        }
    }

    #[test]
    fn changes_meet_where_git_could_not_put_them_side_by_side() {
        let table: &[(&Places, &Places, &Ranges)] = &[
            (&[(4, 1, 1)], &[(4, 1, 2)], &[(5, Some(5))]),
            (&[(4, 1, 1)], &[(5, 1, 1)], &[(5, Some(6))]),
            (&[(4, 1, 1)], &[(6, 1, 1)], &[]),
            (&[(0, 0, 3)], &[(0, 0, 9)], &[(1, Some(1))]),
            (&[(3, 0, 1)], &[(3, 2, 2)], &[(4, Some(5))]),
            (&[(0, END, END)], &[(70, 1, 1)], &[(1, None)]),
            (&[(1, 2, 2), (20, 3, 3)], &[(2, 1, 1), (9, 1, 1), (22, 1, 1)], &[(2, Some(3)), (21, Some(23))]),
            (&[], &[(0, END, END)], &[]),
        ];
        for (a, b, expected) in table {
            let expected: Vec<LineRange> =
                expected.iter().map(|(first, last)| LineRange { first: *first, last: *last }).collect();
            assert_eq!(touched(a).meets(&touched(b)), expected, "{a:?} and {b:?}");
        }
    }

    #[test]
    fn many_places_become_fewer_and_still_cover_all() {
        let many: Vec<(u32, u32, u32)> = (0..1000).map(|n| (n * 10, 1, 1)).collect();
        let all = touched(&many);
        assert!(all.0.len() <= HUNKS_MAX);
        for place in many {
            assert!(!all.meets(&touched(&[place])).is_empty(), "{place:?}");
        }
    }

    /// A file as numbers, and changes of it that put in numbers that were not there.
    fn edit(file: &mut Vec<u32>, fresh: &mut u32, (at, drop, add): (usize, usize, usize)) -> Hunk {
        let at = at % (file.len() + 1);
        let drop = drop.min(file.len() - at);
        let new: Vec<u32> = (0..add)
            .map(|_| {
                *fresh += 1;
                *fresh
            })
            .collect();
        file.splice(at..at + drop, new);
        Hunk { start: at as u32, old: drop as u32, new: add as u32 }
    }

    proptest! {
        #[test]
        fn whatever_is_done_to_a_file_lines_that_are_not_touched_are_as_they_were(
            edits in prop::collection::vec((0usize..40, 0usize..4, 0usize..4), 0..30),
        ) {
            let first: Vec<u32> = (0..30).collect();
            let (mut file, mut fresh, mut all) = (first.clone(), 1000, Touched::default());
            for one in edits {
                all.change(&[edit(&mut file, &mut fresh, one)]);
            }
            let mut rebuilt: Vec<u32> = Vec::new();
            let (mut old, mut new) = (0usize, 0usize);
            for hunk in &all.0 {
                let gap = hunk.start as usize - old;
                prop_assert_eq!(&first[old..old + gap], &file[new..new + gap]);
                rebuilt.extend(&file[new..new + gap + hunk.new as usize]);
                (old, new) = (old + gap + hunk.old as usize, new + gap + hunk.new as usize);
            }
            prop_assert_eq!(&first[old..], &file[new..]);
            rebuilt.extend(&file[new..]);
            prop_assert_eq!(rebuilt, file);
        }

        #[test]
        fn meeting_is_the_same_from_both_sides_and_grows_with_what_is_touched(
            a in prop::collection::vec((0u32..60, 0u32..4, 0u32..4), 0..12),
            b in prop::collection::vec((0u32..60, 0u32..4, 0u32..4), 0..12),
            more in prop::collection::vec((0u32..60, 0u32..4, 0u32..4), 0..12),
        ) {
            let (a, b, more) = (touched(&a), touched(&b), touched(&more));
            prop_assert_eq!(a.meets(&b), b.meets(&a));
            if !a.is_empty() {
                prop_assert!(!a.meets(&a).is_empty());
            }
            let mut grown = a.clone();
            grown.join(&more);
            if !a.meets(&b).is_empty() {
                prop_assert!(!grown.meets(&b).is_empty());
            }
        }
    }
}
