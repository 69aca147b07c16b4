//! The plan: everything that a sandbox is made from. The launcher reads no configuration and no environment beside it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::Layer;

/// A plan beyond this is a mistake: its files fill `/run` at most, and the rest is small.
pub const PLAN_BYTES_MAX: u64 = 2 * RUN_BYTES;
/// What fits into `/run`, the plan's files among it.
pub const RUN_BYTES: u64 = 32 << 20;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Names the control groups; letters, digits, `-` and `_`, at most 64.
    pub id: String,
    /// The sandbox's own directory on the host, made by the caller with mode 0700.
    pub dir: PathBuf,
    /// Where the launcher keeps what sandboxes share, such as the skeleton of [`Image::Host`].
    pub cache: PathBuf,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    pub image: Image,
    #[serde(default)]
    pub workspace: Option<Workspace>,
    /// Read-only files and directories of the host, such as the worker.
    #[serde(default)]
    pub binds: Vec<Bind>,
    /// Written below `/run/omoi`, in memory, owned by the sandbox's user.
    #[serde(default)]
    pub files: Vec<File>,
    pub ids: Ids,
    pub limits: Limits,
    #[serde(default)]
    pub doors: Vec<Door>,
    pub argv: Vec<String>,
    /// The whole environment of the command.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    #[serde(default = "default_cwd")]
    pub cwd: PathBuf,
    #[serde(default = "default_user")]
    pub uid: u32,
    #[serde(default = "default_user")]
    pub gid: u32,
    /// Keeps the few capabilities that package managers need, inside the user namespace alone. Goes with `uid` 0.
    #[serde(default)]
    pub root_inside: bool,
    /// Added to the command's `oom_score_adj`; 0 to 1000.
    #[serde(default)]
    pub oom_score_adj: u16,
    /// Whether the sandbox stays when its command has ended, so that a person may look, until it is stopped.
    #[serde(default = "yes")]
    pub linger: bool,
    /// Whether the disk of an earlier sandbox in the same directory is dropped. Otherwise it is used again.
    #[serde(default)]
    pub fresh: bool,
    /// The control group below which ours are made, relative to each hierarchy's root. Default `omoi`.
    #[serde(default)]
    pub cgroup: Option<PathBuf>,
    #[serde(default)]
    pub allow: Allow,
    /// Layers that count as missing, whatever the machine can do: a switch for tests.
    #[serde(default)]
    pub deny: Vec<Layer>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Image {
    /// The host's `/usr` and a few files of `/etc`, read-only; `opt` adds `/opt`.
    Host {
        #[serde(default)]
        opt: bool,
    },
    /// An unpacked image. It may be empty.
    Dir(PathBuf),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workspace {
    /// A checkout on the host that nobody changes while sandboxes use it.
    pub lower: PathBuf,
    #[serde(default = "default_at")]
    pub at: PathBuf,
    /// Copies the checkout instead of laying an overlay over it.
    #[serde(default)]
    pub copy: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bind {
    pub from: PathBuf,
    pub to: PathBuf,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Relative to `/run/omoi`.
    pub path: PathBuf,
    pub mode: u32,
    pub content: String,
}

/// Ids of the host that are the sandbox's `0..count`. No two sandboxes may share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ids {
    pub base: u32,
    pub count: u32,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    pub memory_bytes: u64,
    pub pids: u32,
    /// Thousandths of a processor.
    pub cpu_millis: u32,
    pub disk_bytes: u64,
    /// Refuses where the disk cannot be capped by the kernel.
    #[serde(default)]
    pub disk_hard: bool,
    #[serde(default = "default_tmp_bytes")]
    pub tmp_bytes: u64,
    /// What `log` and `log.1` may hold together.
    #[serde(default = "default_log_bytes")]
    pub log_bytes: u64,
}

/// A socket that listens on 127.0.0.1 inside the sandbox and is served by whoever fetches it from the control socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Door {
    pub name: String,
    /// 0 in a plan lets the kernel choose; the state says what it chose.
    pub port: u16,
}

/// What an administrator accepts in place of a layer.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allow {
    /// Limits per process where none per sandbox can be had.
    #[serde(default)]
    pub soft_limits: bool,
    /// One id of the host, the launcher's own, for everything inside.
    #[serde(default)]
    pub shared_id: bool,
}

/// A further command in a running sandbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exec {
    pub argv: Vec<String>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    #[serde(default = "default_cwd")]
    pub cwd: PathBuf,
    #[serde(default = "default_user")]
    pub uid: u32,
    #[serde(default = "default_user")]
    pub gid: u32,
}

fn default_cwd() -> PathBuf {
    "/".into()
}

fn default_at() -> PathBuf {
    "/workspace".into()
}

fn default_user() -> u32 {
    1000
}

fn default_tmp_bytes() -> u64 {
    256 << 20
}

fn default_log_bytes() -> u64 {
    8 << 20
}

fn yes() -> bool {
    true
}
