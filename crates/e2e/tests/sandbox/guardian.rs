//! The Guardian over real sandboxes: it sees what agents do while they do it, speaks to them, and sees what comes of that.

use std::time::Duration;

use omoi_protocol::{ProjectId, SandboxId};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    agent::{assert_gapless, of},
    git::Mirror,
    omoi::{Omoi, data},
};

/// Makes one call after another until somebody says `WORDS` to it.
const UNTIL_TOLD: &str = r#"
about: goes on until it is told
steps:
  - name: call
    say: I look again.
    call: { tool: Bash, input: { command: "COMMAND", description: "Look, {n}" } }
    delay: 300ms
    repeat: 300
    when:
      - { message_contains: "WORDS", next: mend }
    next: call
  - name: mend
    say: I try something else.
    call: { tool: Write, input: { file_path: mended.txt, content: "{message}" } }
    next: done
  - name: done
    say: It is mended.
    end: true
"#;

/// One call that says nothing for a while.
const LONG: &str = r#"
about: one long call
steps:
  - name: call
    say: This takes a while.
    call: { tool: Bash, input: { command: "COMMAND" } }
  - name: done
    say: That was it.
    end: true
"#;

fn circles() -> String {
    UNTIL_TOLD.replace("COMMAND", "echo the same").replace("WORDS", "go in circles")
}

impl Omoi {
    async fn watched_project(&self, policy: &str) -> ProjectId {
        let project = self.small_project().await;
        let request = self.http.put(format!("{}/api/v1/projects/{project}/policy", self.url()));
        let answer = request.bearer_auth(self.token()).json(&json!({ "text": policy })).send().await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
        project
    }

    async fn of_guardian(&self, what: &str, id: &SandboxId) -> Vec<Value> {
        let page = self.get(&format!("/api/v1/{what}?sandbox_id={id}")).await;
        page["items"].as_array().unwrap().clone()
    }
}

