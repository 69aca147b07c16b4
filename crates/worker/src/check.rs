//! The declared checks of a task, run on its commit in the place of an agent. What they run was made by an agent, so it
//! finds nothing that could speak for this sandbox: no token, no model, no way to push. The workspace is not pushed either.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::Path,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use omoi_protocol::{
    FailureKind,
    event::{CheckCompleted, CheckStarted, OUTPUT_PREVIEW_CHARS_MAX},
    launch::{Check, LaunchSpec},
    outcome::{CheckResult, Failure},
};
use tokio::{sync::watch, time::sleep};

use crate::{
    command::Command,
    output::Tail,
    report::{self, Done},
    run::PASSED_ON,
    work::{Phase, Stop, Wish, Work},
};

/// How long the project's own preparations may take.
const SETUP_LIMIT: Duration = Duration::from_secs(15 * 60);
const SETUP_ID: &str = "setup";
/// Of the output of one that failed, as much as whoever mends it is shown.
const QUOTED_CHARS_MAX: usize = 4_000;
/// Of all of them.
const ERROR_CHARS_MAX: usize = 16_000;
const CODE_FAILED: u8 = 1;
const CODE_TIMED_OUT: u8 = 124;
const CODE_LEFT: u8 = 143;

/// Runs all of them, whatever becomes of each.
pub async fn run(work: &Work<'_>, stop: &mut Wish) -> Done {
    let checks = Checks { work, env: environment(work.launch, &work.env) };
    work.outbox.push(report::checks_started(work.launch));
    let mut failed = String::new();
    if let Some(setup) = &work.launch.setup {
        let ran = checks.shell(SETUP_ID, setup, SETUP_LIMIT, stop).await;
        if let Some(why) = &ran.failure {
            quote(&mut failed, "the project's setup", why, setup, &ran.output);
        }
    }
    let mut results = Vec::new();
    for check in &work.launch.checks {
        if let Some(wish) = *stop.borrow() {
            return Done { checks: results, ..checks.stopped(wish) };
        }
        let (result, ran) = checks.one(check, stop).await;
        if let Some(why) = &ran.failure {
            quote(&mut failed, &check.name, why, &check.command, &ran.output);
        }
        results.push(result);
    }
    if let Some(wish) = *stop.borrow() {
        return Done { checks: results, ..checks.stopped(wish) };
    }
    work.phase.send_replace(Phase::Ending);
    let names: Vec<&str> =
        results.iter().filter(|result| !result.passed).map(|result| result.name.as_str()).collect();
    if names.is_empty() {
        return Done { checks: results, ..Done::ended() };
    }
    let error = format!(
        "{} of {} checks failed on commit {}: {}\n{}",
        names.len(),
        results.len(),
        checks.commit().unwrap_or_default(),
        names.join(", "),
        begin(&failed, ERROR_CHARS_MAX)
    );
    Done { checks: results, ..Done::failed(CODE_FAILED, Failure::new(FailureKind::Checks, error)) }
}

/// What a check finds in its environment.
pub fn environment(launch: &LaunchSpec, worker: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let passed = PASSED_ON.iter().filter_map(|name| Some(((*name).to_owned(), worker.get(*name)?.clone())));
    passed.chain(launch.check_environment()).collect()
}

struct Checks<'w, 'a> {
    work: &'w Work<'a>,
    env: BTreeMap<String, String>,
}

/// How one command went.
struct Ran {
    exit_code: Option<i32>,
    took: Duration,
    /// The end of what it wrote.
    output: String,
    /// None for a success.
    failure: Option<String>,
}

impl Checks<'_, '_> {
    async fn one(&self, check: &Check, stop: &mut Wish) -> (CheckResult, Ran) {
        let commit = self.commit();
        self.work.outbox.push(CheckStarted {
            name: Some(check.name.clone()),
            command: Some(check.command.clone()),
            commit: commit.clone(),
            ..CheckStarted::default()
        });
        let limit = Duration::from_secs(check.timeout_seconds);
        let ran = self.shell(&format!("check-{}", check.name), &check.command, limit, stop).await;
        let result = CheckResult {
            name: check.name.clone(),
            command: check.command.clone(),
            exit_code: ran.exit_code,
            passed: ran.failure.is_none(),
            duration_ms: Some(ran.took.as_millis() as u64),
            output_preview: end(&ran.output, OUTPUT_PREVIEW_CHARS_MAX),
            output_blob: None,
            sandbox_id: None,
        };
        self.work.outbox.push(CheckCompleted {
            name: Some(result.name.clone()),
            command: Some(result.command.clone()),
            commit,
            passed: Some(result.passed),
            exit_code: result.exit_code.map(i64::from),
            duration_ms: result.duration_ms,
            output_preview: Some(result.output_preview.clone()),
            ..CheckCompleted::default()
        });
        (result, ran)
    }

