//! What a spec comes to as a whole: one branch of all its work, tasks that exist already, the short ways, and lists.

use omoi_server::orchestrator::dispatch;
use serde_json::{Value, json};

use crate::{
    on_both,
    spec::{Play, output},
    work::text,
};

impl Play<'_> {
    /// A worker elsewhere does a task of the spec and pushes a file, from what its task builds on.
    async fn work(&self, key: &str, file: &str, content: &str) -> String {
        let task = text(&self.items().await[key]["task_id"]);
        let sandbox = self.app.attached_to(&task).await;
        let branch = text(&self.app.show(&task).await["branch_name"]);
        // The first look at the mirror makes the branch.
        let url = format!("{}/git/{}.git/info/refs?service=git-upload-pack", self.app.base, self.project);
        let looked = self.app.http.get(url).bearer_auth(&sandbox.token).send().await.unwrap();
        assert_eq!(looked.status(), 200, "{}", looked.text().await.unwrap());
        let mirror = self.mirrors.path(&self.project.parse().unwrap());
        let far = &self.repository;
        far.git(&["fetch", "-q", mirror.to_str().unwrap(), &branch]);
        far.git(&["checkout", "-q", "--detach", "FETCH_HEAD"]);
        let commit = far.commit(file, content);
        far.git(&["push", "-q", mirror.to_str().unwrap(), &format!("HEAD:refs/heads/{branch}")]);
        far.git(&["checkout", "-q", "main"]);
        self.app.event(&sandbox, "agent.completed", json!({ "commit": commit })).await.expect(200);
        assert_eq!(self.app.task_status(&task).await, "completed");
        commit
    }

    async fn branch(&self) -> Value {
        self.app.get(&self.path("/branch")).await.expect(200)
    }

    async fn files_at(&self, commit: &str) -> Vec<String> {
        let project = self.project.parse().unwrap();
        let files = self.mirrors.files(&project, &commit.parse().unwrap()).await.unwrap();
        files.into_iter().collect()
    }
}

/// The tasks of a small change, and what the last phase says of them.
fn small(bug: bool) -> (Value, Value) {
    let task = |id: &str, title: &str, file: &str, on: Value| {
        json!({
            "id": id, "title": title, "description": "Do it so that the metre is there.", "parent_ticket": "TKT-001",
            "estimated_hours": 1, "files_to_modify": [file], "acceptance_criteria": ["FACTORS[\"m\"] is 1.0"],
            "dependencies": { "depends_on": on },
        })
    };
    let mut tasks = json!({
        "feature_name": "metre",
        "tickets": [{ "id": "TKT-001", "title": "The metre", "description": "It is not there.", "tasks": ["TSK-001", "TSK-002"] }],
        "tasks": [
            task("TSK-001", "Mend the factors", "units/length.py", json!([])),
            task("TSK-002", "Guard them", "tests/test_length.py", json!(["TSK-001"])),
        ],
        "total_estimated_hours": 2, "critical_path": ["TSK-001", "TSK-002"],
    });
    if bug {
        tasks["bugfix"] = json!({
            "reproduce": { "steps": ["Look for it"], "command": "sh check.sh", "observed": "a KeyError", "expected": "1.0" },
            "cause": { "file": "units/length.py", "explanation": "The table is empty." },
            "fix": ["TSK-001"], "guard": { "test": "tests/test_length.py", "tasks": ["TSK-002"] },
        });
    }
    let mut sync = output("sync");
    sync["coverage_matrix"] = json!([]);
    sync["traceability_stats"] = json!({ "requirements": 0, "tickets": 1, "tasks": 2, "dependencies": 1 });
    sync["dependency_analysis"] =
        json!({ "critical_path": ["TSK-001", "TSK-002"], "critical_path_hours": 2 });
    (tasks, sync)
}

