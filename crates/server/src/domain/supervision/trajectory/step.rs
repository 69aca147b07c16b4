//! Calls of tools and what came of them: the newest, each known by what was asked and what was answered.

use jiff::Timestamp;

use super::super::{
    shell,
    sign::Call,
    text::{Ring, hash, hash_both, hash_result, line},
};

pub const STEPS: usize = 32;
const TITLE_CHARS: usize = 120;

/// A call, and its result once there is one.
#[derive(Debug, Clone)]
pub struct Step {
    pub seq: i64,
    pub at: Timestamp,
    /// Which of all calls it is.
    pub number: u64,
    id: u64,
    /// Whose call it is: 0 for the agent's own, else the helper's.
    pub lane: u64,
    /// What was asked, and of which tool.
    pub call: u64,
    pub title: String,
    /// It waits before it looks, as who polls does.
    pub polls: bool,
    /// It writes a file by itself, as opposed to a command that may.
    pub edits: bool,
    pub test: Option<Test>,
    pub outcome: Outcome,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Open,
    Ok { result: u64 },
    Failed { result: u64 },
}

/// A command that tries whether things work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Test {
    pub runner: u64,
    /// The files or tests it is about; none for all of them.
    pub targets: Vec<u64>,
    /// It runs other runners: a target of a makefile, or a script.
    pub is_wrapper: bool,
    /// It looks at the code and runs nothing of it: a compiler or a linter.
    pub is_lint: bool,
    pub exit: Exit,
}

/// Whose the exit code of a whole command is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The runner is the last command.
    Own,
    /// Whatever comes after the runner runs only where it has passed.
    Guards,
    /// The runner's output goes to a search for failures, which finds nothing where all is well.
    Searched,
    /// Another command decides about it.
    Lost,
}

impl Exit {
    /// Of the command at an index.
    pub fn of(run: &[shell::Simple], at: usize) -> Self {
        let after = &run[at + 1..];
        match after.first() {
            None => Self::Own,
            _ if after.iter().all(|one| one.chained) => Self::Guards,
            Some(next) if next.piped && seeks_failures(&next.words) => Self::Searched,
            Some(_) => Self::Lost,
        }
    }
}

fn seeks_failures(words: &[String]) -> bool {
    let seeks = |word: &String| {
        let word = word.to_lowercase();
        ["fail", "panic", "error"].iter().any(|sought| word.contains(sought))
    };
    matches!(words[0].as_str(), "grep" | "egrep" | "rg") && words[1..].iter().any(seeks)
}

impl Step {
    /// What was asked and what came of it; none while nothing did.
    pub fn pair(&self) -> Option<u64> {
        match self.outcome {
            Outcome::Open => None,
            Outcome::Ok { result } | Outcome::Failed { result } => Some(hash_both(self.call, result)),
        }
    }

    pub fn has_failed(&self) -> bool {
        matches!(self.outcome, Outcome::Failed { .. })
    }
}

#[derive(Debug, Clone, Default)]
pub struct Steps {
    ring: Ring<Step, STEPS>,
    pub count: u64,
    /// With a result, and none that waits.
    pub completed: u64,
}

impl Steps {
    pub fn call(&mut self, call: &Call, seq: i64, at: Timestamp) {
        self.count += 1;
        let asked = match &call.command {
            // What a command is for is told anew each time; what it does is what counts.
            Some(command) => hash(command.trim()),
            None => hash(&call.input),
        };
        let run = call.command.as_deref().map(shell::commands).unwrap_or_default();
        let what = call.command.as_deref().or(call.path.as_deref()).unwrap_or(&call.input);
        self.ring.push(Step {
            seq,
            at,
            number: self.count,
            id: hash(&call.id),
            lane: call.parent.as_deref().map_or(0, hash),
            call: hash_both(hash(&call.tool), asked),
            title: line(&format!("{} {what}", call.tool), TITLE_CHARS),
            polls: waits(&call.tool)
                || run.iter().any(|one| matches!(one.words[0].as_str(), "sleep" | "wait" | "watch")),
            edits: matches!(call.tool.as_str(), "Edit" | "Write" | "MultiEdit" | "NotebookEdit"),
            test: test_in(&run),
            outcome: Outcome::Open,
        });
    }