    /// Ended after `limit`, or when the worker is to stop.
    async fn shell(&self, id: &str, text: &str, limit: Duration, stop: &mut Wish) -> Ran {
        let argv = ["/bin/sh", "-c", text].map(str::to_owned);
        let tail = Arc::new(Tail::new(QUOTED_CHARS_MAX * 4));
        let cwd = Path::new(&self.work.launch.workspace_path);
        let command =
            Command { id: id.to_owned(), argv: &argv, env: &self.env, cwd, tail: Some(tail.clone()) };
        let (begun, ending) = (Instant::now(), watch::Sender::new(*stop.borrow()));
        let mut wish = ending.subscribe();
        let Work { outbox, records, group, .. } = self.work;
        let mut run = pin!(command.run(outbox, records, group, &mut wish));
        let mut time = pin!(sleep(limit));
        let mut late = false;
        let ended = loop {
            tokio::select! {
                ended = &mut run => break ended,
                () = &mut time, if !late => {
                    late = true;
                    ask(&ending, Stop::Deadline);
                }
                Ok(()) = stop.changed() => {
                    if let Some(wish) = *stop.borrow_and_update() {
                        ask(&ending, wish);
                    }
                }
            }
        };
        let (exit_code, failure) = match ended {
            Err(error) => (None, Some(error.to_string())),
            Ok(end) if late => (end.exit_code, Some(format!("took longer than {} s", limit.as_secs()))),
            Ok(end) => (end.exit_code, end.failure().map(|failure| failure.message)),
        };
        Ran { exit_code, took: begun.elapsed(), output: tail.text(), failure }
    }

    fn commit(&self) -> Option<String> {
        self.work.launch.repository.as_ref().map(|repository| repository.base_commit.clone())
    }

    /// Nothing is pushed and nothing is kept: what is here was made elsewhere.
    fn stopped(&self, stop: Stop) -> Done {
        let failure = |kind, message: &str| Failure::new(kind, message);
        match stop {
            Stop::Interrupt => Done::failed(
                CODE_FAILED,
                failure(FailureKind::Crashed, "the checks were interrupted before they were done"),
            ),
            Stop::Deadline => Done::failed(CODE_TIMED_OUT, self.work.out_of_time()),
            Stop::Leave => Done::failed(
                CODE_LEFT,
                failure(FailureKind::ShutDown, "the worker was told to leave before the checks were done"),
            ),
            Stop::Closed => Done::failed(
                CODE_LEFT,
                failure(FailureKind::Lost, "the server takes nothing from this sandbox any more"),
            ),
        }
    }
}

/// A wish does not take back a more urgent one.
fn ask(ending: &watch::Sender<Option<Stop>>, wish: Stop) {
    ending.send_if_modified(|now| {
        let more = *now < Some(wish);
        if more {
            *now = Some(wish);
        }
        more
    });
}

fn quote(text: &mut String, name: &str, why: &str, command: &str, output: &str) {
    let _ = write!(text, "\n## {name}: {why}\n$ {command}\n{}\n", end(output, QUOTED_CHARS_MAX).trim_end());
}

fn begin(text: &str, chars_max: usize) -> String {
    text.chars().take(chars_max).collect()
}

fn end(text: &str, chars_max: usize) -> String {
    text.chars().skip(text.chars().count().saturating_sub(chars_max)).collect()
}

#[cfg(test)]
mod tests {
    use omoi_protocol::{
        ProviderKind,
        launch::{Door, Repository, SandboxToken},
    };

    use super::*;

    #[test]
    fn a_check_finds_nothing_that_speaks_for_its_sandbox() {
        let door = Door::new("http://127.0.0.1:8710".to_owned(), Some("http://127.0.0.1:8711".to_owned()));
        let token = SandboxToken::new("sandbox-secret");
        let mut launch = LaunchSpec::new("sbx-1".parse().unwrap(), ProviderKind::Local, door, token);
        launch.repository = Some(Repository {
            url: "http://127.0.0.1:8710/git/p.git".to_owned(),
            full_name: None,
            branch_name: "feature/x".to_owned(),
            base_commit: "c0ffee".to_owned(),
            author_name: None,
            author_email: None,
            push_bytes_max: None,
        });
        let mut worker = launch.environment();
        worker.insert("PATH".to_owned(), "/bin".to_owned());
        worker.insert("SSH_AUTH_SOCK".to_owned(), "/run/agent".to_owned());
        assert!(worker.values().any(|value| value.contains("sandbox-secret")), "an agent has it");
        let env = environment(&launch, &worker);
        assert!(!env.values().any(|value| value.contains("sandbox-secret")), "{env:?}");
        assert!(!env.contains_key("SSH_AUTH_SOCK") && !env.contains_key("ANTHROPIC_BASE_URL"));
        assert_eq!((env["PATH"].as_str(), env["HTTPS_PROXY"].as_str()), ("/bin", "http://127.0.0.1:8711"));
    }

    #[test]
    fn what_failed_is_quoted_by_its_end() {
        let mut text = String::new();
        let output = format!("{}last words\n", "x".repeat(QUOTED_CHARS_MAX));
        quote(&mut text, "tests", "the command ended with exit code 1", "make test", &output);
        assert!(text.starts_with("\n## tests: the command ended with exit code 1\n$ make test\nxxx"));
        assert!(text.ends_with("xlast words\n") && text.len() < QUOTED_CHARS_MAX + 100);
    }
}
