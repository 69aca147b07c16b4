//! `omoi run`: one task, one attempt, watched from its order to its end.

pub mod attempt;
mod check;
mod diff;
mod story;
mod sum;

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::Result;
use omoi_client::Client;
use omoi_protocol::{
    launch::ExecutionMode,
    project::Project,
    sandbox::{NewSandbox, Sandbox},
    task::{NewTask, Task},
};
use omoi_server::config;
use serde_json::{Map, Value, json};

use crate::{
    Context,
    connect::Connect,
    failure::{Stop, UNREACHABLE},
    project,
    settings::note_ineffective,
    text::{parse_span, parse_usd, short},
};
use attempt::{Attempt, Seen};
use check::Followed;
pub use sum::{Status, Summary, checks};

const TITLE_CHARS_MAX: usize = 200;
const CHECK_NAME_CHARS_MAX: usize = 80;

const EXAMPLES: &str = "\
Examples:
  omoi run 'Fix the parser: it loses the last line'
  omoi run 'Say what this code does' --mode exploration --project ~/src/shop
  omoi run 'Add a changelog' --model claude-sonnet-4-5 --budget 2 --max-turns 40
  omoi run 'Fix the parser' --check 'make test'           completed only if that passes on the pushed commit
  omoi run 'Try it' --model scripted/binomial            needs no key
  omoi run 'Work with me' --stay 10m                      waits for `omoi sandbox send` when it is done

The project of the directory is found, or added. What the agent does is shown as it happens; its work is on a branch in
the end, and a line says how to get it. Checks, of the project or of --check, run on that branch in a sandbox of their own; the
last lines say whether the work is verified. Ctrl-C asks whether to leave it working, to stop it, or to go on; where nobody can
be asked, it stops the sandbox and keeps its work. Ends with 0 when the task is completed, with 1 when it failed, and with
130 after Ctrl-C.";

/// Give an agent a task in a repository, and watch it work
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// What is to be done; the first line is its title
    task: String,
    /// The repository's directory, or a project by id or name
    #[arg(long, value_name = "PATH", default_value = ".")]
    project: String,
    #[command(flatten)]
    how: How,
    /// Print what was ordered and leave it to itself
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    connect: Connect,
}

/// How the agent is to work.
#[derive(Debug, Default, clap::Args)]
pub struct How {
    /// The model that it asks; otherwise the project's, or the configured one
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// exploration reads and writes up, implementation changes, validation judges
    #[arg(long, value_parser = parse_mode)]
    pub mode: Option<ExecutionMode>,
    /// How many answers of the model it may take
    #[arg(long, value_name = "N")]
    pub max_turns: Option<u32>,
    /// What its model calls may cost, in dollars
    #[arg(long, value_name = "USD", value_parser = parse_usd)]
    pub budget: Option<f64>,
    /// End it after this time, such as 30m or 2h
    #[arg(long, value_name = "DURATION", value_parser = parse_span)]
    pub timeout: Option<Duration>,
    /// The branch or commit to start from; otherwise the branch that is checked out
    #[arg(long, value_name = "REF")]
    pub base: Option<String>,
    /// What it sees: one of `omoi image list`, or host for the system directories of its machine
    #[arg(long, value_name = "NAME")]
    pub image: Option<String>,
    /// Let it work in iterations, each a conversation of its own, until it says that all is done
    #[arg(long)]
    pub continuous: bool,
    /// How long it waits for more messages once it is done: seconds, or such as 10m
    #[arg(long, value_name = "SECONDS", value_parser = parse_stay)]
    pub stay: Option<Duration>,
    /// A shell command that must pass on the pushed commit, in the place of the project's checks; may be given more than
    /// once
    #[arg(long = "check", value_name = "COMMAND")]
    pub checks: Vec<String>,
}

