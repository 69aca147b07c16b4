//! What an event of a sandbox means for its task. Most events mean nothing and are only kept; a handful
//! report that the attempt began or how it ended. Whether the report is accepted is decided by the task.
//!
//! An agent that runs in a continuous loop finishes once per iteration; there the loop's own end is what
//! counts. A worker that was shut down has not done the work, whatever else it says of its end.

pub use omoi_protocol::event::is_heartbeat;
use omoi_protocol::{
    FailureKind, MessageId, MessageState, MessageType,
    outcome::{CheckResult, Outcome, PullRequest, Tokens},
};
use serde_json::Value;

/// An error is told with its task, its sandbox and the next attempt, so it is no longer than a page.
pub const ERROR_CHARS_MAX: usize = 20_000;

#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    Started,
    /// The worker's own account of it; nothing in it is proven yet.
    Completed {
        outcome: Box<Outcome>,
    },
    Failed {
        kind: FailureKind,
        error: String,
        /// What the declared checks came to, where it was they that ran.
        checks: Vec<CheckResult>,
    },
}

impl Report {
    /// Whether the attempt is over with it.
    pub fn is_end(&self) -> bool {
        match self {
            Self::Started => false,
            Self::Completed { .. } | Self::Failed { .. } => true,
        }
    }
}

/// How an attempt is worked on, as its events so far tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Run {
    Single,
    /// In iterations: [`OPENS_ITERATIONS`] was reported. Each may end with an `agent.completed` of its own.
    Continuous,
}

/// The event that begins a run of several iterations.
pub const OPENS_ITERATIONS: &str = "continuous.started";

/// Whether what an event means depends on the [`Run`].
pub fn depends_on_run(event_type: &str) -> bool {
    event_type == "agent.completed"
}

/// Whether [`meaning`] may have an answer. Cheap, and asked before an event's data is parsed.
pub fn is_trigger(event_type: &str) -> bool {
    matches!(
        event_type,
        "agent.started" | "agent.completed" | "agent.failed" | "agent.error" | "continuous.completed"
    )
}

/// Whether a sandbox may have ended with it.
pub fn may_end(event_type: &str) -> bool {
    is_trigger(event_type) && event_type != "agent.started"
}

/// What an event says of a message, which [`Mention`] names.
pub fn of_message(event_type: &str) -> Option<MessageState> {
    match event_type {
        "agent.message_injected" | "agent.interrupted" => Some(MessageState::Injected),
        "agent.processing" => Some(MessageState::Acknowledged),
        _ => None,
    }
}

/// Which message an event is about. Workers of the earlier system leave its id out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mention {
    Id(MessageId),
    /// The oldest message with this content, or else the oldest of this type, of those that the worker was handed and that
    /// have not come this far.
    Like {
        content: Option<String>,
        message_type: MessageType,
    },
}

impl Mention {
    /// None where the event is about no message.
    pub fn read(event_type: &str, data: &Value) -> Option<Self> {
        let text = |key: &str| data[key].as_str();
        if let Some(id) = text("message_id").filter(|id| !id.is_empty()) {
            return id.parse().ok().map(Self::Id);
        }
        // Of an interrupt there is only the reason: what was said, or that a signal has ended the worker.
        if event_type == "agent.interrupted" {
            let reason = text("reason");
            let content = text("content").or(reason).map(str::to_owned);
            let by_signal = reason.is_some_and(is_shutdown);
            return (!by_signal).then_some(Self::Like { content, message_type: MessageType::Interrupt });
        }
        let message_type = match text("message_type") {
            Some(word) => word.parse().ok()?,
            None => MessageType::UserMessage,
        };
        Some(Self::Like { content: text("content").map(str::to_owned), message_type })
    }
}

/// Left out of a trajectory. The heartbeats of a spec stay in, because they tell its phase.
pub const TRAJECTORY_NOISE: [&str; 2] = ["agent.heartbeat", "heartbeat"];

