//! What the changes of a run did to the tests, all together: a test that moves from one file to another is no loss, and what
//! the agent does to its own new tests takes nothing away.

mod change;
mod gate;
mod language;
mod mark;
#[cfg(test)]
mod tests;

use super::super::{
    shell,
    sign::Edit,
    text::{clip, hash, line},
};
use change::Change;
use language::Language;

const SEQS_MAX: usize = 8;
/// New files, and new tests, that are remembered.
const FRESH_MAX: usize = 64;
const OWN_MAX: usize = 256;
/// Older files whose changes are counted apart; the others are counted together.
const FILES_MAX: usize = 32;
const PATH_CHARS: usize = 120;

#[derive(Debug, Clone, Default)]
pub struct Checks {
    /// What was done to the tests in files that were there before.
    old: Vec<Old>,
    /// What `git stash` has put away.
    stashed: Option<Stash>,
    /// Assertions that had been added when some were taken out of older tests.
    spare: i64,
    /// Files that the agent has made, with what is in them: they add to the whole and never take from it.
    fresh: Vec<Fresh>,
    /// Tests that the agent has written, by their hashed names.
    own: Vec<u64>,
    /// The directory that holds all files that were changed, where they have absolute paths.
    root: Option<String>,
    /// The change that first left less than there was.
    pub lost: Option<Lost>,
}

/// A file, or with an empty path all files that are not counted apart.
#[derive(Debug, Clone, Default)]
struct Old {
    path: String,
    count: Count,
    /// What a command has put back, until the file's next change, which may tell of that.
    put_back: Option<Count>,
}

#[derive(Debug, Clone, Default)]
struct Stash {
    old: Vec<Old>,
    lost: Option<Lost>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Count {
    asserts: i64,
    cases: i64,
    /// Marks that keep a test from being run, or its failure from counting.
    skips: i64,
}

#[derive(Debug, Clone)]
struct Fresh {
    path: u64,
    asserts: i64,
    cases: i64,
    /// A command has written it, which may have been there before.
    by_command: bool,
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
        self.widen_root(&edit.path);
        let Some(change) = self.change(edit) else { return };
        if change == Change::default() && self.lost.is_none() {
            return;
        }
        self.count(edit, change);
        if !self.settle() {
            return;
        }
        let lost =
            self.lost.get_or_insert_with(|| Lost { seqs: Vec::new(), path: line(&edit.path, 160), step: 0 });
        lost.step = completed;
        if lost.seqs.len() < SEQS_MAX {
            lost.seqs.push(seq);
        }
    }

    /// A command is run: one of Git's that puts files back, or one that writes a file.
    pub fn ran(&mut self, command: &str) {
        for one in shell::commands(command) {
            let words: Vec<&str> = one.words.iter().map(String::as_str).collect();
            match words.as_slice() {
                ["git", "checkout" | "restore", paths @ ..] => {
                    self.put_back(|old| paths.iter().any(|path| covers(path, old)));
                }
                ["git", "reset", "--hard", ..] => self.put_back(|_| true),
                ["git", "stash", "pop" | "apply", ..] => {
                    let Stash { old, lost } = self.stashed.take().unwrap_or_default();
                    for old in old {
                        self.old_mut(&old.path).count.add(old.count);
                    }
                    self.lost = self.lost.take().or(lost);
                }
                ["git", "stash", "list" | "show" | "drop" | "clear" | "branch", ..] => {}
                ["git", "stash", ..] => {
                    self.stashed = Some(Stash { old: self.old.clone(), lost: self.lost.clone() });
                    self.put_back(|_| true);
                }
                _ => {}
            }
            let written = words.windows(2).filter(|pair| matches!(pair[0], ">" | "tee")).map(|pair| pair[1]);
            let joined = words.iter().filter_map(|word| word.strip_prefix('>'));
            written.chain(joined).for_each(|path| self.wrote(path));
        }
        self.settle();
    }

    fn put_back(&mut self, is_meant: impl Fn(&str) -> bool) {
        for old in self.old.iter_mut().filter(|old| is_meant(&old.path)) {
            old.put_back = Some(std::mem::take(&mut old.count));
        }
    }

    fn wrote(&mut self, path: &str) {
        let hash = hash(path.trim_start_matches("./"));
        let is_known = self.old.iter().any(|old| same(&old.path, path))
            || self.fresh.iter().any(|fresh| fresh.path == hash);
        if self.fresh.len() < FRESH_MAX && !is_known && Language::of(path).is_some() && is_test(path) {
            self.fresh.push(Fresh { path: hash, asserts: 0, cases: 0, by_command: true });
        }
    }

    /// Whether there is less than before; forgets what was lost where there is not.
    fn settle(&mut self) -> bool {
        let is_less = self.is_less();
        if !is_less {
            (self.lost, self.spare) = (None, 0);
        }
        is_less
    }

    fn old_mut(&mut self, path: &str) -> &mut Old {
        let path = line(path, PATH_CHARS);
        let known = self.old.iter().position(|old| old.path == path);
        let at = known.unwrap_or_else(|| {
            let path = if self.old.len() < FILES_MAX { path } else { String::new() };
            let together = self.old.iter().position(|old| old.path == path);
            together.unwrap_or_else(|| {
                self.old.push(Old { path, ..Old::default() });
                self.old.len() - 1
            })
        });
        &mut self.old[at]
    }