impl Args {
    pub async fn run(self, cx: &Context) -> Result<()> {
        cx.out.outlast_reader();
        if let Ok(resolved) = config::load(&[], cx.env, None) {
            note_ineffective(cx, &resolved);
        }
        let client = self.connect.client()?;
        let (project, base) = find_project(&client, &self.project).await.map_err(or_no_server)?;
        let how = How { base: self.how.base.clone().or(base), ..self.how };
        let mut errand = Errand::order(&client, project, &self.task, &how).await?;
        errand.mirrors = mirrors(cx);
        if self.detach {
            let summary = errand.detached(&client);
            return cx.out.answer(&summary, |_| format!("{}\n{}", errand.task.id, errand.sandbox.id));
        }
        let summary = Box::pin(errand.watch(cx, &client)).await?;
        cx.out.answer(&summary, |_| format!("\n{}", summary.text()))?;
        if summary.status == Status::Detached && !cx.out.is_json() {
            cx.out.note(&format!("it goes on; `omoi sandbox logs {} --follow` shows it", summary.sandbox_id));
        }
        summary.verdict()
    }
}

/// A task and the sandbox that was ordered for it.
pub struct Errand {
    pub project: Project,
    pub task: Task,
    pub sandbox: Sandbox,
    /// Where mirrors are, when the server is on this machine.
    pub mirrors: Option<PathBuf>,
    began: Instant,
}

impl Errand {
    pub async fn order(client: &Client, project: Project, text: &str, how: &How) -> Result<Self> {
        let began = Instant::now();
        let new = NewTask {
            project_id: Some(project.id.clone()),
            description: text.to_owned(),
            // Somebody looks on and decides about another attempt.
            max_retries: Some(0),
            execution_config: how.execution_config(),
            ..NewTask::plain(short(text.trim().lines().next().unwrap_or_default(), TITLE_CHARS_MAX))
        };
        let task = client.task_create(&new).await?;
        let wish = NewSandbox {
            task_id: Some(task.id.clone()),
            base: how.base.clone(),
            image: how.image.clone(),
            timeout_seconds: how.timeout.map(|span| i64::try_from(span.as_secs()).unwrap_or(i64::MAX)),
            ..NewSandbox::default()
        };
        let sandbox = client.sandbox_order(&project.id, &wish).await?;
        Ok(Self { project, task, sandbox, mirrors: None, began })
    }

    /// Shows what happens until it has ended, or somebody turns away.
    pub async fn watch(&self, cx: &Context, client: &Client) -> Result<Summary> {
        if !cx.out.is_json() {
            let branch = self.sandbox.branch_name.as_deref().unwrap_or("a branch of its own");
            cx.out.line(&format!("{}  {}", self.task.id, crate::out::clean(&self.task.title)))?;
            cx.out.line(&format!("{}  on {}", self.sandbox.id, crate::out::clean(branch)))?;
        }
        let mut attempt = Attempt::new(cx, client, &self.sandbox.id);
        let (sandbox, interrupted) = match attempt.run().await? {
            Seen::Settled(sandbox) => (sandbox, false),
            Seen::Interrupted(sandbox) => (sandbox, true),
            Seen::Detached => return Ok(self.detached(client)),
        };
        let known = std::mem::take(&mut attempt.story.known);
        if interrupted {
            let task = client.task_get(&self.task.id).await?;
            return Ok(self.summary(client, &task, &sandbox, known, attempt.failure(), true));
        }
        match Box::pin(check::follow(cx, client, &self.project, &self.task.id)).await? {
            Followed::Detached => Ok(self.detached(client)),
            Followed::Ended { task, failure, interrupted } => {
                let failure = failure.as_deref().or(attempt.failure());
                Ok(self.summary(client, &task, &sandbox, known, failure, interrupted))
            }
        }
    }

    pub fn detached(&self, client: &Client) -> Summary {
        let known = story::Known::default();
        let mut summary = self.summary(client, &self.task, &self.sandbox, known, None, false);
        (summary.status, summary.error) = (Status::Detached, None);
        summary
    }