    /// The step that a result belongs to, if it is still known.
    pub fn result(&mut self, id: &str, text: &str, failed: bool) -> Option<&Step> {
        let id = hash(id);
        let open = |step: &&mut Step| step.id == id && step.outcome == Outcome::Open;
        let step = self.ring.iter_mut().rev().find(open)?;
        let result = hash_result(text);
        step.outcome = if failed { Outcome::Failed { result } } else { Outcome::Ok { result } };
        // Whoever waits is not at work.
        self.completed += u64::from(!step.polls);
        Some(step)
    }

    /// Oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Step> {
        self.ring.iter()
    }

    /// Completed ones of whoever made the last, after this event, newest first.
    pub fn since(&self, seq: i64) -> impl Iterator<Item = &Step> {
        let lane =
            self.ring.iter().rev().find(|step| step.outcome != Outcome::Open).map_or(0, |step| step.lane);
        self.ring
            .iter()
            .rev()
            .filter(move |step| step.outcome != Outcome::Open && step.lane == lane && step.seq > seq)
    }

    pub fn heap_bytes(&self) -> usize {
        let texts = |step: &Step| {
            step.title.capacity()
                + step.test.as_ref().map_or(0, |test| test.targets.capacity() * size_of::<u64>())
        };
        self.ring.heap_bytes() + self.ring.iter().map(texts).sum::<usize>()
    }
}

/// Whether a tool does nothing but look what a command in the background has come to.
fn waits(tool: &str) -> bool {
    matches!(tool, "BashOutput" | "TaskOutput" | "AgentOutput" | "Monitor" | "write_stdin" | "wait")
}

/// What only stands before a runner.
const PREFIXES: [[&str; 2]; 11] = [
    ["bundle", "exec"],
    ["poetry", "run"],
    ["uv", "run"],
    ["pipenv", "run"],
    ["pdm", "run"],
    ["hatch", "run"],
    ["rye", "run"],
    ["pnpm", "exec"],
    ["yarn", "exec"],
    ["npm", "exec"],
    ["bun", "x"],
];

/// The tests that a command runs.
fn test_in(run: &[shell::Simple]) -> Option<Test> {
    run.iter().enumerate().find_map(|(at, one)| Some(Test { exit: Exit::of(run, at), ..test(&one.words)? }))
}

/// Whether the words of a command run tests.
pub(super) fn test(words: &[String]) -> Option<Test> {
    let is_prefixed =
        |prefix: &&[&str; 2]| words.len() > 2 && words.iter().zip(prefix.iter()).all(|(a, b)| a == b);
    let words = if PREFIXES.iter().any(|prefix| is_prefixed(&prefix)) { &words[2..] } else { words };
    let name = words.first().map_or("", String::as_str);
    let program = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    // Options of the program itself come before what it is to do; `python -m` and `npx` are read as they stand.
    let at = match program {
        "python" | "npx" => 1,
        _ => words.iter().skip(1).take_while(|word| word.starts_with(['-', '+'])).count() + 1,
    };
    let word = |offset: usize| words.get(at + offset).map_or("", String::as_str);
    let skipped = match (program, word(0), word(1)) {
        (
            "pytest" | "py.test" | "tox" | "nox" | "jest" | "vitest" | "mocha" | "ava" | "rspec" | "phpunit"
            | "pest" | "ctest" | "nosetests" | "bats" | "busted" | "minitest",
            ..,
        ) => 1,
        ("python", "-m", "pytest" | "unittest" | "nose" | "doctest") => at + 2,
        ("cargo", "test" | "nextest" | "check" | "clippy", _)
        | ("go", "test" | "vet", _)
        | (
            "npm" | "yarn" | "pnpm" | "make" | "just" | "task" | "mvn" | "mvnw" | "gradle" | "gradlew"
            | "deno" | "bun" | "dotnet" | "mix" | "swift" | "flutter" | "dart" | "sbt" | "bazel" | "rake"
            | "composer" | "lein" | "cabal" | "stack" | "zig" | "rails" | "meson" | "ng" | "nx" | "turbo",
            "test" | "check" | "verify" | "spec",
            _,
        ) => at + 1,
        ("npm" | "yarn" | "pnpm" | "bun" | "composer", "run", script) if script.contains("test") => at + 2,
        ("npx", "jest" | "vitest" | "mocha" | "ava" | "tsc" | "playwright", _) => at + 1,
        _ if name.contains("test") && (name.ends_with(".sh") || name.ends_with(".py")) => 1,
        ("python" | "sh" | "bash" | "node" | "php" | "ruby", script, _) if names_test(script) => at,
        _ => return None,
    };
    let targets = words[skipped.min(words.len())..].iter().filter(|word| {
        !word.starts_with('-')
            && !word.contains(['>', '<'])
            && !matches!(word.as_str(), "discover" | "run" | "./..." | ".")
    });
    let lint = match (program, word(0)) {
        ("cargo", "check") => Some("cargo check"),
        ("cargo", "clippy") => Some("cargo clippy"),
        ("go", "vet") => Some("go vet"),
        ("npx", "tsc") => Some("tsc"),
        _ => None,
    };
    let runner = match program {
        // However they are run, they are the same tests.
        "pytest" | "py.test" | "tox" | "nox" | "nosetests" => "python",
        "npx" | "yarn" | "pnpm" | "bun" | "jest" | "vitest" | "mocha" | "ava" | "node" => "npm",
        "mvnw" => "mvn",
        "gradlew" => "gradle",
        other => other,
    };
    let is_wrapper = matches!(runner, "make" | "just" | "task" | "rake") || name.ends_with(".sh");
    Some(Test {
        runner: hash(lint.unwrap_or(runner)),
        targets: targets.take(8).map(|word| hash(word)).collect(),
        is_wrapper,
        is_lint: lint.is_some(),
        exit: Exit::Own,
    })
}

