//! Random schedules of faults over one scenario: the server is killed, workers are killed, the model fails and people speak, in
//! an order that a seed decides. Whatever happens, the events have no gap, a message reaches the agent at most once, and the
//! branch, or what was kept in its place, holds what the events say.
//!
//! `OMOI_FAULT_SCHEDULES` says how many schedules are tried.

use std::{collections::BTreeMap, fmt::Write, time::Duration};

use omoi_protocol::{ProjectId, SandboxId, TaskId};
use serde_json::{Value, json};

use crate::{agent::assert_gapless, git::Mirror, omoi::Omoi};

/// Schedules that share a server, and so its deaths.
const AT_ONCE: u64 = 5;
const DEFAULT: u64 = 10;
const STEPS: u64 = 10;

/// SplitMix64: the same numbers for the same seed, for ever.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }
}

/// Writes a file, appends to it by a command, removes another: with a model that fails now and then.
fn scenario(seed: u64) -> String {
    let mut dice = Dice(seed);
    let mut text = format!("about: schedule {seed}\nsteps:\n");
    for n in 1..=STEPS {
        let call = match dice.roll(4) {
            0 | 1 => format!(
                "{{ tool: Write, input: {{ file_path: \"made/{n}.txt\", content: \"step {n}\\n\" }} }}"
            ),
            2 => format!(
                "{{ tool: Bash, input: {{ command: \"mkdir -p made; sleep 0.{}; echo 'step {n}' > made/{n}.txt\" }} }}",
                dice.roll(6)
            ),
            _ => format!(
                "{{ tool: Bash, input: {{ command: \"mkdir -p made; echo 'step {n}' > made/{n}.txt; rm -f made/{}.txt\" }} }}",
                n.saturating_sub(1 + dice.roll(3))
            ),
        };
        let _ = write!(
            text,
            "  - name: step-{n}\n    say: Step {n}.\n    delay: {}ms\n    call: {call}\n",
            50 + dice.roll(300)
        );
        let fault = match dice.roll(10) {
            0 => Some("{ status: 529, times: 2 }"),
            1 => Some("{ status: 429, retry_after: 1s, times: 1 }"),
            2 => Some("{ cut: half, times: 1 }"),
            3 => Some("{ status: 500, times: 1 }"),
            4 => Some("{ html: true, times: 1 }"),
            5 => Some("{ garbage: true, times: 1 }"),
            _ => None,
        };
        if let Some(fault) = fault {
            let _ = writeln!(text, "    fault: {fault}");
        }
    }
    text.push_str("  - name: end\n    say: All is done.\n    end: true\n");
    text
}

