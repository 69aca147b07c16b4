//! What was seen to fail and not seen to pass since, and what the changes did to the tests.

use super::{
    super::{
        sign::Edit,
        text::{hash, line},
    },
    step::{Step, Test},
};

const FAILING_MAX: usize = 8;
const TITLE_CHARS: usize = 120;

#[derive(Debug, Clone)]
pub struct Failing {
    pub seq: i64,
    pub title: String,
    runner: u64,
    targets: Vec<u64>,
}

#[derive(Debug, Clone, Default)]
pub struct Evidence {
    failing: Vec<Failing>,
}

impl Evidence {
    /// A command that tries whether things work has ended.
    pub fn tried(&mut self, step: &Step, test: &Test, text: &str, failed: bool) {
        let failed = failed || tells_failure(text);
        self.record(step.seq, &step.title, test.runner, &test.targets, failed);
    }

    /// A program that the agent has written was run.
    pub fn ran(&mut self, step: &Step, file: u64, failed: bool) {
        self.record(step.seq, &step.title, file, &[], failed);
    }

    pub fn checked(&mut self, name: &str, passed: bool, seq: i64) {
        self.record(seq, &format!("the check {name}"), hash(name), &[], !passed);
    }

    /// The newest last.
    pub fn failing(&self) -> &[Failing] {
        &self.failing
    }

    fn record(&mut self, seq: i64, title: &str, runner: u64, targets: &[u64], failed: bool) {
        let about = |old: &Failing| {
            let apart = !old.targets.is_empty() && !targets.is_empty();
            old.runner == runner && (!apart || old.targets.iter().any(|one| targets.contains(one)))
        };
        self.failing.retain(|old| !about(old));
        if !failed {
            return;
        }
        if self.failing.len() == FAILING_MAX {
            self.failing.remove(0);
        }
        self.failing.push(Failing {
            seq,
            title: line(title, TITLE_CHARS),
            runner,
            targets: targets.to_vec(),
        });
    }

    pub fn heap_bytes(&self) -> usize {
        let one = |one: &Failing| one.title.capacity() + one.targets.capacity() * size_of::<u64>();
        self.failing.capacity() * size_of::<Failing>() + self.failing.iter().map(one).sum::<usize>()
    }
}

/// What runners of tests write when some fail, for whoever has lost their exit code in a pipe.
fn tells_failure(text: &str) -> bool {
    let counted = |line: &str| {
        let (number, _) = line.split_once(" failed")?;
        number.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse::<u32>().ok()
    };
    text.lines().rev().take(40).any(|line| {
        line.starts_with("FAILED")
            || line.starts_with("test result: FAILED")
            || line.starts_with("FAIL\t")
            || line.starts_with("--- FAIL")
            || counted(line).is_some_and(|count| count > 0)
    })
}

/// What changes did to tests, all together: a test that moves from one file to another is no loss.
#[derive(Debug, Clone, Default)]
pub struct Tests {
    asserts: i64,
    cases: i64,
    /// Marks that keep a test from being run, or its failure from counting.
    skips: i64,
    /// The change that first left less than there was.
    pub lost: Option<Lost>,
}

#[derive(Debug, Clone)]
pub struct Lost {
    pub seqs: Vec<i64>,
    pub path: String,
    /// Calls that were completed by then.
    pub step: u64,
}

impl Tests {
    pub fn edited(&mut self, edit: &Edit, seq: i64, completed: u64) {
        let is_test = is_test(&edit.path);
        if !is_test && !is_gate(&edit.path) {
            return;
        }
        for text in edit.diff.lines() {
            let (sign, text) = match text.as_bytes().first() {
                Some(b'+') if !text.starts_with("+++") => (1, text[1..].trim()),
                Some(b'-') if !text.starts_with("---") => (-1, text[1..].trim()),
                _ => continue,
            };
            self.skips += sign * i64::from(if is_test { skips(text) } else { passes_anyway(text) });
            if is_test {
                self.asserts += sign * i64::from(asserts(text));
                self.cases += sign * i64::from(begins_case(text));
            }
        }
        if !self.is_less() {
            self.lost = None;
            return;
        }
        let lost =
            self.lost.get_or_insert_with(|| Lost { seqs: Vec::new(), path: line(&edit.path, 160), step: 0 });
        lost.step = completed;
        if lost.seqs.len() < 8 {
            lost.seqs.push(seq);
        }
    }

    pub fn is_less(&self) -> bool {
        self.asserts < 0 || self.cases < 0 || self.skips > 0
    }

