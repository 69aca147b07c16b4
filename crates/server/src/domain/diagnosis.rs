//! Why a ticket cannot go on, from what its tasks have left: a pure function of their states and failures. It proposes
//! and does nothing, so it cannot run away.

use omoi_protocol::{
    FailureKind, Priority, ProposalKind, TaskId, TaskStatus,
    diagnosis::{Hypothesis, Proposal},
};

/// So many proposals at most.
pub const PROPOSALS_MAX: usize = 5;
/// Diagnoses of one ticket; after so many it is for people to look.
pub const RUNS_MAX: i64 = 10;
const LINE_CHARS: usize = 300;

/// A task, as far as it tells why nothing moves.
#[derive(Debug, Clone)]
pub struct Fact {
    pub id: TaskId,
    pub title: String,
    pub status: TaskStatus,
    pub priority: Priority,
    pub failure: Option<FailureKind>,
    pub error: String,
    /// Attempts that failed.
    pub attempts: i64,
    /// Names of declared checks that did not pass.
    pub failed_checks: Vec<String>,
    /// Pending, and one of the tasks before it may still complete.
    pub may_follow: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    pub root_cause: String,
    pub hypotheses: Vec<Hypothesis>,
    pub proposals: Vec<Proposal>,
}

/// Whether no task of it can move, and not because all are done or somebody ended them.
pub fn is_stuck(tasks: &[Fact]) -> bool {
    let moves = |task: &Fact| match task.status {
        TaskStatus::Assigned | TaskStatus::Running => true,
        TaskStatus::Pending => task.may_follow,
        TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Cancelled => false,
    };
    tasks.iter().any(|task| task.status == TaskStatus::Failed) && !tasks.iter().any(moves)
}

pub fn diagnose(tasks: &[Fact]) -> Found {
    let mut failed: Vec<&Fact> = tasks.iter().filter(|task| task.status == TaskStatus::Failed).collect();
    failed.sort_by(|a, b| a.priority.cmp(&b.priority).then_with(|| a.id.cmp(&b.id)));
    let blocked = tasks.iter().filter(|task| task.status == TaskStatus::Pending).count();
    Found {
        root_cause: root_cause(&failed, blocked),
        hypotheses: hypotheses(&failed),
        proposals: failed.iter().take(PROPOSALS_MAX).map(|task| proposal(task)).collect(),
    }
}

fn root_cause(failed: &[&Fact], blocked: usize) -> String {
    let Some(first) = failed.first() else { return "no task has failed".to_owned() };
    let mut text = format!("“{}” failed: {}", first.title, why(first));
    if failed.len() > 1 {
        text.push_str(&format!("; {} more tasks failed", failed.len() - 1));
    }
    if blocked > 0 {
        text.push_str(&format!("; {blocked} tasks wait for what failed"));
    }
    text
}

fn why(task: &Fact) -> String {
    let kind = match task.failure.unwrap_or(FailureKind::Agent) {
        FailureKind::Agent => "the agent gave up",
        FailureKind::Checks => "its checks do not pass",
        FailureKind::Limit => "it reached a limit of turns, money or time",
        FailureKind::Lost => "its sandbox fell silent",
        FailureKind::Crashed => "its worker ended by itself",
        FailureKind::ShutDown => "its worker was shut down",
        FailureKind::OutOfMemory => "it ran out of memory",
        FailureKind::TimedOut => "it ran longer than it may",
        FailureKind::Spawn => "its sandbox could not be made",
        FailureKind::Unavailable => "model, network or forge were not to be reached",
        FailureKind::Invalid => "what it was given cannot be used",
    };
    let checks = if task.failed_checks.is_empty() {
        String::new()
    } else {
        format!(" ({})", task.failed_checks.join(", "))
    };
    match line(&task.error) {
        said if said.is_empty() => format!("{kind}{checks}"),
        said => format!("{kind}{checks}: {said}"),
    }
}

/// What may lie behind the failures, the likeliest first. Failures of one kind or with one message share a cause.
fn hypotheses(failed: &[&Fact]) -> Vec<Hypothesis> {
    let mut groups: Vec<(FailureKind, Vec<&Fact>)> = Vec::new();
    for task in failed {
        let kind = task.failure.unwrap_or(FailureKind::Agent);
        match groups.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, tasks)) => tasks.push(task),
            None => groups.push((kind, vec![task])),
        }
    }
    let mut all: Vec<Hypothesis> = Vec::new();
    for (kind, tasks) in groups {
        let share = tasks.len() as f64 / failed.len() as f64;
        let ids: Vec<TaskId> = tasks.iter().map(|task| task.id.clone()).collect();
        let same_message =
            tasks.len() > 1 && tasks.windows(2).all(|two| line(&two[0].error) == line(&two[1].error));
        let again = tasks.iter().any(|task| task.attempts > 1);
        for (statement, likelihood) in causes(kind, same_message, again) {
            let likelihood = (likelihood * share * 100.0).round() / 100.0;
            all.push(Hypothesis { statement: statement.to_owned(), likelihood, tasks: ids.clone() });
        }
    }
    all.sort_by(|a, b| b.likelihood.total_cmp(&a.likelihood));
    all
}

