//! The embedded provider: sandboxes of Linux namespaces on this machine, made by `omoi-launcher`. Each has a directory
//! below `sandboxes/` in the data directory and lives on when the server ends.

mod exec;
mod plan;

use std::{
    collections::BTreeMap,
    fs,
    io::{Read, Seek, SeekFrom},
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
    time::Duration,
};

use omoi_launcher::{Answer, Control, Directory, Exit, How, Launcher, State, Status};
use omoi_protocol::{ProviderKind, SandboxId, sandbox::Kept};
use serde_json::{Value as Json, json};
use tokio::sync::mpsc;

use super::{Doing, DoorSockets, Ended, Error, Inspection, Made, Order, Output, Provider, image::Images};
use crate::config::Config;
pub use plan::{API_PORT, PROXY_PORT};

/// What a rescue may say.
const RESCUE_SAID_MAX: usize = 256 * 1024;
/// Files that are looked at for what a sandbox takes of the disk.
const COUNTED_MAX: usize = 200_000;
/// What an init may take beyond the grace to kill what is left.
const STOP_MARGIN: Duration = Duration::from_secs(5);

#[derive(Debug, Clone)]
pub struct Local {
    launcher: Launcher,
    /// The worker's program on this machine.
    worker: PathBuf,
    places: PathBuf,
    cache: PathBuf,
    images: Images,
    config: crate::config::Sandbox,
    ids: plan::IdRanges,
}

impl Local {
    pub fn new(config: &Config, programs: &Programs) -> Self {
        Self {
            launcher: Launcher::new(&programs.launcher),
            worker: programs.worker.clone(),
            places: config.data_dir.join("sandboxes"),
            cache: config.data_dir.join("cache"),
            images: Images::new(&config.data_dir),
            config: config.sandbox.clone(),
            ids: plan::IdRanges::of_this_machine(),
        }
    }

    /// How many sandboxes can have ids of their own here.
    pub fn slots(&self) -> i64 {
        self.ids.slots()
    }

    /// Free space where sandboxes are, if the system says.
    pub fn disk_free(&self) -> Option<u64> {
        let said = rustix::fs::statvfs(self.places.parent()?).ok()?;
        Some(said.f_bavail.saturating_mul(said.f_frsize))
    }

    fn dir(&self, id: &SandboxId) -> PathBuf {
        self.places.join(id.as_str())
    }

    /// Runs what blocks on a thread for that.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let own = self.clone();
        let done = tokio::task::spawn_blocking(move || work(&own)).await;
        done.unwrap_or_else(|panic| {
            Err(Error::Failed(format!("a step of the local provider broke off: {panic}")))
        })
    }

    fn make(&self, order: &Order, rescue: bool) -> Result<State, Error> {
        let dir = self.dir(&order.launch.sandbox_id);
        make_dir(&self.places)?;
        make_dir(&self.cache)?;
        make_dir(&dir)?;
        let plan = self.plan(order, &dir, rescue)?;
        match self.launcher.run(&plan).map_err(failed)? {
            Answer::Started(state) | Answer::Exists(state) => Ok(state),
            Answer::Refused(refusal) => Err(Error::Refused {
                layer: refusal.layer.to_string(),
                detail: refusal.detail,
                fix: refusal.fix,
            }),
        }
    }

    fn look(&self, id: &SandboxId) -> Result<Inspection, Error> {
        let dir = self.dir(id);
        if !dir.exists() {
            return Ok(Inspection::Absent);
        }
        let directory = Directory::new(&dir);
        let alive = directory.alive().map_err(failed)?;
        // A start that is refused takes its disk with it; where there is one, something may have been written.
        let untouched = || !dir.join("disk.img").exists() && !dir.join("disk").exists();
        if !alive && directory.state().map_err(failed)?.is_none() && untouched() {
            return Ok(Inspection::Absent);
        }
        Ok(match directory.exit().map_err(failed)? {
            Some(exit) => Inspection::Exited(ended(exit)),
            None if alive => Inspection::Running,
            None => Inspection::Dead,
        })
    }

    /// Asks, waits for as long as the grace lasts, and ends what is then still there.
    async fn end(&self, dir: PathBuf, grace: Duration) -> Result<(), Error> {
        let own = dir.clone();
        let ending = self.blocking(move |_| {
            if Control::open(&own).and_then(|control| control.stop(grace)).is_ok() {
                wait_gone(&own)
            } else {
                Ok(())
            }
        });
        if let Ok(Err(error)) = tokio::time::timeout(grace + STOP_MARGIN, ending).await {
            tracing::debug!(%error, "a sandbox does not end by itself");
        }
        self.blocking(move |own| if dir.exists() { own.launcher.kill(&dir).map_err(failed) } else { Ok(()) })
            .await
    }
}

