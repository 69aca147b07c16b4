//! Budgets of attempts, tasks and projects: nobody overshoots by much, and everybody is told once.

use futures_util::future::join_all;
use omoi_protocol::{CallId, CallPurpose, CallState, Vendor};
use omoi_server::{
    domain::price::Usage,
    store::{EndedCall, NewCall, Opened},
};
use serde_json::{Value, json};

use crate::{
    app::{App, Sandbox, eventually, soon},
    on_both,
    stand_in::{MODEL, StandIn, behind, hello, message, whole},
    work::MINUTE,
};

/// What an answer of a thousand tokens costs.
const ANSWER_USD: f64 = 0.01;

/// Each answer costs a cent.
fn costly(app: &App) -> StandIn {
    let stand_in = StandIn::of(app);
    stand_in.replies(|_| whole(200, message(0, 1000)));
    stand_in
}

async fn of_task(app: &App, project: &str, config: Value) -> Sandbox {
    let task = app.task(project, json!({ "execution_config": config })).await;
    app.attached_to(&task).await
}

fn over(answer: crate::app::Answer) -> String {
    assert_eq!(answer.headers["x-should-retry"], "false");
    answer.refused_call(403, "permission_error", "budget_exceeded")
}

on_both! { behind =>
    async fn an_attempt_over_its_budget_is_refused_and_told_once(app: App) {
        let stand_in = costly(&app);
        let project = app.project("p").await;
        let sandbox = of_task(&app, &project, json!({ "max_total_cost_usd": 0.01 })).await;
        app.ask(&sandbox, &hello()).await.expect(200);
        for _ in 0..3 {
            let message = over(app.ask(&sandbox, &hello()).await);
            assert!(message.contains("the budget of this attempt is used up: 0.01 of 0.01 USD"), "{message}");
        }
        assert_eq!(stand_in.got().len(), 1);
        let told = app.events_of(&sandbox, "budget.exceeded").await;
        assert_eq!(told.len(), 1);
        assert_eq!(told[0]["level"], "attempt");
        assert_eq!((told[0]["limit_usd"].as_f64(), told[0]["spent_usd"].as_f64()), (Some(0.01), Some(0.01)));
        let openai = app.http.post(format!("{}/model/openai/v1/chat/completions", app.base));
        let refused = crate::app::answer(openai.bearer_auth(&sandbox.token).json(&hello())).await.expect(403);
        assert_eq!(refused["error"]["code"], "budget_exceeded");
        assert_eq!(app.costs("").await["totals"]["calls"], 1, "a refused call is not recorded");
    }

    async fn a_task_s_budget_holds_for_all_its_attempts(app: App) {
        costly(&app);
        let project = app.project("p").await;
        let first = of_task(&app, &project, json!({ "max_budget_usd": 0.02 })).await;
        let task = first.task.clone().unwrap();
        app.ask(&first, &hello()).await.expect(200);
        app.event(&first, "agent.failed", json!({ "error": "x", "failure_kind": "agent" })).await.expect(200);
        app.ask(&first, &hello()).await.refused_call(403, "permission_error", "token_ended");
        app.advance(MINUTE * 2).await;
        let second = app.attached_to(&task).await;
        app.ask(&second, &hello()).await.expect(200);
        let message = over(app.ask(&second, &hello()).await);
        assert!(message.contains("the budget of this task"), "{message}");
        assert_eq!(app.events_of(&second, "budget.exceeded").await[0]["level"], "task");
        assert_eq!(app.show(&task).await["cost_usd"], 0.02);
        assert_eq!(app.show_sandbox(&second).await["cost_usd"], ANSWER_USD);
    }

    async fn a_project_s_budget_holds_for_all_its_tasks_until_it_is_raised(app: App) {
        costly(&app);
        let project = app.project("p").await;
        let path = format!("/api/v1/projects/{project}");
        app.patch(&path, json!({ "settings": { "budget_usd": 0.02 } })).await.expect(200);
        let sandboxes = [of_task(&app, &project, json!({})).await, of_task(&app, &project, json!({})).await];
        let elsewhere = app.sandbox_with_task().await;
        for sandbox in &sandboxes {
            app.ask(sandbox, &hello()).await.expect(200);
        }
        for sandbox in &sandboxes {
            over(app.ask(sandbox, &hello()).await);
            let task = app.show(sandbox.task.as_ref().unwrap()).await;
            assert_eq!(task["waiting_reason"], "budget_exceeded: the budget of the project is used up");
        }
        app.ask(&elsewhere, &hello()).await.expect(200);
        assert_eq!(app.told_of("TASK_WAITING").await.len(), 2);

        app.patch(&path, json!({ "settings": { "budget_usd": 0.03 } })).await.expect(200);
        let task = sandboxes[0].task.as_ref().unwrap();
        assert_eq!(app.show(task).await["waiting_reason"], Value::Null);
        app.ask(&sandboxes[0], &hello()).await.expect(200);
        over(app.ask(&sandboxes[0], &hello()).await);
        assert!(app.show(task).await["waiting_reason"].is_string());
        let told = app.events_of(&sandboxes[0], "budget.exceeded").await;
        let limits: Vec<_> = told.iter().map(|told| told["limit_usd"].as_f64().unwrap()).collect();
        assert_eq!(limits, [0.02, 0.03]);
    }

    async fn a_task_goes_on_when_somebody_raises_its_budget(app: App) {
        costly(&app);
        let project = app.project("p").await;
        let sandbox = of_task(&app, &project, json!({ "budget_usd": 0.01, "other": 1 })).await;
        let path = format!("/api/v1/tasks/{}", sandbox.task.as_ref().unwrap());
        app.ask(&sandbox, &hello()).await.expect(200);
        over(app.ask(&sandbox, &hello()).await);
        assert!(app.get(&path).await.expect(200)["waiting_reason"].is_string());
        let patch = json!({ "execution_config": { "budget_usd": 0.02, "other": 1 } });
        let task = app.patch(&path, patch).await.expect(200);
        assert_eq!((&task["waiting_reason"], &task["execution_config"]["other"]), (&Value::Null, &json!(1)));
        app.ask(&sandbox, &hello()).await.expect(200);
        over(app.ask(&sandbox, &hello()).await);
        for bad in [json!("much"), json!(-1)] {
            let patch = json!({ "execution_config": { "budget_usd": bad } });
            app.patch(&path, patch).await.refused(422, "validation_failed");
        }
    }

    async fn many_calls_at_once_overshoot_by_one_at_most(app: App) {
        let stand_in = costly(&app);
        let project = app.project("p").await;
        let sandbox = of_task(&app, &project, json!({ "max_total_cost_usd": 0.035 })).await;
        // Each may cost what it does cost: a thousand tokens.
        let body = hello();
        let asked = (0..12).map(|_| app.ask(&sandbox, &body));
        let answers = soon(join_all(asked)).await;
        let accepted = answers.iter().filter(|answer| answer.status == 200).count();
        assert_eq!(accepted, 4, "{answers:?}");
        assert_eq!(stand_in.got().len(), 4);
        answers.into_iter().filter(|answer| answer.status != 200).for_each(|answer| drop(over(answer)));
        assert_eq!(app.show_sandbox(&sandbox).await["cost_usd"], 0.04);
        assert_eq!(app.events_of(&sandbox, "budget.exceeded").await.len(), 1);
    }

    async fn a_call_waits_while_others_have_reserved_what_is_left(app: App) {
        let mut feeds = StandIn::of(&app).streams();
        let project = app.project("p").await;
        let sandbox = of_task(&app, &project, json!({ "max_total_cost_usd": 0.001 })).await;
        let (first, feed) = soon(async { tokio::join!(app.model_request(&sandbox.token, "/anthropic/v1/messages").json(&hello()).send(), feeds.recv()) }).await;
        // It may cost a cent, ten times the budget, and turns out to cost next to nothing.
        let second = tokio::spawn(app.model_request(&sandbox.token, "/anthropic/v1/messages").json(&hello()).send());
        let feed = feed.unwrap();
        feed.send(Ok(crate::stand_in::events(1, 1).into())).await.unwrap();
        drop(feed);
        soon(first.unwrap().bytes()).await.unwrap();
        let feed = soon(feeds.recv()).await.unwrap();
        drop(feed);
        assert_eq!(soon(second).await.unwrap().unwrap().status(), 200);
    }

    async fn the_sum_of_all_calls_is_what_is_spent_whatever_becomes_of_them(app: App) {
        let stand_in = StandIn::of(&app);
        let sandboxes = [app.sandbox_with_task().await, app.sandbox_with_task().await, app.sandbox().await];
        let calls = (0..24u64).map(|n| {
            let (app, sandbox) = (&app, &sandboxes[(n % 3) as usize]);
            let mut body = hello();
            body["messages"][0]["content"] = json!("x".repeat(n as usize * 10));
            body["n"] = json!(n);
            async move { app.ask(sandbox, &body).await }
        });
        stand_in.replies(|got| {
            let n = serde_json::from_slice::<Value>(&got.body).unwrap()["n"].as_u64().unwrap();
            match n % 4 {
                0 => whole(200, message(n * 7, n * 13)),
                1 => whole(529, json!({ "type": "error" })),
                2 => axum::response::IntoResponse::into_response("who knows"),
                _ => {
                    let stream = crate::stand_in::events(n * 3, n * 5);
                    axum::response::IntoResponse::into_response(([("content-type", "text/event-stream")], stream))
                }
            }
        });
        soon(join_all(calls)).await;
        let cost: Vec<String> = app.column("SELECT CAST(SUM(cost) AS TEXT) FROM model_calls").await;
        for level in ["attempt", "task", "project", "all"] {
            // The third sandbox has neither task nor project.
            let of = match level {
                "attempt" | "all" => "1 = 1",
                _ => "task_id IS NOT NULL",
            };
            let paid = app.column(&format!("SELECT CAST(SUM(cost) AS TEXT) FROM model_calls WHERE {of}")).await;
            let sql = format!("SELECT CAST(SUM(spent) AS TEXT) FROM spend WHERE level = '{level}'");
            assert_eq!(app.column(&sql).await, paid, "{level}");
            let sql = format!("SELECT CAST(SUM(reserved) AS TEXT) FROM spend WHERE level = '{level}'");
            assert_eq!(app.column(&sql).await, ["0"], "{level}");
            let tokens = "input_tokens + output_tokens + cache_read_tokens + cache_write_tokens";
            let used = app.column(&format!("SELECT CAST(SUM({tokens}) AS TEXT) FROM model_calls WHERE {of}")).await;
            let sql = format!("SELECT CAST(SUM({tokens}) AS TEXT) FROM spend WHERE level = '{level}'");
            assert_eq!(app.column(&sql).await, used, "{level}");
        }
        assert_ne!(cost, ["0"]);
    }

    async fn a_call_whose_server_died_is_booked_and_put_right_if_it_was_not(app: App) {
        let project = app.project("p").await;
        let sandbox = of_task(&app, &project, json!({ "max_total_cost_usd": 0.005 })).await;
        let id = CallId::generate();
        let new = NewCall {
            id: id.clone(),
            sandbox_id: sandbox.id.parse().unwrap(),
            vendor: Vendor::Anthropic,
            model: MODEL.to_owned(),
            purpose: CallPurpose::Work,
            request_bytes: 4000,
            output_max: 1000,
        };
        let store = app.store();
        assert_eq!(store.call_open(new.clone()).await.unwrap(), Opened::Admitted);
        let another = NewCall { id: CallId::generate(), ..new };
        assert!(matches!(store.call_open(another.clone()).await.unwrap(), Opened::Wait(_)));
        assert_eq!(app.last_call(&sandbox).await["state"], "open");

        app.advance(MINUTE / 2).await;
        assert_eq!(store.call_keep(vec![id.clone()]).await.unwrap(), []);
        app.advance(MINUTE / 2).await;
        assert_eq!(app.last_call(&sandbox).await["state"], "open", "it was kept alive");
        app.event(&sandbox, "agent.heartbeat", json!({})).await.expect(200);
        app.advance(MINUTE).await;
        let lost = app.last_call(&sandbox).await;
        assert_eq!((&lost["state"], &lost["estimated"], &lost["input_tokens"]), (&json!("lost"), &json!(true), &json!(1000)));
        assert_eq!(app.show_sandbox(&sandbox).await["cost_usd"], 0.001);
        assert_eq!(store.call_open(another).await.unwrap(), Opened::Admitted, "nothing stays reserved");

        let ended = EndedCall {
            id,
            state: CallState::Done,
            status_code: Some(200),
            failure: None,
            stop_reason: None,
            usage: Usage { input: 500, output: 10, ..Usage::default() },
            estimated: false,
            first_byte: None,
            duration: MINUTE,
        };
        for _ in 0..2 {
            store.call_end(ended.clone()).await.unwrap();
            assert_eq!(app.show_sandbox(&sandbox).await["cost_usd"], 0.0006, "a repeat changes nothing");
        }
        assert_eq!(app.costs(&format!("sandbox_id={}", sandbox.id)).await["totals"]["calls"], 1);
    }

    async fn calls_of_a_sandbox_that_has_ended_are_named_for_cutting_off(app: App) {
        let mut feeds = StandIn::of(&app).streams();
        let sandbox = app.sandbox_with_task().await;
        let sent = app.model_request(&sandbox.token, "/anthropic/v1/messages").json(&hello()).send();
        let (_response, _feed) = soon(async { tokio::join!(sent, feeds.recv()) }).await;
        let id: CallId = eventually(async || app.last_call(&sandbox).await["id"].as_str()?.parse().ok()).await;
        assert_eq!(app.store().call_keep(vec![id.clone()]).await.unwrap(), []);
        app.post(&format!("/api/v1/sandboxes/{}/terminate", sandbox.id), json!({})).await.expect(200);
        assert_eq!(app.store().call_keep(vec![id.clone()]).await.unwrap(), [id]);
    }
}
