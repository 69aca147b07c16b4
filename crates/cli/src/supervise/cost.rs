//! What the rules of supervision cost: many sandboxes, each with a long run, watched side by side. For `make bench`.

use std::{fs, sync::Arc};

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use omoi_protocol::{
    EventId, EventSource, SandboxId,
    event::{
        AgentFileEdited, AgentHeartbeat, AgentMessage, AgentToolCompleted, AgentToolResult, AgentToolUse,
        Decimal, FileChange, ModelCall, Payload, StoredEvent,
    },
};
use omoi_server::domain::supervision::{guard::Guard, policy::Policy, trajectory::Charter};
use serde::Serialize;
use serde_json::json;

use crate::Context;

/// Events of one turn of the agent.
const TURN: usize = 8;
const LOOKS: usize = 64;

/// Measure what the rules of supervision cost
#[derive(Debug, clap::Args)]
pub struct Cost {
    #[arg(long, default_value_t = 1000)]
    sandboxes: usize,
    #[arg(long, default_value_t = 10_000)]
    events: usize,
}

#[derive(Serialize)]
struct Figures {
    sandboxes: usize,
    events: usize,
    /// Processor time for taking one event in one sandbox: of all, and of the first and the last tenth.
    event_us: f64,
    first_us: f64,
    last_us: f64,
    /// Processor time for one look at all sandboxes, with one new event in each and with none.
    tick_ms: f64,
    idle_tick_ms: f64,
    findings: usize,
    bytes_mean: usize,
    bytes_most: usize,
    /// What the process holds more than before.
    resident_bytes: u64,
}

impl Cost {
    pub fn run(&self, cx: &Context) -> Result<()> {
        let (policy, count) = (Policy::shipped(), self.events.max(10 * TURN));
        let events: Vec<StoredEvent> = (0..count + LOOKS).map(event).collect::<Result<_>>()?;
        let before = resident()?;
        let charter = Arc::new(Charter::default());
        let mut guards: Vec<Guard> =
            (0..self.sandboxes.max(1)).map(|_| Guard::new(charter.clone())).collect();
        let (mut findings, mut tenths, began) = (0, Vec::new(), cpu_ns()?);
        for tenth in events[..count].chunks(count / 10) {
            let began = cpu_ns()?;
            for event in tenth {
                findings +=
                    guards.iter_mut().map(|guard| guard.take(event, &policy.rules).len()).sum::<usize>();
            }
            tenths.push((cpu_ns()? - began) as f64 / (tenth.len() * guards.len()) as f64 / 1000.0);
        }
        let taken = (cpu_ns()? - began) as f64 / (count * guards.len()) as f64 / 1000.0;
        let held = resident()?.saturating_sub(before);
        // The kernel counts in ticks of its own, so one look is too short to be seen.
        let looks = &events[count..];
        let began = cpu_ns()?;
        for event in looks {
            let now = event.created_at;
            findings += guards.iter_mut().map(|guard| guard.tick(now, &policy.rules).len()).sum::<usize>();
        }
        let idle_tick_ms = (cpu_ns()? - began) as f64 / 1e6 / looks.len() as f64;
        let began = cpu_ns()?;
        for event in looks {
            for guard in &mut guards {
                findings += guard.take(event, &policy.rules).len();
                findings += guard.tick(event.created_at, &policy.rules).len();
            }
        }
        let tick_ms = (cpu_ns()? - began) as f64 / 1e6 / looks.len() as f64;
        let bytes: Vec<usize> = guards.iter().map(Guard::bytes).collect();
        let figures = Figures {
            sandboxes: guards.len(),
            events: count,
            event_us: taken,
            first_us: tenths[0],
            last_us: tenths[9],
            tick_ms,
            idle_tick_ms,
            findings,
            bytes_mean: bytes.iter().sum::<usize>() / guards.len(),
            bytes_most: bytes.into_iter().max().unwrap_or(0),
            resident_bytes: held,
        };
        cx.out.answer(&figures, |_| serde_json::to_string_pretty(&figures).unwrap_or_default())
    }
}

/// A turn: a call of the model, a word, a command and what came of it, a change; and heartbeats in between.
fn event(at: usize) -> Result<StoredEvent> {
    let (turn, seq) = (at / TURN, i64::try_from(at)? + 1);
    let id = Some(format!("toolu_{turn}"));
    let command = format!("cargo test -p shop --test case_{} 2>&1 | tail -40", turn % 50);
    let output = format!(
        "running {turn} tests\n{}test result: ok. {turn} passed; 0 failed",
        "test cart::counts ... ok\n".repeat(20)
    );
    let payload: Payload = match at % TURN {
        0 => ModelCall {
            input_tokens: Some(900),
            output_tokens: Some(120),
            cost_usd: Decimal::new(0.001),
            ..ModelCall::default()
        }
        .into(),
        1 => AgentMessage {
            content: Some(format!("Step {turn}: I run the tests and look.")),
            ..AgentMessage::default()
        }
        .into(),
        2 => AgentToolUse {
            tool: Some("Bash".to_owned()),
            tool_use_id: id,
            input: Some(json!({ "command": command, "description": "Run" })),
            ..AgentToolUse::default()
        }
        .into(),
        3 => AgentToolResult {
            tool_use_id: id,
            result: Some(output),
            is_error: Some(turn % 7 == 0),
            ..AgentToolResult::default()
        }
        .into(),
        4 => AgentToolCompleted {
            tool: Some("Bash".to_owned()),
            tool_use_id: id,
            tool_input: Some(json!({ "command": command })),
            tool_response: Some(json!({ "stdout": output })),
            ..AgentToolCompleted::default()
        }
        .into(),
        5 => AgentFileEdited {
            file_path: Some(format!("src/module_{}/file.rs", turn % 120)),
            change_type: Some(FileChange::Modified),
            diff_preview: Some(format!(
                "index {turn:08x}..{:08x} 100644\n@@ -1,3 +1,3 @@\n-let a = {turn};\n+let a = {};\n",
                turn + 1,
                turn + 1
            )),
            ..AgentFileEdited::default()
        }
        .into(),
        6 => AgentHeartbeat {
            cpu_seconds: Decimal::new(turn as f64),
            io_bytes: Some(turn as u64 * 4096),
            processes: Some(3),
            ..AgentHeartbeat::default()
        }
        .into(),
        _ => AgentMessage { content: Some("I read on.".to_owned()), ..AgentMessage::default() }.into(),
    };
    Ok(StoredEvent {
        id: EventId(seq),
        sandbox_id: "sbx-measured".parse::<SandboxId>()?,
        seq,
        worker_seq: None,
        event_type: payload.event_type().to_owned(),
        event_data: payload.to_raw(),
        source: EventSource::Agent,
        created_at: Timestamp::from_second(1_700_000_000 + seq)?,
    })
}

/// Time that this thread has had a processor.
fn cpu_ns() -> Result<u64> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")
        .context("the kernel keeps no account of processor time")?;
    Ok(text.split_whitespace().next().unwrap_or_default().parse()?)
}

fn resident() -> Result<u64> {
    let text = fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = text.split_whitespace().nth(1).unwrap_or_default().parse()?;
    Ok(pages * rustix::param::page_size() as u64)
}
