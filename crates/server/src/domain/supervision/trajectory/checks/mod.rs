//! What the changes of a run did to the tests, all together: a test that moves from one file to another is no loss, and what
//! the agent does to its own new tests takes nothing away.

mod change;
mod gate;
mod language;
mod mark;
#[cfg(test)]
mod tests;

use super::super::{
    sign::Edit,
    text::{hash, line},
};
use change::Change;
use language::Language;

const SEQS_MAX: usize = 8;
/// New files, and new tests, that are remembered.
const FRESH_MAX: usize = 64;
const OWN_MAX: usize = 256;

#[derive(Debug, Clone, Default)]
pub struct Checks {
    asserts: i64,
    /// Assertions that had been added when some were taken out of older tests.
    spare: i64,
    cases: i64,
    /// Marks that keep a test from being run, or its failure from counting.
    skips: i64,
    /// Files that the agent has made, with what is in them: they add to the whole and never take from it.
    fresh: Vec<Fresh>,
    /// Tests that the agent has written, by their hashed names.
    own: Vec<u64>,
    /// The change that first left less than there was.
    pub lost: Option<Lost>,
}

#[derive(Debug, Clone)]
struct Fresh {
    path: u64,
    asserts: i64,
    cases: i64,
}

#[derive(Debug, Clone)]
pub struct Lost {
    pub seqs: Vec<i64>,
    pub path: String,
    /// Calls that were completed by then.
    pub step: u64,
}

impl Checks {
    pub fn edited(&mut self, edit: &Edit, seq: i64, completed: u64) {
        let Some(change) = self.change(edit) else { return };
        if change == Change::default() && self.lost.is_none() {
            return;
        }
        self.count(edit, change);
        if !self.is_less() {
            (self.lost, self.spare) = (None, 0);
            return;
        }
        let lost =
            self.lost.get_or_insert_with(|| Lost { seqs: Vec::new(), path: line(&edit.path, 160), step: 0 });
        lost.step = completed;
        if lost.seqs.len() < SEQS_MAX {
            lost.seqs.push(seq);
        }
    }

    /// None for a file that has nothing to do with tests.
    fn change(&self, edit: &Edit) -> Option<Change> {
        let is_test = is_test(&edit.path);
        let mut change = match Language::of(&edit.path) {
            Some(language) if is_test => change::of_tests(language, &edit.diff, true, &self.own),
            // Tests of Rust stand beside the code that they test, whose assertions are no tests.
            Some(Language::Rust) => change::of_tests(Language::Rust, &edit.diff, false, &self.own),
            _ if gate::is_gate(&edit.path) => change::of_gate(&edit.diff),
            _ => return None,
        };
        // What a part of a diff takes out may be put in again in the rest of it.
        if edit.is_cut {
            (change.asserts, change.cases) = (change.asserts.max(0), change.cases.max(0));
        }
        Some(change)
    }

    fn count(&mut self, edit: &Edit, change: Change) {
        for name in change.new_cases {
            if self.own.len() < OWN_MAX && !self.own.contains(&name) {
                self.own.push(name);
            }
        }
        let path = hash(&edit.path);
        let from = edit.previous_path.as_deref().map(hash);
        let known = self.fresh.iter().position(|fresh| fresh.path == path || Some(fresh.path) == from);
        match known {
            Some(at) if edit.is_deleted => {
                self.fresh.swap_remove(at);
            }
            Some(at) => {
                let fresh = &mut self.fresh[at];
                (fresh.path, fresh.asserts, fresh.cases) =
                    (path, fresh.asserts + change.asserts, fresh.cases + change.cases);
            }
            None if edit.is_created && self.fresh.len() < FRESH_MAX => {
                self.fresh.push(Fresh { path, asserts: change.asserts, cases: change.cases });
            }
            None if edit.is_created => {}
            None => {
                if change.takes_from_old {
                    // What was added before to other tests does not make up for it.
                    self.spare += self.sums().0.max(0);
                }
                self.asserts += change.asserts;
                self.cases += change.cases;
                self.skips += change.skips;
            }
        }
    }

    /// With what new files bring; a new file cannot take anything away.
    fn sums(&self) -> (i64, i64) {
        let fresh = |of: fn(&Fresh) -> i64| self.fresh.iter().map(|fresh| of(fresh).max(0)).sum::<i64>();
        let asserts = self.asserts - self.spare + fresh(|fresh| fresh.asserts);
        (asserts, self.cases + fresh(|fresh| fresh.cases))
    }

    pub fn is_less(&self) -> bool {
        let (asserts, cases) = self.sums();
        asserts < 0 || cases < 0 || self.skips > 0
    }

    /// Whole tests are missing, and none of the others was marked.
    pub fn lacks_tests_alone(&self) -> bool {
        self.sums().1 < 0 && self.skips <= 0
    }

    /// In words, what is missing.
    pub fn missing(&self) -> String {
        let count = |n: i64, one: &str, many: &str| {
            (n > 0).then(|| format!("{n} {}", if n == 1 { one } else { many }))
        };
        let (asserts, cases) = self.sums();
        let less = [
            count(-cases, "test less", "tests less"),
            count(-asserts, "assertion less", "assertions less"),
            count(
                self.skips,
                "mark that lets a test be skipped or fail",
                "marks that let tests be skipped or fail",
            ),
        ];
        less.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    pub fn heap_bytes(&self) -> usize {
        let lost = self.lost.as_ref();
        lost.map_or(0, |lost| lost.path.capacity() + lost.seqs.capacity() * size_of::<i64>())
            + self.fresh.capacity() * size_of::<Fresh>()
            + self.own.capacity() * size_of::<u64>()
    }
}

/// Whether a file's whole diff says something about tests.
pub fn is_about_tests(path: &str) -> bool {
    is_test(path) || gate::is_gate(path) || Language::of(path) == Some(Language::Rust)
}

fn is_test(path: &str) -> bool {
    let mut parts = path.split('/').rev();
    let name = parts.next().unwrap_or_default();
    let folders = ["tests", "test", "__tests__", "spec", "specs", "e2e", "testing"];
    let stem = name.split('.').next().unwrap_or_default();
    parts.any(|part| folders.contains(&part) || part.ends_with("Tests"))
        || name.starts_with("test_")
        || ["_test.", ".test.", ".spec.", "_spec.", "-test.", ".cy."].iter().any(|end| name.contains(end))
        || ["Test", "Tests", "Spec", "IT"].iter().any(|end| {
            let before = stem.strip_suffix(end).and_then(|rest| rest.chars().next_back());
            before.is_some_and(|c| c.is_lowercase() || c.is_ascii_digit())
        })
}
