//! Dependencies: what waits for what, who is told when it may begin, and what cannot be.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    app::App,
    on_both,
    work::{sandbox_of, text},
};

impl App {
    async fn waiting_for(&self, project: &str, dependencies: &[&str]) -> String {
        self.task(project, json!({ "dependencies": dependencies })).await
    }

    async fn unmet(&self, task: &str) -> i64 {
        self.show(task).await["unmet_dependencies"].as_i64().unwrap()
    }

    async fn depend(&self, method: Method, task: &str, on: &[&str]) -> crate::app::Answer {
        let path = format!("/api/v1/tasks/{task}/dependencies");
        self.call(method, &path, &self.token, Some(&json!({ "depends_on": on }))).await
    }

    async fn dependencies(&self, task: &str) -> Value {
        self.get(&format!("/api/v1/tasks/{task}/dependencies")).await.expect(200)
    }
}

/// The cycle goes from a task back to itself, by steps that exist.
#[track_caller]
fn assert_cycle(cycle: &Value, of: &[&str]) {
    let named: Vec<&str> = cycle.as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
    assert_eq!(named.first(), named.last());
    let mut inside = named[1..].to_vec();
    let mut expected = of.to_vec();
    inside.sort_unstable();
    expected.sort_unstable();
    assert_eq!(inside, expected);
}

