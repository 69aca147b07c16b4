//! Many processes on one PostgreSQL: each task goes to one of them, and who lost it changes nothing any more.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use futures_util::{StreamExt, future::join_all, stream};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    place::{Place, Served, http},
    reader::parse,
};

const PROCESSES: usize = 16;
const TASKS: usize = 2_000;
/// Requests under way at once in each process.
const CLAIMERS: usize = 8;
const LIMIT: Duration = Duration::from_secs(150);
/// A lease that has run out counts until a loop looks at it, and at first there is no loop.
const ENV: &[(&str, &str)] = &[
    ("OMOI_LEASE_DURATION", "1s"),
    ("OMOI_AGENT_HEARTBEAT_TTL_IDLE", "500ms"),
    ("OMOI_AGENT_HEARTBEAT_TTL_RUNNING", "500ms"),
    ("OMOI_RETRY_BASE", "1h"),
    ("OMOI_RETRY_CAP", "1h"),
    ("OMOI_DATABASE_POOL_SIZE", "1"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_processes_claim_each_task_once() {
    let place = Place::postgres().await;
    if timeout(LIMIT, Box::pin(run(&place))).await.is_err() {
        panic!("it does not come to an end; the servers said: {}", place.last_words());
    }
}

async fn run(place: &Place) {
    let cluster = Cluster::start(place).await;
    let tasks = cluster.make_tasks().await;

    let claims = cluster.claim_all().await;
    let claimed: Vec<&str> = claims.iter().map(Claim::task).collect();
    assert_eq!(claimed.len(), TASKS, "each once");
    assert_eq!(claimed.iter().copied().collect::<HashSet<_>>(), tasks.iter().map(String::as_str).collect());
    let sandboxes: HashSet<&str> = claims.iter().map(Claim::sandbox).collect();
    assert_eq!(sandboxes.len(), TASKS);
    let processes: HashSet<usize> = claims.iter().map(|claim| claim.process).collect();
    assert!(processes.len() > PROCESSES / 2, "only {processes:?} took part");
    for task in cluster.tasks().await.values() {
        assert_eq!((&task["status"], &task["retry_count"]), (&json!("assigned"), &json!(0)), "{task}");
    }

    // Now a loop looks, and every lease has passed.
    let loops = place.serve("127.0.0.1:0", &["--role", "orchestrator"], ENV).await;
    cluster.hear("TASK_RETRY_SCHEDULED", TASKS).await;
    loops.kill().await;
    let offered = cluster.tasks().await;
    for task in offered.values() {
        assert_eq!((&task["status"], &task["retry_count"]), (&json!("pending"), &json!(1)), "{task}");
    }

    // The sandboxes that held tasks report to any process. Their reports change nothing while other sandboxes hold the
    // tasks, and nothing after those are done.
    let late = ["agent.completed", "agent.failed", "agent.started", "continuous.completed"];
    let some = &claims[..200];
    let holders = cluster.attach_all(some).await;
    let held = without_scores(cluster.tasks().await);
    cluster.report_all(some, |n| late[(n + 1) % late.len()], "lease_passed_on").await;
    assert_eq!(without_scores(cluster.tasks().await), held);
    cluster.complete_all(&holders).await;
    let done = without_scores(cluster.tasks().await);
    cluster.report_all(some, |n| late[(n + 2) % late.len()], "task_final").await;
    assert_eq!(without_scores(cluster.tasks().await), done);
    let completed = done.values().filter(|task| task["status"] == "completed").count();
    assert_eq!(completed, some.len());
}

struct Claim {
    /// Through which it was made.
    process: usize,
    answer: Value,
}

impl Claim {
    fn task(&self) -> &str {
        self.answer["sandbox"]["task_id"].as_str().unwrap()
    }

    fn sandbox(&self) -> &str {
        self.answer["sandbox"]["id"].as_str().unwrap()
    }

    fn token(&self) -> &str {
        self.answer["token"].as_str().unwrap()
    }
}

struct Cluster {
    servers: Vec<Served>,
    http: reqwest::Client,
    token: String,
}

impl Cluster {
    async fn start(place: &Place) -> Self {
        let serve = || place.serve("127.0.0.1:0", &["--role", "api"], ENV);
        let first = serve().await;
        let token = first.first_token.clone().unwrap();
        let mut servers = vec![first];
        servers.extend(join_all((1..PROCESSES).map(|_| serve())).await);
        assert_eq!(servers.iter().filter(|server| server.first_token.is_some()).count(), 1);
        Self { servers, http: http(), token }
    }

    async fn make_tasks(&self) -> Vec<String> {
        let project = json!({ "name": "parser", "max_concurrent": TASKS });
        let project = self.post(0, "/api/v1/projects", &self.token, &project).await;
        let new = json!({ "project_id": project["id"], "title": "fix the parser" });
        let made = stream::iter(0..TASKS).map(|_| self.post(0, "/api/v1/tasks", &self.token, &new));
        let made = made.buffer_unordered(64).map(|task| task["id"].as_str().unwrap().to_owned());
        made.collect().await
    }

    /// All processes claim at once, each until it finds nothing more.
    async fn claim_all(&self) -> Vec<Claim> {
        let mut agents = Vec::new();
        for n in 0..PROCESSES {
            let new = json!({ "name": format!("agent {n}") });
            let agent = self.post(n, "/api/v1/agents", &self.token, &new).await;
            agents.push(format!("/api/v1/agents/{}/claim", agent["id"].as_str().unwrap()));
        }
        let claimers = (0..PROCESSES * CLAIMERS).map(async |n| {
            let process = n % PROCESSES;
            let mut claims = Vec::new();
            loop {
                let answer = self.post(process, &agents[process], &self.token, &json!({})).await;
                if answer.is_null() {
                    return claims;
                }
                claims.push(Claim { process, answer });
            }
        });
        join_all(claimers).await.into_iter().flatten().collect()
    }

    /// Every task by its id.
    async fn tasks(&self) -> HashMap<String, Value> {
        let mut tasks = HashMap::new();
        let mut path = "/api/v1/tasks?limit=500".to_owned();
        loop {
            let page = self.get(0, &path).await;
            for task in page["items"].as_array().unwrap() {
                tasks.insert(task["id"].as_str().unwrap().to_owned(), task.clone());
            }
            let Some(next) = page["next"].as_str() else { break };
            path = format!("/api/v1/tasks?limit=500&cursor={next}");
        }
        assert_eq!(tasks.len(), TASKS);
        tasks
    }

    /// Waits until this many events of a kind have been told since the start, each of another entity.
    async fn hear(&self, event_type: &str, count: usize) {
        let url = format!("{}/api/v1/stream?since=0&event_types={event_type}", self.servers[7].url);
        let mut stream = self.http.get(url).bearer_auth(&self.token).send().await.unwrap();
        let (mut bytes, mut heard) = (Vec::new(), HashSet::new());
        while heard.len() < count {
            bytes.extend_from_slice(&stream.chunk().await.unwrap().expect("the stream goes on"));
            while let Some(end) = bytes.windows(2).position(|pair| pair == b"\n\n") {
                let frame: Vec<u8> = bytes.drain(..end + 2).collect();
                let Some(event) = parse(std::str::from_utf8(&frame).unwrap()) else { continue };
                assert!(heard.insert(event["entity_id"].to_string()), "twice: {event}");
            }
        }
    }

    /// Each of them reports once, through another process than the one it claimed through.
    async fn report_all(&self, claims: &[Claim], event_type: impl Fn(usize) -> &'static str, refused: &str) {
        let reports = stream::iter(claims.iter().enumerate()).map(async |(n, claim)| {
            let event = json!({ "event_type": event_type(n), "event_data": { "failure_kind": "invalid" } });
            let path = format!("/api/v1/sandboxes/{}/events", claim.sandbox());
            let answer = self.post((claim.process + 1) % PROCESSES, &path, claim.token(), &event).await;
            let said = (&answer["status"], &answer["refused"]);
            assert_eq!(said, (&json!("received"), &json!(refused)), "{event} was answered {answer}");
        });
        reports.buffer_unordered(64).collect::<Vec<_>>().await;
    }

    async fn attach_all(&self, to: &[Claim]) -> Vec<Claim> {
        let attached = stream::iter(to.iter().enumerate()).map(async |(n, claim)| {
            let new = json!({ "task_id": claim.task() });
            let process = n % PROCESSES;
            let answer = self.post(process, "/api/v1/sandboxes", &self.token, &new).await;
            assert_eq!(answer["sandbox"]["generation"], 2, "{answer}");
            Claim { process, answer }
        });
        attached.buffer_unordered(64).collect().await
    }

    async fn complete_all(&self, holders: &[Claim]) {
        let completed = stream::iter(holders).map(async |holder| {
            let path = format!("/api/v1/sandboxes/{}/task-complete", holder.sandbox());
            let said = json!({ "task_id": holder.task() });
            let answer = self.post(holder.process, &path, holder.token(), &said).await;
            assert_eq!(answer["new_status"], "completed", "{answer}");
        });
        completed.buffer_unordered(64).collect::<Vec<_>>().await;
    }

    async fn get(&self, process: usize, path: &str) -> Value {
        let url = format!("{}{path}", self.servers[process].url);
        self.answer(self.http.get(url), &self.token).await
    }

    async fn post(&self, process: usize, path: &str, token: &str, body: &Value) -> Value {
        let url = format!("{}{path}", self.servers[process].url);
        self.answer(self.http.post(url).json(body), token).await
    }

    /// Nothing for an answer without content.
    async fn answer(&self, request: reqwest::RequestBuilder, token: &str) -> Value {
        let response = request.bearer_auth(token).send().await.unwrap();
        let (status, body) = (response.status(), response.bytes().await.unwrap());
        assert!(status.is_success(), "{status} {}", String::from_utf8_lossy(&body));
        if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() }
    }
}

/// The score is that of the moment of asking.
fn without_scores(mut tasks: HashMap<String, Value>) -> HashMap<String, Value> {
    for task in tasks.values_mut() {
        task.as_object_mut().unwrap().remove("score");
    }
    tasks
}
