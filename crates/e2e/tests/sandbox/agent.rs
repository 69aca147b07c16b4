//! The built-in agent in real sandboxes, with a model that plays scenarios: what it makes comes back, what is said to it
//! reaches it, and neither a killed server nor a killed worker loses anything.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use omoi_protocol::{ProjectId, SandboxId, TaskId, live::LiveEvent};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    git::Mirror,
    omoi::{As, Omoi, PATIENCE, data},
};

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Waits in a tool until it is told what to do, then writes it down.
const WAITS: &str = r#"
about: waits in a tool for as long as it is let, then does as it is told
steps:
  - name: wait
    say: I wait.
    call: { tool: Bash, input: { command: "touch begun; setsid sleep 777 & sleep SECONDS; echo slept {n}" } }
    repeat: 1000
    when:
      - { message_contains: "go home", next: home }
      - { message_contains: "use tabs", next: heard }
    next: wait
  - name: heard
    say: I heard it.
    call: { tool: Write, input: { file_path: heard.txt, content: "{message}" } }
    next: wait
  - name: home
    say: I go.
    end: true
"#;

/// Makes a file, a commit of its own and a change that it does not commit, a few times over; before that it is held inside a
/// tool until it is let go.
const BUSY: &str = r#"
about: many small steps
steps:
  - name: hold
    say: I wait.
    call: { tool: Bash, input: { command: "touch held; while test -e held; do sleep 0.02; done; echo on > went.txt" } }
  - name: write
    say: "Step {n}."
    call: { tool: Write, input: { file_path: "made/{n}.txt", content: "step {n}\n" } }
    repeat: 12
  - name: end
    say: Twelve files are made.
    end: true
"#;

impl Omoi {
    /// Starts with scenarios of the test's own.
    pub async fn with_scenarios(scenarios: &[(&str, &str)]) -> Self {
        Self::with_scenarios_and(scenarios, &[]).await
    }

    pub async fn with_scenarios_and(scenarios: &[(&str, &str)], env: &[(&'static str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in scenarios {
            std::fs::write(dir.path().join(format!("{name}.yaml")), text).unwrap();
        }
        let path = dir.keep();
        let mut env = env.to_vec();
        let place = path.display().to_string();
        env.push(("OMOI_MODEL_SCENARIOS", &place));
        let omoi = Self::start_with(As::Root, &env).await;
        omoi.keep_until_the_end(path);
        omoi
    }

    /// A task for the agent, and the sandbox that it is worked on in.
    pub async fn agent(&self, project: &ProjectId, scenario: &str, config: Value) -> (TaskId, SandboxId) {
        let mut config = config;
        config["model"] = json!(format!("scripted/{scenario}"));
        let body = json!({
            "project_id": project, "title": format!("Play {scenario}"), "description": "As the scenario says.",
            "execution_config": config, "max_retries": 0,
        });
        let (status, task) = self.post("/api/v1/tasks", &body).await;
        assert_eq!(status, 201, "{task}");
        let task: TaskId = task["id"].as_str().unwrap().parse().unwrap();
        let sandbox =
            self.order_with(project, json!({ "task_id": task, "memory_gb": 1, "disk_gb": 1 })).await;
        (task, sandbox)
    }

    pub async fn say(&self, to: &SandboxId, message_type: &str, content: &str) -> String {
        let body = json!({ "content": content, "message_type": message_type });
        let (status, queued) = self.post(&format!("/api/v1/sandboxes/{to}/messages"), &body).await;
        assert_eq!(status, 200, "{queued}");
        queued["message_id"].as_str().unwrap().to_owned()
    }

    pub async fn message_state(&self, to: &SandboxId, id: &str) -> String {
        let all = self.get(&format!("/api/v1/sandboxes/{to}/messages?history=true")).await;
        let one = all.as_array().unwrap().iter().find(|message| message["id"] == id).unwrap().clone();
        one["state"].as_str().unwrap().to_owned()
    }

    /// Waits for the state over the live stream, as a page would.
    pub async fn until_state(&self, to: &SandboxId, id: &str, state: &str) {
        let order = ["queued", "delivered", "injected", "acknowledged"];
        let wanted = order.iter().position(|one| *one == state).unwrap();
        let reached = |event: &LiveEvent| {
            let data = data(event);
            let now = order.iter().position(|one| data["state"] == *one);
            event.event_type == "SANDBOX_MESSAGE_STATE" && data["message_id"] == id && now >= Some(wanted)
        };
        self.until(to, reached).await;
    }

    /// Waits for a file in the workspace, looked at from outside: no server is needed for it.
    async fn until_there(&self, id: &SandboxId, name: &str) -> PathBuf {
        let path = self.workspace(id).join(name);
        let there = timeout(PATIENCE, async {
            while !path.exists() {
                sleep(LOOK_EVERY).await;
            }
        });
        assert!(there.await.is_ok(), "{} never comes", path.display());
        path
    }

    pub async fn task(&self, id: &TaskId) -> Value {
        self.get(&format!("/api/v1/tasks/{id}")).await
    }

    /// Every event of a sandbox as it is stored, oldest first.
    pub async fn stored(&self, id: &SandboxId) -> Vec<Value> {
        let (mut all, mut after) = (Vec::new(), 0);
        loop {
            let page = self.get(&format!("/api/v1/sandboxes/{id}/events?limit=500&after={after}")).await;
            let mut events = page["events"].as_array().unwrap().clone();
            events.sort_by_key(|event| event["seq"].as_i64());
            let Some(last) = events.last() else { return all };
            after = last["seq"].as_i64().unwrap();
            all.extend(events);
        }
    }
}

pub fn of<'a>(events: &'a [Value], event_type: &str) -> Vec<&'a Value> {
    events
        .iter()
        .filter(|event| event["event_type"] == event_type)
        .map(|event| &event["event_data"])
        .collect()
}