on_both! {
    async fn a_task_is_offered_once_all_it_waits_for_is_completed(app: App) {
        let project = app.project("parser").await;
        let (a, b) = (app.task(&project, json!({})).await, app.task(&project, json!({})).await);
        let last = app.waiting_for(&project, &[&a, &b]).await;
        let agent = app.agent(&[]).await;
        let (first, second) = (app.claimed(&agent).await, app.claimed(&agent).await);
        assert_eq!(app.claim(&agent).await, None, "the third task waits");
        assert_eq!(app.unmet(&last).await, 2);
        app.post("/api/v1/sandboxes", json!({ "task_id": last })).await.refused(409, "dependencies_unmet");

        app.event(&first, "agent.completed", json!({})).await.expect(200);
        assert_eq!(app.unmet(&last).await, 1);
        assert_eq!(app.claim(&agent).await, None);
        app.event(&second, "agent.completed", json!({})).await.expect(200);
        assert_eq!(app.unmet(&last).await, 0);
        assert_eq!(app.claim(&agent).await.unwrap()["task"]["id"], last.as_str());
    }

    async fn whoever_completes_the_last_dependency_unblocks_the_task_and_viewers_are_told(app: App) {
        let project = app.project("parser").await;
        let (a, b) = (app.task(&project, json!({})).await, app.task(&project, json!({})).await);
        let both = app.waiting_for(&project, &[&a, &b]).await;
        let of_b = [app.waiting_for(&project, &[&b]).await, app.waiting_for(&project, &[&b]).await];
        app.complete(&a).await;
        assert!(app.told_of("TASKS_UNBLOCKED").await.is_empty(), "nothing waited for the first alone");

        let sandbox = app.attached_to(&b).await;
        let answer = app.post_as(&sandbox, "/task-complete", json!({ "task_id": b })).await.expect(200);
        let mut freed = [both, of_b[0].clone(), of_b[1].clone()];
        freed.sort();
        assert_eq!(answer["unblocked_tasks"], json!(freed));
        let told = json!({ "completed_task_id": b, "unblocked_task_ids": freed });
        assert_eq!(app.told_of("TASKS_UNBLOCKED").await, [told]);
    }

    async fn a_task_made_after_its_dependency_is_completed_waits_for_nothing(app: App) {
        let project = app.project("parser").await;
        let done = app.task(&project, json!({})).await;
        app.complete(&done).await;
        let task = app.waiting_for(&project, &[&done]).await;
        assert_eq!(app.unmet(&task).await, 0);
        assert_eq!(app.claim(&app.agent(&[]).await).await.unwrap()["task"]["id"], task.as_str());
    }

    async fn a_diamond_is_worked_from_its_top_to_its_foot(app: App) {
        let project = app.project("parser").await;
        let top = app.task(&project, json!({})).await;
        let (left, right) = (app.waiting_for(&project, &[&top]).await, app.waiting_for(&project, &[&top]).await);
        let foot = app.waiting_for(&project, &[&left, &right]).await;
        let agent = app.agent(&[]).await;
        let mut order = Vec::new();
        while let Some(claim) = app.claim(&agent).await {
            order.push(text(&claim["task"]["id"]));
            app.event(&sandbox_of(&claim), "agent.completed", json!({})).await.expect(200);
        }
        order[1..3].sort();
        assert_eq!(order, [top, left, right, foot]);
    }

    async fn dependencies_are_added_replaced_and_removed(app: App) {
        let project = app.project("parser").await;
        let mut tasks = Vec::new();
        for _ in 0..4 {
            tasks.push(app.task(&project, json!({})).await);
        }
        let [a, b, c, task] = [0, 1, 2, 3].map(|n| tasks[n].as_str());
        let on = |these: &[&str]| json!({ "task_id": task, "depends_on": these, "blocks": [], "all_completed": these.is_empty() });

        assert_eq!(app.depend(Method::POST, task, &[a]).await.expect(200), on(&[a]));
        assert_eq!(app.depend(Method::POST, task, &[b, a]).await.expect(200), on(&[a, b]), "once each");
        assert_eq!(app.unmet(task).await, 2);
        assert_eq!(app.dependencies(a).await["blocks"], json!([task]));
        assert_eq!(app.depend(Method::PUT, task, &[c]).await.expect(200), on(&[c]));
        assert_eq!(app.dependencies(a).await["blocks"], json!([]));
        assert_eq!(app.unmet(task).await, 1);
        assert_eq!(app.show(task).await["dependencies"], json!([c]));
        let removed = app.delete(&format!("/api/v1/tasks/{task}/dependencies/{c}")).await.expect(200);
        assert_eq!(removed, on(&[]));
        assert_eq!(app.unmet(task).await, 0);
        assert_eq!(app.told_of("TASK_DEPENDENCY_UPDATED").await.len(), 4);
    }

    async fn what_is_under_way_or_over_takes_no_new_dependencies(app: App) {
        let project = app.project("parser").await;
        let other = app.task(&project, json!({})).await;
        let task = app.task(&project, json!({})).await;
        let sandbox = app.attached_to(&task).await;
        app.depend(Method::POST, &task, &[&other]).await.refused(409, "not_pending");
        app.event(&sandbox, "agent.completed", json!({})).await.expect(200);
        app.depend(Method::PUT, &task, &[&other]).await.refused(409, "not_pending");
        assert_eq!(app.dependencies(&task).await["depends_on"], json!([]));
    }

    async fn a_missing_dependency_is_not_found_and_nothing_is_stored(app: App) {
        let project = app.project("parser").await;
        let task = app.task(&project, json!({})).await;
        let new = json!({ "project_id": project, "title": "x", "dependencies": [task, "task-none"] });
        app.post("/api/v1/tasks", new).await.refused(404, "task_not_found");
        assert_eq!(app.pages("/api/v1/tasks", 10).await.len(), 1);
        app.depend(Method::POST, &task, &["task-none"]).await.refused(404, "task_not_found");
        app.depend(Method::PUT, &task, &["task-none"]).await.refused(404, "task_not_found");
        app.depend(Method::POST, "task-none", &[&task]).await.refused(404, "task_not_found");
        app.get("/api/v1/tasks/task-none/dependencies").await.refused(404, "task_not_found");
        assert_eq!(app.dependencies(&task).await["depends_on"], json!([]));
    }

    async fn a_cycle_is_refused_by_name_and_changes_nothing(app: App) {
        let project = app.project("parser").await;
        let a = app.task(&project, json!({})).await;
        let b = app.waiting_for(&project, &[&a]).await;
        let c = app.waiting_for(&project, &[&b]).await;
        for (method, on, cycle) in [
            (Method::POST, &a, vec![a.as_str()]),
            (Method::POST, &b, vec![&a, &b]),
            (Method::PUT, &c, vec![&a, &b, &c]),
        ] {
            let problem = app.depend(method, &a, &[on]).await.refused(422, "dependency_cycle");
            assert_cycle(&problem["cycle"], &cycle);
            for task in cycle {
                assert!(problem["detail"].as_str().unwrap().contains(task), "{problem}");
            }
        }
        let of_a = json!({ "task_id": a, "depends_on": [], "blocks": [b], "all_completed": true });
        assert_eq!((app.dependencies(&a).await, app.unmet(&a).await), (of_a, 0));
    }

    async fn a_long_cycle_is_found_too(app: App) {
        let project = app.project("parser").await;
        let mut chain = vec![app.task(&project, json!({})).await];
        for _ in 1..40 {
            let next = app.waiting_for(&project, &[chain.last().unwrap()]).await;
            chain.push(next);
        }
        let problem = app.depend(Method::POST, &chain[0], &[&chain[39]]).await.refused(422, "dependency_cycle");
        assert_cycle(&problem["cycle"], &chain.iter().map(String::as_str).collect::<Vec<_>>());
        app.depend(Method::POST, &chain[39], &[&chain[0]]).await.expect(200);
    }

    async fn a_check_for_cycles_answers_and_changes_nothing(app: App) {
        let project = app.project("parser").await;
        let a = app.task(&project, json!({})).await;
        let b = app.waiting_for(&project, &[&a]).await;
        let check = async |task: &str, on: &str| {
            app.post(&format!("/api/v1/tasks/{task}/check-circular"), json!({ "depends_on": [on] })).await
        };
        let found = check(&a, &b).await.expect(200);
        assert_eq!(found["has_cycle"], true);
        assert_cycle(&found["cycle"], &[&a, &b]);
        assert_eq!(check(&b, &a).await.expect(200), json!({ "has_cycle": false, "cycle": null }));
        assert_eq!(app.dependencies(&a).await["depends_on"], json!([]));
        check("task-none", &a).await.refused(404, "task_not_found");
    }

    async fn what_becomes_of_a_task_whose_dependency_did_not_complete(app: App) {
        // The policy of the one that waits, and what becomes of it.
        for (policy, status, unmet) in [("block", "pending", 1), ("skip", "pending", 0), ("fail", "failed", 1)] {
            for ending in ["failed", "cancelled"] {
                let project = app.project(&format!("{policy} {ending}")).await;
                let first = app.task(&project, json!({})).await;
                let more = json!({ "dependencies": [first], "dependency_policy": policy });
                let waiting = app.task(&project, more).await;
                match ending {
                    "failed" => app.fail(&first).await,
                    _ => drop(app.cancel(&first).await),
                }
                let shown = app.show(&waiting).await;
                let became = (text(&shown["status"]), shown["unmet_dependencies"].as_i64().unwrap());
                assert_eq!(became, (status.to_owned(), unmet), "{policy}, and the first was {ending}");
                if policy == "fail" {
                    assert_eq!(shown["failure_kind"], "invalid");
                    assert!(text(&shown["error_message"]).contains(&first), "{shown}");
                }
                let ready = app.claim(&app.agent(&[]).await).await;
                assert_eq!(ready.is_some(), policy == "skip", "{policy}, and the first was {ending}");
                if let Some(claim) = ready {
                    assert_eq!(claim["task"]["id"], waiting.as_str());
                    app.event(&sandbox_of(&claim), "agent.completed", json!({})).await.expect(200);
                }
            }
        }
    }

    async fn a_failure_runs_down_a_chain_of_those_that_follow_it(app: App) {
        let project = app.project("parser").await;
        let mut chain = vec![app.task(&project, json!({})).await];
        for _ in 0..5 {
            let more = json!({ "dependencies": [chain.last().unwrap()], "dependency_policy": "fail" });
            chain.push(app.task(&project, more).await);
        }
        let blocked = app.waiting_for(&project, &[&chain[5]]).await;
        app.fail(&chain[0]).await;
        for (task, before) in chain[1..].iter().zip(&chain) {
            let shown = app.show(task).await;
            assert_eq!(shown["status"], "failed");
            assert!(text(&shown["error_message"]).contains(before), "{shown}");
        }
        assert_eq!(app.task_status(&blocked).await, "pending", "its own policy says to wait");
    }

    async fn a_failure_runs_down_a_long_chain(app: App) {
        let project = app.project("parser").await;
        let first = app.task(&project, json!({})).await;
        let key = |n: usize| if n == 0 { first.clone() } else { format!("k{n}") };
        let tasks: Vec<_> = (1..=300)
            .map(|n| json!({ "key": key(n), "title": "x", "depends_on": [key(n - 1)], "dependency_policy": "fail" }))
            .collect();
        let made = app.post("/api/v1/tasks/batch", json!({ "project_id": project, "tasks": tasks })).await.expect(201);
        app.fail(&first).await;
        assert_eq!(app.task_status(&text(&made["tasks"]["k300"]["id"])).await, "failed");
        assert_eq!(app.pages("/api/v1/tasks?status=failed", 500).await.len(), 301);
    }

    async fn a_dependency_that_failed_before_counts_as_one_that_fails_later(app: App) {
        for ending in ["failed", "cancelled"] {
            let project = app.project(ending).await;
            let over = app.task(&project, json!({})).await;
            match ending {
                "failed" => app.fail(&over).await,
                _ => drop(app.cancel(&over).await),
            }
            for (policy, status, unmet) in [("block", "pending", 1), ("skip", "pending", 0), ("fail", "failed", 1)] {
                let new = json!({ "project_id": project, "title": "x", "dependencies": [over], "dependency_policy": policy });
                let made = app.post("/api/v1/tasks", new).await.expect(201);
                assert_eq!((&made["status"], &made["unmet_dependencies"]), (&json!(status), &json!(unmet)), "{policy}");

                let later = app.task(&project, json!({ "dependency_policy": policy })).await;
                app.depend(Method::POST, &later, &[&over]).await.expect(200);
                assert_eq!((app.task_status(&later).await.as_str(), app.unmet(&later).await), (status, unmet), "{policy}");
            }
        }
        let failed = app.told_of("TASK_FAILED").await;
        assert_eq!(failed.len(), 5, "one by itself, and four for what they depend on: {failed:?}");
    }

    async fn skipping_a_failed_dependency_is_told_like_any_unblocking(app: App) {
        let project = app.project("parser").await;
        let first = app.task(&project, json!({})).await;
        let skipping = app.task(&project, json!({ "dependencies": [first], "dependency_policy": "skip" })).await;
        app.fail(&first).await;
        let told = json!({ "completed_task_id": first, "unblocked_task_ids": [skipping] });
        assert_eq!(app.told_of("TASKS_UNBLOCKED").await, [told]);
    }

    async fn a_task_that_will_be_tried_again_keeps_those_that_wait_waiting(app: App) {
        let project = app.project("parser").await;
        let first = app.task(&project, json!({})).await;
        let skipping = app.task(&project, json!({ "dependencies": [first], "dependency_policy": "skip" })).await;
        let failing = app.task(&project, json!({ "dependencies": [first], "dependency_policy": "fail" })).await;
        let sandbox = app.attached_to(&first).await;
        app.event(&sandbox, "agent.failed", json!({ "error": "gave up" })).await.expect(200);
        assert_eq!(app.task_status(&first).await, "pending");
        assert_eq!((app.unmet(&skipping).await, app.task_status(&failing).await), (1, "pending".to_owned()));
    }

    async fn a_blocked_task_goes_on_when_its_failed_dependency_is_retried_and_completes(app: App) {
        let project = app.project("parser").await;
        let first = app.task(&project, json!({})).await;
        let blocked = app.waiting_for(&project, &[&first]).await;
        app.fail(&first).await;
        app.post(&format!("/api/v1/tasks/{first}/retry"), json!({})).await.expect(200);
        assert_eq!(app.unmet(&blocked).await, 1);
        app.complete(&first).await;
        assert_eq!(app.unmet(&blocked).await, 0);
    }

    async fn a_task_that_skipped_a_failed_dependency_waits_again_when_that_is_retried(app: App) {
        let project = app.project("parser").await;
        let first = app.task(&project, json!({})).await;
        let skipping = app.task(&project, json!({ "dependencies": [first], "dependency_policy": "skip" })).await;
        app.fail(&first).await;
        assert_eq!(app.unmet(&skipping).await, 0);
        app.post(&format!("/api/v1/tasks/{first}/retry"), json!({})).await.expect(200);
        assert_eq!(app.unmet(&skipping).await, 1);
        app.complete(&first).await;
        assert_eq!(app.unmet(&skipping).await, 0);
    }

    async fn those_that_wait_raise_the_score_of_what_they_wait_for(app: App) {
        let project = app.project("parser").await;
        let first = app.task(&project, json!({})).await;
        let score = async || app.show(&first).await["score"].as_f64().unwrap();
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(close(score().await, 0.275));
        let mut waiting = Vec::new();
        for _ in 0..3 {
            waiting.push(app.waiting_for(&project, &[&first]).await);
        }
        assert!(close(score().await, 0.275 + 0.15 * 0.3), "{}", score().await);
        app.cancel(&waiting[0]).await;
        assert!(close(score().await, 0.275 + 0.15 * 0.2), "{}", score().await);
        app.depend(Method::PUT, &waiting[1], &[]).await.expect(200);
        assert!(close(score().await, 0.275 + 0.15 * 0.1), "{}", score().await);
        app.post(&format!("/api/v1/tasks/{}/retry", waiting[0]), json!({})).await.expect(200);
        assert!(close(score().await, 0.275 + 0.15 * 0.2), "{}", score().await);
    }
}
