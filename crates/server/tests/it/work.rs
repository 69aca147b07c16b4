//! What tests about work need of the server: tickets, agents and their claims, everything it has told, and the
//! database behind its back.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use omoi_server::config::DatabaseUrl;
use reqwest::Method;
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use crate::app::{Answer, App, Sandbox, execute, unique};

pub const SECOND: Duration = Duration::from_secs(1);
pub const MINUTE: Duration = Duration::from_secs(60);
/// How long a sandbox holds its task by default.
pub const LEASE: Duration = Duration::from_secs(120);

impl App {
    pub async fn delete(&self, path: &str) -> Answer {
        self.call(Method::DELETE, path, &self.token, None).await
    }

    /// An operator's token of this role.
    pub async fn operator(&self, name: &str, role: &str) -> String {
        let made = self.post("/api/v1/tokens", json!({ "name": name, "role": role })).await.expect(201);
        text(&made["secret"])
    }

    pub async fn ticket(&self, project: &str, more: Value) -> Value {
        let mut body = json!({ "project_id": project, "title": "let people log in" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.post("/api/v1/tickets", body).await.expect(201)
    }

    /// The task as it is now.
    pub async fn show(&self, task: &str) -> Value {
        self.get(&format!("/api/v1/tasks/{task}")).await.expect(200)
    }

    pub async fn show_sandbox(&self, sandbox: &Sandbox) -> Value {
        self.get(&format!("/api/v1/sandboxes/{}", sandbox.id)).await.expect(200)
    }

    pub async fn agent(&self, capabilities: &[&str]) -> String {
        let body = json!({ "name": unique("agent"), "capabilities": capabilities });
        text(&self.post("/api/v1/agents", body).await.expect(201)["id"])
    }

    /// What the agent is given to do, if anything.
    pub async fn claim(&self, agent: &str) -> Option<Value> {
        let answer = self.post(&format!("/api/v1/agents/{agent}/claim"), json!({})).await;
        match answer.status.as_u16() {
            204 => None,
            _ => Some(answer.expect(200)),
        }
    }

    /// The sandbox of whatever the agent is given to do.
    pub async fn claimed(&self, agent: &str) -> Sandbox {
        sandbox_of(&self.claim(agent).await.expect("there is something to do"))
    }

    pub async fn attached_to(&self, task: &str) -> Sandbox {
        self.attach(json!({ "task_id": task })).await
    }

    /// Runs a new attempt at the task that fails for good.
    pub async fn fail(&self, task: &str) {
        let sandbox = self.attached_to(task).await;
        let hopeless = json!({ "error": "no such repository", "failure_kind": "invalid" });
        self.event(&sandbox, "agent.failed", hopeless).await.expect(200);
        assert_eq!(self.task_status(task).await, "failed");
    }

    pub async fn complete(&self, task: &str) {
        let sandbox = self.attached_to(task).await;
        self.event(&sandbox, "agent.completed", json!({})).await.expect(200);
        assert_eq!(self.task_status(task).await, "completed");
    }

    pub async fn cancel(&self, task: &str) -> Value {
        self.post(&format!("/api/v1/tasks/{task}/cancel"), json!({})).await.expect(200)
    }

    /// This long from now, as text.
    pub fn after(&self, wait: Duration) -> String {
        (self.now() + SignedDuration::try_from(wait).unwrap()).to_string()
    }

    /// Every item of a list, asked for in pages of this size.
    pub async fn pages(&self, path: &str, limit: usize) -> Vec<Value> {
        let join = if path.contains('?') { '&' } else { '?' };
        let mut items = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = self.get(&format!("{path}{join}limit={limit}{cursor}")).await.expect(200);
            let page_items = page["items"].as_array().unwrap();
            items.extend(page_items.iter().cloned());
            let Some(next) = page["next"].as_str() else { return items };
            assert_eq!(page_items.len(), limit, "only the last page is short");
            cursor = format!("&cursor={next}");
        }
    }

    /// Everything that live viewers were told since the start, in order.
    pub async fn told(&self) -> Vec<Value> {
        let last = self.project(&unique("last")).await;
        let url = format!("{}/api/v1/stream?since=0", self.base);
        let mut stream = self.http.get(url).bearer_auth(&self.token).send().await.unwrap();
        let (mut events, mut bytes) = (Vec::new(), Vec::new());
        while let Some(chunk) = stream.chunk().await.unwrap() {
            bytes.extend_from_slice(&chunk);
            while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = bytes.drain(..=end).collect();
                let Some(data) = line.strip_prefix(b"data: ") else { continue };
                let event: Value = serde_json::from_slice(data).unwrap();
                if event["type"] == "hello" {
                    continue;
                }
                if event["entity_id"] == last.as_str() {
                    return events;
                }
                events.push(event);
            }
        }
        panic!("the stream ended early");
    }