/// Outcomes by symbol, in their order.
fn outcomes(branch: &Value) -> Vec<(String, String)> {
    let merges = branch["merges"].as_array().unwrap().iter();
    merges.map(|merge| (text(&merge["symbol"]), text(&merge["outcome"]))).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(one, two)| ((*one).to_owned(), (*two).to_owned())).collect()
}

on_both! {
    async fn a_spec_ends_with_one_branch_that_holds_the_work_of_all_its_tasks(app: App) {
        let play = Play::new(&app, json!({ "gates": [] })).await;
        let checks = json!({ "settings": { "checks": [{ "name": "tests", "command": "sh check.sh" }] } });
        play.execute().await;
        play.play_to("sync").await;
        app.get(&play.path("/branch")).await.refused(404, "branch_of_spec_not_found");
        let base = play.repository.head();
        for (key, file) in [("TSK-001", "1.txt"), ("TSK-002", "2.txt"), ("TSK-003", "3.txt")] {
            play.work(key, file, "done\n").await;
        }
        let guide = play.work("TSK-004", "4.txt", "done\n").await;
        let files = play.files_at(&guide).await;
        assert!(["1.txt", "2.txt", "3.txt", "4.txt"].iter().all(|file| files.iter().any(|it| it == file)), "it begins with what it builds on: {files:?}");
        assert_eq!(play.show().await["status"], "executing");
        play.work("TSK-005", "5.txt", "done\n").await;
        app.patch(&format!("/api/v1/projects/{}", play.project), checks).await.expect(200);
        play.advance().await;

        let spec = play.show().await;
        assert_eq!(spec["status"], "completed", "{spec:#}");
        let branch = play.branch().await;
        assert_eq!(spec["branch"], branch);
        assert_eq!((&branch["state"], &branch["base_commit"], &branch["error"]), (&json!("merged"), &json!(base), &Value::Null), "{branch:#}");
        assert!(text(&branch["name"]).starts_with("spec/more-units-"), "{branch:#}");
        let symbols: Vec<String> = outcomes(&branch).into_iter().map(|(symbol, _)| symbol).collect();
        assert_eq!(symbols, ["TSK-001", "TSK-002", "TSK-003", "TSK-004", "TSK-005"]);
        let tip = play.mirrors.branch_tip(&play.project.parse().unwrap(), &text(&branch["name"])).await.unwrap().unwrap();
        assert_eq!(branch["commit"], tip.as_str());
        let files = play.files_at(tip.as_str()).await;
        assert!((1..=5).all(|n| files.contains(&format!("{n}.txt"))), "{files:?}");
        let told = play.told().await;
        let at = |kind: &str| told.iter().position(|one| one == kind).unwrap();
        assert!(at("SPEC_BRANCH_MERGED") < at("SPEC_COMPLETED"));

        // The declared checks run on it, as those of a task do.
        let check = app.show(&text(&branch["check_task_id"])).await;
        assert_eq!((&check["status"], &check["stage"], &check["branch_name"]), (&json!("pending"), &json!("check"), &branch["name"]));
        dispatch(app.store(), 10).await.unwrap();
        assert_eq!(play.branch().await["check_status"], "assigned");
        let path = format!("/api/v1/tasks/{}/evidence", text(&check["id"]));
        assert_eq!(app.get(&path).await.expect(200)["commit"], tip.as_str());

        // Made again of the same, it is the same.
        play.post("/branch", json!({})).await.expect(202);
        assert_eq!(play.branch().await["state"], "wanted");
        play.advance().await;
        assert_eq!(play.branch().await["commit"], tip.as_str());
        let viewer = app.operator("ada", "viewer").await;
        let refused = app.call(reqwest::Method::POST, &play.path("/branch"), &viewer, None).await;
        assert_eq!(refused.status, 403);
    }

    async fn work_that_conflicts_is_left_out_with_what_builds_on_it_and_the_rest_is_merged(app: App) {
        let play = Play::new(&app, json!({ "gates": [] })).await;
        play.post("/branch", json!({})).await.refused(409, "spec_without_tasks");
        play.execute().await;
        play.play_to("sync").await;
        play.work("TSK-001", "README.md", "one\n").await;
        play.work("TSK-002", "README.md", "two\n").await;
        play.work("TSK-003", "3.txt", "done\n").await;
        let items = play.items().await;
        // What does not go together cannot be begun with: whoever looks is told, and the task of a sandbox here fails.
        let guide = text(&items["TSK-004"]["task_id"]);
        let sandbox = app.attached_to(&guide).await;
        let url = format!("{}/git/{}.git/info/refs?service=git-upload-pack", app.base, play.project);
        let looked = app.http.get(url).bearer_auth(&sandbox.token).send().await.unwrap();
        assert_eq!(looked.status(), 409);
        let said = looked.text().await.unwrap();
        assert!(said.contains("conflict in README.md") && said.contains(&text(&items["TSK-001"]["task_id"])), "{said}");
        app.event(&sandbox, "agent.completed", json!({})).await.expect(200);
        app.complete(&text(&items["TSK-005"]["task_id"])).await;
        play.advance().await;

        assert_eq!(play.show().await["status"], "completed");
        let branch = play.branch().await;
        assert_eq!(branch["state"], "conflict", "{branch:#}");
        let expected = [("TSK-001", "merged"), ("TSK-002", "conflict"), ("TSK-003", "merged"), ("TSK-004", "nothing"), ("TSK-005", "nothing")];
        assert_eq!(outcomes(&branch), pairs(&expected));
        assert_eq!(branch["merges"][1]["conflicts"], json!([{ "with": "TSK-001", "files": ["README.md"] }]));
        let files = play.files_at(&text(&branch["commit"])).await;
        assert!(files.contains(&"3.txt".to_owned()), "{files:?}");
        assert!(play.told().await.contains(&"SPEC_BRANCH_CONFLICT".to_owned()));
        assert_eq!(branch["check_task_id"], Value::Null);
    }

    async fn a_task_that_may_exist_already_waits_until_somebody_decides(app: App) {
        let play = Play::new(&app, json!({})).await;
        let [temperatures, weights, other] = [
            app.task(&play.project, json!({ "title": "Convert the temperatures" })).await,
            app.task(&play.project, json!({ "title": "convert weight" })).await,
            app.task(&play.project, json!({ "title": "Delete stale sessions" })).await,
        ];
        play.execute().await;
        play.play_to("sync").await;
        let spec = play.show().await;
        let offered = app.get(&play.path("/duplicates")).await.expect(200);
        assert_eq!(spec["duplicates"], offered);
        let of = |key: &str| offered.as_array().unwrap().iter().filter(|one| one["symbol"] == key).map(|one| text(&one["existing_task_id"])).collect::<Vec<_>>();
        assert_eq!((of("TSK-001"), of("TSK-004")), (vec![temperatures.clone()], vec![]), "{offered:#}");
        assert!(of("TSK-002").contains(&weights) && !offered.to_string().contains(&other), "{offered:#}");
        assert!(offered[0]["similarity"].as_f64().unwrap() > 0.9 && offered[0]["decision"].is_null());

        let items = play.items().await;
        let task = |key: &str| text(&items[key]["task_id"]);
        dispatch(app.store(), 10).await.unwrap();
        assert_eq!((app.task_status(&task("TSK-001")).await, app.task_status(&task("TSK-003")).await), ("pending".to_owned(), "assigned".to_owned()));

        let decide = async |body: Value| play.post("/duplicates", body).await;
        decide(json!({ "symbol": "TSK-004", "decision": "keep" })).await.refused(404, "duplicate_not_found");
        decide(json!({ "symbol": "TSK-001", "decision": "link" })).await.refused(422, "duplicate_unknown");
        decide(json!({ "symbol": "TSK-001", "decision": "link", "existing_task_id": other })).await.refused(422, "duplicate_unknown");
        let linked = json!({ "symbol": "TSK-001", "decision": "link", "existing_task_id": temperatures });
        let spec = decide(linked.clone()).await.expect(200);
        assert_eq!(decide(linked).await.expect(200)["version"], spec["version"], "said twice, it is done once");
        decide(json!({ "symbol": "TSK-001", "decision": "keep" })).await.refused(409, "duplicate_decided");
        assert_eq!(app.task_status(&task("TSK-001")).await, "cancelled");
        assert_eq!(play.items().await["TSK-001"]["task_id"], json!(temperatures));
        let guide = app.show(&task("TSK-004")).await;
        let waits: Vec<String> = guide["dependencies"].as_array().unwrap().iter().map(text).collect();
        assert!(waits.contains(&temperatures) && !waits.contains(&task("TSK-001")) && waits.len() == 3, "{guide:#}");

        decide(json!({ "symbol": "TSK-002", "decision": "keep" })).await.expect(200);
        dispatch(app.store(), 10).await.unwrap();
        assert_eq!(app.task_status(&task("TSK-002")).await, "assigned", "what is kept begins");
        decide(json!({ "symbol": "TSK-002", "decision": "link", "existing_task_id": weights })).await.refused(409, "not_pending");
        let told = play.told().await;
        assert_eq!(told.iter().filter(|one| *one == "SPEC_DUPLICATE_DECIDED").count(), 2);
    }

    async fn where_nobody_is_asked_or_nothing_is_looked_for_no_task_waits(app: App) {
        let play = Play::new(&app, json!({ "gates": [] })).await;
        app.task(&play.project, json!({ "title": "Convert temperatures" })).await;
        play.execute().await;
        play.play_to("sync").await;
        let spec = play.show().await;
        assert_eq!(spec["duplicates"].as_array().unwrap().iter().filter(|one| one["symbol"] == "TSK-001").count(), 1, "offered all the same");
        dispatch(app.store(), 10).await.unwrap();
        assert_eq!(app.task_status(&text(&play.items().await["TSK-001"]["task_id"])).await, "assigned");

        let blind = Play::new(&app, json!({})).await;
        app.task(&blind.project, json!({ "title": "Convert temperatures" })).await;
        blind.post("/execute", json!({ "enable_embeddings": false })).await.expect(202);
        blind.play_to("sync").await;
        assert_eq!(blind.show().await["duplicates"], json!([]));
    }

    async fn lists_tell_score_and_cost_and_leave_out_what_is_archived(app: App) {
        let play = Play::new(&app, json!({ "gates": ["explore"] })).await;
        let list = async |query: &str| {
            let page = app.get(&format!("/api/v1/specs?project_id={}{query}", play.project)).await.expect(200);
            page["items"].as_array().unwrap().clone()
        };
        let row = list("").await.remove(0);
        assert_eq!((&row["score"], &row["cost_usd"], &row["threshold"]), (&Value::Null, &json!(0.0), &json!(0.7)));
        play.execute().await;
        play.post("/archive", json!({})).await.refused(409, "spec_running");
        play.hand_in("explore", &output("explore").to_string()).await;
        let shown = play.show().await;
        assert_eq!(list("").await[0]["score"], shown["phases"][0]["score"]);
        assert_eq!((&shown["threshold"], &shown["branch"]), (&json!(0.7), &Value::Null));

        let archived = play.post("/archive", json!({})).await.expect(200);
        assert_eq!(play.post("/archive", json!({})).await.expect(200)["version"], archived["version"]);
        assert_eq!((list("").await.len(), list("&archived=true").await.len(), list("&archived=false").await.len()), (0, 1, 0));
        play.post("/execute", json!({})).await.refused(409, "spec_archived");
        app.patch(&play.path(""), json!({ "version": archived["version"], "archived": false })).await.expect(200);
        assert_eq!(list("").await.len(), 1);
        let viewer = app.operator("ada", "viewer").await;
        assert_eq!(app.call(reqwest::Method::POST, &play.path("/archive"), &viewer, None).await.status, 403);
    }

    async fn the_gates_of_a_project_are_chosen_and_other_settings_stay(app: App) {
        let play = Play::new(&app, json!({})).await;
        let path = format!("/api/v1/projects/{}", play.project);
        app.patch(&path, json!({ "settings": { "memory_gb": 1 } })).await.expect(200);
        let gates = format!("{path}/spec-gates");
        assert_eq!(app.get(&gates).await.expect(200), json!({ "gates": null, "effective": ["requirements", "design"] }));
        let put = async |body: Value| app.call(reqwest::Method::PUT, &gates, &app.token, Some(&body)).await;
        assert_eq!(put(json!({ "gates": ["tasks"] })).await.expect(200), json!({ "gates": ["tasks"], "effective": ["tasks"] }));
        assert_eq!(play.show().await["gates"], json!(["tasks"]));
        put(json!({ "gates": ["later"] })).await.refused(422, "validation_failed");
        assert_eq!(put(json!({ "gates": null })).await.expect(200)["effective"], json!(["requirements", "design"]));
        assert_eq!(app.get(&path).await.expect(200)["settings"]["memory_gb"], 1);
        let viewer = app.operator("ada", "viewer").await;
        assert_eq!(app.call(reqwest::Method::PUT, &gates, &viewer, Some(&json!({ "gates": [] }))).await.status, 403);
    }

    async fn a_small_change_begins_with_its_tasks_and_has_no_other_phase(app: App) {
        let play = Play::new(&app, json!({ "flow": "quick" })).await;
        assert_eq!(play.show().await["flow_phases"], json!(["tasks", "sync"]));
        play.post("/execute", json!({ "resume_from_phase": "design" })).await.refused(422, "phase_not_in_flow");
        assert_eq!(play.execute().await["current_phase"], "tasks");
        let (tasks, sync) = small(false);
        play.hand_in("tasks", &tasks.to_string()).await;
        play.hand_in("sync", &sync.to_string()).await;
        let items = play.items().await;
        assert_eq!(items.keys().map(String::as_str).collect::<Vec<_>>(), ["TKT-001", "TSK-001", "TSK-002"], "{:#}", play.show().await);
        for key in ["TSK-001", "TSK-002"] {
            app.complete(&text(&items[key]["task_id"])).await;
        }
        play.advance().await;
        let spec = play.show().await;
        assert_eq!((&spec["status"], &spec["progress"], &spec["branch"]["state"]), (&json!("completed"), &json!(100), &json!("empty")));
        let coverage = app.get(&play.path("/coverage")).await.expect(200);
        assert_eq!((&coverage["rows"][0]["requirement"], &coverage["rows"][0]["status"]), (&json!("TKT-001"), &json!("done")));
    }

    async fn a_bug_is_planned_by_how_it_is_shown_mended_and_kept_away(app: App) {
        let play = Play::new(&app, json!({ "flow": "bugfix" })).await;
        play.execute().await;
        let task = app.show(&text(&play.phase("tasks").await["task_id"])).await;
        assert!(text(&task["description"]).contains("key bugfix"), "whoever works on it is told: {task}");
        play.hand_in("tasks", &small(false).0.to_string()).await;
        let second = play.phase("tasks").await;
        assert_eq!(second["attempt"], 2);
        assert!(text(&second["feedback"]).contains("$.bugfix"), "{second}");
        let (mut tasks, sync) = small(true);
        tasks["bugfix"]["guard"]["test"] = json!("tests/test_other.py");
        play.hand_in("tasks", &tasks.to_string()).await;
        let third = text(&play.phase("tasks").await["feedback"]);
        assert!(third.contains("$.bugfix.guard.test"), "{third}");
        play.hand_in("tasks", &small(true).0.to_string()).await;
        play.hand_in("sync", &sync.to_string()).await;
        let items = play.items().await;
        let ticket = app.get(&format!("/api/v1/tickets/{}", text(&items["TKT-001"]["ticket_id"]))).await.expect(200);
        assert_eq!((items.len(), &ticket["ticket_type"]), (3, &json!("bug")));
    }
}
