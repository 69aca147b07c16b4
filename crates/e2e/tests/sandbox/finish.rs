//! The server dies between any two steps of what comes after a task's work: its outcome, the checks of it, the keeping and
//! the removing. Whatever the step, the history ends as if nothing had been.

use std::collections::{BTreeMap, BTreeSet};

use omoi_protocol::{ProjectId, SandboxId, live::LiveEvent};
use omoi_server::crash::Point;
use serde_json::{Value, json};

use crate::{
    dispatch::{QUICK, settings},
    git::{Mirror, Repository},
    omoi::{Omoi, data},
    traces::Traces,
};

const TYPES: [&str; 6] = [
    "TASK_ASSIGNED",
    "SANDBOX_ENDED",
    "SANDBOX_KEPT",
    "SANDBOX_REMOVED",
    "TASK_COMPLETED",
    "TASKS_UNBLOCKED",
];

/// A task with a check and one that waits for it, in a server that dies on the way and is started again.
struct History<'a> {
    omoi: &'a Omoi,
    task: String,
    waits: String,
}

impl History<'_> {
    /// Everything that became of the two and of their sandboxes, once nothing is left to do.
    async fn story(&self) -> Vec<LiveEvent> {
        let of = |event: &LiveEvent| {
            let said = data(event);
            said["task_id"] == self.task || said["completed_task_id"] == self.task
        };
        let is_over = |seen: &[LiveEvent]| {
            let sandboxes = sandboxes(&self.task, seen);
            let removed = |id: &SandboxId| count(seen, "SANDBOX_REMOVED", id) > 0;
            seen.iter().any(|event| event.event_type == "TASK_COMPLETED" && of(event))
                && sandboxes.iter().all(removed)
        };
        self.omoi.until_all(&TYPES, is_over).await
    }

    /// One owner at a time, one completion, everything kept before it is removed, and nothing left.
    async fn ends_well(&self, after: &str) -> usize {
        let seen = self.story().await;
        let own = sandboxes(&self.task, &seen);
        let mut live = 0;
        for event in &seen {
            let said = data(event);
            match event.event_type.as_str() {
                "TASK_ASSIGNED" if said["task_id"] == self.task => live += 1,
                "SANDBOX_ENDED" if said["task_id"] == self.task => live -= 1,
                _ => {}
            }
            assert!((0..=1).contains(&live), "{live} live sandboxes of one task, after {after}");
        }
        for id in &own {
            for once in ["SANDBOX_ENDED", "SANDBOX_KEPT", "SANDBOX_REMOVED"] {
                assert_eq!(count(&seen, once, id), 1, "{once} of {id} after {after}");
            }
            let at = |kind: &str| {
                seen.iter().position(|event| event.event_type == kind && is_of(event, id)).unwrap()
            };
            assert!(at("SANDBOX_ENDED") < at("SANDBOX_KEPT"), "after {after}");
            assert!(at("SANDBOX_KEPT") < at("SANDBOX_REMOVED"), "after {after}");
        }
        let of_task = |kind: &str, field: &str| {
            seen.iter().filter(|event| event.event_type == kind && data(event)[field] == self.task).count()
        };
        assert_eq!(of_task("TASK_COMPLETED", "task_id"), 1, "after {after}");
        assert_eq!(of_task("TASKS_UNBLOCKED", "completed_task_id"), 1, "after {after}");

        let evidence = self.omoi.get(&format!("/api/v1/tasks/{}/evidence", self.task)).await;
        assert_eq!(evidence["verification"], "verified", "after {after}: {evidence}");
        let waits = self.omoi.show_task(&self.waits).await;
        assert_eq!(
            (&waits["status"], &waits["unmet_dependencies"], &waits["waiting_for"]["reason"]),
            (&json!("pending"), &json!(0), &json!("not_autonomous")),
            "after {after}"
        );
        let names: Vec<String> = own.iter().map(ToString::to_string).collect();
        Traces::assert_none(&self.omoi.data(), &names);
        let references = std::fs::read_dir(self.omoi.data().join("checkouts/.references")).unwrap();
        assert_eq!(references.count(), 0, "checkouts in use after {after}");
        names.len()
    }
}

fn is_of(event: &LiveEvent, id: &SandboxId) -> bool {
    serde_json::to_value(event).unwrap()["entity_id"] == json!(id)
}

fn count(seen: &[LiveEvent], kind: &str, id: &SandboxId) -> usize {
    seen.iter().filter(|event| event.event_type == kind && is_of(event, id)).count()
}

