//! What the launcher answers: the state it leaves behind, how each layer was had, and why it refused.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::de::{IntoDeserializer, value};
use serde::{Deserialize, Serialize};

use crate::{Door, Ids};

/// The one line that `omoi-launcher run` prints.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Made now; its command runs.
    Started(State),
    /// It was there already. Nothing was changed.
    Exists(State),
    /// Nothing was made, or all of it was undone.
    Refused(Refusal),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{layer}: {detail}; {fix}")]
pub struct Refusal {
    pub layer: Layer,
    pub detail: String,
    pub fix: String,
}

/// The content of `state.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct State {
    pub id: String,
    pub labels: BTreeMap<String, String>,
    /// The init's process id on the host, and when it began in clock ticks since boot: together they name one process.
    pub pid: i32,
    pub start_ticks: u64,
    pub ids: Ids,
    pub cgroups: Cgroups,
    pub disk: DiskKind,
    pub doors: Vec<Door>,
    pub layers: Vec<Report>,
}

/// Directories of the host's control groups.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Cgroups {
    /// Version 2: holds `init` and `run`. Present for `cgroup.kill` even where it carries no limit.
    pub unified: Option<PathBuf>,
    /// Version 1, by controller.
    pub legacy: BTreeMap<String, PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiskKind {
    /// A file system of its own in `disk.img`, capped by its size.
    Image,
    /// The directory `disk`, not capped.
    Directory,
}

/// How one layer was had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    pub layer: Layer,
    pub status: Status,
    pub detail: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub fix: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Yes,
    Reduced,
    No,
}

/// What a sandbox is made of, and the steps that are none of the machine's but can fail as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    UserNamespace,
    IdRanges,
    MountNamespace,
    PidNamespace,
    NetworkNamespace,
    Overlay,
    IdmappedMounts,
    MemoryLimit,
    PidsLimit,
    CpuLimit,
    CgroupKill,
    DiskCap,
    Capabilities,
    NoNewPrivs,
    Seccomp,
    Landlock,
    Plan,
    Directory,
    Image,
    Workspace,
    Doors,
    Command,
}

impl Layer {
    /// By its name in answers.
    pub fn named(name: &str) -> Option<Self> {
        Self::deserialize(IntoDeserializer::<value::Error>::into_deserializer(name)).ok()
    }

    /// Whether it keeps a sandbox apart, as opposed to a step of making one.
    pub fn isolates(self) -> bool {
        self < Self::Plan
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(out)
    }
}

/// The content of `exit.json`, and how an `exec` ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    #[serde(flatten)]
    pub how: How,
    /// The kernel killed something of this sandbox because its memory ran out.
    #[serde(default)]
    pub oom: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    Code(i32),
    Signal(i32),
}

/// What a sandbox uses now, as far as it can be told.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub memory_bytes: Option<u64>,
    pub pids: Option<u64>,
    pub cpu_micros: Option<u64>,
    pub disk_used_bytes: Option<u64>,
    pub disk_free_bytes: Option<u64>,
    pub oom_kills: Option<u64>,
}