/// The numbers have no gap, and so do the worker's own.
pub fn assert_gapless(events: &[Value]) {
    let seqs: Vec<i64> = events.iter().map(|event| event["seq"].as_i64().unwrap()).collect();
    assert_eq!(seqs, (1..=seqs.len() as i64).collect::<Vec<_>>());
    let own: Vec<i64> = events.iter().filter_map(|event| event["worker_seq"].as_i64()).collect();
    assert_eq!(
        own,
        (1..=own.len() as i64).collect::<Vec<_>>(),
        "what the worker numbered is there once and in order"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_is_done_by_the_agent_and_its_branch_comes_back() {
    let omoi = Omoi::start(As::Root).await;
    let project = omoi
        .small_project_with(json!({ "git_author_name": "Ada", "git_author_email": "ada@example.org" }))
        .await;
    let (task, sandbox) = omoi.agent(&project, "binomial", json!({})).await;
    omoi.gone(&sandbox).await;
    let events = omoi.stored(&sandbox).await;
    assert_gapless(&events);
    assert_eq!(events[0]["event_type"], "sandbox.booting", "the first word comes before any slow step");

    let edits = of(&events, "agent.file_edited");
    let kinds: Vec<_> = edits
        .iter()
        .map(|edit| (edit["file_path"].as_str().unwrap(), edit["change_type"].as_str().unwrap()))
        .collect();
    assert_eq!(kinds, [("binomial.py", "created"), ("binomial.py", "modified")]);
    assert!(edits[0]["diff_preview"].as_str().unwrap().contains("+def binomial(n, k):"));
    assert!(
        edits[1]["diff_preview"]
            .as_str()
            .unwrap()
            .contains("-    return binomial(n - 1, k - 1) + binomial(n - 1, k)")
    );
    let results = of(&events, "agent.tool_result");
    assert!(results.iter().any(|result| result["result"] == "126410606437752"), "{results:#?}");

    // Calls and results pair by their ids, and each turn is counted.
    let used: Vec<_> = of(&events, "agent.tool_use")
        .iter()
        .map(|event| (event["tool_use_id"].clone(), event["turn"].clone()))
        .collect();
    let done: Vec<_> = of(&events, "agent.tool_completed")
        .iter()
        .map(|event| (event["tool_use_id"].clone(), event["turn"].clone()))
        .collect();
    assert_eq!(used, done);
    let turns: Vec<u64> =
        of(&events, "agent.assistant_message").iter().map(|event| event["turn"].as_u64().unwrap()).collect();
    assert_eq!(turns, [1, 2, 3, 4, 5]);

    let task = omoi.task(&task).await;
    assert_eq!(task["status"], "completed", "{task}");
    let branch = task["branch_name"].as_str().unwrap();
    let mirror = Mirror::of(&omoi.data(), &project);
    assert!(mirror.file(branch, "binomial.py").contains("// i"));
    let log = mirror.git(&["log", "-1", "--format=%an <%ae>%n%s%n%b", branch]);
    assert!(log.starts_with("Ada <ada@example.org>\nPlay binomial\n"), "{log}");
    assert!(log.contains("126410606437752") && log.contains(&format!("Omoi-Sandbox: {sandbox}")), "{log}");

    let transcript = omoi.client.sandbox_transcript(&sandbox).await.unwrap();
    assert_eq!(transcript.session_id, format!("session-{sandbox}"));
    assert!(transcript.transcript_b64.len() > 1000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_said_reaches_a_busy_agent_and_an_interrupt_ends_what_it_does() {
    let waits = WAITS.replace("SECONDS", "$(test -e heard.txt && echo 60 || echo 6)");
    let omoi = Omoi::with_scenarios(&[("waits", &waits)]).await;
    let project = omoi.small_project().await;
    let (task, sandbox) = omoi.agent(&project, "waits", json!({ "heartbeat_seconds": 1 })).await;

    // Inside of a tool call: the worker has it, the agent does not.
    omoi.until_event(&sandbox, "command.started").await;
    let message = omoi.say(&sandbox, "user_message", "use tabs").await;
    omoi.until_state(&sandbox, &message, "delivered").await;
    assert_eq!(omoi.message_state(&sandbox, &message).await, "delivered");
    omoi.until_state(&sandbox, &message, "acknowledged").await;
    let events = omoi.stored(&sandbox).await;
    let place = |is_it: &dyn Fn(&Value) -> bool| events.iter().position(is_it).unwrap();
    let call_done = place(&|event| event["event_type"] == "agent.tool_completed");
    let injected = place(&|event| {
        event["event_type"] == "agent.message_injected"
            && event["event_data"]["message_id"] == message.as_str()
    });
    let next =
        events[injected..].iter().position(|event| event["event_type"] == "agent.assistant_message").unwrap();
    assert!(call_done < injected && next > 0, "it is injected at the boundary behind the call");
    assert!(
        of(&events, "agent.tool_completed")[0]["duration_ms"].as_f64().unwrap() >= 5_900.0,
        "and the call was not cut short"
    );

    // An interrupt does not wait for the sixty seconds.
    omoi.until(&sandbox, is_second_call()).await;
    let asked = Instant::now();
    let interrupt = omoi.say(&sandbox, "interrupt", "stop that").await;
    omoi.until_event(&sandbox, "agent.interrupted").await;
    let took = asked.elapsed();
    assert!(took < Duration::from_secs(2), "it took {took:?}");
    omoi.until_state(&sandbox, &interrupt, "acknowledged").await;
    omoi.until_event(&sandbox, "agent.waiting").await;
    let left = omoi
        .exec(
            &sandbox,
            &["/bin/sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'sleep [67]' || true"],
        )
        .await;
    assert_eq!(left.stdout.trim(), "0", "nothing of the command is left, not even what got away: {left:?}");

    // The worker lives, waits, and goes on when it is told how.
    let home = omoi.say(&sandbox, "user_message", "go home").await;
    omoi.gone(&sandbox).await;
    assert_eq!(omoi.message_state(&sandbox, &home).await, "acknowledged");
    let task = omoi.task(&task).await;
    assert_eq!(task["status"], "completed", "{task}");
    let mirror = Mirror::of(&omoi.data(), &project);
    assert!(mirror.file(task["branch_name"].as_str().unwrap(), "heard.txt").contains("use tabs"));
    let events = omoi.stored(&sandbox).await;
    assert_gapless(&events);
    assert_heartbeats(&events);
}

/// The second command that waits.
fn is_second_call() -> impl Fn(&LiveEvent) -> bool {
    let calls = AtomicUsize::new(0);
    move |event| event.event_type == "command.started" && calls.fetch_add(1, Ordering::Relaxed) == 1
}

/// One a second, whatever the agent was doing; three are let go for a slow machine.
fn assert_heartbeats(events: &[Value]) {
    let at = |event: &Value| event["created_at"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let beats: Vec<_> =
        events.iter().filter(|event| event["event_type"] == "agent.heartbeat").map(at).collect();
    assert!(beats.len() >= 5, "{}", beats.len());
    for pair in beats.windows(2) {
        let pause = pair[1].duration_since(pair[0]);
        assert!(pause < jiff::SignedDuration::from_secs(4), "{pause:?} between two heartbeats");
    }
}

/// Looks who else is at work.
const LOOKS_AROUND: &str = r#"
about: looks who else is at work, and says something to nobody in particular
steps:
  - call: { tool: Peers, input: {} }
  - call: { tool: Peers, input: { to: sbx-nobody, content: hello } }
  - say: I have seen them.
    end: true
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_sees_who_else_is_at_work_in_its_project() {
    let waits = WAITS.replace("SECONDS", "600");
    let omoi = Omoi::with_scenarios(&[("waits", &waits), ("looks", LOOKS_AROUND)]).await;
    let project = omoi.small_project().await;
    let (_, other) = omoi.agent(&project, "waits", json!({})).await;
    omoi.until_event(&other, "command.started").await;
    let (task, sandbox) = omoi.agent(&project, "looks", json!({})).await;
    omoi.gone(&sandbox).await;
    assert_eq!(omoi.task(&task).await["status"], "completed");
    let events = omoi.stored(&sandbox).await;
    let done = of(&events, "agent.tool_result");
    let seen = done[0].to_string();
    assert!(seen.contains(other.as_str()) && seen.contains("Play waits"), "{seen}");
    let refused = done[1].to_string();
    assert!(refused.contains("sbx-nobody"), "{refused}");
    omoi.say(&other, "interrupt", "stop").await;
    omoi.say(&other, "user_message", "go home").await;
    omoi.gone(&other).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_agent_works_on_while_the_server_is_away() {
    let mut omoi = Omoi::with_scenarios(&[("busy", BUSY)]).await;
    let project = omoi.small_project().await;
    let (task, sandbox) = omoi.agent(&project, "busy", json!({})).await;
    omoi.until_event(&sandbox, "command.started").await;
    let held = omoi.until_there(&sandbox, "held").await;
    omoi.kill().await;
    std::fs::remove_file(held).unwrap();
    omoi.until_there(&sandbox, "went.txt").await;
    omoi.start_again().await;
    omoi.gone(&sandbox).await;
    let events = omoi.stored(&sandbox).await;
    assert_gapless(&events);
    let made = |data: &&&Value| data["file_path"].as_str().unwrap().starts_with("made/");
    assert_eq!(of(&events, "agent.file_edited").iter().filter(made).count(), 12);
    let task = omoi.task(&task).await;
    assert_eq!(task["status"], "completed", "{task}");
    let mirror = Mirror::of(&omoi.data(), &project);
    let branch = task["branch_name"].as_str().unwrap();
    assert_eq!(mirror.file(branch, "went.txt"), "on");
    assert_eq!(mirror.file(branch, "made/12.txt"), "step 12");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_worker_leaves_no_process_and_its_work_and_log_are_kept() {
    let waits = WAITS.replace("SECONDS", "60");
    let omoi = Omoi::with_scenarios(&[("waits", &waits)]).await;
    let project = omoi.small_project().await;
    let (_, sandbox) = omoi.agent(&project, "waits", json!({})).await;
    omoi.until_event(&sandbox, "command.started").await;
    omoi.until_file(&sandbox, "begun").await;
    omoi.kill_init(&sandbox);
    omoi.gone(&sandbox).await;
    let kept = omoi.sandbox(&sandbox).await.kept.unwrap();
    let mirror = Mirror::of(&omoi.data(), &project);
    assert_eq!(mirror.file(&kept.commit.unwrap(), "begun"), "");
    assert!(!processes_with(sandbox.as_str()), "nothing of it runs");
    let transcript = omoi.client.sandbox_transcript(&sandbox).await.unwrap();
    assert!(!transcript.transcript_b64.is_empty());
    assert_gapless(&omoi.stored(&sandbox).await);
}

/// Whether any process of the machine has this in its environment.
fn processes_with(text: &str) -> bool {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let environ = |entry: std::fs::DirEntry| {
        std::fs::read(Path::new(&entry.path()).join("environ")).unwrap_or_default()
    };
    let own = std::process::id().to_string();
    entries
        .filter(|entry| {
            entry.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok() && name != own)
        })
        .any(|entry| environ(entry).windows(text.len()).any(|part| part == text.as_bytes()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_goes_on_in_a_new_sandbox_and_knows_what_it_does_not_know() {
    let waits = WAITS.replace("SECONDS", "60");
    let omoi = Omoi::with_scenarios(&[("waits", &waits)]).await;
    let project = omoi.small_project().await;
    let (_, first) = omoi.agent(&project, "waits", json!({})).await;
    omoi.until(&first, |event| event.event_type == "command.started").await;
    omoi.until_file(&first, "begun").await;
    omoi.kill_init(&first);
    omoi.gone(&first).await;

    let session = format!("session-{first}");
    let config = json!({ "resume_session_id": session });
    let (task, second) = omoi.agent(&project, "waits", config).await;
    let started = omoi.until_event(&second, "agent.started").await;
    assert_eq!(started["payload"]["resumed_session_id"], session.as_str());
    omoi.say(&second, "interrupt", "enough").await;
    omoi.say(&second, "user_message", "go home").await;
    omoi.gone(&second).await;
    let events = omoi.stored(&second).await;
    assert_eq!(of(&events, "agent.completed")[0]["session_id"], session.as_str());
    assert_eq!(omoi.task(&task).await["status"], "completed");
    let log = omoi.client.sandbox_transcript(&second).await.unwrap();
    let log = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, log.transcript_b64).unwrap();
    let log = String::from_utf8(log).unwrap();
    assert!(log.contains("outcome unknown") && log.contains("goes on in a new sandbox"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_goes_in_circles_or_beyond_its_turns_is_stopped_and_says_why() {
    let omoi = Omoi::start(As::Root).await;
    let project = omoi.small_project().await;
    let (circles, first) = omoi.agent(&project, "loop", json!({})).await;
    let (turns, second) = omoi.agent(&project, "soak", json!({ "max_turns": 3 })).await;
    omoi.gone(&first).await;
    omoi.gone(&second).await;
    let (circles, turns) = (omoi.task(&circles).await, omoi.task(&turns).await);
    assert_eq!(
        (circles["status"].as_str(), circles["failure_kind"].as_str()),
        (Some("failed"), Some("agent"))
    );
    assert!(circles["error_message"].as_str().unwrap().contains("in circles"), "{circles}");
    assert_eq!((turns["status"].as_str(), turns["failure_kind"].as_str()), (Some("failed"), Some("limit")));
    assert!(turns["error_message"].as_str().unwrap().contains("max_turns"), "{turns}");
    // What it made until then is on its branch all the same.
    let mirror = Mirror::of(&omoi.data(), &project);
    let files = mirror.git(&["ls-tree", "-r", "--name-only", turns["branch_name"].as_str().unwrap()]);
    assert!(files.contains("soak/file-1.txt"), "{files}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_only_explores_finds_its_changes_put_back_and_keeps_its_notes() {
    let scenario = r#"
about: changes what it may not
steps:
  - name: change
    say: I change things.
    call: { tool: Bash, input: { command: "mkdir -p notes; echo found > notes/found.md; echo broken > src/lib.rs; rm README.md; echo done" } }
  - name: write
    say: And with a tool.
    call: { tool: Write, input: { file_path: more.txt, content: more } }
    when:
      - { is_error: true, next: end }
    next: end
  - name: end
    say: That is all.
    end: true
"#;
    let omoi = Omoi::with_scenarios(&[("explores", scenario)]).await;
    let project = omoi.small_project().await;
    let (task, sandbox) = omoi.agent(&project, "explores", json!({ "mode": "exploration" })).await;
    omoi.gone(&sandbox).await;
    let events = omoi.stored(&sandbox).await;
    let results = of(&events, "agent.tool_result");
    assert_eq!(results[1]["is_error"], true, "{results:#?}");
    let task = omoi.task(&task).await;
    assert_eq!(task["status"], "completed", "{task}");
    let mirror = Mirror::of(&omoi.data(), &project);
    let branch = task["branch_name"].as_str().unwrap();
    assert_eq!(mirror.git(&["diff", "--name-only", "main", branch]), "notes/found.md");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_without_money_waits_for_a_person_and_goes_on_when_there_is_some() {
    let scenario = r#"
about: every answer costs dearly
price: { input: 100, output: 100 }
steps:
  - name: write
    say: "Step {n}."
    call: { tool: Write, input: { file_path: "made/{n}.txt", content: "step {n}\n" } }
    repeat: 6
  - name: end
    say: All is made.
    end: true
"#;
    let omoi = Omoi::with_scenarios(&[("dear", scenario)]).await;
    let project = omoi.small_project_with(json!({ "budget_usd": 0.3 })).await;
    let (task, sandbox) = omoi.agent(&project, "dear", json!({ "max_budget_usd": 1000.0 })).await;
    let waits = omoi.until_event(&sandbox, "agent.waiting").await;
    assert!(waits["payload"]["message"].as_str().unwrap().contains("budget"), "{waits}");
    omoi.until_event(&sandbox, "budget.exceeded").await;
    assert_eq!(omoi.task(&task).await["status"], "running", "it waits, and nothing is lost");

    let body = json!({ "settings": { "budget_usd": 100 } });
    omoi.patch(&format!("/api/v1/projects/{project}"), &body).await;
    omoi.say(&sandbox, "user_message", "there is money now").await;
    omoi.gone(&sandbox).await;
    let task = omoi.task(&task).await;
    assert_eq!(task["status"], "completed", "{task}");
    let mirror = Mirror::of(&omoi.data(), &project);
    assert_eq!(mirror.file(task["branch_name"].as_str().unwrap(), "made/6.txt"), "step 6");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_is_done_waits_for_more_until_its_idle_limit() {
    let omoi = Omoi::start(As::Root).await;
    let project = omoi.small_project().await;
    let (task, sandbox) = omoi.agent(&project, "binomial", json!({ "idle_seconds": 4 })).await;
    omoi.until_event(&sandbox, "agent.waiting").await;
    let mirror = Mirror::of(&omoi.data(), &project);
    let branch = omoi.task(&task).await["branch_name"].as_str().unwrap().to_owned();
    assert!(mirror.file(&branch, "binomial.py").contains("// i"), "what it made is outside already");
    let message = omoi.say(&sandbox, "user_message", "thank you").await;
    omoi.until_state(&sandbox, &message, "acknowledged").await;
    assert_eq!(omoi.task(&task).await["status"], "running");
    omoi.gone(&sandbox).await;
    assert_eq!(omoi.task(&task).await["status"], "completed");
    let events = omoi.stored(&sandbox).await;
    assert_eq!(of(&events, "agent.waiting").len(), 2, "once after each time that it was done");
    assert_eq!(of(&events, "agent.completed").len(), 1);
}