/// Returns when no init holds the lock of a sandbox any more.
fn wait_gone(dir: &Path) -> Result<(), Error> {
    let gone = fs::File::open(dir.join("lock"))
        .and_then(|lock| Ok(rustix::fs::flock(lock, rustix::fs::FlockOperation::LockShared)?));
    gone.map_err(|error| Error::Failed(format!("{}: {error}", dir.display())))
}

/// Programs that lie beside `omoi`.
#[derive(Debug, Clone)]
pub struct Programs {
    pub launcher: PathBuf,
    pub worker: PathBuf,
}

impl Programs {
    /// As configured, else beside the program that runs.
    pub fn new(config: &Config, beside: &Path) -> Self {
        let of = |configured: &Option<PathBuf>, name: &str| {
            configured.clone().unwrap_or_else(|| beside.join(name))
        };
        Self {
            launcher: of(&config.sandbox.launcher, "omoi-launcher"),
            worker: of(&config.sandbox.worker, "omoi-worker"),
        }
    }
}

impl Provider for Local {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Local
    }

    fn create<'a>(&'a self, order: &'a Order) -> Doing<'a, Made> {
        let order = order.clone();
        Box::pin(self.blocking(move |own| {
            let state = own.make(&order, false)?;
            Ok(Made { isolation: isolation(&state) })
        }))
    }

    fn doors<'a>(&'a self, id: &'a SandboxId) -> Doing<'a, Option<DoorSockets>> {
        let dir = self.dir(id);
        Box::pin(self.blocking(move |_| {
            let doors = Control::open(&dir).and_then(|control| control.doors()).map_err(failed)?;
            let (mut api, mut proxy) = (None, None);
            for (door, socket) in doors {
                match door.name.as_str() {
                    plan::API => api = Some(socket),
                    plan::PROXY => proxy = Some(socket),
                    _ => {}
                }
            }
            let sockets = api.zip(proxy).map(|(api, proxy)| DoorSockets { api, proxy });
            sockets.map(Some).ok_or_else(|| Error::Failed("the sandbox has no door".to_owned()))
        }))
    }

    fn inspect<'a>(&'a self, id: &'a SandboxId) -> Doing<'a, Inspection> {
        let id = id.clone();
        Box::pin(self.blocking(move |own| own.look(&id)))
    }

    fn inspect_all<'a>(&'a self, ids: Vec<SandboxId>) -> Doing<'a, Vec<Result<Inspection, Error>>> {
        Box::pin(self.blocking(move |own| Ok(ids.iter().map(|id| own.look(id)).collect())))
    }

    fn stop<'a>(&'a self, id: &'a SandboxId, grace: Duration) -> Doing<'a, ()> {
        Box::pin(self.end(self.dir(id), grace))
    }

    fn rescue<'a>(&'a self, order: &'a Order) -> Doing<'a, ()> {
        let order = order.clone();
        Box::pin(self.blocking(move |own| own.make(&order, true).map(|_| ())))
    }

    fn rescued<'a>(&'a self, id: &'a SandboxId) -> Doing<'a, Kept> {
        let dir = self.dir(id);
        Box::pin(self.blocking(move |_| {
            wait_gone(&dir)?;
            let exit = Directory::new(&dir).exit().map_err(failed)?;
            let said = String::from_utf8_lossy(&tail(&dir, RESCUE_SAID_MAX)?).into_owned();
            let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
            match exit {
                Some(Exit { how: How::Code(0), .. }) => serde_json::from_str(last).map_err(|_| {
                    Error::Failed(format!("the rescue said something else than what it kept: {last}"))
                }),
                Some(exit) => Err(Error::Failed(format!("the rescue {}: {last}", ended(exit)))),
                None => Err(Error::Failed(format!("the rescue was cut off: {last}"))),
            }
        }))
    }

    fn remove<'a>(&'a self, id: &'a SandboxId) -> Doing<'a, ()> {
        let dir = self.dir(id);
        Box::pin(self.blocking(
            move |own| {
                if dir.exists() { own.launcher.remove(&dir).map_err(failed) } else { Ok(()) }
            },
        ))
    }

    fn logs<'a>(&'a self, id: &'a SandboxId, bytes_max: usize) -> Doing<'a, Vec<u8>> {
        let dir = self.dir(id);
        Box::pin(self.blocking(move |_| tail(&dir, bytes_max)))
    }

    fn disk_bytes<'a>(&'a self, id: &'a SandboxId) -> Doing<'a, u64> {
        let dir = self.dir(id);
        Box::pin(self.blocking(move |_| Ok(bytes_below(dir))))
    }

    fn list<'a>(&'a self) -> Doing<'a, Vec<SandboxId>> {
        Box::pin(self.blocking(|own| {
            let entries = match fs::read_dir(&own.places) {
                Ok(entries) => entries,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
                Err(error) => return Err(Error::Failed(format!("{}: {error}", own.places.display()))),
            };
            Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
        }))
    }

    fn exec<'a>(
        &'a self,
        id: &'a SandboxId,
        argv: &'a [String],
        env: &'a BTreeMap<String, String>,
        output: mpsc::Sender<Output>,
    ) -> Doing<'a, Ended> {
        let dir = self.dir(id);
        Box::pin(exec::run(dir, argv.to_vec(), env.clone(), output))
    }
}