    fn summary(
        &self,
        client: &Client,
        task: &Task,
        sandbox: &Sandbox,
        known: story::Known,
        failure: Option<&str>,
        interrupted: bool,
    ) -> Summary {
        Summary::new(sum::Ended {
            client,
            project: &self.project,
            task,
            sandbox,
            known,
            failure,
            interrupted,
            mirrors: self.mirrors.clone(),
            took: self.began.elapsed(),
        })
    }
}

impl How {
    fn execution_config(&self) -> Map<String, Value> {
        let asked = [
            ("model", self.model.as_ref().map(|model| json!(model))),
            ("mode", self.mode.map(|mode| json!(mode))),
            ("max_turns", self.max_turns.map(|turns| json!(turns))),
            ("max_budget_usd", self.budget.map(|usd| json!(usd))),
            ("max_total_cost_usd", self.budget.map(|usd| json!(usd))),
            ("continuous", self.continuous.then_some(json!(true))),
            ("checks", (!self.checks.is_empty()).then(|| json!(self.checks()))),
            ("idle_seconds", self.stay.map(|stay| json!(stay.as_secs()))),
            // Its sandbox is ordered here, with what was asked for; dispatch knows nothing of that.
            ("autonomous", Some(json!(false))),
        ];
        asked.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
    }

    /// Each is called by its first line.
    fn checks(&self) -> Vec<Value> {
        let name =
            |command: &str| short(command.trim().lines().next().unwrap_or_default(), CHECK_NAME_CHARS_MAX);
        self.checks.iter().map(|command| json!({ "name": name(command), "command": command })).collect()
    }
}

/// The project of a directory, or of this id or name; and the branch to start from where that is another than its default.
async fn find_project(client: &Client, wanted: &str) -> Result<(Project, Option<String>)> {
    if !Path::new(wanted).is_dir() {
        return Ok((project::find(client, wanted).await?, None));
    }
    let (project, branch) = project::of_directory(client, Path::new(wanted)).await?;
    let base = branch.filter(|branch| *branch != project.default_branch);
    Ok((project, base))
}

/// Without a server there is one thing more to try than to start one.
fn or_no_server(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<omoi_client::Error>() {
        Some(omoi_client::Error::Unreachable { .. }) => Stop::new(UNREACHABLE, error.to_string())
            .hint(
                "start the server with `omoi serve`, or set OMOI_URL; `omoi demo` shows a run without either",
            )
            .into(),
        _ => error,
    }
}

/// Of a server on this machine, as far as our own configuration tells.
fn mirrors(cx: &Context) -> Option<PathBuf> {
    let resolved = config::load(&[], cx.env, None).ok()?;
    std::path::absolute(resolved.config.data_dir.join("mirrors")).ok()
}

fn parse_mode(text: &str) -> Result<ExecutionMode, String> {
    serde_json::from_value(json!(text.to_ascii_lowercase()))
        .map_err(|_| "use exploration, implementation or validation".to_owned())
}

fn parse_stay(text: &str) -> Result<Duration, String> {
    text.parse().map(Duration::from_secs).or_else(|_| parse_span(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_what_the_task_says() {
        let how = How {
            model: Some("scripted/x".to_owned()),
            mode: parse_mode("Exploration").ok(),
            max_turns: Some(3),
            budget: Some(1.5),
            stay: parse_stay("90").ok(),
            continuous: true,
            checks: vec!["make test\nmake lint".to_owned()],
            ..How::default()
        };
        let expected = json!({
            "model": "scripted/x", "mode": "exploration", "max_turns": 3, "max_budget_usd": 1.5,
            "max_total_cost_usd": 1.5, "idle_seconds": 90, "continuous": true, "autonomous": false,
            "checks": [{ "name": "make test", "command": "make test\nmake lint" }],
        });
        assert_eq!(Value::Object(how.execution_config()), expected);
        assert_eq!(Value::Object(How::default().execution_config()), json!({ "autonomous": false }));
        assert_eq!(parse_stay("10m"), Ok(Duration::from_secs(600)));
        assert!(parse_mode("dance").is_err() && parse_stay("soon").is_err());
    }
}
