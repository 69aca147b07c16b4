//! What came of a run: for people as a few lines, for programs as one object.

use std::path::{Path, PathBuf};

use omoi_client::Client;
use omoi_protocol::{
    ProjectId, SandboxId, SandboxStatus, TaskId, TaskStatus, Verification, outcome::CheckResult,
    project::Project, sandbox::Sandbox, task::Task,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::story::Known;
use crate::{
    failure::{Code, FAILED, INTERRUPTED, Stop},
    sandbox::told::{abbreviate, isolation, kept, usd},
    table::fields,
    text::span,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Completed,
    Failed,
    Interrupted,
    Detached,
}

#[derive(Debug, Serialize)]
pub struct Summary {
    pub status: Status,
    pub task_id: TaskId,
    pub sandbox_id: SandboxId,
    pub project_id: ProjectId,
    pub branch: Option<String>,
    pub base_commit: Option<String>,
    /// What the checks ran on, or would have.
    pub commit: Option<String>,
    pub verification: Verification,
    /// What the declared checks came to.
    pub checks: Vec<CheckResult>,
    pub commits: Vec<String>,
    pub files_changed: Vec<FileChanged>,
    pub turns: u64,
    pub events: u64,
    pub cost_usd: f64,
    pub session_id: Option<String>,
    /// The agent's last words.
    pub result: Option<String>,
    pub error: Option<String>,
    /// How to get the work.
    pub fetch: Option<String>,
    pub isolation: Value,
    pub duration_ms: u64,
    #[serde(skip)]
    kept: Option<String>,
    #[serde(skip)]
    isolated: Option<String>,
    #[serde(skip)]
    never_was: bool,
}

#[derive(Debug, Serialize)]
pub struct FileChanged {
    pub path: String,
    pub lines_added: u64,
    pub lines_removed: u64,
}

/// What a summary is made from.
pub struct Ended<'a> {
    pub client: &'a Client,
    pub project: &'a Project,
    pub task: &'a Task,
    pub sandbox: &'a Sandbox,
    pub known: Known,
    pub failure: Option<&'a str>,
    pub interrupted: bool,
    /// Where mirrors are, when the server is on this machine.
    pub mirrors: Option<PathBuf>,
    pub took: std::time::Duration,
}

impl Summary {
    pub fn new(ended: Ended<'_>) -> Self {
        let Ended { client, project, task, sandbox, known, failure, interrupted, mirrors, took } = ended;
        let status = match task.status {
            TaskStatus::Completed => Status::Completed,
            _ if interrupted => Status::Interrupted,
            _ => Status::Failed,
        };
        let error = known.error.or(task.error_message.clone()).or(failure.map(str::to_owned));
        let error = error.or(sandbox.place_error.clone()).or(sandbox.end_reason.clone());
        // What the branch has not all of lies elsewhere.
        let aside = sandbox.kept.as_ref().and_then(|kept| kept.reference.clone().filter(|_| kept.kept));
        let aside = aside.filter(|name| !name.starts_with("refs/heads/"));
        let on_branch = sandbox.branch_name.clone().filter(|_| !known.commits.is_empty());
        let reference = aside.clone().or(on_branch);
        let files = known.files.into_iter();
        Self {
            status,
            task_id: task.id.clone(),
            sandbox_id: sandbox.id.clone(),
            project_id: project.id.clone(),
            branch: sandbox.branch_name.clone(),
            base_commit: sandbox.base_commit.clone(),
            commit: of_result(task, "commit"),
            verification: of_result(task, "verification").unwrap_or(Verification::Unverified),
            checks: of_result(task, "checks").unwrap_or_default(),
            commits: known.commits,
            files_changed: files
                .map(|(path, (lines_added, lines_removed))| FileChanged { path, lines_added, lines_removed })
                .collect(),
            turns: known.turns,
            events: known.events,
            cost_usd: known.micro_usd as f64 / 1e6,
            session_id: known.session_id,
            result: known.final_output,
            error: error.filter(|_| status == Status::Failed),
            fetch: reference.map(|name| fetch(client.url(), project, &name, mirrors.as_deref())),
            isolation: sandbox.isolation.clone().unwrap_or_default(),
            duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            kept: kept(sandbox).filter(|_| aside.is_some()),
            isolated: sandbox.isolation.as_ref().map(|_| isolation(sandbox)),
            never_was: sandbox.started_at.is_none() && sandbox.status == SandboxStatus::Failed,
        }
    }

