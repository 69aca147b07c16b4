//! The plan that the launcher gets for an order.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use omoi_launcher::{Allow, Bind, Door, File, Ids, Image, Limits, Plan, RUN_BYTES, Workspace};
use omoi_protocol::{
    launch::{LaunchSpec, WORKSPACE_PATH},
    sandbox::RESUME_BYTES_MAX,
};

use super::{super::image, Error, Local, Order};

pub const API: &str = "api";
pub const PROXY: &str = "proxy";
/// Every sandbox has a network of its own, so the ports are the same in all.
pub const API_PORT: u16 = 7080;
pub const PROXY_PORT: u16 = 7128;

const WORKER: &str = "/omoi/worker";
const LAUNCH: &str = "launch.json";
const HOME: &str = "/home/agent";
const GIB: u64 = 1 << 30;
/// Above the ranges that useradd and container managers give out.
const ROOT_BASE: u32 = 0x7000_0000;
const ROOT_COUNT: u32 = 0x1_0000;
const ROOT_SLOTS: i64 = 0x8000;
/// Enough for the sandbox's user, whose id is 1000.
const SLICE: u32 = 1024;

/// Everything in a launch but the transcript of a session that is resumed: texts of people, all bounded.
const LAUNCH_BYTES_MAX: usize = 8 << 20;
const _: () = assert!(RESUME_BYTES_MAX.div_ceil(3) * 4 + LAUNCH_BYTES_MAX < RUN_BYTES as usize);

/// Ids of this machine that sandboxes may have.
#[derive(Debug, Clone)]
pub struct IdRanges {
    base: u32,
    count: u32,
    slots: i64,
}

impl IdRanges {
    /// For root a high range; for an ordinary user what `/etc/subuid` and `/etc/subgid` both give.
    pub fn of_this_machine() -> Self {
        let uid = rustix::process::getuid();
        if uid.is_root() {
            return Self { base: ROOT_BASE, count: ROOT_COUNT, slots: ROOT_SLOTS };
        }
        let user = user_name(uid.as_raw());
        let given = |path| subordinate(path, &user, uid.as_raw());
        match (given("/etc/subuid"), given("/etc/subgid")) {
            (Some(uids), Some(gids)) if uids.0 == gids.0 => {
                let ids = uids.1.min(gids.1);
                Self { base: uids.0, count: SLICE.min(ids), slots: i64::from((ids / SLICE).max(1)) }
            }
            // There are none: the launcher refuses, or maps the one id that this user has.
            _ => Self { base: ROOT_BASE, count: ROOT_COUNT, slots: ROOT_SLOTS },
        }
    }

    pub fn slots(&self) -> i64 {
        self.slots
    }

    fn of(&self, slot: i64) -> Ids {
        let step = u32::try_from(slot.clamp(0, self.slots - 1)).unwrap_or(0);
        Ids { base: self.base + step * self.count, count: self.count }
    }
}

fn user_name(uid: u32) -> Option<String> {
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let wanted = uid.to_string();
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == wanted).then(|| name.to_owned())
    })
}

/// The first range of a user: where it starts and how long it is.
fn subordinate(path: &str, user: &Option<String>, uid: u32) -> Option<(u32, u32)> {
    let table = std::fs::read_to_string(path).ok()?;
    table.lines().find_map(|line| {
        let mut fields = line.split(':');
        let owner = fields.next()?;
        let own = Some(owner) == user.as_deref() || owner.parse() == Ok(uid);
        let (start, count) = (fields.next()?.parse().ok()?, fields.next()?.trim().parse().ok()?);
        (own && count >= SLICE).then_some((start, count))
    })
}

impl Local {
    pub(super) fn plan(&self, order: &Order, dir: &Path, rescue: bool) -> Result<Plan, Error> {
        let launch = &order.launch;
        let mut argv = vec![WORKER.to_owned(), if rescue { "rescue" } else { "run" }.to_owned()];
        argv.extend(["--launch".to_owned(), format!("/run/omoi/{LAUNCH}")]);
        let content = serde_json::to_string(launch).map_err(|error| Error::Failed(error.to_string()))?;
        Ok(Plan {
            id: launch.sandbox_id.to_string(),
            dir: dir.to_owned(),
            cache: self.cache.clone(),
            labels: labels(launch),
            image: self.image(launch.image.as_deref())?,
            workspace: order.checkout.as_ref().map(|lower| Workspace {
                lower: lower.clone(),
                at: PathBuf::from(WORKSPACE_PATH),
                copy: false,
            }),
            binds: vec![Bind { from: self.worker.clone(), to: PathBuf::from(WORKER) }],
            files: vec![File { path: PathBuf::from(LAUNCH), mode: 0o400, content }],
            ids: self.ids.of(order.slot),
            limits: Limits {
                memory_bytes: u64::from(launch.resources.memory_gb) * GIB,
                pids: self.config.pids_max,
                cpu_millis: launch.resources.cpu * 1000,
                disk_bytes: u64::from(launch.resources.disk_gb) * GIB,
                disk_hard: self.config.require_disk_cap,
                tmp_bytes: u64::from(launch.resources.memory_gb) * GIB / 4,
                log_bytes: self.config.log_bytes_max as u64,
            },
            doors: vec![
                Door { name: API.to_owned(), port: API_PORT },
                Door { name: PROXY.to_owned(), port: PROXY_PORT },
            ],
            argv,
            env: environment(),
            cwd: PathBuf::from(if order.checkout.is_some() { WORKSPACE_PATH } else { "/" }),
            uid: if self.config.root_inside { 0 } else { 1000 },
            gid: if self.config.root_inside { 0 } else { 1000 },
            root_inside: self.config.root_inside,
            oom_score_adj: 0,
            // A worker that has ended leaves nothing to wait for.
            linger: false,
            fresh: false,
            cgroup: None,
            allow: Allow {
                soft_limits: self.config.allow_soft_limits,
                shared_id: self.config.allow_shared_id,
            },
            deny: self.config.deny_layers.clone(),
        })
    }

    fn image(&self, name: Option<&str>) -> Result<Image, Error> {
        match name {
            None | Some("" | "host") => Ok(Image::Host { opt: false }),
            Some(name) => self.images.path(name).map(Image::Dir),
        }
    }
}

/// What was asked for, and the image, so that one in use is not removed.
fn labels(launch: &LaunchSpec) -> BTreeMap<String, String> {
    let mut labels = launch.labels.clone();
    labels.insert(image::LABEL.to_owned(), launch.image.clone().unwrap_or_else(|| "host".to_owned()));
    labels
}

/// What the worker itself needs; the agent's environment is in the launch.
fn environment() -> BTreeMap<String, String> {
    let vars = [
        ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        ("HOME", HOME),
        ("USER", "agent"),
        ("LANG", "C.UTF-8"),
        ("TMPDIR", "/tmp"),
    ];
    vars.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}
