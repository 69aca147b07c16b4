//! A server that makes sandboxes on this machine, and what its live stream tells of them. Whatever happens, nothing of
//! them stays: they would outlive the server and this program.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use omoi_launcher::Launcher;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, timeout_at};

use crate::{
    bench::Bench,
    omoi::{Omoi, last_words, text},
    place::{Kind, Place},
    report::median,
    repository,
    viewer::Viewer,
    wire::Conn,
};

pub const BOOTING: &str = "SANDBOX_sandbox.booting";
pub const READY: &str = "SANDBOX_workspace.ready";
pub const ENDED: &str = "SANDBOX_ENDED";
pub const REMOVED: &str = "SANDBOX_REMOVED";
const FAILED: &str = "SANDBOX_FAILED";
const ASSIGNED: &str = "TASK_ASSIGNED";
const COMPLETED: &str = "TASK_COMPLETED";
/// What a model answers that has nothing to do.
const NOTHING: &str = "about: nothing\nsteps:\n  - { name: end, say: There is nothing to do., end: true }\n";
const PATIENCE: Duration = Duration::from_secs(120);
/// A launcher that was at work when its server ended may still bring one forth.
const CLEAR_ROUNDS: usize = 3;

/// What a server needs beside itself to make sandboxes.
pub struct Programs {
    pub launcher: PathBuf,
    pub worker: PathBuf,
}

impl Programs {
    pub fn beside(omoi: &Path) -> anyhow::Result<Self> {
        let find = |name: &str| {
            let path = omoi.with_file_name(name);
            ensure!(path.is_file(), "{} is missing: build it with scripts/static", path.display());
            Ok(path)
        };
        Ok(Self { launcher: find("omoi-launcher")?, worker: find("omoi-worker")? })
    }
}

pub struct Sandboxes {
    omoi: Option<Omoi>,
    pub pid: u32,
    pub project: String,
    programs: Programs,
    conn: Conn,
    live: Viewer,
    place: Place,
}

/// When it was first told of each type of event, from the request on.
pub type Life = BTreeMap<String, Duration>;

/// A task, from the request on.
#[derive(Debug, Default)]
pub struct Work {
    pub assigned: Duration,
    /// From the order of each of its sandboxes until its workspace was ready, all together.
    pub starts: Duration,
    pub completed: Duration,
    /// When each thing was told of first, until it was completed: where the time goes.
    pub steps: Life,
}

impl Sandboxes {
    /// A server with one project, of a repository made for it.
    pub async fn start(bench: &Bench, kind: Kind, programs: Programs) -> anyhow::Result<Self> {
        let place = Place::fresh(bench, kind).await?;
        let repository = repository::make(place.dir())?;
        let scenarios = place.scenarios();
        fs::create_dir(&scenarios)?;
        fs::write(scenarios.join("nothing.yaml"), NOTHING)?;
        let omoi = Omoi::start(bench, &place).await?;
        // Where nobody asks otherwise, an agent that does nothing.
        let settings = json!({ "model": "scripted/nothing", "memory_gb": 1, "cpu": 1, "disk_gb": 1 });
        let body = json!({ "name": "sandboxes", "repository_url": repository, "settings": settings });
        let project = text(&omoi.call(&omoi.post("/api/v1/projects", &body)).await?["id"])?;
        let live = Viewer::open(omoi.at, &omoi.token, "entity_types=sandbox,task", None).await?;
        let conn = Conn::open(omoi.at).await?;
        Ok(Self { pid: omoi.pid, omoi: Some(omoi), project, programs, conn, live, place })
    }

    pub fn data(&self) -> &Path {
        self.place.dir()
    }

    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// Asks for one that runs a command.
    pub async fn order(&mut self, argv: &[&str]) -> anyhow::Result<String> {
        let body = json!({ "command": argv, "memory_gb": 1, "cpu": 1, "disk_gb": 1 });
        let omoi = self.omoi.as_ref().context("the server has ended")?;
        let request = omoi.post(&format!("/api/v1/projects/{}/sandboxes", self.project), &body);
        text(&self.conn.ask_json(&request).await?["id"])
    }

    /// One from the request until nothing is left of it.
    pub async fn live_once(&mut self, argv: &[&str]) -> anyhow::Result<Life> {
        let began = Instant::now();
        let id = self.order(argv).await?;
        let mut life = Life::new();
        self.watch(|of, event_type, at| {
            if of == id {
                life.entry(event_type.to_owned()).or_insert(at - began);
            }
            of == id && event_type == REMOVED
        })
        .await?;
        Ok(life)
    }

