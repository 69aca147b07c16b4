//! Files that were changed: which contents each has had, and what the changes did to the tests in it.

use jiff::Timestamp;

use super::super::{
    sign::Edit,
    text::{Ring, clip, hash, hash_both},
};

/// More files are counted and not remembered.
pub const FILES_MAX: usize = 48;
const PATH_CHARS: usize = 120;
const STATES: usize = 4;

#[derive(Debug, Clone)]
pub struct Touched {
    pub path: String,
    hash: u64,
    pub edits: u32,
    pub first_seq: i64,
    pub first_at: Timestamp,
    pub last_seq: i64,
    /// What it held before the agent came.
    original: u64,
    /// What it has held since, newest last.
    states: Ring<(u64, i64), STATES>,
    /// How often it went back to what it had held, less what was new since.
    pub returns: u32,
    pub outside: bool,
}

impl Touched {
    /// It holds what it held before.
    pub fn is_restored(&self) -> bool {
        self.states.last().is_some_and(|(state, _)| *state == self.original)
    }

    /// The changes that are remembered.
    pub fn seqs(&self) -> impl Iterator<Item = i64> {
        self.states.iter().map(|(_, seq)| *seq)
    }

    /// Says whether the content is new.
    fn holds(&mut self, state: u64, seq: i64) -> bool {
        let known = state == self.original || self.states.iter().any(|(old, _)| *old == state);
        let same = self.states.last().is_some_and(|(last, _)| *last == state);
        self.edits += 1;
        self.last_seq = seq;
        if same {
            return false;
        }
        self.returns = if known { self.returns + 1 } else { self.returns.saturating_sub(1) };
        self.states.push((state, seq));
        !known
    }
}

#[derive(Debug, Clone, Default)]
pub struct Files {
    list: Vec<Touched>,
    /// All that were seen, as far as they could be told apart.
    pub count: u64,
}

impl Files {
    /// Says whether the work tree now holds what it has not held before.
    pub fn edited(
        &mut self,
        edit: &Edit,
        seq: i64,
        at: Timestamp,
        is_outside: impl Fn(&str) -> bool,
    ) -> bool {
        let (before, after) = states(edit);
        let hash = hash(&edit.path);
        if let Some(known) = self.list.iter_mut().find(|file| file.hash == hash) {
            // Who tells no contents tells what was taken and what was put: a change back undoes a change.
            let after = after.unwrap_or_else(|| known.without_index(edit));
            return known.holds(after, seq);
        }
        self.count += 1;
        let original = before.unwrap_or(0);
        let mut file = Touched {
            path: clip(&edit.path, PATH_CHARS),
            hash,
            edits: 0,
            first_seq: seq,
            first_at: at,
            last_seq: seq,
            original,
            states: Ring::default(),
            returns: 0,
            outside: is_outside(&edit.path),
        };
        let after = after.unwrap_or_else(|| hash_both(original, changed(edit).1));
        file.holds(after, seq);
        if self.list.len() == FILES_MAX {
            let oldest = (0..FILES_MAX).min_by_key(|at| (self.list[*at].outside, self.list[*at].last_seq));
            oldest.map(|at| self.list.swap_remove(at));
        }
        self.list.push(file);
        true
    }

    pub fn iter(&self) -> impl Iterator<Item = &Touched> {
        self.list.iter()
    }

    /// The one that a command speaks of.
    pub fn named_in(&self, command: &str) -> Option<u64> {
        let names = |file: &&Touched| {
            let name = file.path.rsplit('/').next().unwrap_or_default();
            name.len() >= 4 && command.contains(name)
        };
        self.list.iter().find(names).map(|file| file.hash)
    }

    pub fn heap_bytes(&self) -> usize {
        let one = |file: &Touched| file.path.capacity() + file.states.heap_bytes();
        self.list.capacity() * size_of::<Touched>() + self.list.iter().map(one).sum::<usize>()
    }
}

impl Touched {
    /// A state made of changes alone. One that takes back the last leads to the state before it.
    fn without_index(&self, edit: &Edit) -> u64 {
        let last = self.states.last().map_or(self.original, |(state, _)| *state);
        let before = self.states.iter().rev().nth(1).map_or(self.original, |(state, _)| *state);
        let (back, there) = changed(edit);
        if hash_both(before, back) == last { before } else { hash_both(last, there) }
    }
}

/// Which contents a diff leads from and to, where it says so by the names that Git gives contents.
fn states(edit: &Edit) -> (Option<u64>, Option<u64>) {
    let index = edit.diff.lines().take(8).find_map(|line| line.strip_prefix("index "));
    let names = index.and_then(|line| line.split_whitespace().next()?.split_once(".."));
    match names {
        Some((before, after)) => (Some(hash(before)), Some(hash(after))),
        None => (None, None),
    }
}

/// The change the other way round, and the change.
fn changed(edit: &Edit) -> (u64, u64) {
    let (mut removed, mut added) = (1, 1);
    for line in edit.diff.lines() {
        match line.as_bytes().first() {
            Some(b'-') if !line.starts_with("---") => removed = hash_both(removed, hash(&line[1..])),
            Some(b'+') if !line.starts_with("+++") => added = hash_both(added, hash(&line[1..])),
            _ => {}
        }
    }
    (hash_both(added, removed), hash_both(removed, added))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(diff: &str) -> Edit {
        Edit { path: "a.py".to_owned(), diff: diff.to_owned(), ..Edit::default() }
    }

    fn play(diffs: &[&str]) -> (Vec<bool>, Files) {
        let mut files = Files::default();
        let news = diffs
            .iter()
            .enumerate()
            .map(|(at, diff)| files.edited(&edit(diff), at as i64, Timestamp::UNIX_EPOCH, |_| false));
        let news = news.collect();
        (news, files)
    }

    #[test]
    fn contents_that_were_there_before_are_nothing_new() {
        let (a, b, c) = ("index 11..22 100644", "index 22..11 100644", "index 11..33 100644");
        let (news, files) = play(&[a, b, a, c]);
        assert_eq!(news, [true, false, false, true]);
        let file = files.iter().next().unwrap();
        assert_eq!((file.returns, file.edits, file.is_restored()), (1, 4, false));
        let (_, files) = play(&[a, b]);
        assert!(files.iter().next().unwrap().is_restored());
    }

    #[test]
    fn a_change_back_is_known_without_the_names_of_contents() {
        let (there, back) = ("-x = 1\n+x = 2", "-x = 2\n+x = 1");
        let (news, files) = play(&[there, back, there, back]);
        assert_eq!(news, [true, false, false, false]);
        assert_eq!(files.iter().next().unwrap().returns, 3);
        let (news, _) = play(&[there, "-y = 1\n+y = 2"]);
        assert_eq!(news, [true, true]);
    }
}
