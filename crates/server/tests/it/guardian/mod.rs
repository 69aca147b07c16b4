//! The Guardian over a real store: what it finds while sandboxes work, what it does about it, and that neither a crash nor
//! a second look loses or repeats any of it.

mod decide;
mod judge;
mod policy;
mod restart;
mod stranger;
mod watch;

use omoi_server::{
    orchestrator::{Guardian, Node},
    usual::Usual,
};
use reqwest::Method;
use serde_json::{Value, json};

use crate::app::{Answer, App, Sandbox, unique};

/// Steering is on, and nothing cools down.
pub const ON: &str = "steering: on\nlimits: { interventions: 20, cool_down: 0s }\nrules:\n\
     - { on: repeated_action, do: nudge, text: 'Look: {finding}' }\n\
     - { on: forbidden_command, do: terminate, text: 'Not that' }\n\
     - { on: same_error, do: ask, text: 'Somebody look: {finding}' }\n\
     - { on: unanswered_question, do: pause, text: 'Wait' }\n";

/// The Guardian of a test: it looks when it is told to.
pub struct Eye {
    pub node: Node,
    guardian: Guardian,
    _dir: tempfile::TempDir,
}

impl Eye {
    pub fn open(app: &App) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let node = Node::open(dir.path()).unwrap();
        let guardian = Self::guardian(app, &node);
        Self { node, guardian, _dir: dir }
    }

    fn guardian(app: &App, node: &Node) -> Guardian {
        let usual = Usual::load(None).unwrap().policy;
        let guardian = Guardian::new(app.store().clone(), app.clock.clone(), node.clone(), usual);
        if app.config.judge.enabled { guardian.with_judge() } else { guardian }
    }

    pub async fn look(&self) {
        self.guardian.tick().await.unwrap();
    }

    /// All that it remembers is gone.
    pub fn forget(&mut self, app: &App) {
        self.guardian = Self::guardian(app, &self.node);
    }
}

impl App {
    pub async fn set_policy(&self, project: &str, text: &str) -> Answer {
        let path = format!("/api/v1/projects/{project}/policy");
        self.call(Method::PUT, &path, &self.token, Some(&json!({ "text": text }))).await
    }

    /// A sandbox that works on a task of a project with a policy.
    pub async fn watched(&self, policy: &str) -> (String, Sandbox) {
        let project = self.project(&unique("project")).await;
        self.set_policy(&project, policy).await.expect(200);
        let task = self.task(&project, json!({})).await;
        let sandbox = self.attach(json!({ "task_id": task })).await;
        self.event(&sandbox, "agent.started", json!({ "task": "Mend the parser", "mode": "implementation" }))
            .await
            .expect(200);
        (project, sandbox)
    }

    /// One call and what comes of it.
    pub async fn step(&self, sandbox: &Sandbox, command: &str, result: &str, failed: bool) {
        let id = unique("call");
        let call = json!({ "tool": "Bash", "tool_use_id": id, "input": { "command": command } });
        self.event(sandbox, "agent.tool_use", call).await.expect(200);
        let done = json!({ "tool_use_id": id, "result": result, "is_error": failed });
        self.event(sandbox, "agent.tool_result", done).await.expect(200);
    }

    /// The same call, often enough to be noticed.
    pub async fn circle(&self, sandbox: &Sandbox) {
        for _ in 0..6 {
            self.step(sandbox, "grep -n discount price.py", "12: discount", false).await;
        }
    }

    pub async fn items(&self, path: &str) -> Vec<Value> {
        self.get(path).await.expect(200)["items"].as_array().unwrap().clone()
    }

    pub async fn findings(&self, sandbox: &Sandbox) -> Vec<Value> {
        self.items(&format!("/api/v1/findings?sandbox_id={}", sandbox.id)).await
    }

    pub async fn interventions(&self, sandbox: &Sandbox) -> Vec<Value> {
        self.items(&format!("/api/v1/interventions?sandbox_id={}", sandbox.id)).await
    }

    pub async fn own_events(&self, sandbox: &Sandbox, event_type: &str) -> Vec<Value> {
        let page = self
            .get(&format!("/api/v1/sandboxes/{}/events?limit=500&event_type={event_type}", sandbox.id))
            .await;
        let events = page.expect(200)["events"].as_array().unwrap().clone();
        events.into_iter().rev().map(|event| event["event_data"].clone()).collect()
    }
}