pub fn meaning(event_type: &str, data: &Value, run: Run) -> Option<Report> {
    match event_type {
        "agent.started" => Some(Report::Started),
        "agent.completed" if data["continuous"] == true => None,
        // The loop has no end of its own any more, so the attempt ends here.
        "agent.completed" if was_shut_down(data) => Some(failed(FailureKind::ShutDown, data)),
        "agent.completed" => match run {
            Run::Single => Some(end_of_agent(data)),
            Run::Continuous => None,
        },
        "continuous.completed" => Some(end_of_loop(data)),
        "agent.failed" => Some(failed(FailureKind::Agent, data)),
        "agent.error" => {
            let is_fatal = data["fatal"] == true || data["phase"] == "initialization";
            is_fatal.then(|| failed(FailureKind::Agent, data))
        }
        _ => None,
    }
}

fn end_of_agent(data: &Value) -> Report {
    if data["success"] == false { failed(FailureKind::Agent, data) } else { completed(data) }
}

fn end_of_loop(data: &Value) -> Report {
    if *field(data, "validation_passed") == true {
        return completed(data);
    }
    let kind = match data["stop_reason"].as_str() {
        _ if was_shut_down(data) => FailureKind::ShutDown,
        Some(reason) if reason.starts_with("max_") && reason.ends_with("_reached") => FailureKind::Limit,
        Some("consecutive_errors") => FailureKind::Agent,
        _ => FailureKind::Checks,
    };
    failed(kind, data)
}

/// Whether a signal to the worker ended the attempt, in the words of the earlier worker and of ours.
fn was_shut_down(data: &Value) -> bool {
    ["reason", "stop_reason"].iter().any(|key| data[key].as_str().is_some_and(is_shutdown))
}

fn is_shutdown(reason: &str) -> bool {
    matches!(reason, "shutdown" | "shutdown_signal")
}

fn completed(data: &Value) -> Report {
    let text = |key| field(data, key).as_str().map(str::to_owned);
    let count = |key| field(data, key).as_u64();
    let amount = |key| field(data, key).as_f64();
    let outcome = Outcome {
        output: text("final_output"),
        turns: count("turns"),
        cost_usd: amount("cost_usd").or_else(|| amount("total_cost_usd")),
        tokens: tokens(data),
        session_id: text("session_id").or_else(|| text("last_session_id")),
        stop_reason: text("stop_reason"),
        branch_name: text("branch_name"),
        commit: text("commit"),
        checks: checks(data),
        pr: count("pr_number").zip(text("pr_url")).map(|(number, url)| PullRequest { number, url }),
        ..Outcome::succeeded()
    };
    Report::Completed { outcome: Box::new(outcome) }
}

/// Nothing, rather than zeros, where the worker did not count.
fn tokens(data: &Value) -> Option<Tokens> {
    let count = |key| field(data, key).as_u64();
    let (input, output) = (count("input_tokens"), count("output_tokens"));
    (input.is_some() || output.is_some()).then(|| Tokens {
        input_tokens: input.unwrap_or(0),
        output_tokens: output.unwrap_or(0),
        cache_read_tokens: count("cache_read_tokens").unwrap_or(0),
        cache_write_tokens: count("cache_write_tokens").unwrap_or(0),
    })
}

/// `guess` gives way to the kind that the event itself names.
fn failed(guess: FailureKind, data: &Value) -> Report {
    let kind = data["failure_kind"].as_str().and_then(|kind| kind.parse().ok()).unwrap_or(guess);
    let text = |key| data[key].as_str().filter(|text| !text.trim().is_empty()).map(beginning);
    let error = match (text("error"), text("stop_reason")) {
        (Some(error), _) => error.to_owned(),
        (None, _) if kind == FailureKind::ShutDown => {
            "the worker was shut down before the work was done".to_owned()
        }
        (None, Some(stop_reason)) => format!("the agent stopped without success: {stop_reason}"),
        (None, None) => "the agent stopped without success and gave no reason".to_owned(),
    };
    Report::Failed { kind, error, checks: checks(data) }
}