fn names_test(script: &str) -> bool {
    let name = script.rsplit('/').next().unwrap_or_default();
    name.starts_with("test") || name.contains("_test.") || name.contains(".test.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_run_tests_are_known() {
        let table = [
            ("python3 -m unittest", Some(0)),
            ("python3 -m unittest tests.test_price", Some(1)),
            ("cd x && python3.11 -m pytest -q tests/test_a.py 2>&1 | tail -3", Some(1)),
            ("cargo test -p shop", Some(1)),
            ("make test", Some(0)),
            ("npm run test:unit", Some(0)),
            ("./run_tests.sh", Some(0)),
            ("python3 tests/test_price.py", Some(1)),
            ("mvn -q test", Some(0)),
            ("./gradlew --offline test", Some(0)),
            ("bundle exec rspec spec/price_spec.rb", Some(1)),
            ("uv run pytest -q", Some(0)),
            ("vendor/bin/phpunit", Some(0)),
            ("dotnet test", Some(0)),
            ("cargo +nightly test", Some(0)),
            ("go test ./...", Some(0)),
            ("npx vitest run", Some(0)),
            ("mix test test/a_test.exs", Some(1)),
            ("npm install", None),
            ("make build", None),
            ("bundle install", None),
            ("uv run serve", None),
            ("ls tests", None),
            ("grep -rn pytest .", None),
            ("python3 shop.py", None),
        ];
        for (command, targets) in table {
            let found = shell::commands(command).iter().find_map(|one| test(&one.words));
            assert_eq!(found.map(|test| test.targets.len()), targets, "{command}");
        }
    }

    #[test]
    fn it_is_known_whose_the_exit_code_is() {
        let table = [
            ("cd x && pytest -q 2>&1", Exit::Own),
            ("bash -lc 'cd x && pytest'", Exit::Own),
            ("pytest -q && git commit -m x && git push", Exit::Guards),
            ("cargo test 2>&1 | grep -E 'FAILED|panicked'", Exit::Searched),
            ("cargo test 2>&1 | tail -5", Exit::Lost),
            ("pytest | tail && ls", Exit::Lost),
            ("pytest || true", Exit::Lost),
            ("pytest; echo $?", Exit::Lost),
        ];
        for (command, exit) in table {
            assert_eq!(test_in(&shell::commands(command)).map(|test| test.exit), Some(exit), "{command}");
        }
    }
}