    /// Directories above the files that are changed say nothing about what is in the files.
    fn widen_root(&mut self, path: &str) {
        let Some((directory, _)) = path.rsplit_once('/').filter(|_| path.starts_with('/')) else { return };
        let root = self.root.take().unwrap_or_else(|| clip(directory, 400));
        let common = root.split('/').zip(directory.split('/')).take_while(|(a, b)| a == b).map(|(a, _)| a);
        self.root = Some(common.collect::<Vec<_>>().join("/"));
    }

    /// A path without the directories that all changed files are in.
    fn below_root<'a>(&self, path: &'a str) -> &'a str {
        let root = self.root.as_deref().filter(|_| path.starts_with('/'));
        root.and_then(|root| path.strip_prefix(root)).unwrap_or(path).trim_start_matches('/')
    }

    /// None for a file that has nothing to do with tests.
    fn change(&self, edit: &Edit) -> Option<Change> {
        let is_test = is_test(self.below_root(&edit.path));
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
        // A diff with the names of contents tells that the file was there when a command wrote it.
        let was_there =
            !edit.is_created && ["diff --git ", "index "].iter().any(|one| edit.diff.starts_with(one));
        self.fresh.retain(|fresh| !(fresh.by_command && was_there && is_written(fresh, &edit.path)));
        let is_it = |fresh: &Fresh| {
            fresh.path == path
                || Some(fresh.path) == from
                || fresh.by_command && is_written(fresh, &edit.path)
        };
        let known = self.fresh.iter().position(is_it);
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
                let (asserts, cases) = (change.asserts, change.cases);
                self.fresh.push(Fresh { path, asserts, cases, by_command: false });
            }
            None if edit.is_created => {}
            None => {
                let count = Count { asserts: change.asserts, cases: change.cases, skips: change.skips };
                let spare = self.sums().0.max(0);
                let old = self.old_mut(&edit.path);
                if old.put_back.take().is_some_and(|back| back == count.negated()) {
                    return;
                }
                old.count.add(count);
                if change.takes_from_old {
                    // What was added before to other tests does not make up for it.
                    self.spare += spare;
                }
            }
        }
    }

    /// With what new files bring; a new file cannot take anything away.
    fn sums(&self) -> (i64, i64) {
        let fresh = |of: fn(&Fresh) -> i64| self.fresh.iter().map(|fresh| of(fresh).max(0)).sum::<i64>();
        let old = |of: fn(&Count) -> i64| self.old.iter().map(|old| of(&old.count)).sum::<i64>();
        let asserts = old(|count| count.asserts) - self.spare + fresh(|fresh| fresh.asserts);
        (asserts, old(|count| count.cases) + fresh(|fresh| fresh.cases))
    }

    fn skips(&self) -> i64 {
        self.old.iter().map(|old| old.count.skips).sum()
    }

    pub fn is_less(&self) -> bool {
        let (asserts, cases) = self.sums();
        asserts < 0 || cases < 0 || self.skips() > 0
    }

    /// Whole tests are missing, and none of the others was marked.
    pub fn lacks_tests_alone(&self) -> bool {
        self.sums().1 < 0 && self.skips() <= 0
    }

    /// In words, what is missing.
    pub fn missing(&self) -> String {
        let count = |n: i64, one: &str, many: &str| {
            (n > 0).then(|| format!("{n} {}", if n == 1 { one } else { many }))
        };
        let (asserts, cases) = self.sums();
        let less = [
            count(-cases, "test removed", "tests removed"),
            count(-asserts, "assertion removed", "assertions removed"),
            count(self.skips(), "skip marker added", "skip markers added"),
        ];
        less.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    pub fn heap_bytes(&self) -> usize {
        let lost = self.lost.as_ref();
        lost.map_or(0, |lost| lost.path.capacity() + lost.seqs.capacity() * size_of::<i64>())
            + self.fresh.capacity() * size_of::<Fresh>()
            + self.own.capacity() * size_of::<u64>()
            + self.root.as_ref().map_or(0, String::capacity)
            + [Some(&self.old), self.stashed.as_ref().map(|stash| &stash.old)]
                .into_iter()
                .flatten()
                .map(bytes)
                .sum::<usize>()
    }
}

impl Count {
    fn add(&mut self, other: Self) {
        self.asserts += other.asserts;
        self.cases += other.cases;
        self.skips += other.skips;
    }

    fn negated(self) -> Self {
        Self { asserts: -self.asserts, cases: -self.cases, skips: -self.skips }
    }
}

fn bytes(old: &Vec<Old>) -> usize {
    old.capacity() * size_of::<Old>() + old.iter().map(|old| old.path.capacity()).sum::<usize>()
}

/// Whether two paths name one file, where either may be written from a directory further up.
fn same(a: &str, b: &str) -> bool {
    let ends =
        |a: &str, b: &str| a.strip_suffix(b).is_some_and(|head| head.is_empty() || head.ends_with('/'));
    let (a, b) = (a.trim_start_matches("./"), b.trim_start_matches("./"));
    !a.is_empty() && !b.is_empty() && (ends(a, b) || ends(b, a))
}

/// Whether a path that is given to Git covers a file.
fn covers(given: &str, file: &str) -> bool {
    let given = given.trim_end_matches('/');
    given == "."
        || same(given, file)
        || file.starts_with(&format!("{given}/"))
        || file.contains(&format!("/{given}/"))
}

/// Whether a file is the one that a command wrote, by any path that ends like its own.
fn is_written(fresh: &Fresh, path: &str) -> bool {
    let ends = path.match_indices('/').map(|(at, _)| &path[at + 1..]);
    std::iter::once(path).chain(ends).any(|end| hash(end) == fresh.path)
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