/// The event keeps the whole of it.
fn beginning(text: &str) -> &str {
    text.char_indices().nth(ERROR_CHARS_MAX).map_or(text, |(end, _)| &text[..end])
}

/// Results that cannot be read are none.
fn checks(data: &Value) -> Vec<CheckResult> {
    serde_json::from_value(data["checks"].clone()).unwrap_or_default()
}

/// A loop reports most of its numbers one level down, in `state`.
fn field<'a>(data: &'a Value, key: &str) -> &'a Value {
    match &data[key] {
        Value::Null => &data["state"][key],
        value => value,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fails(kind: FailureKind, error: &str) -> Option<Report> {
        Some(Report::Failed { kind, error: error.to_owned(), checks: Vec::new() })
    }

    fn completes(outcome: Outcome) -> Option<Report> {
        Some(Report::Completed { outcome: Box::new(outcome) })
    }

    #[test]
    fn events_that_tell_of_a_start_or_a_success() {
        let table = [
            ("agent.started", json!({}), Some(Report::Started)),
            ("agent.started", json!(null), Some(Report::Started)),
            ("agent.completed", json!({}), completes(Outcome::succeeded())),
            ("agent.completed", json!({"success": null}), completes(Outcome::succeeded())),
            (
                "agent.completed",
                json!({"success": true, "continuous": false}),
                completes(Outcome::succeeded()),
            ),
            ("continuous.completed", json!({"validation_passed": true}), completes(Outcome::succeeded())),
            (
                "continuous.completed",
                json!({"state": {"validation_passed": true}}),
                completes(Outcome::succeeded()),
            ),
        ];
        for (event_type, data, expected) in table {
            assert_eq!(meaning(event_type, &data, Run::Single), expected, "{event_type} {data}");
        }
    }

    #[test]
    fn a_success_keeps_what_the_worker_said_of_it() {
        let agent = json!({
            "turns": 3, "cost_usd": 0.5, "final_output": "done", "session_id": "s", "input_tokens": 7,
            "branch_name": "fix/1-a", "commit": "c0ffee", "transcript_b64": "…", "pr_url": "not opened yet",
        });
        let expected = Outcome {
            turns: Some(3),
            cost_usd: Some(0.5),
            output: Some("done".to_owned()),
            session_id: Some("s".to_owned()),
            tokens: Some(Tokens { input_tokens: 7, ..Tokens::default() }),
            branch_name: Some("fix/1-a".to_owned()),
            commit: Some("c0ffee".to_owned()),
            ..Outcome::succeeded()
        };
        assert_eq!(meaning("agent.completed", &agent, Run::Single), completes(expected));

        let pr_url = "https://forge/9";
        let state = json!({"validation_passed": true, "pr_number": 9, "pr_url": pr_url, "total_cost_usd": 2});
        let looped = json!({"stop_reason": "validation_passed", "state": state});
        let expected = Outcome {
            stop_reason: Some("validation_passed".to_owned()),
            cost_usd: Some(2.0),
            pr: Some(PullRequest { number: 9, url: pr_url.to_owned() }),
            ..Outcome::succeeded()
        };
        assert_eq!(meaning("continuous.completed", &looped, Run::Single), completes(expected));
    }

    #[test]
    fn what_checks_came_to_is_told_with_either_end() {
        let checks = json!([{ "name": "tests", "command": "make test", "passed": false, "exit_code": 2 }]);
        let read =
            |event_type, checks: &Value| match meaning(event_type, &json!({ "checks": checks }), Run::Single)
            {
                Some(Report::Completed { outcome }) => outcome.checks,
                Some(Report::Failed { checks, .. }) => checks,
                other => panic!("{other:?}"),
            };
        for event_type in ["agent.completed", "agent.failed"] {
            let found = read(event_type, &checks);
            assert_eq!(
                (found[0].name.as_str(), found[0].passed, found[0].exit_code),
                ("tests", false, Some(2))
            );
            for unreadable in [json!(null), json!("fine"), json!([{ "name": 1 }])] {
                assert_eq!(read(event_type, &unreadable), [], "{unreadable}");
            }
        }
    }

    #[test]
    fn events_that_tell_of_a_failure() {
        use FailureKind::*;
        let stopped = |reason| json!({"validation_passed": false, "stop_reason": reason, "error": "e"});
        let table = [
            ("agent.failed", json!({"error": "e"}), Agent),
            ("agent.failed", json!({"error": "e", "failure_kind": "out_of_memory"}), OutOfMemory),
            ("agent.failed", json!({"error": "e", "failure_kind": "bad luck"}), Agent),
            ("agent.error", json!({"error": "e", "fatal": true}), Agent),
            ("agent.error", json!({"error": "e", "phase": "initialization"}), Agent),
            ("agent.completed", json!({"error": "e", "success": false}), Agent),
            ("continuous.completed", stopped("max_iterations_reached"), Limit),
            ("continuous.completed", stopped("max_cost_reached"), Limit),
            ("continuous.completed", stopped("max_duration_reached"), Limit),
            ("continuous.completed", stopped("consecutive_errors"), Agent),
            ("continuous.completed", stopped("completion_signal"), Checks),
            ("continuous.completed", json!({"error": "e"}), Checks),
            ("continuous.completed", json!({"error": "e", "failure_kind": "unavailable"}), Unavailable),
        ];
        for (event_type, data, kind) in table {
            assert_eq!(meaning(event_type, &data, Run::Single), fails(kind, "e"), "{event_type} {data}");
        }
    }

    #[test]
    fn a_worker_that_was_shut_down_has_not_done_the_work() {
        let shut_down = "the worker was shut down before the work was done";
        let table = [
            ("agent.completed", json!({"reason": "shutdown"}), shut_down),
            (
                "agent.completed",
                json!({"reason": "shutdown", "success": true, "commit": "c0ffee"}),
                shut_down,
            ),
            ("agent.completed", json!({"stop_reason": "shutdown_signal"}), shut_down),
            ("agent.completed", json!({"reason": "shutdown", "error": "SIGTERM"}), "SIGTERM"),
            ("continuous.completed", json!({"stop_reason": "shutdown_signal"}), shut_down),
        ];
        for (event_type, data, error) in table {
            for run in [Run::Single, Run::Continuous] {
                let told = meaning(event_type, &data, run);
                assert_eq!(told, fails(FailureKind::ShutDown, error), "{event_type} {data} {run:?}");
            }
        }
        let passed = json!({"stop_reason": "shutdown_signal", "validation_passed": true, "error": "e"});
        assert!(matches!(
            meaning("continuous.completed", &passed, Run::Continuous),
            Some(Report::Completed { .. })
        ));
        let done = json!({"reason": "completed"});
        assert!(matches!(meaning("agent.completed", &done, Run::Single), Some(Report::Completed { .. })));
    }

    #[test]
    fn within_a_run_of_iterations_its_own_end_decides() {
        for data in
            [json!({}), json!({"success": true}), json!({"success": false}), json!({"continuous": false})]
        {
            assert_eq!(meaning("agent.completed", &data, Run::Continuous), None, "{data}");
            assert!(meaning("agent.completed", &data, Run::Single).is_some(), "{data}");
        }
        let broken = json!({"error": "e", "fatal": true});
        for event_type in ["continuous.completed", "agent.failed", "agent.error"] {
            let told = meaning(event_type, &broken, Run::Continuous);
            assert_eq!(told, meaning(event_type, &broken, Run::Single), "{event_type}");
            assert!(told.is_some_and(|report| report.is_end()), "{event_type}");
        }
    }

    #[test]
    fn events_that_change_nothing() {
        let table = [
            ("agent.completed", json!({"continuous": true})),
            ("agent.completed", json!({"continuous": true, "success": false})),
            ("agent.completed", json!({"continuous": true, "reason": "shutdown"})),
            ("agent.error", json!({"error": "one tool call went wrong"})),
            ("agent.error", json!({"phase": "initial_task"})),
            ("agent.tool_use", json!({"tool": "Bash"})),
            ("agent.heartbeat", json!({})),
            ("spec.phase_completed", json!({"success": false})),
            ("AGENT.COMPLETED", json!({})),
            ("", json!({})),
        ];
        for (event_type, data) in table {
            assert_eq!(meaning(event_type, &data, Run::Single), None, "{event_type} {data}");
        }
    }

    #[test]
    fn of_a_long_error_the_beginning_is_told() {
        let long = "é".repeat(ERROR_CHARS_MAX + 1);
        let told = meaning("agent.failed", &json!({ "error": long }), Run::Single);
        assert_eq!(told, fails(FailureKind::Agent, &long[.."é".len() * ERROR_CHARS_MAX]));
    }

    #[test]
    fn a_failure_always_has_words() {
        let silent = "the agent stopped without success and gave no reason";
        for (data, error) in [
            (json!({}), silent),
            (json!({"error": " "}), silent),
            (json!({"error": {"code": 1}}), silent),
            (json!({"stop_reason": "refusal"}), "the agent stopped without success: refusal"),
            (json!({"stop_reason": "refusal", "error": "no"}), "no"),
        ] {
            assert_eq!(
                meaning("agent.failed", &data, Run::Single),
                fails(FailureKind::Agent, error),
                "{data}"
            );
        }
    }

    #[test]
    fn the_cheap_check_agrees_with_the_meaning() {
        let fatal = json!({"fatal": true});
        for event_type in [
            "agent.started",
            "agent.completed",
            "agent.failed",
            "agent.error",
            "continuous.completed",
            "agent.heartbeat",
            "heartbeat",
            "spec.heartbeat",
            "agent.stream_error",
            "spec.phase_failed",
            "",
        ] {
            assert_eq!(
                is_trigger(event_type),
                meaning(event_type, &fatal, Run::Single).is_some(),
                "{event_type}"
            );
        }
    }

    #[test]
    fn heartbeats_and_what_a_trajectory_leaves_out() {
        for (event_type, heartbeat, noise) in [
            ("agent.heartbeat", true, true),
            ("heartbeat", true, true),
            ("spec.heartbeat", true, false),
            ("agent.message", false, false),
        ] {
            assert_eq!(
                (is_heartbeat(event_type), TRAJECTORY_NOISE.contains(&event_type)),
                (heartbeat, noise),
                "{event_type}"
            );
        }
    }

    #[test]
    fn an_event_without_an_id_tells_by_content_and_type_which_message_it_is_about() {
        use MessageType::{GuardianNudge, Interrupt, UserMessage};
        let (injected, interrupted, processing) =
            ("agent.message_injected", "agent.interrupted", "agent.processing");
        let like = |content: Option<&str>, message_type| {
            Some(Mention::Like { content: content.map(str::to_owned), message_type })
        };
        let named = Some(Mention::Id("msg-7".parse().unwrap()));
        let table = [
            (injected, json!({"message_id": "msg-7", "content": "c"}), named.clone()),
            (interrupted, json!({"message_id": "msg-7"}), named),
            (injected, json!({"message_id": "no id at all"}), None),
            (injected, json!({"message_id": null, "content": "c"}), like(Some("c"), UserMessage)),
            (injected, json!({"message_id": "", "content": "c"}), like(Some("c"), UserMessage)),
            (
                injected,
                json!({"message_type": "guardian_nudge", "content": "c"}),
                like(Some("c"), GuardianNudge),
            ),
            (injected, json!({"message_type": "gossip", "content": "c"}), None),
            (injected, json!({}), like(None, UserMessage)),
            (interrupted, json!({"reason": "stop", "sender_id": null}), like(Some("stop"), Interrupt)),
            (interrupted, json!({}), like(None, Interrupt)),
            (interrupted, json!({"reason": "shutdown_signal"}), None),
            (processing, json!({"message_id": null, "message_type": "interrupt"}), like(None, Interrupt)),
        ];
        for (event_type, data, expected) in table {
            assert_eq!(Mention::read(event_type, &data), expected, "{event_type} {data}");
        }
    }
}
