//! Specs: from an idea through phases and gates to tasks. Workers are played by the test; everything else is real, the
//! judging of what they hand in included.

use std::collections::BTreeMap;

use omoi_server::{
    git::Mirrors,
    orchestrator::{advance, dispatch, fetch},
};
use serde_json::{Value, json};

use crate::{
    app::{Answer, App, Sandbox, unique},
    on_both,
    repository::Repository,
    work::text,
};

const SCENARIO: &str = include_str!("../../scenarios/spec.yaml");
const PHASES: [&str; 6] = ["explore", "prd", "requirements", "design", "tasks", "sync"];

/// What the demo's agent writes for a phase.
pub fn output(phase: &str) -> Value {
    let scenario: Value = serde_saphyr::from_str(SCENARIO).unwrap();
    let steps = scenario["steps"].as_array().unwrap();
    let step = steps.iter().find(|step| step["name"] == phase).unwrap();
    serde_json::from_str(step["call"]["input"]["content"].as_str().unwrap()).unwrap()
}

/// A spec in a project of the files that the demo's outputs speak of.
pub struct Play<'a> {
    pub app: &'a App,
    pub id: String,
    pub project: String,
    pub mirrors: Mirrors,
    pub repository: Repository,
}

impl<'a> Play<'a> {
    pub async fn new(app: &'a App, more: Value) -> Self {
        let repository = Repository::new();
        for file in ["units/__init__.py", "units/length.py", "tests/test_length.py", "check.sh"] {
            repository.commit(file, "\n");
        }
        let body = json!({ "name": unique("project"), "repository_url": repository.path });
        let project = text(&app.post("/api/v1/projects", body).await.expect(201)["id"]);
        let mut body =
            json!({ "project_id": project, "title": "More units", "description": "Convert more." });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let spec = app.post("/api/v1/specs", body).await.expect(201);
        assert_eq!((&spec["status"], &spec["version"]), (&json!("draft"), &json!(1)));
        let mirrors = Mirrors::new(&app.config).unwrap();
        Self { app, id: text(&spec["id"]), project, mirrors, repository }
    }

    /// As the loop does what a request has asked for.
    async fn fetched(&self) {
        self.mirrors.want(&self.project.parse().unwrap()).await.unwrap();
        assert_eq!(fetch(self.app.store(), &self.mirrors).await.unwrap().fetched, 1);
    }

    pub fn path(&self, rest: &str) -> String {
        format!("/api/v1/specs/{}{rest}", self.id)
    }

    pub async fn show(&self) -> Value {
        self.app.get(&self.path("")).await.expect(200)
    }

    pub async fn post(&self, rest: &str, body: Value) -> Answer {
        self.app.post(&self.path(rest), body).await
    }

    pub async fn execute(&self) -> Value {
        self.post("/execute", json!({})).await.expect(202)
    }

    /// The last attempt at a phase.
    pub async fn phase(&self, phase: &str) -> Value {
        self.app.get(&self.path(&format!("/phases/{phase}"))).await.expect(200)
    }

    pub async fn advance(&self) {
        advance(self.app.store(), &self.mirrors).await.unwrap();
    }

    /// The worker of the phase under way hands something in, and that is judged.
    pub async fn hand_in(&self, phase: &str, content: &str) {
        self.hand_over(phase, content).await;
        self.advance().await;
    }

    /// The same, but nobody has looked at it yet.
    async fn hand_over(&self, phase: &str, content: &str) {
        dispatch(self.app.store(), 10).await.unwrap();
        let attempt = self.phase(phase).await;
        assert_eq!(attempt["state"], "running", "{attempt}");
        let sandbox = self.worker(&text(&attempt["sandbox_id"])).await;
        let path = format!("/api/v1/sandboxes/{}/artifacts?name=spec-{phase}.json", sandbox.id);
        let request = self.app.request(reqwest::Method::POST, &path, &sandbox.token);
        let request = request.header("content-type", "application/json");
        crate::app::answer(request.body(content.to_owned())).await.expect(201);
        self.app.event(&sandbox, "agent.completed", json!({ "success": true })).await.expect(200);
    }