/// What the agent was told, it did; what the Guardian made of that.
async fn assert_steered(omoi: &Omoi, project: &ProjectId, task: &omoi_protocol::TaskId, sandbox: &SandboxId) {
    omoi.gone(sandbox).await;
    let task = omoi.task(task).await;
    assert_eq!(task["status"], "completed", "{task}");
    let mirror = Mirror::of(&omoi.data(), project);
    let said = mirror.file(task["branch_name"].as_str().unwrap(), "mended.txt");
    assert!(
        said.contains("The Guardian") && said.contains("go in circles"),
        "the agent knows who speaks: {said}"
    );

    let made = omoi.of_guardian("interventions", sandbox).await;
    let first = made.last().unwrap();
    assert_eq!((&first["do"], &first["state"]), (&json!("nudge"), &json!("acknowledged")), "{made:#?}");
    assert_eq!(first["effect"], "changed", "{made:#?}");
    let events = omoi.stored(sandbox).await;
    assert_gapless(&events);
    let place = |event_type: &str| events.iter().position(|event| event["event_type"] == event_type).unwrap();
    assert!(place("guardian.finding") < place("agent.message_injected"));
    assert!(place("agent.message_injected") < place("guardian.intervention.effect"));
    let found = omoi.of_guardian("findings", sandbox).await;
    assert!(found.iter().all(|one| !one["cleared_at"].is_null()), "{found:#?}");
    assert_eq!(found.last().unwrap()["kind"], "repeated_action");
    assert!(of(&events, "agent.tool_use").len() < 300, "it was told on the way");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_goes_in_circles_is_told_while_it_works_and_completes() {
    let circles = circles();
    let omoi = Omoi::with_scenarios(&[("circles", &circles)]).await;
    let project = omoi.watched_project("steering: on").await;
    let (task, sandbox) = omoi.agent(&project, "circles", json!({})).await;
    assert_steered(&omoi, &project, &task, &sandbox).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_is_judged_to_be_elsewhere_is_told_and_comes_back() {
    let env = [("OMOI_JUDGE_ENABLED", "true"), ("OMOI_JUDGE_MODEL", "scripted/judge")];
    let elsewhere = UNTIL_TOLD.replace("COMMAND", "echo {n}").replace("WORDS", "leaves its course");
    let omoi = Omoi::with_scenarios_and(&[("elsewhere", &elsewhere)], &env).await;
    let project = omoi.watched_project("steering: on\njudge: { when: period, period: 1s }").await;
    let (task, sandbox) = omoi.agent(&project, "elsewhere", json!({})).await;
    omoi.gone(&sandbox).await;
    let task = omoi.task(&task).await;
    assert_eq!(task["status"], "completed", "{task}");
    let mirror = Mirror::of(&omoi.data(), &project);
    let said = mirror.file(task["branch_name"].as_str().unwrap(), "mended.txt");
    assert!(said.contains("Go back to the goal"), "it hears what the judge advises: {said}");
    let events = omoi.stored(&sandbox).await;
    assert_gapless(&events);
    let place = |event_type: &str| events.iter().position(|event| event["event_type"] == event_type).unwrap();
    assert!(place("guardian.judgement") < place("guardian.finding"));
    assert!(place("guardian.finding") < place("agent.message_injected"));
    let made = omoi.of_guardian("interventions", &sandbox).await;
    assert_eq!(made.last().unwrap()["kind"], "misaligned", "{made:#?}");
    let calls = omoi.get(&format!("/api/v1/costs?sandbox_id={sandbox}&limit=500")).await;
    let judged = calls["items"].as_array().unwrap().iter().filter(|call| call["purpose"] == "judge").count();
    assert!(judged > 0 && judged < 300, "{judged}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_suggest_it_goes_on_until_a_person_approves() {
    let circles = circles();
    let mut omoi = Omoi::with_scenarios(&[("circles", &circles)]).await;
    let project = omoi.watched_project("steering: suggest").await;
    let (task, sandbox) = omoi.agent(&project, "circles", json!({})).await;
    let event = omoi.until_event(&sandbox, "guardian.steering.intervention").await;
    let id = event["payload"]["intervention_id"].as_str().unwrap().to_owned();
    // It waits through the death of the server, and is there once.
    omoi.kill().await;
    omoi.start_again().await;
    let seen = omoi.stored(&sandbox).await.len() as u64;
    omoi.until(&sandbox, |event| event.seq.is_some_and(|seq| seq as u64 > seen + 12)).await;
    let waiting = omoi.of_guardian("interventions", &sandbox).await;
    assert_eq!((waiting.len(), &waiting[0]["state"]), (1, &json!("suggested")), "{waiting:#?}");
    assert_eq!(of(&omoi.stored(&sandbox).await, "agent.message_injected").len(), 0);
    let (status, made) = omoi.post(&format!("/api/v1/interventions/{id}/approve"), &json!({})).await;
    assert_eq!((status, &made["state"]), (200, &json!("sent")), "{made}");
    assert_steered(&omoi, &project, &task, &sandbox).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_builds_in_silence_is_left_alone_and_one_that_hangs_is_found() {
    let builds = LONG.replace("COMMAND", "timeout 14 sh -c 'while :; do :; done'; true");
    let hangs = LONG.replace("COMMAND", "mkfifo pipe; timeout 14 cat pipe; true");
    let omoi = Omoi::with_scenarios(&[("builds", &builds), ("hangs", &hangs)]).await;
    let policy = "steering: off\nthresholds: { no_progress: { quiet: 5s } }";
    let project = omoi.watched_project(policy).await;
    // What a debug build of the worker itself does for a heartbeat each second looks like work.
    let beats = json!({ "heartbeat_seconds": 2 });
    let (_, builds) = omoi.agent(&project, "builds", beats.clone()).await;
    let (_, hangs) = omoi.agent(&project, "hangs", beats).await;
    omoi.gone(&builds).await;
    omoi.gone(&hangs).await;
    let found = omoi.of_guardian("findings", &builds).await;
    assert!(found.is_empty(), "{found:#?}");
    let found = omoi.of_guardian("findings", &hangs).await;
    assert_eq!((found.len(), &found[0]["kind"]), (1, &json!("no_progress")), "{found:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_whose_agent_has_died_is_found_within_ten_seconds() {
    let long = LONG.replace("COMMAND", "sleep 600");
    let omoi = Omoi::with_scenarios(&[("long", &long)]).await;
    let project = omoi.watched_project("steering: on").await;
    let (_, sandbox) = omoi.agent(&project, "long", json!({})).await;
    omoi.until_event(&sandbox, "command.started").await;
    let died = Instant::now();
    omoi.kill_init(&sandbox);
    let seen = omoi.until(&sandbox, |event| event.event_type == "SANDBOX_ENDED").await;
    let took = died.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert_eq!(data(seen.last().unwrap())["reason"], "crashed");
    omoi.gone(&sandbox).await;
    let open = omoi.get(&format!("/api/v1/findings?sandbox_id={sandbox}&open=true")).await;
    assert_eq!(open["items"], json!([]));
}