    pub fn text(&self) -> String {
        let commits: Vec<String> = self.commits.iter().map(|commit| abbreviate(commit)).collect();
        let file =
            |file: &FileChanged| format!("{} (+{} −{})", file.path, file.lines_added, file.lines_removed);
        let files: Vec<String> = self.files_changed.iter().map(file).collect();
        let some = |list: Vec<String>, join: &str| Some(list.join(join)).filter(|text| !text.is_empty());
        let status = match self.status {
            Status::Completed => "completed",
            Status::Failed => "failed",
            Status::Interrupted => "interrupted",
            Status::Detached => "goes on",
        };
        let micro = (self.cost_usd * 1e6).round() as i64;
        let took = jiff::SignedDuration::from_millis(i64::try_from(self.duration_ms).unwrap_or(i64::MAX));
        let after =
            if self.status == Status::Detached { String::new() } else { format!(" in {}", span(took)) };
        fields([
            ("task", Some(format!("{} {status}{after}", self.task_id))),
            ("sandbox", Some(self.sandbox_id.to_string())),
            ("isolation", self.isolated.clone()),
            ("branch", self.branch.clone()),
            ("checks", checks(&self.checks)),
            ("proof", self.proof()),
            ("commits", some(commits, " ")),
            ("files", some(files, "\n")),
            ("kept", self.kept.clone()),
            ("cost", (micro > 0).then(|| usd(micro))),
            ("get it", self.fetch.clone()),
            ("then", self.fetch.as_ref().map(|_| "git diff HEAD...FETCH_HEAD".to_owned())),
        ])
    }

    /// Whether somebody has to take the agent's word for it.
    fn proof(&self) -> Option<String> {
        let commit = self.commit.as_deref().map(abbreviate);
        let on = commit.map(|commit| format!(": all checks passed on {commit}")).unwrap_or_default();
        match (self.status, self.verification) {
            (_, Verification::Verified) => Some(format!("verified{on}")),
            (Status::Completed, Verification::Unverified) => {
                Some("unverified: the project declares no checks".to_owned())
            }
            (_, Verification::Disputed) => Some("the checks failed".to_owned()),
            (_, Verification::Unverified) => None,
        }
    }

    /// How the program ends.
    pub fn verdict(&self) -> anyhow::Result<()> {
        let id = &self.sandbox_id;
        match self.status {
            Status::Completed | Status::Detached => Ok(()),
            Status::Interrupted => Err(Code(INTERRUPTED).into()),
            Status::Failed => {
                let why = self.error.as_deref().unwrap_or("nobody said why");
                // What failed checks have said was shown.
                let why = why.lines().next().filter(|_| !self.checks.is_empty()).unwrap_or(why);
                let id = self.checks.iter().find_map(|check| check.sandbox_id.as_ref()).unwrap_or(id);
                let (cause, hint) = if self.never_was {
                    (
                        format!("{id} could not be made: {why}"),
                        "`omoi doctor`, on the server's machine, says what is missing".to_owned(),
                    )
                } else {
                    (
                        format!("{} failed: {why}", self.task_id),
                        format!("`omoi sandbox logs {id}` shows what it did"),
                    )
                };
                Err(Stop::new(FAILED, cause).hint(hint).into())
            }
        }
    }
}

fn of_result<T: DeserializeOwned>(task: &Task, key: &str) -> Option<T> {
    serde_json::from_value(task.result.as_ref()?.get(key)?.clone()).ok()
}

/// One line for each.
pub fn checks(results: &[CheckResult]) -> Option<String> {
    let line = |result: &CheckResult| {
        let mark = if result.passed { "✓" } else { "✗" };
        let code = result.exit_code.filter(|_| !result.passed).map(|code| format!(", exit {code}"));
        let took = result.duration_ms.map(|ms| format!(" in {}", millis(ms)));
        format!("{mark} {}{}{}", result.name, took.unwrap_or_default(), code.unwrap_or_default())
    };
    (!results.is_empty()).then(|| results.iter().map(line).collect::<Vec<_>>().join("\n"))
}

fn millis(ms: u64) -> String {
    span(jiff::SignedDuration::from_millis(i64::try_from(ms).unwrap_or(i64::MAX)))
}

/// A line that brings the work into the repository that it is said in: from the mirror itself where that can be read, else
/// through the server.
fn fetch(server: &str, project: &Project, name: &str, mirrors: Option<&Path>) -> String {
    let mirror = mirrors.map(|dir| dir.join(format!("{}.git", project.id))).filter(|path| is_ours(path));
    match mirror {
        Some(path) => format!("git fetch {} {}", quoted(&path.display().to_string()), quoted(name)),
        None => format!(
            "git -c http.extraHeader=\"Authorization: Bearer $OMOI_TOKEN\" fetch {server}/git/{}.git {}",
            project.id,
            quoted(name)
        ),
    }
}

/// Git refuses repositories of other users.
fn is_ours(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let of = std::fs::metadata(path.join("HEAD")).ok();
    of.is_some_and(|data| data.is_file() && data.uid() == rustix::process::geteuid().as_raw())
}

fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@:".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_a_quoted_word_as_one() {
        for (text, word) in [
            ("/srv/omoi/x.git", "/srv/omoi/x.git"),
            ("a b", "'a b'"),
            ("it's", r"'it'\''s'"),
            ("$x", "'$x'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(text), word);
        }
    }
}
