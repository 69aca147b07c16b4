//! The judge: asked when policies say so, paid for from a purse of its own, and believed as far as it says something.

use std::time::Duration;

use axum::response::IntoResponse;
use omoi_server::{
    config::Config,
    gateway::model::{Calls, Library},
    orchestrator::Judge,
};
use reqwest::Method;
use serde_json::{Value, json};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::Eye;
use crate::{
    app::{App, Sandbox, unique},
    on_both,
    stand_in::{self, MODEL, OPENAI_KEY, StandIn, hello, whole},
};

const POLICY: &str = "steering: on\nlimits: { interventions: 20, cool_down: 0s }\nrules:\n\
     - { on: misaligned, severity: warning, do: nudge, text: 'Think again: {finding}' }\n\
     - { on: misaligned, do: note }\n";
const ADVICE: &str = "Mend the parser, not the tests.";

fn judged(config: &mut Config) {
    stand_in::behind(config);
    config.judge.enabled = true;
    config.judge.model = MODEL.to_owned();
}

/// A Guardian and a judge, who look when they are told to.
struct Court {
    eye: Eye,
    judge: Judge,
}

impl Court {
    fn open(app: &App) -> Self {
        let eye = Eye::open(app);
        let library = Library::load(&app.config.model).unwrap();
        let (tracker, stop) = (TaskTracker::new(), CancellationToken::new());
        let calls = Calls::start(&app.config, app.store(), library, &tracker, &stop).unwrap();
        let settings = app.config.judge.clone();
        let judge = Judge::new(app.store().clone(), app.clock.clone(), eye.node.clone(), calls, settings);
        Self { eye, judge }
    }

    /// How many were judged, and how many of them in vain.
    async fn sit(&self) -> (usize, usize) {
        let report = self.judge.tick().await.unwrap();
        (report.done + report.failed, report.failed)
    }
}

fn opinion(score: f64, steering: Option<&str>) -> Value {
    let mut opinion = json!({
        "current_phase": "implementing", "trajectory_aligned": score > 0.5, "alignment_score": score,
        "needs_steering": steering.is_some(), "trajectory_summary": "It reads.", "current_focus": "price.py",
    });
    if let Some(kind) = steering {
        opinion["steering_type"] = json!(kind);
        opinion["steering_recommendation"] = json!(ADVICE);
    }
    opinion
}

/// A whole completion that calls a tool: 1000 tokens in, 200 out.
fn says(opinion: &Value) -> Value {
    let call = json!({ "id": "c1", "type": "function",
        "function": { "name": "judgement", "arguments": opinion.to_string() } });
    json!({
        "choices": [{ "index": 0, "finish_reason": "tool_calls",
            "message": { "role": "assistant", "content": null, "tool_calls": [call] } }],
        "usage": { "prompt_tokens": 1000, "completion_tokens": 200 },
    })
}

impl App {
    /// A sandbox that has gone twice round, and a third time: not often enough to be sure.
    async fn doubtful(&self, policy: &str) -> (String, Sandbox) {
        let (project, sandbox) = self.watched(policy).await;
        for _ in 0..3 {
            self.step(&sandbox, "grep -n discount price.py", "12: discount", false).await;
        }
        (project, sandbox)
    }

    async fn judgements(&self, sandbox: &Sandbox) -> Vec<Value> {
        self.items(&format!("/api/v1/sandboxes/{}/judgements", sandbox.id)).await
    }

    async fn alignment(&self, sandbox: &Sandbox) -> f64 {
        let shown = self.get(&format!("/api/v1/sandboxes/{}", sandbox.id)).await.expect(200);
        let summed = self.get(&format!("/api/v1/sandboxes/{}/summary", sandbox.id)).await.expect(200);
        assert_eq!(shown["alignment"], summed["alignment"]);
        shown["alignment"].as_f64().unwrap()
    }

    async fn ask_judge(&self, sandbox: &Sandbox) -> Value {
        self.post(&format!("/api/v1/sandboxes/{}/judge", sandbox.id), json!({})).await.expect(202)
    }
}