    pub async fn worker(&self, id: &str) -> Sandbox {
        self.app.worker_of(id).await
    }

    /// What the demo's agent writes, up to and with a phase; who is asked approves.
    pub async fn play_to(&self, last: &str) {
        for phase in PHASES {
            self.hand_in(phase, &output(phase).to_string()).await;
            if phase == last {
                return;
            }
            if self.show().await["status"] == "waiting" {
                self.post("/approve", json!({ "phase": phase })).await.expect(200);
            }
        }
    }

    pub async fn items(&self) -> BTreeMap<String, Value> {
        let spec = self.show().await;
        let items = spec["items"].as_array().unwrap().iter();
        items.map(|item| (text(&item["symbol"]), item.clone())).collect()
    }

    /// Every attempt so far, as phase, attempt and state.
    pub async fn attempts(&self) -> Vec<(String, i64, String)> {
        let list = self.app.get(&self.path("/phases")).await.expect(200);
        let one = |it: &Value| (text(&it["phase"]), it["attempt"].as_i64().unwrap(), text(&it["state"]));
        list.as_array().unwrap().iter().map(one).collect()
    }

    pub async fn told(&self) -> Vec<String> {
        let page = self.app.get(&self.path("/events?limit=500")).await.expect(200);
        page["items"].as_array().unwrap().iter().map(|event| text(&event["event_type"])).collect()
    }
}