struct Run {
    seed: u64,
    task: TaskId,
    sandbox: SandboxId,
    said: Vec<String>,
    killed: bool,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_fails_the_log_is_gapless_messages_come_once_and_the_branch_holds_what_events_say() {
    #[expect(clippy::disallowed_methods, reason = "a test has no main")]
    let count =
        std::env::var("OMOI_FAULT_SCHEDULES").ok().and_then(|count| count.parse().ok()).unwrap_or(DEFAULT);
    for first in (0..count).step_by(AT_ONCE as usize) {
        batch(first, (first + AT_ONCE).min(count)).await;
    }
}

async fn batch(first: u64, end: u64) {
    let scenarios: Vec<(String, String)> =
        (first..end).map(|seed| (format!("faulty-{seed}"), scenario(seed))).collect();
    let scenarios: Vec<(&str, &str)> =
        scenarios.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let mut omoi = Omoi::with_scenarios(&scenarios).await;
    let project = omoi.small_project().await;
    let mut runs = Vec::new();
    for seed in first..end {
        let (task, sandbox) =
            omoi.agent(&project, &format!("faulty-{seed}"), json!({ "heartbeat_seconds": 1 })).await;
        runs.push(Run { seed, task, sandbox, said: Vec::new(), killed: false });
    }
    for run in &runs {
        omoi.until_event(&run.sandbox, "sandbox.booting").await;
    }
    disturb(&mut omoi, &mut runs, &mut Dice(first ^ 0xfa17)).await;
    for run in &runs {
        omoi.gone(&run.sandbox).await;
        check(&omoi, &project, run).await;
    }
}

/// Kills and speaks at random moments while they work.
async fn disturb(omoi: &mut Omoi, runs: &mut [Run], dice: &mut Dice) {
    for _ in 0..12 {
        tokio::time::sleep(Duration::from_millis(dice.roll(500))).await;
        let at = dice.roll(runs.len() as u64) as usize;
        let run = &mut runs[at];
        match dice.roll(6) {
            0 => {
                omoi.kill().await;
                tokio::time::sleep(Duration::from_millis(dice.roll(2000))).await;
                omoi.start_again().await;
            }
            1 if !run.killed => run.killed = omoi.try_kill_init(&run.sandbox),
            _ => {
                let body = json!({ "content": format!("message {} to {}", run.said.len(), run.seed) });
                let (status, queued) =
                    omoi.post(&format!("/api/v1/sandboxes/{}/messages", run.sandbox), &body).await;
                // One that has ended takes none, and says so.
                assert!(status == 200 || status == 409, "{status} {queued}");
                run.said.extend(queued["message_id"].as_str().map(str::to_owned));
            }
        }
    }
}

async fn check(omoi: &Omoi, project: &ProjectId, run: &Run) {
    let seed = run.seed;
    let events = omoi.stored(&run.sandbox).await;
    assert_gapless(&events);
    for message in &run.said {
        let injected = events.iter().filter(|event| {
            event["event_type"] == "agent.message_injected"
                && event["event_data"]["message_id"] == message.as_str()
        });
        assert!(injected.count() <= 1, "schedule {seed}: {message} was applied twice");
    }
    let task = omoi.get(&format!("/api/v1/tasks/{}", run.task)).await;
    let completed = task["status"] == "completed";
    assert!(completed || run.killed, "schedule {seed} killed no worker, and yet: {task}");
    let mirror = Mirror::of(&omoi.data(), project);
    let kept = omoi.sandbox(&run.sandbox).await.kept;
    let at = match kept.and_then(|kept| kept.commit) {
        Some(commit) if !completed => commit,
        _ => task["branch_name"].as_str().unwrap().to_owned(),
    };
    let made: BTreeMap<String, String> = mirror
        .git(&["ls-tree", "-r", "--name-only", &at, "made"])
        .lines()
        .map(|path| (path.to_owned(), mirror.file(&at, path)))
        .collect();
    for (path, is_there) in told(&events) {
        let n = path.trim_start_matches("made/").trim_end_matches(".txt");
        if is_there {
            // A worker that was killed may have removed one more than it could tell.
            let content = made.get(&path).map(String::as_str);
            assert!(
                content == Some(&format!("step {n}")) || (run.killed && content.is_none()),
                "schedule {seed}: {path} is {content:?}"
            );
        } else {
            assert!(
                !made.contains_key(&path) || run.killed,
                "schedule {seed}: {path} was deleted, and is there"
            );
        }
    }
    if completed {
        let there: Vec<String> =
            told(&events).into_iter().filter(|(_, is_there)| *is_there).map(|(path, _)| path).collect();
        assert_eq!(made.into_keys().collect::<Vec<_>>(), there, "schedule {seed}: nothing else is there");
    }
}

/// Which files the events say are there, and which are not any more.
fn told(events: &[Value]) -> BTreeMap<String, bool> {
    let mut files = BTreeMap::new();
    for event in events.iter().filter(|event| event["event_type"] == "agent.file_edited") {
        let data = &event["event_data"];
        let path = data["file_path"].as_str().unwrap().to_owned();
        if let Some(previous) = data["previous_path"].as_str() {
            files.insert(previous.to_owned(), false);
        }
        files.insert(path, data["change_type"] != "deleted");
    }
    files
}