on_both! {
    judged =>

    async fn one_that_is_judged_to_leave_its_course_is_found_and_told(app: App) {
        let stand_in = StandIn::of(&app);
        stand_in.replies(|_| whole(200, says(&opinion(0.3, Some("correction")))));
        let court = Court::open(&app);
        let (project, sandbox) = app.doubtful(POLICY).await;
        court.eye.look().await;
        let asked = app.judgements(&sandbox).await;
        assert_eq!((asked.len(), &asked[0]["state"], &asked[0]["cause"], &asked[0]["doubts"]), (1, &json!("asked"), &json!("unsure"), &json!(["repeated_action"])), "{asked:#?}");
        assert_eq!((stand_in.got().len(), app.alignment(&sandbox).await), (0, 1.0), "it is only asked");

        assert_eq!(court.sit().await, (1, 0));
        let got = stand_in.got();
        let body: Value = serde_json::from_slice(&got[0].body).unwrap();
        assert_eq!((got.len(), got[0].path.as_str(), &body["model"]), (1, "/other/v1/chat/completions", &json!(MODEL)));
        assert_eq!(got[0].headers["authorization"], format!("Bearer {OPENAI_KEY}"));
        let question = body["messages"][1]["content"].as_str().unwrap();
        assert!(question.contains("<record>") && question.contains("Mend the parser"), "{question}");
        let done = &app.judgements(&sandbox).await[0];
        assert_eq!((&done["state"], &done["cost_usd"], &done["judgement"]["steering_type"]), (&json!("done"), &json!(0.003), &json!("correction")), "{done:#}");
        assert_eq!((&done["project_id"], &done["asked_by"], &done["failure"]), (&json!(project), &json!("guardian"), &json!(null)));
        assert_eq!(app.alignment(&sandbox).await, 0.3);
        assert!(app.findings(&sandbox).await.is_empty(), "the judge does nothing by itself");

        court.eye.look().await;
        let found = app.findings(&sandbox).await;
        assert_eq!((found.len(), &found[0]["kind"], &found[0]["severity"], &found[0]["text"]), (1, &json!("misaligned"), &json!("warning"), &json!(ADVICE)), "{found:#?}");
        let messages = app.get_as(&sandbox, "/messages").await.expect(200);
        assert_eq!((&messages[0]["message_type"], &messages[0]["content"]), (&json!("guardian_nudge"), &json!(format!("Think again: {ADVICE}"))), "{messages}");
        court.eye.look().await;
        assert_eq!((court.sit().await, app.judgements(&sandbox).await.len()), ((0, 0), 1), "nothing has happened since");

        // It is a call of the project's, for the judge, and no work of the agent's.
        let costs = app.costs(&format!("project_id={project}")).await;
        assert_eq!((&costs["items"][0]["purpose"], &costs["items"][0]["id"], &costs["totals"]["cost_usd"]), (&json!("judge"), &done["call_id"], &json!(0.003)), "{costs:#}");
        assert_eq!((app.own_events(&sandbox, "model.call").await.len(), app.own_events(&sandbox, "guardian.judgement").await.len()), (0, 1));
        let status = app.get("/api/v1/guardian/status").await.expect(200);
        assert_eq!(status["judge"], json!({ "enabled": true, "model": MODEL, "day_budget_usd": 5.0, "spent_usd": 0.003, "done": 1, "failed": 0 }));
        let average = status["health"]["average_alignment"].as_f64().unwrap();
        assert!((average - 0.3).abs() < 1e-9, "{status:#}");

        // Told, it goes on; judged to be well, it is.
        let heard = json!({ "message_id": messages[0]["id"], "message_type": "guardian_nudge", "content": "Think again" });
        app.event(&sandbox, "agent.message_injected", heard).await.expect(200);
        court.eye.look().await;
        let found = app.findings(&sandbox).await;
        assert_eq!((&found[0]["cleared_by"], app.alignment(&sandbox).await), (&json!("changed"), 0.3), "to be told makes nothing better");
        stand_in.replies(|_| whole(200, says(&opinion(0.95, None))));
        app.ask_judge(&sandbox).await;
        court.sit().await;
        court.eye.look().await;
        assert_eq!((app.alignment(&sandbox).await, app.findings(&sandbox).await.len()), (0.95, 1));
        let made = &app.interventions(&sandbox).await[0];
        assert_eq!((&made["effect"], &made["alignment_before"], &made["alignment_after"]), (&json!("changed"), &json!(0.3), &json!(0.95)), "{made:#}");
    }

    async fn one_that_cannot_be_judged_is_no_better_for_it(app: App) {
        let stand_in = StandIn::of(&app);
        let court = Court::open(&app);
        let (_, sandbox) = app.watched(POLICY).await;
        app.circle(&sandbox).await;
        court.eye.look().await;
        assert_eq!(app.alignment(&sandbox).await, 0.7, "a finding is open");
        let refusal = json!({ "choices": [{ "message": { "role": "assistant", "refusal": "I would rather not" } }] });
        let words = json!({ "choices": [{ "message": { "role": "assistant", "content": "alignment_score: 1.0" } }] });
        let fails = async |status: u16, body: Value, failure: &str, alignment: f64| {
            let answer = body.clone();
            stand_in.replies(move |_| whole(status, answer.clone()));
            let asked = app.ask_judge(&sandbox).await;
            assert_eq!(court.sit().await, (1, 1));
            let failed = app.judgements(&sandbox).await.swap_remove(0);
            assert_eq!((&failed["id"], &failed["state"], &failed["failure"], &failed["judgement"]), (&asked["id"], &json!("failed"), &json!(failure), &json!(null)), "{body}: {failed:#}");
            assert!(failed["error"].as_str().is_some_and(|error| !error.is_empty()), "{failed:#}");
            court.eye.look().await;
            assert_eq!(app.alignment(&sandbox).await, alignment, "{body}");
        };
        for (status, body, failure) in [
            (529, json!({ "error": { "message": "later" } }), "unavailable"),
            (200, json!("fine"), "malformed"),
            (200, words, "malformed"),
            (200, says(&opinion(7.0, None)), "malformed"),
            (200, says(&json!({ "needs_steering": false })), "malformed"),
            (200, refusal, "declined"),
        ] {
            fails(status, body, failure, 0.7).await;
        }
        assert_eq!(app.own_events(&sandbox, "guardian.judgement").await.len(), 6);

        // What was said before holds until something else is said.
        stand_in.replies(|_| whole(200, says(&opinion(0.2, Some("guidance")))));
        app.ask_judge(&sandbox).await;
        court.sit().await;
        court.eye.look().await;
        assert_eq!(app.alignment(&sandbox).await, 0.2);
        fails(500, json!({}), "unavailable", 0.2).await;
        let open = app.items(&format!("/api/v1/findings?open=true&kind=misaligned&sandbox_id={}", sandbox.id)).await;
        assert_eq!(open.len(), 1);
        stand_in.replies(|_| ().into_response());
        assert_eq!(app.get("/api/v1/guardian/status").await.expect(200)["judge"]["failed"], 7);
    }

    async fn who_may_ask_and_what_an_agent_may_not_say(app: App) {
        let (_, sandbox) = app.watched(POLICY).await;
        let path = format!("/api/v1/sandboxes/{}/judge", sandbox.id);
        let asked = app.ask_judge(&sandbox).await;
        assert_eq!((&asked["state"], &asked["cause"], &asked["asked_by"]), (&json!("asked"), &json!("person"), &json!("first")));
        assert_eq!(app.ask_judge(&sandbox).await["id"], asked["id"], "it is asked already");
        let audit = app.items(&format!("/api/v1/audit?entity_id={}", sandbox.id)).await;
        assert_eq!(audit.iter().filter(|line| line["action"] == "guardian.judge").count(), 1, "{audit:#?}");
        app.post_as(&sandbox, "/judge", json!({})).await.refused(403, "operator_needed");
        assert_eq!(app.get_as(&sandbox, "/judgements").await.status, 403);
        app.get("/api/v1/sandboxes/nobody/judgements").await.refused(404, "sandbox_not_found");
        app.post("/api/v1/sandboxes/nobody/judge", json!({})).await.refused(404, "sandbox_not_found");
        let own = json!({ "state": "done", "judgement": opinion(1.0, None) });
        app.event(&sandbox, "guardian.judgement", own.clone()).await.refused(422, "reserved_event_type");
        let batch = json!({ "events": [{ "event_type": "guardian.judgement", "event_data": own, "source": "system" }] });
        app.post_as(&sandbox, "/events", batch).await.refused(422, "reserved_event_type");

        let court = Court::open(&app);
        for _ in 0..3 {
            app.ask_judge(&sandbox).await;
            court.sit().await;
        }
        let first = app.get(&format!("/api/v1/sandboxes/{}/judgements?limit=2", sandbox.id)).await.expect(200);
        let next = format!("/api/v1/sandboxes/{}/judgements?limit=2&cursor={}", sandbox.id, first["next"].as_str().unwrap());
        let second = app.get(&next).await.expect(200);
        assert_eq!((first["items"].as_array().unwrap().len(), second["items"].as_array().unwrap().len()), (2, 1));
        assert_eq!((&second["items"][0]["id"], &second["next"]), (&asked["id"], &json!(null)));
        app.post(&format!("/api/v1/sandboxes/{}/terminate", sandbox.id), json!({})).await.expect(200);
        app.post(&path, json!({})).await.refused(409, "sandbox_ended");
    }

    async fn a_crash_loses_the_question_at_most(app: App) {
        let stand_in = StandIn::of(&app);
        stand_in.replies(|_| whole(200, says(&opinion(0.9, None))));
        let mut court = Court::open(&app);
        let (_, sandbox) = app.doubtful(POLICY).await;
        court.eye.look().await;
        court.eye.forget(&app);
        court.eye.look().await;
        assert_eq!(app.judgements(&sandbox).await.len(), 1, "it was asked before");
        // Somebody takes it and is never heard of again.
        let minute = Duration::from_secs(60);
        assert_eq!(app.store().judgement_take(5, minute).await.unwrap().len(), 1);
        assert_eq!(court.sit().await, (0, 0), "somebody is at it");
        app.advance(minute).await;
        assert_eq!(court.sit().await, (0, 0));
        let lost = &app.judgements(&sandbox).await[0];
        assert_eq!((&lost["state"], &lost["failure"], &lost["call_id"]), (&json!("failed"), &json!("unavailable"), &json!(null)), "{lost:#}");
        assert!(stand_in.got().is_empty());
        app.ask_judge(&sandbox).await;
        assert_eq!(court.sit().await, (1, 0));
    }
}