    /// What viewers were told of one kind: payloads, in order.
    pub async fn told_of(&self, event_type: &str) -> Vec<Value> {
        let told = self.told().await.into_iter().filter(|event| event["event_type"] == event_type);
        told.map(|event| event["payload"].clone()).collect()
    }

    /// Changes the database behind the server's back.
    pub async fn sql(&self, sql: &str) {
        match &self.config.database.url {
            DatabaseUrl::Postgres(url) => execute(url.expose_secret(), sql).await,
            _ => self.sqlite().execute_batch(sql).unwrap(),
        }
    }

    /// Lets the database fail at a change of rows: `("UPDATE ON tasks", "NEW.id = 'x'")`. On PostgreSQL that is as if it took
    /// too long.
    pub async fn breaks(&self, change: &str, when: &str) {
        let sql = match &self.config.database.url {
            DatabaseUrl::Postgres(_) => format!(
                "CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS \
                 $$ BEGIN RAISE EXCEPTION 'broken' USING ERRCODE = '57014'; END $$; \
                 CREATE TRIGGER broken BEFORE {change} FOR EACH ROW WHEN ({when}) EXECUTE FUNCTION broken()"
            ),
            _ => format!(
                "CREATE TRIGGER broken BEFORE {change} WHEN {when} BEGIN SELECT RAISE(ABORT, 'broken'); END"
            ),
        };
        self.sql(&sql).await;
    }

    /// The first column of what the database answers, as text.
    pub async fn column(&self, sql: &str) -> Vec<String> {
        let DatabaseUrl::Postgres(url) = &self.config.database.url else {
            let conn = self.sqlite();
            let mut statement = conn.prepare(sql).unwrap();
            let rows = statement.query_map([], |row| row.get(0)).unwrap();
            return rows.map(Result::unwrap).collect();
        };
        let (client, connection) =
            tokio_postgres::connect(url.expose_secret(), tokio_postgres::NoTls).await.unwrap();
        let driving = tokio::spawn(connection);
        let rows = client.query(sql, &[]).await.unwrap();
        drop(client);
        driving.await.unwrap().unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    pub async fn sql_fails(&self, sql: &str) -> String {
        match &self.config.database.url {
            DatabaseUrl::Postgres(url) => {
                let (client, connection) =
                    tokio_postgres::connect(url.expose_secret(), tokio_postgres::NoTls).await.unwrap();
                let driving = tokio::spawn(connection);
                let error = client.batch_execute(sql).await.unwrap_err();
                drop(client);
                driving.await.unwrap().unwrap();
                error.as_db_error().unwrap().message().to_owned()
            }
            _ => self.sqlite().execute_batch(sql).unwrap_err().to_string(),
        }
    }

    fn sqlite(&self) -> rusqlite::Connection {
        let conn = rusqlite::Connection::open(self.config.data_dir.join("omoi.db")).unwrap();
        conn.busy_timeout(Duration::from_secs(10)).unwrap();
        conn
    }
}

/// The sandbox in the answer to a claim.
pub fn sandbox_of(claim: &Value) -> Sandbox {
    Sandbox {
        id: text(&claim["sandbox"]["id"]),
        token: text(&claim["token"]),
        task: claim["task"]["id"].as_str().map(str::to_owned),
    }
}

#[track_caller]
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is not text")).to_owned()
}

/// The ids of a list's items.
pub fn ids(items: &[Value]) -> Vec<String> {
    items.iter().map(|item| text(&item["id"])).collect()
}

#[track_caller]
pub fn time(value: &Value) -> Timestamp {
    value.as_str().unwrap_or_else(|| panic!("{value} is no time")).parse().unwrap()
}
