//! A run to be replayed: a sandbox, whose events the server has, or a file.

use std::path::Path;

use anyhow::{Context as _, Result};
use omoi_client::{Client, EventQuery};
use omoi_protocol::{SandboxId, event::StoredEvent, task::Task};
use omoi_server::domain::supervision::{
    import::{self, EVENTS_MAX, FILE_BYTES_MAX, FORMATS, Format, Ledger},
    trajectory::Charter,
};

use crate::{
    connect::Connect,
    failure::{NOT_FOUND, Stop, USAGE},
};

const PAGE: usize = 500;

pub struct Run {
    pub name: String,
    pub charter: Charter,
    pub events: Vec<StoredEvent>,
    /// Of a file: its format, and what became of its lines.
    pub source: Option<(Format, Ledger)>,
}

impl Run {
    /// A file goes before a sandbox of the same name.
    pub async fn read(of: &str, connect: &Connect) -> Result<Self> {
        let path = Path::new(of);
        if path.is_file() {
            return Self::file(path);
        }
        let id: SandboxId = of.parse().ok().filter(|_| !of.contains(['/', '.'])).ok_or_else(|| {
            Stop::new(NOT_FOUND, format!("{of} is neither a file nor the id of a sandbox"))
                .hint("`omoi sandbox list` shows sandboxes")
        })?;
        Self::sandbox(&id, &connect.client()?).await
    }

    fn file(path: &Path) -> Result<Self> {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let run = load(path)?.map_err(|error| {
            Stop::new(USAGE, error.to_string()).hint(format!("formats that are read: {FORMATS}"))
        })?;
        let source = Some((run.format, run.ledger));
        Ok(Self { name, charter: run.charter, events: run.events, source })
    }

    async fn sandbox(id: &SandboxId, client: &Client) -> Result<Self> {
        let mut events: Vec<StoredEvent> = Vec::new();
        loop {
            let after = Some(events.last().map_or(0, |event| event.seq));
            let query = EventQuery { after, limit: Some(PAGE), ..EventQuery::default() };
            let mut page = client.event_list(id, &query).await?;
            page.events.sort_by_key(|event| event.seq);
            events.append(&mut page.events);
            if !page.has_more || events.len() >= EVENTS_MAX {
                break;
            }
        }
        // One that somebody attached without a task has agreed to nothing.
        let charter =
            client.sandbox_task(id).await.map_or_else(|_| Charter::default(), |task| charter(&task));
        Ok(Self { name: id.to_string(), charter, events, source: None })
    }
}

/// Reads a recording. The inner error says that the file holds no run.
pub fn load(path: &Path) -> Result<Result<import::Run, import::Error>> {
    let bytes = path.metadata().map_or(0, |file| file.len());
    if bytes > FILE_BYTES_MAX as u64 {
        return Err(
            Stop::new(USAGE, format!("{} has more than {FILE_BYTES_MAX} bytes", path.display())).into()
        );
    }
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(import::read(&path.display().to_string(), bytes))
}

fn charter(task: &Task) -> Charter {
    Charter::of_task(task.owned_files.clone(), &task.execution_config)
}