fn isolation(state: &State) -> Json {
    let reduced = state.layers.iter().any(|layer| layer.status != Status::Yes);
    json!({ "level": if reduced { "reduced" } else { "full" }, "layers": state.layers })
}

fn ended(exit: Exit) -> Ended {
    let code = match exit.how {
        How::Code(code) => code,
        How::Signal(signal) => 128 + signal,
    };
    Ended { code, out_of_memory: exit.oom }
}

/// The end of a sandbox's log, which may go back into the part before it.
fn tail(dir: &Path, bytes_max: usize) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    for name in ["log", "log.1"] {
        let wanted = bytes_max.saturating_sub(bytes.len());
        let Ok(mut file) = fs::File::open(dir.join(name)) else { continue };
        let read = (|| {
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(wanted as u64)))?;
            let mut part = Vec::new();
            file.take(wanted as u64).read_to_end(&mut part)?;
            part.append(&mut bytes);
            bytes = part;
            Ok(())
        })();
        read.map_err(|error: std::io::Error| {
            Error::Failed(format!("{}: {error}", dir.join(name).display()))
        })?;
    }
    Ok(bytes)
}

/// What the files below a directory take of the disk, as far as that can be seen. No link is followed.
fn bytes_below(dir: PathBuf) -> u64 {
    let (mut bytes, mut seen, mut dirs) = (0u64, 0, vec![dir]);
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let Ok(meta) = entry.metadata() else { continue };
            bytes = bytes.saturating_add(meta.blocks().saturating_mul(512));
            seen += 1;
            if seen == COUNTED_MAX {
                return bytes;
            }
            if meta.is_dir() {
                dirs.push(entry.path());
            }
        }
    }
    bytes
}

fn make_dir(path: &Path) -> Result<(), Error> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| Error::Failed(format!("{} cannot be made: {error}", path.display())))
}

fn failed(error: omoi_launcher::Error) -> Error {
    Error::Failed(error.to_string())
}