    /// In words, what is missing.
    pub fn missing(&self) -> String {
        let count = |n: i64, one: &str, many: &str| {
            (n > 0).then(|| format!("{n} {}", if n == 1 { one } else { many }))
        };
        let less = [
            count(-self.cases, "test less", "tests less"),
            count(-self.asserts, "assertion less", "assertions less"),
            count(
                self.skips,
                "mark that lets a test be skipped or fail",
                "marks that let tests be skipped or fail",
            ),
        ];
        less.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    pub fn heap_bytes(&self) -> usize {
        self.lost.as_ref().map_or(0, |lost| lost.path.capacity() + lost.seqs.capacity() * size_of::<i64>())
    }
}

pub fn is_test(path: &str) -> bool {
    let mut parts = path.split('/').rev();
    let name = parts.next().unwrap_or_default();
    let in_tests = parts.any(|part| matches!(part, "tests" | "test" | "__tests__" | "spec" | "e2e"));
    in_tests
        || name.starts_with("test_")
        || ["_test.", ".test.", ".spec.", "_spec."].iter().any(|end| name.contains(end))
}

/// What decides whether failing tests matter.
fn is_gate(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    matches!(
        name,
        "Makefile" | "justfile" | "package.json" | "tox.ini" | "setup.cfg" | "pytest.ini" | "pyproject.toml"
    ) || path.starts_with(".github/workflows/")
        || name == ".gitlab-ci.yml"
}

fn is_comment(text: &str) -> bool {
    text.starts_with('#') && !text.starts_with("#[")
        || text.starts_with("//")
        || text.starts_with("/*")
        || text.starts_with('*')
}

fn asserts(text: &str) -> bool {
    let told = ["assert", "expect(", "EXPECT_", "ASSERT_", "should.", ".should("]
        .iter()
        .any(|word| text.contains(word));
    let says_nothing = ["assert True", "assertTrue(True)", "assert!(true)", "expect(true)"];
    let imports = text.starts_with("import ") || text.starts_with("from ") || text.starts_with("use ");
    told && !imports && !is_comment(text) && !says_nothing.iter().any(|word| text.contains(word))
}

fn begins_case(text: &str) -> bool {
    let begins = [
        "def test",
        "async def test",
        "fn test",
        "func Test",
        "#[test]",
        "#[tokio::test]",
        "it(",
        "test(",
        "@Test",
    ];
    begins.iter().any(|begin| text.starts_with(begin))
}

fn skips(text: &str) -> bool {
    let marks = [
        "mark.skip",
        "mark.xfail",
        "unittest.skip",
        "@skip",
        "skipTest(",
        "pytest.skip(",
        "#[ignore",
        "it.skip(",
        "test.skip(",
        "describe.skip(",
        "xit(",
        "xdescribe(",
        "t.Skip(",
        "@Disabled",
        "@Ignore",
        "expectedFailure",
        "it.only(",
        "test.only(",
    ];
    !is_comment(text) && marks.iter().any(|mark| text.contains(mark))
}

fn passes_anyway(text: &str) -> bool {
    let marks = [
        "|| true",
        "|| exit 0",
        "continue-on-error: true",
        "allow_failure: true",
        "--passWithNoTests",
        "--deselect",
        "--ignore=",
    ];
    !is_comment(text) && marks.iter().any(|mark| text.contains(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(edits: &[(&str, &str)]) -> Tests {
        let mut tests = Tests::default();
        for (at, (path, diff)) in edits.iter().enumerate() {
            let edit = Edit { path: (*path).to_owned(), diff: (*diff).to_owned(), ..Edit::default() };
            tests.edited(&edit, at as i64, 0);
        }
        tests
    }

    #[test]
    fn tests_that_check_less_are_seen() {
        let less = [
            ("tests/test_a.py", "-        self.assertEqual(a, 1)"),
            ("tests/test_a.py", "-    assert a == 1\n+    assert True"),
            ("tests/test_a.py", "-    assert a == 1\n+    # assert a == 1"),
            ("src/a.test.ts", "-  it('adds', () => {\n+  it.skip('adds', () => {"),
            ("src/a_test.go", "+\tt.Skip(\"later\")"),
            ("tests/a.rs", "+#[ignore]\n #[test]"),
            ("Makefile", "-\tpytest\n+\tpytest || true"),
            (".github/workflows/ci.yml", "+    continue-on-error: true"),
            ("tests/test_a.py", "-def test_a():\n-    assert a == 1"),
        ];
        for (path, diff) in less {
            assert!(after(&[(path, diff)]).lost.is_some(), "{path}: {diff}");
        }
        let fine = [
            ("tests/test_a.py", "-    assert a == 1\n+    assert a == 2"),
            ("tests/test_a.py", "+    assert b == 2"),
            ("tests/test_a.py", "-def test_a():\n+def test_b():"),
            ("tests/test_a.py", "-from x import assert_close\n-import unittest"),
            ("src/a.py", "-    assert a == 1"),
            ("src/skip.py", "+@skip"),
            ("run.sh", "+rm -f x || true"),
        ];
        for (path, diff) in fine {
            assert!(after(&[(path, diff)]).lost.is_none(), "{path}: {diff}");
        }
    }

    #[test]
    fn a_test_that_moves_is_no_loss() {
        let (gone, come) = ("-def test_a():\n-    assert a == 1", "+def test_a():\n+    assert a == 1");
        let tests = after(&[("tests/test_a.py", gone), ("tests/test_b.py", come)]);
        assert!(tests.lost.is_none() && !tests.is_less());
        let lost = after(&[("tests/test_a.py", gone)]);
        assert_eq!(lost.missing(), "1 test less, 1 assertion less");
    }

    #[test]
    fn a_failure_shows_although_the_exit_code_is_lost() {
        assert!(tells_failure("E\n\nRan 3 tests\n\nFAILED (failures=1)"));
        assert!(tells_failure("== 2 failed, 1 passed in 0.1s =="));
        assert!(!tells_failure("== 0 failed, 3 passed =="));
        assert!(!tells_failure("Ran 3 tests in 0.1s\n\nOK"));
    }
}