on_both! {
    async fn a_judgement_that_cannot_be_stored_holds_up_no_other_spec(app: App) {
        let (first, second) = (Play::new(&app, json!({})).await, Play::new(&app, json!({})).await);
        assert!(first.id < second.id, "the oldest is looked at first");
        for play in [&first, &second] {
            play.execute().await;
            play.hand_over("explore", &output("explore").to_string()).await;
        }
        app.breaks("UPDATE ON spec_phases", &format!("NEW.spec_id = '{}'", first.id)).await;
        second.advance().await;
        assert_eq!(first.phase("explore").await["state"], "running");
        assert_ne!(second.phase("explore").await["state"], "running");
    }

    async fn execute_answers_at_once_with_the_sandbox_and_the_phase(app: App) {
        let play = Play::new(&app, json!({})).await;
        let begun = play.execute().await;
        assert_eq!((&begun["spec_id"], &begun["status"], &begun["current_phase"]), (&json!(play.id), &json!("started"), &json!("explore")));
        let sandbox = text(&begun["sandbox_id"]);
        let facts = app.store().place_facts(&sandbox.parse().unwrap()).await.unwrap();
        let spec = facts.spec.unwrap();
        assert_eq!((spec.spec_id.as_str(), spec.phase.as_str(), facts.project.id.as_str()), (play.id.as_str(), "explore", play.project.as_str()));
        assert_eq!(facts.task.unwrap().task_type, "spec_phase");
        let again = play.execute().await;
        assert_eq!((&again["status"], &again["sandbox_id"]), (&json!("already_running"), &json!(sandbox)));
        assert_eq!(play.attempts().await, [("explore".to_owned(), 1, "running".to_owned())]);
    }

    async fn a_spec_that_cannot_be_executed_says_why(app: App) {
        app.post("/api/v1/specs/spec-none/execute", json!({})).await.refused(404, "spec_not_found");
        let homeless = app.post("/api/v1/specs", json!({ "title": "An idea" })).await.expect(201);
        let path = format!("/api/v1/specs/{}", text(&homeless["id"]));
        app.post(&format!("{path}/execute"), json!({})).await.refused(400, "spec_without_project");
        app.post(&format!("{path}/execute"), json!({ "resume_from_phase": "later" })).await.refused(422, "validation_failed");
        let viewer = app.operator("ada", "viewer").await;
        let refused = app.call(reqwest::Method::POST, &format!("{path}/execute"), &viewer, Some(&json!({}))).await;
        assert_eq!(refused.status, 403);
        app.call(reqwest::Method::GET, &path, &viewer, None).await.expect(200);
        app.post("/api/v1/specs", json!({ "title": "x", "project_id": "prj-none" })).await.refused(404, "project_not_found");
        app.post("/api/v1/projects", json!({ "name": "p", "settings": { "spec": { "gates": ["desing"] } } })).await.refused(422, "validation_failed");
    }

    async fn phases_follow_each_other_past_gates_to_tasks_that_complete_the_spec(app: App) {
        let play = Play::new(&app, json!({})).await;
        play.execute().await;
        play.play_to("requirements").await;
        let spec = play.show().await;
        assert_eq!((&spec["status"], &spec["current_phase"]), (&json!("waiting"), &json!("requirements")), "{spec:#}");
        play.advance().await;
        dispatch(app.store(), 10).await.unwrap();
        assert_eq!(play.attempts().await.len(), 3, "nothing goes past a gate by itself");
        play.post("/execute", json!({})).await.refused(409, "approval_needed");
        play.post("/approve", json!({ "phase": "design" })).await.refused(409, "phase_not_waiting");
        play.post("/approve", json!({ "phase": "requirements", "version": 1 })).await.refused(409, "version_conflict");
        play.post("/approve", json!({ "phase": "requirements", "comment": "good" })).await.expect(200);
        play.post("/approve", json!({ "phase": "requirements" })).await.refused(409, "phase_not_waiting");

        play.hand_in("design", &output("design").to_string()).await;
        play.post("/approve", json!({ "phase": "design" })).await.expect(200);
        play.hand_in("tasks", &output("tasks").to_string()).await;
        assert_eq!(play.items().await.len(), 0);
        play.hand_in("sync", &output("sync").to_string()).await;
        let items = play.items().await;
        assert_eq!(items.keys().map(String::as_str).collect::<Vec<_>>(), ["TKT-001", "TKT-002", "TSK-001", "TSK-002", "TSK-003", "TSK-004", "TSK-005"]);
        let guide = app.show(&text(&items["TSK-004"]["task_id"])).await;
        let mut before: Vec<String> = ["TSK-001", "TSK-002", "TSK-003"].iter().map(|key| text(&items[*key]["task_id"])).collect();
        before.sort();
        assert_eq!((&guide["dependencies"], &guide["ticket_id"]), (&json!(before), &items["TKT-002"]["ticket_id"]));
        assert_eq!(guide["owned_files"], json!(["docs/units.md"]));

        let coverage = app.get(&play.path("/coverage")).await.expect(200);
        assert_eq!((coverage["rows"].as_array().unwrap().len(), &coverage["rows"][0]["status"]), (5, &json!("planned")));
        for key in ["TSK-001", "TSK-002", "TSK-003", "TSK-004", "TSK-005"] {
            play.advance().await;
            assert_eq!(play.show().await["status"], "executing");
            app.complete(&text(&items[key]["task_id"])).await;
        }
        play.advance().await;
        let spec = play.show().await;
        assert_eq!((&spec["status"], &spec["progress"], &spec["last_error"]), (&json!("completed"), &json!(100), &Value::Null));
        let coverage = app.get(&play.path("/coverage")).await.expect(200);
        assert_eq!((&coverage["proven_percent"], &coverage["rows"][0]["status"]), (&json!(0), &json!("done")), "nothing was checked");
        let told = play.told().await;
        for kind in ["SPEC_CREATED", "SPEC_EXECUTION_STARTED", "SPEC_PHASE_JUDGED", "SPEC_PHASE_DECIDED", "SPEC_SYNCED", "SPEC_COMPLETED"] {
            assert!(told.iter().any(|one| one == kind), "{kind} is not in {told:?}");
        }
        let data = app.get(&play.path("/phase-data")).await.expect(200);
        assert_eq!(data["phase_data"].as_object().unwrap().len(), 6);
        let audit = app.get("/api/v1/audit?limit=500").await.expect(200);
        let approved = audit["items"].as_array().unwrap().iter().filter(|line| line["action"] == "spec.phase_approved").count();
        assert_eq!(approved, 2);
    }

    async fn what_does_not_pass_is_tried_again_with_what_was_found_and_then_given_up(app: App) {
        let play = Play::new(&app, json!({})).await;
        play.execute().await;
        let mut bad = output("explore");
        bad["key_files"][0]["path"] = json!("units/lenght.py");
        play.hand_in("explore", &bad.to_string()).await;
        let second = play.phase("explore").await;
        assert_eq!((&second["attempt"], &second["state"]), (&json!(2), &json!("running")));
        let feedback = text(&second["feedback"]);
        assert!(feedback.contains("$.key_files[0].path") && feedback.contains("units/lenght.py"), "{feedback}");
        dispatch(app.store(), 10).await.unwrap();
        let sandbox = text(&play.phase("explore").await["sandbox_id"]);
        let facts = app.store().place_facts(&sandbox.parse().unwrap()).await.unwrap();
        assert_eq!(facts.feedback.as_deref(), Some(feedback.as_str()), "the next attempt is told");
        assert_eq!(facts.spec.unwrap().previous, Some(bad));
        play.hand_in("explore", "{\"codebase_summary\": 1}").await;
        let third = text(&play.phase("explore").await["feedback"]);
        assert!(third.contains("$.codebase_summary is the number 1; expected a string"), "{third}");
        play.hand_in("explore", "not JSON").await;
        let spec = play.show().await;
        assert_eq!((&spec["status"], &spec["phases"][0]["state"]), (&json!("failed"), &json!("failed")));
        assert!(text(&spec["last_error"]).contains("not JSON"), "{spec:#}");
        assert_eq!(play.attempts().await.len(), 3);
        // Whoever executes it again has three attempts anew.
        assert_eq!(play.execute().await["current_phase"], "explore");
        play.hand_in("explore", &output("explore").to_string()).await;
        assert_eq!(play.show().await["current_phase"], "prd");
    }

    async fn a_phase_whose_task_fails_for_good_fails_the_spec(app: App) {
        let play = Play::new(&app, json!({})).await;
        let sandbox = play.worker(&text(&play.execute().await["sandbox_id"])).await;
        let hopeless = json!({ "error": "no such model", "failure_kind": "invalid" });
        app.event(&sandbox, "agent.failed", hopeless).await.expect(200);
        play.advance().await;
        let spec = play.show().await;
        assert_eq!(spec["status"], "failed");
        assert!(text(&spec["last_error"]).contains("no such model"));
    }

    async fn a_phase_that_hands_in_nothing_does_not_pass(app: App) {
        let play = Play::new(&app, json!({})).await;
        let sandbox = play.worker(&text(&play.execute().await["sandbox_id"])).await;
        app.event(&sandbox, "agent.completed", json!({ "success": true })).await.expect(200);
        play.advance().await;
        let second = play.phase("explore").await;
        assert!(text(&second["feedback"]).contains("handed in no output"), "{second}");
    }

    async fn changes_that_are_asked_for_reach_the_next_attempt(app: App) {
        let play = Play::new(&app, json!({ "gates": ["explore"] })).await;
        play.execute().await;
        play.play_to("explore").await;
        play.post("/request-changes", json!({ "phase": "explore", "comment": " " })).await.refused(422, "validation_failed");
        let spec = play.post("/request-changes", json!({ "phase": "explore", "comment": "name the tests" })).await.expect(200);
        assert_eq!((&spec["status"], &spec["phases"][0]["attempt"]), (&json!("executing"), &json!(2)));
        assert!(text(&play.phase("explore").await["feedback"]).contains("name the tests"));
        play.post("/request-changes", json!({ "phase": "explore", "comment": "more" })).await.refused(409, "spec_running");
        play.play_to("explore").await;
        play.post("/approve", json!({ "phase": "explore", "comment": "now" })).await.expect(200);
        let comments = play.phase("explore").await["comments"].clone();
        let decisions: Vec<&str> = comments.as_array().unwrap().iter().map(|one| one["decision"].as_str().unwrap()).collect();
        assert_eq!(decisions, ["changes_requested", "approved"]);
        assert_eq!(play.attempts().await, [
            ("explore".to_owned(), 1, "stale".to_owned()), ("explore".to_owned(), 2, "approved".to_owned()), ("prd".to_owned(), 1, "running".to_owned()),
        ]);
    }

    async fn an_edit_by_hand_is_judged_alike_and_what_was_built_on_it_is_redone(app: App) {
        let play = Play::new(&app, json!({ "gates": ["requirements"] })).await;
        play.execute().await;
        play.play_to("requirements").await;
        let put = async |phase: &str, version: &Value, output: Value| {
            let body = json!({ "version": version, "output": output, "comment": "by hand" });
            app.call(reqwest::Method::PUT, &play.path(&format!("/phases/{phase}")), &app.token, Some(&body)).await
        };
        let version = play.show().await["version"].clone();
        put("prd", &json!(1), output("prd")).await.refused(409, "version_conflict");
        let refused = put("prd", &version, json!({ "feature_name": 1 })).await.refused(422, "output_malformed");
        assert!(text(&refused["detail"]).contains("$.feature_name"), "{refused}");
        put("prd", &version, output("prd")).await.expect(202);
        assert_eq!(play.phase("requirements").await["state"], "stale");
        play.advance().await;
        let prd = play.phase("prd").await;
        assert_eq!((&prd["state"], &prd["attempt"], &prd["task_id"]), (&json!("passed"), &json!(2), &Value::Null));
        assert_eq!(play.phase("requirements").await["state"], "running", "what was built on it is redone");
        play.hand_in("requirements", &output("requirements").to_string()).await;

        let version = play.show().await["version"].clone();
        let mut bad = output("requirements");
        bad["requirements"][0]["text"] = json!("It works.");
        put("requirements", &version, bad).await.expect(202);
        play.advance().await;
        let spec = play.show().await;
        assert_eq!(spec["status"], "failed", "nobody tries again for a person");
        assert!(text(&spec["last_error"]).contains("$.requirements[0].text"), "{spec:#}");
    }

    async fn resuming_from_a_phase_leaves_those_before_it_alone(app: App) {
        let play = Play::new(&app, json!({ "gates": ["design"] })).await;
        play.execute().await;
        play.play_to("design").await;
        let earlier = play.phase("explore").await;
        play.post("/execute", json!({ "resume_from_phase": "sync" })).await.refused(409, "phase_missing");
        let begun = play.post("/execute", json!({ "resume_from_phase": "requirements" })).await.expect(202);
        assert_eq!(begun["current_phase"], "requirements");
        assert_eq!(play.phase("explore").await, earlier, "untouched");
        play.hand_in("requirements", &output("requirements").to_string()).await;
        let attempts = play.attempts().await;
        let of = |phase: &str| attempts.iter().filter(|one| one.0 == phase).map(|one| (one.1, one.2.as_str())).collect::<Vec<_>>();
        assert_eq!(of("prd"), [(1, "passed")]);
        assert_eq!(of("requirements"), [(1, "stale"), (2, "passed")]);
        assert_eq!(of("design"), [(1, "stale"), (2, "running")]);
    }

    async fn a_second_sync_makes_nothing_twice(app: App) {
        let play = Play::new(&app, json!({ "gates": [] })).await;
        play.execute().await;
        play.play_to("sync").await;
        let items = play.items().await;
        assert_eq!(items.len(), 7);
        for item in items.values().filter(|item| !item["task_id"].is_null()) {
            app.complete(&text(&item["task_id"])).await;
        }
        play.advance().await;
        assert_eq!(play.show().await["status"], "completed");
        play.post("/execute", json!({ "resume_from_phase": "sync" })).await.expect(202);
        play.hand_in("sync", &output("sync").to_string()).await;
        let ids = |items: &BTreeMap<String, Value>| items.values().map(|item| item["task_id"].clone()).collect::<Vec<_>>();
        assert_eq!(ids(&play.items().await), ids(&items));
        assert_eq!(play.show().await["status"], "completed");
    }

    async fn claims_that_nothing_stands_behind_are_not_synced(app: App) {
        let play = Play::new(&app, json!({ "gates": [] })).await;
        play.execute().await;
        play.play_to("tasks").await;
        let mut bad = output("sync");
        bad["coverage_matrix"][0]["covered_by_tasks"] = json!(["TSK-002"]);
        play.hand_in("sync", &bad.to_string()).await;
        assert_eq!(play.items().await.len(), 0);
        let feedback = text(&play.phase("sync").await["feedback"]);
        assert!(feedback.contains("$.coverage_matrix[0].covered_by_tasks"), "{feedback}");
    }

    async fn a_task_that_fails_fails_its_spec_until_it_is_done(app: App) {
        let play = Play::new(&app, json!({ "flow": "full", "gates": [] })).await;
        play.execute().await;
        play.play_to("sync").await;
        let items = play.items().await;
        let task = |key: &str| text(&items[key]["task_id"]);
        for key in ["TSK-001", "TSK-002", "TSK-003", "TSK-004"] {
            app.complete(&task(key)).await;
        }
        app.fail(&task("TSK-005")).await;
        play.advance().await;
        let spec = play.show().await;
        assert_eq!(spec["status"], "failed");
        assert!(text(&spec["last_error"]).contains("TSK-005 (failed)"), "{spec:#}");
        app.post(&format!("/api/v1/tasks/{}/retry", task("TSK-005")), json!({})).await.expect(200);
        assert_eq!(play.execute().await["sandbox_id"], Value::Null);
        app.complete(&task("TSK-005")).await;
        play.advance().await;
        assert_eq!(play.show().await["status"], "completed");
    }

    async fn versions_say_what_changed_and_an_edit_of_an_old_one_is_refused(app: App) {
        let play = Play::new(&app, json!({})).await;
        let patched = app.patch(&play.path(""), json!({ "version": 1, "title": "All units" })).await.expect(200);
        assert_eq!((&patched["title"], &patched["version"]), (&json!("All units"), &json!(2)));
        app.patch(&play.path(""), json!({ "version": 1, "title": "No units" })).await.refused(409, "version_conflict");
        play.execute().await;
        play.hand_in("explore", &output("explore").to_string()).await;
        let versions = app.get(&play.path("/versions")).await.expect(200);
        let causes: Vec<&str> = versions["items"].as_array().unwrap().iter().map(|one| one["cause"].as_str().unwrap()).collect();
        assert_eq!(causes, ["phase_passed", "executed", "updated", "created"]);
        assert_eq!(versions["items"][0]["snapshot"]["phases"][0]["state"], "passed");
        let list = app.get(&format!("/api/v1/specs?project_id={}", play.project)).await.expect(200);
        assert_eq!((list["items"].as_array().unwrap().len(), &list["items"][0]["id"]), (1, &json!(play.id)));
    }
}

