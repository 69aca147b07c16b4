//! Whether work that the agent calls complete is: the gates of the launch that can be judged inside. Whether there is a
//! pull request and whether tests pass is judged outside, and nothing is claimed of it here.

use omoi_protocol::{event::IterationValidation, launch::Gates};
use serde_json::{Value, json};

use crate::agent::prompt::COMPLETION_SIGNAL;

/// Files that are named of those that are in the way.
const FILES_SHOWN_MAX: usize = 10;

/// What was found once everything was committed.
#[derive(Debug, Clone, Default)]
pub struct Findings {
    pub branch_name: Option<String>,
    /// Why the work could not be committed or pushed.
    pub unsaved: Option<String>,
    /// What a commit leaves behind; an error where it cannot be told.
    pub dirty: Option<Result<Vec<String>, String>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Validation {
    pub errors: Vec<String>,
}

/// A success whose commits stay inside is none, whatever the gates are.
pub fn judge(gates: Gates, findings: &Findings) -> Validation {
    let mut errors: Vec<String> = findings.unsaved.iter().cloned().collect();
    match &findings.dirty {
        Some(Ok(files)) if gates.clean_git && !files.is_empty() => {
            let shown = files.iter().take(FILES_SHOWN_MAX).cloned().collect::<Vec<_>>().join(", ");
            let more = files.len().saturating_sub(FILES_SHOWN_MAX);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            errors.push(format!("the work tree is not clean after the commit: {shown}{more}"));
        }
        Some(Err(why)) if gates.clean_git => {
            errors.push(format!("whether the work tree is clean cannot be told: {why}"));
        }
        _ => {}
    }
    Validation { errors }
}

impl Validation {
    pub fn passed(&self) -> bool {
        self.errors.is_empty()
    }

    /// For the agent.
    pub fn feedback(&self) -> String {
        if self.passed() {
            return "everything that is judged inside of the sandbox holds".to_owned();
        }
        let list: Vec<String> = self.errors.iter().map(|error| format!("- {error}")).collect();
        format!(
            "You said {COMPLETION_SIGNAL}, but not everything holds:\n{}\n\nMend that, then say it again.",
            list.join("\n")
        )
    }

    pub fn event(&self, iteration: u32, findings: &Findings) -> IterationValidation {
        let is_clean = findings.dirty.as_ref().and_then(|dirty| Some(dirty.as_ref().ok()?.is_empty()));
        let git_status = findings.branch_name.as_ref().map(|branch_name| {
            json!({
                "branch_name": branch_name,
                "is_clean": is_clean,
                "is_pushed": findings.unsaved.is_none(),
                "has_pr": null,
            })
        });
        IterationValidation {
            iteration_num: Some(iteration.into()),
            passed: Some(self.passed()),
            feedback: Some(self.feedback()),
            git_status,
            errors: Some(self.errors.clone().into()),
            ..IterationValidation::default()
        }
    }
}

/// Which gates are judged here, and which outside.
pub fn requirements(gates: Gates) -> Value {
    let outside = [("pr_created", gates.pr_created), ("tests", gates.tests)];
    let outside: Vec<&str> = outside.iter().filter(|(_, wanted)| *wanted).map(|(name, _)| *name).collect();
    json!({ "clean_git": gates.clean_git, "code_pushed": gates.code_pushed, "judged_outside": outside })
}

/// Whether the agent says that it is done: on a line by itself, or as its last word. In the middle of a sentence it speaks
/// of the word, and does not say it.
pub fn signals(text: &str) -> bool {
    let plain =
        |text: &str| text.trim_matches(|c: char| c.is_whitespace() || "*_`#>.!\"'".contains(c)).to_owned();
    let alone = text.lines().any(|line| plain(line) == COMPLETION_SIGNAL);
    alone || plain(text).split_whitespace().next_back().is_some_and(|word| plain(word) == COMPLETION_SIGNAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INSIDE: Gates = Gates { clean_git: true, code_pushed: true, pr_created: false, tests: false };

    fn found(unsaved: Option<&str>, dirty: Result<&[&str], &str>) -> Findings {
        let dirty = dirty.map(|files| files.iter().map(|file| (*file).to_owned()).collect());
        Findings {
            branch_name: Some("feature/x".to_owned()),
            unsaved: unsaved.map(str::to_owned),
            dirty: Some(dirty.map_err(str::to_owned)),
        }
    }

    #[test]
    fn work_passes_when_it_is_committed_pushed_and_clean() {
        let table = [
            (INSIDE, found(None, Ok(&[])), None),
            (Gates::ALL, found(None, Ok(&[])), None),
            (INSIDE, found(Some("the branch cannot be pushed: refused"), Ok(&[])), Some("refused")),
            (INSIDE, found(None, Ok(&["a b", "c"])), Some("a b, c")),
            (INSIDE, found(None, Err("git status took too long")), Some("cannot be told")),
            (Gates::NONE, found(None, Ok(&["left"])), None),
            (Gates::NONE, found(Some("the branch cannot be pushed: refused"), Ok(&[])), Some("refused")),
            (INSIDE, Findings::default(), None),
        ];
        for (gates, findings, wrong) in table {
            let validation = judge(gates, &findings);
            assert_eq!(validation.passed(), wrong.is_none(), "{findings:?}");
            assert!(validation.feedback().contains(wrong.unwrap_or("holds")), "{}", validation.feedback());
        }
    }

    #[test]
    fn nothing_is_claimed_that_is_judged_outside() {
        let findings = found(None, Ok(&[]));
        let event = judge(Gates::ALL, &findings).event(2, &findings);
        let status = event.git_status.unwrap();
        assert_eq!((&status["is_clean"], &status["has_pr"]), (&json!(true), &json!(null)));
        assert_eq!(requirements(Gates::ALL)["judged_outside"], json!(["pr_created", "tests"]));
        assert_eq!(requirements(Gates::NONE)["judged_outside"], json!([]));
    }

    #[test]
    fn the_signal_is_said_and_not_spoken_of() {
        for (text, said) in [
            ("TASK_COMPLETE", true),
            ("All done.\n\n**TASK_COMPLETE**\n", true),
            ("All done. TASK_COMPLETE.", true),
            ("`TASK_COMPLETE`\n\nP.S. have a look at the README.", true),
            ("I will say TASK_COMPLETE when the tests pass.", false),
            ("TASK_COMPLETED", false),
            ("task_complete", false),
            ("", false),
        ] {
            assert_eq!(signals(text), said, "{text}");
        }
    }
}