on_both! {
    |config| {
        judged(config);
        config.judge.day_budget_usd = "0.002".parse().unwrap();
    } =>

    async fn without_money_it_is_not_asked_and_that_is_said(app: App) {
        let stand_in = StandIn::of(&app);
        stand_in.replies(|got| {
            let is_judge = got.path.ends_with("/chat/completions");
            whole(200, if is_judge { says(&opinion(0.9, None)) } else { stand_in::message(10, 20) })
        });
        let court = Court::open(&app);
        let project = app.project(&unique("project")).await;
        let task = app.task(&project, json!({ "execution_config": { "max_total_cost_usd": 0.002 } })).await;
        let sandbox = app.attach(json!({ "task_id": task })).await;
        app.ask_judge(&sandbox).await;
        assert_eq!(court.sit().await, (1, 0), "it may go over by what it costs itself");
        app.ask_judge(&sandbox).await;
        assert_eq!(court.sit().await, (1, 1));
        let refused = &app.judgements(&sandbox).await[0];
        assert_eq!((&refused["failure"], &refused["call_id"], stand_in.got().len()), (&json!("budget"), &json!(null), 1), "{refused:#}");
        assert!(refused["error"].as_str().unwrap().contains("judge.day_budget_usd"), "{refused:#}");
        let told = app.own_events(&sandbox, "guardian.judgement").await;
        assert_eq!((&told[1]["state"], &told[1]["failure"]), (&json!("failed"), &json!("budget")));
        // The agent has its own purse, and its task waits for nobody.
        app.ask(&sandbox, &hello()).await.expect(200);
        let shown = app.get(&format!("/api/v1/tasks/{task}")).await.expect(200);
        assert_eq!(shown["waiting_reason"], json!(null));
        assert_eq!(app.costs(&format!("sandbox_id={}", sandbox.id)).await["totals"]["cost_usd"], 0.00321);

        app.clock.advance(jiff::SignedDuration::from_hours(25));
        let later = app.sandbox().await;
        app.ask_judge(&later).await;
        assert_eq!(court.sit().await, (1, 0), "a day later there is money again");
    }
}