fn sandboxes(task: &str, seen: &[LiveEvent]) -> BTreeSet<SandboxId> {
    let assigned = seen.iter().filter(|event| event.event_type == "TASK_ASSIGNED");
    let of_task = assigned.map(data).filter(|said| said["task_id"] == task);
    of_task.map(|said| said["sandbox_id"].as_str().unwrap().parse().unwrap()).collect()
}

async fn checked_project(omoi: &Omoi, repository: &Repository) -> ProjectId {
    let mut settings = settings("quick");
    settings["checks"] = json!([{ "name": "made", "command": "test -f made.txt" }]);
    omoi.project_with(repository, settings).await
}

impl Omoi {
    /// The ids of a project's tasks.
    async fn by_title(&self, project: &ProjectId) -> BTreeMap<String, String> {
        let tasks = self.get(&format!("/api/v1/tasks?project_id={project}&limit=500")).await;
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        tasks["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|task| (text(&task["title"]), text(&task["id"])))
            .collect()
    }
}

/// One history: the server dies when the point is passed for the nth time, and is started again.
async fn dies_at(omoi: &mut Omoi, project: &ProjectId, point: Point, nth: usize) {
    let after = format!("{}:{nth}", point.as_str());
    let then = format!("then {after}");
    let body = json!({ "project_id": project, "tasks": [
        { "key": "first", "title": after },
        { "key": "then", "title": then, "depends_on": ["first"], "execution_config": { "autonomous": false } },
    ] });
    let tasks = loop {
        omoi.kill().await;
        omoi.start_again_until(point, nth).await;
        // The answer is lost where the server dies at once.
        let made = omoi.http.post(format!("{}/api/v1/tasks/batch", omoi.url())).bearer_auth(omoi.token());
        let answered = made.json(&body).send().await.is_ok_and(|answer| answer.status().is_success());
        omoi.died().await;
        omoi.start_again().await;
        let tasks = omoi.by_title(project).await;
        if tasks.contains_key(&after) {
            break tasks;
        }
        // It may die in the transaction that was to store them, if dispatch looks in the same one.
        assert!(!answered, "tasks that were acknowledged are lost, after {after}");
    };
    let of = |title: &str| tasks[title].clone();
    let history = History { omoi, task: of(&after), waits: of(&then) };
    let attempts = history.ends_well(&after).await;
    assert_eq!(attempts, 2, "its work and its checks are each done once, after {after}");
}

async fn dies_at_each(nth: usize) {
    let mut omoi = Omoi::with_scenarios(&[("quick", QUICK)]).await;
    let repository = Repository::small();
    let project = checked_project(&omoi, &repository).await;
    for point in Point::ALL {
        dies_at(&mut omoi, &project, point, nth).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_dies_between_any_two_steps_after_the_work_proves_and_completes_it_once() {
    dies_at_each(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_dies_between_any_two_steps_after_the_checks_completes_the_task_once() {
    dies_at_each(2).await;
}

/// Work that nobody has committed is in nothing but the sandbox until it is kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_dies_while_it_ends_a_sandbox_keeps_its_work_once() {
    let mut omoi = Omoi::start(crate::omoi::As::Root).await;
    let project = omoi.small_project().await;
    let of_ending = Point::ALL.into_iter().skip_while(|point| *point != Point::Ending);
    for point in of_ending {
        let script = format!("echo {} > work; echo ready; exec sleep 1000", point.as_str());
        let command = json!({ "command": ["/bin/sh", "-c", script], "memory_gb": 1, "disk_gb": 1 });
        let id = omoi.order_with(&project, command).await;
        omoi.until_event(&id, "command.output").await;
        omoi.kill().await;
        omoi.start_again_until(point, 1).await;
        let terminate = format!("{}/api/v1/sandboxes/{id}/terminate", omoi.url());
        let _ = omoi.http.post(terminate).bearer_auth(omoi.token()).json(&json!({})).send().await;
        omoi.died().await;
        omoi.start_again().await;
        if omoi.sandbox(&id).await.status.is_live() {
            assert_eq!(point, Point::Ending, "what was not committed is asked for again");
            omoi.terminate(&id).await;
        }
        let seen = omoi.gone(&id).await;
        let kept = omoi.sandbox(&id).await.kept.unwrap();
        let mirror = Mirror::of(&omoi.data(), &project);
        assert_eq!(mirror.file(kept.reference.as_deref().unwrap(), "work"), point.as_str());
        for once in ["SANDBOX_ENDED", "sandbox.preserved", "SANDBOX_KEPT", "SANDBOX_REMOVED"] {
            let told = seen.iter().filter(|event| event.event_type == once).count();
            assert_eq!(told, 1, "{once} after {}", point.as_str());
        }
        Traces::assert_none(&omoi.data(), &[id.to_string()]);
    }
}