const KIRO: [(&str, &str); 3] = [
    (
        "csv-export/requirements.md",
        include_str!("../../src/domain/spec/exchange/fixtures/kiro/requirements.md"),
    ),
    ("csv-export/design.md", include_str!("../../src/domain/spec/exchange/fixtures/kiro/design.md")),
    ("csv-export/tasks.md", include_str!("../../src/domain/spec/exchange/fixtures/kiro/tasks.md")),
];

on_both! {
    async fn what_is_exported_comes_back_as_it_was(app: App) {
        let play = Play::new(&app, json!({ "gates": [] })).await;
        play.execute().await;
        play.play_to("tasks").await;
        let before = app.get(&play.path("/phase-data")).await.expect(200)["phase_data"].clone();
        assert_eq!(before.as_object().unwrap().len(), 5);
        for (layout, file) in [("json", "more-units.json"), ("kiro", ".kiro/specs/more-units/tasks.md"), ("spec_kit", "specs/001-more-units/plan.md")] {
            let exported = app.get(&play.path(&format!("/export?layout={layout}"))).await.expect(200);
            assert!(exported["files"][file].as_str().is_some_and(|text| !text.is_empty()), "{layout}: {exported}");
            let body = json!({ "project_id": play.project, "files": exported["files"] });
            let spec = app.post("/api/v1/specs/import", body).await.expect(201);
            assert_eq!((&spec["title"], &spec["status"], &spec["current_phase"]), (&json!("More units"), &json!("waiting"), &json!("requirements")));
            let path = format!("/api/v1/specs/{}", text(&spec["id"]));
            for phase in ["requirements", "design"] {
                app.post(&format!("{path}/approve"), json!({ "phase": phase })).await.expect(200);
            }
            let after = app.get(&format!("{path}/phase-data")).await.expect(200);
            assert_eq!(after["phase_data"], before, "{layout}");
            let shown = app.get(&path).await.expect(200);
            assert_eq!((&shown["status"], &shown["current_phase"]), (&json!("executing"), &json!("sync")), "only what is missing is done");
        }
    }

    async fn an_import_fetches_nothing_but_asks_for_it(app: App) {
        let play = Play::new(&app, json!({})).await;
        let body = json!({ "project_id": play.project, "files": KIRO.into_iter().collect::<BTreeMap<_, _>>() });
        let import = async || app.post("/api/v1/specs/import", body.clone()).await;
        for _ in 0..2 {
            let asked = import().await;
            assert_eq!(asked.headers["retry-after"], "2");
            asked.refused(503, "repository_not_fetched");
        }
        assert!(!play.mirrors.path(&play.project.parse().unwrap()).exists());
        assert_eq!(fetch(app.store(), &play.mirrors).await.unwrap().fetched, 1);
        import().await.expect(201);
        assert_eq!(fetch(app.store(), &play.mirrors).await.unwrap(), Default::default());

        let gone = json!({ "name": unique("project"), "repository_url": "/nonexistent/repository" });
        let gone = text(&app.post("/api/v1/projects", gone).await.expect(201)["id"]);
        let body = json!({ "project_id": gone, "files": body["files"] });
        let import = async || app.post("/api/v1/specs/import", body.clone()).await;
        import().await.refused(503, "repository_not_fetched");
        assert_eq!(fetch(app.store(), &play.mirrors).await.unwrap().failed, 1);
        let refused = import().await.refused(422, "repository_unreadable");
        assert!(text(&refused["detail"]).contains("no repository is there"), "{refused}");
        import().await.refused(503, "repository_not_fetched");
        let none = app.project("none").await;
        let body = json!({ "project_id": none, "files": body["files"] });
        app.post("/api/v1/specs/import", body).await.refused(422, "repository_unreadable");
    }

    async fn a_folder_that_was_written_by_hand_is_taken_in_and_judged(app: App) {
        let play = Play::new(&app, json!({})).await;
        play.fetched().await;
        let files: BTreeMap<&str, &str> = KIRO.into_iter().collect();
        let body = json!({ "project_id": play.project, "files": files });
        let spec = app.post("/api/v1/specs/import", body).await.expect(201);
        assert_eq!(spec["title"], "Csv export");
        let of = |name: &str| spec["phases"].as_array().unwrap().iter().find(|one| one["phase"] == name).cloned().unwrap();
        assert_eq!((&of("explore")["state"], &of("explore")["score"]), (&json!("approved"), &Value::Null), "it was left out");
        for name in ["requirements", "design", "tasks"] {
            assert!(of(name)["score"].as_f64().is_some_and(|score| score > 0.0), "{name}: {spec:#}");
        }
        let broken = json!({ "project_id": play.project, "files": { "x/requirements.md": "nothing\n", "x/plan.md": "nothing\n" } });
        let refused = app.post("/api/v1/specs/import", broken).await.refused(422, "import_unreadable");
        assert!(text(&refused["detail"]).contains("plan.md:1:"), "{refused}");
        app.post("/api/v1/specs/import", json!({ "project_id": play.project, "files": {} })).await.refused(422, "validation_failed");
    }
}