on_both! {
    |config| {
        judged(config);
        config.judge.timeout = Duration::from_millis(100);
    } =>

    async fn one_that_takes_too_long_has_failed(app: App) {
        let _feeds = StandIn::of(&app).streams();
        let court = Court::open(&app);
        let (_, sandbox) = app.watched(POLICY).await;
        app.ask_judge(&sandbox).await;
        assert_eq!(court.sit().await, (1, 1));
        assert_eq!(app.judgements(&sandbox).await[0]["failure"], "timed_out");
    }
}

on_both! {
    |config| {
        config.judge.enabled = true;
        config.judge.model = "scripted/judge".to_owned();
    } =>

    async fn a_scenario_plays_the_judge_without_a_key(app: App) {
        let court = Court::open(&app);
        let (_, sandbox) = app.doubtful(POLICY).await;
        court.eye.look().await;
        assert_eq!(court.sit().await, (1, 0));
        court.eye.look().await;
        let found = app.findings(&sandbox).await;
        assert_eq!((&found[0]["kind"], app.alignment(&sandbox).await), (&json!("misaligned"), 0.4), "{found:#?}");
        let costs = app.costs(&format!("sandbox_id={}", sandbox.id)).await;
        assert_eq!((&costs["totals"]["calls"], &costs["totals"]["cost_usd"]), (&json!(1), &json!(0.0)));
    }
}

on_both! {
    async fn unless_somebody_wants_it_no_model_is_asked(app: App) {
        let eye = Eye::open(&app);
        let (_, sandbox) = app.doubtful(POLICY).await;
        eye.look().await;
        assert!(app.judgements(&sandbox).await.is_empty());
        let path = format!("/api/v1/sandboxes/{}/judge", sandbox.id);
        app.call(Method::POST, &path, &app.token, None).await.refused(409, "judge_disabled");
        assert_eq!(app.get("/api/v1/guardian/status").await.expect(200)["judge"]["enabled"], false);
    }
}