    /// A task that does nothing, from the request until nothing is left of its sandboxes.
    pub async fn work_once(&mut self, checks: &Value) -> anyhow::Result<Work> {
        let body = json!({
            "project_id": self.project, "title": "Do nothing", "max_retries": 0, "execution_config": { "checks": checks },
        });
        let omoi = self.omoi.as_ref().context("the server has ended")?;
        let request = omoi.post("/api/v1/tasks", &body);
        let began = Instant::now();
        let task = text(&self.conn.ask_json(&request).await?["id"])?;
        let (mut work, mut ordered, mut removed, mut last) = (Work::default(), 0, 0, began);
        self.watch(|of, event_type, at| {
            if work.completed.is_zero() {
                let step = format!("{ordered} {event_type}");
                work.steps.entry(step).or_insert(at - began);
            }
            match event_type {
                ASSIGNED if of == task => {
                    if ordered == 0 {
                        work.assigned = at - began;
                    }
                    (ordered, last) = (ordered + 1, at);
                }
                COMPLETED if of == task => work.completed = at - began,
                // One at a time, so it is the last that was ordered.
                READY => work.starts += at - last,
                REMOVED => removed += 1,
                _ => {}
            }
            !work.completed.is_zero() && removed == ordered
        })
        .await?;
        Ok(work)
    }

    /// Waits until each of these was told of with this type of event, from now on.
    pub async fn all(&mut self, ids: &[String], wanted: &str) -> anyhow::Result<()> {
        let mut missing: BTreeSet<&str> = ids.iter().map(String::as_str).collect();
        let seen = self.watch(|of, event_type, _| {
            if event_type == wanted {
                missing.remove(of);
            }
            missing.is_empty()
        });
        seen.await.with_context(|| format!("not all of {} sandboxes came to {wanted}", ids.len()))
    }

    pub async fn status(&mut self, id: &str) -> anyhow::Result<String> {
        let omoi = self.omoi.as_ref().context("the server has ended")?;
        let sandbox = self.conn.ask_json(&omoi.get(&format!("/api/v1/sandboxes/{id}"))).await?;
        text(&sandbox["status"])
    }

    pub async fn terminate(&mut self, id: &str) -> anyhow::Result<()> {
        let omoi = self.omoi.as_ref().context("the server has ended")?;
        let request = omoi.post(&format!("/api/v1/sandboxes/{id}/terminate"), &json!({}));
        self.conn.ask_json(&request).await.map(|_| ())
    }

    /// Ends the server, whose sandboxes are all removed, and says what they have left behind. A database of its own is
    /// dropped with those of all measurements.
    pub async fn stop(mut self) -> anyhow::Result<Vec<PathBuf>> {
        if let Some(omoi) = self.omoi.take() {
            omoi.stop().await?;
        }
        Ok(places(self.place.dir()))
    }

    /// Reads the live stream until told to stop. A sandbox that fails ends it.
    async fn watch(&mut self, mut is_last: impl FnMut(&str, &str, Instant) -> bool) -> anyhow::Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            let Ok(event) = timeout_at(until, self.live.next()).await else {
                bail!("it takes longer than {PATIENCE:?}: {}", last_words(self.place.dir()));
            };
            let (event, at) = (event?, Instant::now());
            let word = |key: &str| event.get(key).and_then(Value::as_str).unwrap_or_default();
            if word("event_type") == FAILED {
                bail!("a sandbox failed: {}", event["payload"]);
            }
            if is_last(word("entity_id"), word("event_type"), at) {
                return Ok(());
            }
        }
    }
}

impl Drop for Sandboxes {
    fn drop(&mut self) {
        // Killed, since it would make what is removed here anew.
        self.omoi.take();
        let launcher = Launcher::new(&self.programs.launcher);
        for _ in 0..CLEAR_ROUNDS {
            for place in places(self.place.dir()) {
                let _ = launcher.remove(&place);
            }
        }
    }
}

/// The median of each type of event, in milliseconds: where the time goes.
pub fn medians<'a>(lives: impl Iterator<Item = &'a Life> + Clone) -> Map<String, Value> {
    let types: BTreeSet<&String> = lives.clone().flat_map(Life::keys).collect();
    let of = |event_type: &String| {
        let times = lives.clone().filter_map(|life| life.get(event_type));
        times.map(|time| time.as_secs_f64() * 1000.0).collect()
    };
    types.into_iter().map(|event_type| (event_type.clone(), json!(median(of(event_type))))).collect()
}

fn places(data: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(data.join("sandboxes")).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
}