fn causes(kind: FailureKind, same_message: bool, again: bool) -> Vec<(&'static str, f64)> {
    match kind {
        FailureKind::Checks if same_message => vec![
            ("the check itself cannot pass, or fails without this work as well", 0.6),
            ("the work does not do what the check asks for", 0.4),
        ],
        FailureKind::Checks if again => vec![
            (
                "the work does not do what the check asks for, and its output alone is not enough to mend it",
                0.6,
            ),
            ("the check itself cannot pass, or fails without this work as well", 0.4),
        ],
        FailureKind::Checks => vec![("the work does not do what the check asks for", 0.8)],
        FailureKind::Limit | FailureKind::TimedOut => {
            vec![("the task is larger than its limits allow", 0.6), ("the agent goes in circles", 0.4)]
        }
        FailureKind::OutOfMemory => vec![("the task needs more memory than its sandbox has", 0.9)],
        FailureKind::ShutDown => vec![("someone or something stops the worker before it is done", 0.9)],
        FailureKind::Spawn | FailureKind::Lost | FailureKind::Crashed => {
            vec![("the machine or the image of the sandbox is at fault, not the work", 0.8)]
        }
        FailureKind::Unavailable => vec![("what it needs from outside was away, and may be back", 0.8)],
        FailureKind::Invalid => {
            vec![("a setting, a permission or the repository has to be put right first", 0.9)]
        }
        FailureKind::Agent if same_message => vec![("all of them meet the same obstacle", 0.7)],
        FailureKind::Agent => {
            vec![("the task cannot be done as it is described", 0.5), ("the agent went astray", 0.5)]
        }
    }
}

/// Failures of the surroundings are tried again; those of the work get a task that begins with finding out why.
fn proposal(task: &Fact) -> Proposal {
    let kind = match task.failure.unwrap_or(FailureKind::Agent) {
        FailureKind::Lost
        | FailureKind::Crashed
        | FailureKind::ShutDown
        | FailureKind::Spawn
        | FailureKind::Unavailable => ProposalKind::Retry,
        _ => ProposalKind::Task,
    };
    let (title, description) = match kind {
        ProposalKind::Retry => (
            format!("Try “{}” again", line(&task.title)),
            format!("It failed through no fault of its own: {}.", why(task)),
        ),
        ProposalKind::Task => (
            format!("Find out why “{}” fails, and mend it", line(&task.title)),
            format!(
                "The task “{}” has failed after {} attempts: {}.\n\nFind the cause first and write it down. Then make the \
                 smallest change that removes it, with a test that fails without the change.",
                task.title,
                task.attempts.max(1),
                why(task)
            ),
        ),
    };
    let priority = task.priority.min(Priority::High);
    Proposal { kind, title, description, priority, about: task.id.clone(), task_id: None }
}

fn line(text: &str) -> String {
    text.lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default()
        .trim()
        .chars()
        .take(LINE_CHARS)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fact(status: TaskStatus) -> Fact {
        Fact {
            id: TaskId::generate(),
            title: "let people log in".to_owned(),
            status,
            priority: Priority::Medium,
            failure: (status == TaskStatus::Failed).then_some(FailureKind::Checks),
            error: "\nerror: test failed\nmore".to_owned(),
            attempts: 2,
            failed_checks: vec!["tests".to_owned()],
            may_follow: false,
        }
    }

    #[test]
    fn a_ticket_is_stuck_when_something_failed_and_nothing_can_move() {
        use TaskStatus::{Assigned, Cancelled, Completed, Failed, Pending, Running};
        let cases: [(&[TaskStatus], bool, bool); 9] = [
            (&[Failed], false, true),
            (&[Failed, Completed], false, true),
            (&[Failed, Pending], false, true),
            (&[Failed, Pending], true, false),
            (&[Failed, Running], false, false),
            (&[Failed, Assigned], false, false),
            (&[Completed, Completed], false, false),
            (&[Cancelled, Pending], false, false),
            (&[], false, false),
        ];
        for (statuses, may_follow, stuck) in cases {
            let tasks: Vec<Fact> =
                statuses.iter().map(|status| Fact { may_follow, ..fact(*status) }).collect();
            assert_eq!(is_stuck(&tasks), stuck, "{statuses:?} {may_follow}");
        }
    }

    #[test]
    fn the_cause_names_the_task_the_checks_and_the_first_line_of_the_error() {
        let found = diagnose(&[fact(TaskStatus::Failed), fact(TaskStatus::Pending)]);
        assert_eq!(
            found.root_cause,
            "“let people log in” failed: its checks do not pass (tests): error: test failed; 1 tasks wait for what failed"
        );
        assert_eq!(found.proposals[0].kind, ProposalKind::Task);
        assert_eq!(found.proposals[0].priority, Priority::High);
    }

    #[test]
    fn what_the_surroundings_did_is_proposed_for_another_try() {
        let kinds = [
            FailureKind::Lost,
            FailureKind::Crashed,
            FailureKind::ShutDown,
            FailureKind::Spawn,
            FailureKind::Unavailable,
        ];
        for kind in kinds {
            let found = diagnose(&[Fact { failure: Some(kind), ..fact(TaskStatus::Failed) }]);
            assert_eq!(found.proposals[0].kind, ProposalKind::Retry, "{kind}");
        }
    }

    #[test]
    fn every_kind_of_failure_has_a_likely_cause_and_no_more_than_certainty_is_shared_out() {
        for kind in FailureKind::ALL {
            let tasks: Vec<Fact> =
                (0..9).map(|_| Fact { failure: Some(*kind), ..fact(TaskStatus::Failed) }).collect();
            for count in 1..=tasks.len() {
                let found = diagnose(&tasks[..count]);
                let sum: f64 = found.hypotheses.iter().map(|hypothesis| hypothesis.likelihood).sum();
                assert!(sum > 0.0 && sum <= 1.001, "{kind} {count}: {sum}");
                assert_eq!(found.proposals.len(), count.min(PROPOSALS_MAX));
            }
        }
    }

    #[test]
    fn the_same_message_from_several_tasks_puts_the_check_itself_in_doubt() {
        let found = diagnose(&[fact(TaskStatus::Failed), fact(TaskStatus::Failed)]);
        assert!(found.hypotheses[0].statement.starts_with("the check itself"), "{:?}", found.hypotheses);
    }
}
