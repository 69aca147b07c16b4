//! What workers say that they spent: kept apart from what the gateway counted, and counted where that has no figure.

use serde_json::{Value, json};

use crate::{
    app::{App, Sandbox},
    on_both,
    spec::Play,
    stand_in::{StandIn, behind, hello, message, whole},
    work::MINUTE,
};

async fn of_task(app: &App, project: &str, config: Value) -> Sandbox {
    let task = app.task(project, json!({ "execution_config": config })).await;
    app.attached_to(&task).await
}

async fn says(app: &App, sandbox: &Sandbox, kind: &str, data: Value) {
    app.event(sandbox, kind, data).await.expect(200);
}

fn reported(value: &Value) -> (Option<f64>, Option<f64>, Option<u64>) {
    let cost = &value["reported_cost"];
    (cost["cost_usd"].as_f64(), cost["counted_usd"].as_f64(), cost["ignored"].as_u64())
}

async fn set_budget(app: &App, project: &str, usd: f64) {
    let path = format!("/api/v1/projects/{project}");
    app.patch(&path, json!({ "settings": { "budget_usd": usd } })).await.expect(200);
}

on_both! { behind =>
    async fn what_a_worker_elsewhere_spends_is_shown_as_reported_wherever_cost_is(app: App) {
        let project = app.project("p").await;
        let sandbox = of_task(&app, &project, json!({})).await;
        let task = sandbox.task.clone().unwrap();
        assert_eq!(app.show_sandbox(&sandbox).await["reported_cost"], Value::Null);
        // The total of a session so far, told again and again; then another session.
        says(&app, &sandbox, "agent.turn_complete", json!({ "total_cost_usd": 0.5, "session_id": "a" })).await;
        says(&app, &sandbox, "agent.turn_complete", json!({ "total_cost_usd": 1.5, "session_id": "a" })).await;
        says(&app, &sandbox, "agent.result", json!({ "total_cost_usd": 1.5, "session_id": "a" })).await;
        says(&app, &sandbox, "agent.completed", json!({ "cost_usd": 0.25, "session_id": "b", "success": true })).await;
        let known = (Some(1.75), Some(1.75), Some(0));
        for shown in [app.show_sandbox(&sandbox).await, app.show(&task).await] {
            assert_eq!((reported(&shown), &shown["cost_usd"]), (known, &json!(0.0)), "{shown:#}");
        }
        let since = app.after(std::time::Duration::ZERO).replace('+', "%2B");
        for query in [
            String::new(),
            format!("project_id={project}"),
            format!("task_id={task}"),
            format!("sandbox_id={}", sandbox.id),
            format!("project_id={project}&task_id={task}"),
            format!("since={since}"),
            format!("project_id={project}&since={since}"),
        ] {
            let totals = &app.costs(&query).await["totals"];
            assert_eq!((reported(totals), &totals["calls"]), (known, &json!(0)), "{query}");
        }
        app.advance(MINUTE).await;
        let later = app.after(std::time::Duration::ZERO).replace('+', "%2B");
        assert_eq!(app.costs(&format!("since={later}")).await["totals"]["reported_cost"], Value::Null);
        for (by, key) in [("project", json!(project)), ("task", json!(task)), ("sandbox", json!(sandbox.id)), ("model", Value::Null)] {
            let groups = app.get(&format!("/api/v1/costs/groups?by={by}")).await.expect(200);
            let [group] = &groups["items"].as_array().unwrap()[..] else { panic!("{groups:#}") };
            assert_eq!((&group["key"], reported(group)), (&key, known), "{by}");
        }
        let days = app.get("/api/v1/costs/groups?by=day").await.expect(200);
        assert_eq!(reported(&days["items"][0]), known, "{days:#}");
    }

    async fn a_report_that_is_sent_again_counts_once(app: App) {
        let project = app.project("p").await;
        let sandbox = of_task(&app, &project, json!({})).await;
        let event = json!({
            "event_type": "agent.turn_complete", "event_data": { "total_cost_usd": 2, "session_id": "a" }, "worker_seq": 1,
        });
        for _ in 0..3 {
            app.post_as(&sandbox, "/events", event.clone()).await.expect(200);
        }
        // Without a number, as the earlier system's worker sends it.
        for _ in 0..3 {
            says(&app, &sandbox, "agent.turn_complete", json!({ "total_cost_usd": 2, "session_id": "a" })).await;
        }
        assert_eq!(reported(&app.show_sandbox(&sandbox).await), (Some(2.0), Some(2.0), Some(0)));
        assert_eq!(app.column("SELECT CAST(count(*) AS TEXT) FROM reported_costs").await, ["1"]);
    }

    async fn a_figure_of_the_gateway_takes_the_place_of_what_is_reported(app: App) {
        let stand_in = StandIn::of(&app);
        stand_in.replies(|_| whole(200, message(0, 1000)));
        let project = app.project("p").await;
        set_budget(&app, &project, 1.0).await;
        let sandbox = of_task(&app, &project, json!({ "max_total_cost_usd": 0 })).await;
        let said = json!({ "total_cost_usd": 0.9, "session_id": "a" });
        says(&app, &sandbox, "agent.turn_complete", said.clone()).await;
        assert_eq!(reported(&app.show_sandbox(&sandbox).await), (Some(0.9), Some(0.9), Some(0)));
        // A call that the vendor refuses is no figure.
        stand_in.replies(|_| whole(401, json!({ "type": "error" })));
        app.ask(&sandbox, &hello()).await;
        assert_eq!(reported(&app.show_sandbox(&sandbox).await), (Some(0.9), Some(0.9), Some(0)));
        stand_in.replies(|_| whole(200, message(0, 1000)));
        app.ask(&sandbox, &hello()).await.expect(200);
        let of_project = format!("project_id={project}");
        for _ in 0..2 {
            let totals = app.costs(&of_project).await["totals"].clone();
            assert_eq!((reported(&totals).1, &totals["cost_usd"]), (Some(0.0), &json!(0.01)), "never both: {totals:#}");
            says(&app, &sandbox, "agent.turn_complete", json!({ "total_cost_usd": 5, "session_id": "a" })).await;
        }
        assert_eq!(reported(&app.show_sandbox(&sandbox).await), (Some(5.0), Some(0.0), Some(0)));
        assert_eq!(app.events_of(&sandbox, "budget.exceeded").await, Vec::<Value>::new());
        app.ask(&sandbox, &hello()).await.expect(200);
    }

    async fn what_is_no_amount_is_ignored_and_marked(app: App) {
        let project = app.project("p").await;
        let sandbox = of_task(&app, &project, json!({})).await;
        for bad in [json!(-1), json!(1e300), json!("5"), json!([1]), json!(100_001)] {
            says(&app, &sandbox, "agent.turn_complete", json!({ "total_cost_usd": bad, "session_id": "a" })).await;
        }
        assert_eq!(reported(&app.show_sandbox(&sandbox).await), (Some(0.0), Some(0.0), Some(5)));
        assert_eq!(reported(&app.costs(&format!("project_id={project}")).await["totals"]), (Some(0.0), Some(0.0), Some(5)));
        for session in 0..80 {
            says(&app, &sandbox, "agent.turn_complete", json!({ "total_cost_usd": 100_000, "session_id": format!("{session}") })).await;
        }
        assert_eq!(reported(&app.show_sandbox(&sandbox).await), (Some(100_000.0), Some(100_000.0), Some(5)), "a sandbox has a largest sum");
        let kept: usize = app.column("SELECT CAST(count(*) AS TEXT) FROM reported_sessions").await[0].parse().unwrap();
        assert!(kept <= 66, "{kept}");
    }

    async fn a_budget_that_is_used_up_by_reports_is_told_once_and_stops_calls_and_attempts(app: App) {
        StandIn::of(&app).replies(|_| whole(200, message(0, 1000)));
        let project = app.project("p").await;
        set_budget(&app, &project, 3.0).await;
        let sandbox = of_task(&app, &project, json!({ "max_total_cost_usd": 0 })).await;
        let (task, other) = (sandbox.task.clone().unwrap(), of_task(&app, &project, json!({})).await);
        let agent = app.agent(&[]).await;
        app.event(&sandbox, "agent.started", json!({})).await.expect(200);
        says(&app, &sandbox, "iteration.completed", json!({ "cost_usd": 1, "state": { "total_cost_usd": 1 } })).await;
        app.ask(&other, &hello()).await.expect(200);
        for total in [3.25, 3.5] {
            says(&app, &sandbox, "iteration.completed", json!({ "state": { "total_cost_usd": total } })).await;
        }
        let told = app.events_of(&sandbox, "budget.exceeded").await;
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!((&told[0]["level"], &told[0]["limit_usd"], &told[0]["spent_usd"], &told[0]["reported_usd"]),
            (&json!("project"), &json!(3.0), &json!(3.26), &json!(3.25)));
        let waiting = app.show(&task).await["waiting_reason"].clone();
        assert_eq!(waiting, "budget_exceeded: the budget of the project is used up; 3.25 USD of it as reported by workers");
        // The events behind it have their numbers.
        says(&app, &sandbox, "agent.message", json!({ "content": "I go on" })).await;

        app.ask(&other, &hello()).await.refused_call(403, "permission_error", "budget_exceeded");
        let pending = app.task(&project, json!({})).await;
        app.post("/api/v1/sandboxes", json!({ "task_id": pending })).await.refused(409, "budget_exceeded");
        assert_eq!(app.claim(&agent).await, None);
        assert!(app.show(&pending).await["waiting_reason"].as_str().unwrap().starts_with("budget_exceeded"));
        let elsewhere = app.task(&app.project("q").await, json!({})).await;
        assert_eq!(app.claimed(&agent).await.task, Some(elsewhere), "another project goes on");

        set_budget(&app, &project, 10.0).await;
        for task in [&task, &pending] {
            assert_eq!(app.show(task).await["waiting_reason"], Value::Null);
        }
        app.ask(&other, &hello()).await.expect(200);
        assert_eq!(app.claimed(&agent).await.task, Some(pending));
    }

    async fn a_task_s_budget_counts_the_reports_of_its_attempts_and_others_are_claimed_before_it(app: App) {
        let project = app.project("p").await;
        let first = of_task(&app, &project, json!({ "budget_usd": 2 })).await;
        let task = first.task.clone().unwrap();
        says(&app, &first, "agent.failed", json!({ "error": "x", "failure_kind": "agent", "cost_usd": 2.5 })).await;
        app.advance(MINUTE * 2).await;
        let shown = app.show(&task).await;
        assert_eq!((&shown["status"], reported(&shown)), (&json!("pending"), (Some(2.5), Some(2.5), Some(0))));
        assert!(shown["waiting_reason"].as_str().unwrap().starts_with("budget_exceeded: the budget of the task"));
        app.post("/api/v1/sandboxes", json!({ "task_id": task })).await.refused(409, "budget_exceeded");
        let behind = app.task(&project, json!({ "priority": "LOW" })).await;
        let agent = app.agent(&[]).await;
        assert_eq!(app.claimed(&agent).await.task, Some(behind));
        assert_eq!(app.claim(&agent).await, None);
        let patch = json!({ "execution_config": { "budget_usd": 5 } });
        app.patch(&format!("/api/v1/tasks/{task}"), patch).await.expect(200);
        assert_eq!(app.claimed(&agent).await.task, Some(task));
    }

    async fn many_tasks_without_budget_hold_up_no_other_project_and_not_their_own(app: App) {
        let (project, other) = (app.project("p").await, app.project("q").await);
        for _ in 0..70 {
            app.task(&project, json!({ "priority": "CRITICAL", "execution_config": { "budget_usd": 1 } })).await;
        }
        app.sql(
            "INSERT INTO spend (level, entity_id, spent, reserved, calls, input_tokens, output_tokens, cache_read_tokens, \
             cache_write_tokens) SELECT 'task', id, 2000000000, 0, 0, 0, 0, 0, 0 FROM tasks",
        )
        .await;
        let own = app.task(&project, json!({ "priority": "LOW" })).await;
        let behind = app.task(&other, json!({ "priority": "LOW" })).await;
        let agent = app.agent(&[]).await;
        assert_eq!(app.claimed(&agent).await.task, Some(behind));
        app.sql(&format!("UPDATE tasks SET status = 'cancelled' WHERE id IN (SELECT id FROM tasks WHERE id <> '{own}' AND project_id = '{project}' LIMIT 40)")).await;
        assert_eq!(app.claimed(&agent).await.task, Some(own), "behind 30 others");
    }

    async fn an_attempt_s_own_budget_stops_it_and_not_the_next(app: App) {
        let project = app.project("p").await;
        let first = of_task(&app, &project, json!({ "max_total_cost_usd": 1 })).await;
        let task = first.task.clone().unwrap();
        says(&app, &first, "agent.turn_complete", json!({ "total_cost_usd": 1.5, "session_id": "a" })).await;
        assert_eq!(app.events_of(&first, "budget.exceeded").await[0]["level"], "attempt");
        assert!(app.show(&task).await["waiting_reason"].is_string());
        says(&app, &first, "agent.failed", json!({ "error": "x", "failure_kind": "agent" })).await;
        app.advance(MINUTE * 2).await;
        let agent = app.agent(&[]).await;
        assert_eq!(app.claimed(&agent).await.task, Some(task.clone()));
        assert_eq!(app.show(&task).await["waiting_reason"], Value::Null);
    }

    async fn a_spec_adds_up_what_the_workers_of_its_phases_report(app: App) {
        let play = Play::new(&app, json!({})).await;
        let sandbox = play.worker(play.execute().await["sandbox_id"].as_str().unwrap()).await;
        assert_eq!(play.show().await["reported_cost"], Value::Null);
        for usd in [0.75, 0.75] {
            let output = json!({ "phase": "explore", "phase_output": { "_execution": { "cost_usd": usd } } });
            says(&app, &sandbox, "spec.phase_completed", output).await;
        }
        let listed = app.get("/api/v1/specs").await.expect(200)["items"][0].clone();
        for shown in [play.show().await, listed] {
            assert_eq!(reported(&shown), (Some(0.75), Some(0.75), Some(0)), "{shown:#}");
        }
    }
}
