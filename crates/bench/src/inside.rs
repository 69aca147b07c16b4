//! A store in this very process, with what loops do on it. What a tick costs cannot be told from outside a server, which
//! runs many of them and answers requests besides.

use anyhow::Context;
use omoi_protocol::{
    AgentId, EventSource, ProjectId, RepositoryReach, SandboxId, TaskId, batch::NewTaskBatch,
    event::NewEvent, sandbox::Kept,
};
use omoi_server::{
    clock::Clock,
    config::{Config, DatabaseUrl},
    store::{BatchMade, Dispatched, Store},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{bench::Bench, copies::Copies, place::Place, proc::Meter};

const ACTOR: &str = "bench";
/// A machine that is not this one, so that nobody looks for its sandboxes here.
pub const NODE: &str = "elsewhere";
/// Tasks and sandboxes that may live together.
const MANY: i64 = 10_000;
/// Sandboxes that are brought up side by side.
const TOGETHER: usize = 50;

pub struct Inside {
    pub store: Store,
    pub clock: Clock,
    pub meter: Meter,
    pub project: ProjectId,
    pub config: Config,
    copies: Copies,
}

impl Inside {
    /// An empty store on a place, with one project in which nothing is held back.
    pub async fn open(bench: &Bench, place: &Place) -> anyhow::Result<Self> {
        let mut config = Config { data_dir: place.dir().to_owned(), ..Config::default() };
        if let Some(url) = place.database_url() {
            config.database.url = DatabaseUrl::Postgres(url.to_owned().into());
        }
        config.dispatch.max_live = u32::try_from(MANY)?;
        // It needs no key.
        config.worker.model = "scripted/nothing".to_owned();
        let clock = Clock::Real;
        let store = Store::open(&config, clock.clone(), Box::new(|_| {})).await?;
        let project = json!({ "name": "inside", "repository_url": "/nowhere", "max_concurrent": MANY });
        let project = store.project_create(ACTOR, read(project)?, RepositoryReach::Any).await?.id;
        let meter = place.meter(bench, std::process::id());
        Ok(Self { store, clock, meter, project, config, copies: Copies::open(bench, place).await? })
    }

    /// So many more tasks wait, or a few more than that.
    pub async fn pending(&self, count: u64) -> anyhow::Result<()> {
        let task =
            |priority: &str| json!({ "key": priority, "title": "Repair a part", "priority": priority });
        let tasks = ["LOW", "MEDIUM", "HIGH"].map(task);
        let kinds = tasks.len() as u64;
        let batch: NewTaskBatch = read(json!({ "project_id": self.project, "tasks": tasks }))?;
        let (BatchMade::Now(made) | BatchMade::Before(made)) = self.store.batch_create(ACTOR, batch).await?;
        let ids: Vec<TaskId> = made.tasks.into_values().map(|task| task.id).collect();
        match count.div_ceil(kinds) - 1 {
            0 => Ok(()),
            more => self.copies.make(&ids, more).await,
        }
    }

    /// So many sandboxes work on tasks, on another machine.
    pub async fn live(&self, count: usize) -> anyhow::Result<Vec<SandboxId>> {
        self.pending(count as u64).await?;
        let mut all = Vec::with_capacity(count);
        for begun in (0..count).step_by(TOGETHER) {
            let mut ids = Vec::with_capacity(TOGETHER);
            for _ in begun..count.min(begun + TOGETHER) {
                ids.push(self.dispatched().await?.context("nothing was dispatched")?);
            }
            // One after the other for each of them, and for all of them at once.
            let mut lives = JoinSet::new();
            for id in &ids {
                lives.spawn(bring_up(self.store.clone(), id.clone()));
            }
            while let Some(up) = lives.join_next().await {
                up??;
            }
            all.extend(ids);
        }
        Ok(all)
    }

    /// The sandbox that dispatch orders next.
    pub async fn dispatched(&self) -> anyhow::Result<Option<SandboxId>> {
        Ok(match self.store.task_dispatch_next().await? {
            Some(Dispatched::Ordered(id)) => Some(id),
            Some(Dispatched::Refused(id, why)) => anyhow::bail!("task {id}: {why}"),
            Some(Dispatched::WithoutKey(id, missing)) => anyhow::bail!("task {id}: {missing}"),
            None => None,
        })
    }

    /// A task that does nothing, from its order until nothing is left of its sandbox: all that the store does for it.
    pub async fn live_once(&self) -> anyhow::Result<()> {
        let id = self.dispatched().await?.context("nothing was dispatched")?;
        self.store.place_take(&id, NODE, MANY).await?;
        self.store.place_facts(&id).await?;
        self.store.place_up(&id, json!({})).await?;
        self.store.event_append(&id, vec![event("agent.started", &json!({}))?]).await?;
        self.store.event_append(&id, vec![event("agent.completed", &json!({ "success": true }))?]).await?;
        self.store.place_kept(&id, Kept::default(), 0).await?;
        self.store.place_gone(&id).await?;
        Ok(())
    }

    /// Somebody who claims.
    pub async fn agent(&self) -> anyhow::Result<AgentId> {
        Ok(self.store.agent_create(ACTOR, read(json!({ "name": "claimer" }))?).await?.id)
    }
}

async fn bring_up(store: Store, id: SandboxId) -> anyhow::Result<()> {
    store.place_take(&id, NODE, MANY).await?;
    store.place_up(&id, json!({})).await?;
    let beat = json!({ "status": "running", "cpu_seconds": 1.5, "io_bytes": 4096 });
    let events = vec![
        event("agent.started", &json!({}))?,
        event("agent.tool_use", &json!({ "tool": "Bash", "input": { "command": "make test" } }))?,
        event("agent.heartbeat", &beat)?,
    ];
    store.event_append(&id, events).await?;
    Ok(())
}

fn read<T: DeserializeOwned>(value: Value) -> anyhow::Result<T> {
    Ok(serde_json::from_value(value)?)
}

fn event(event_type: &str, data: &Value) -> anyhow::Result<NewEvent> {
    Ok(NewEvent {
        event_type: event_type.to_owned(),
        event_data: serde_json::value::to_raw_value(data)?,
        source: EventSource::Worker,
        worker_seq: None,
    })
}
