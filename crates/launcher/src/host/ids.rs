//! Which ids of the host the sandbox's processes have: a range of their own that nothing else uses, given by root or by
//! `newuidmap`; or, where an administrator accepts it, the launcher's own id alone.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};

use omoi_launcher::{Ids, Layer, Plan};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Signal, getegid, geteuid, pidfd_send_signal};
use rustix::thread::{Gid, Uid, set_thread_res_gid, set_thread_res_uid};

use crate::refuse::{OrRefuse as _, Reports, Result, refusal};
use crate::sys;

const FIX: &str = "install `uidmap` and give the user a line in /etc/subuid and /etc/subgid, as `usermod --add-subuids` does";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// We are root and map the range ourselves.
    Root,
    /// `newuidmap` maps a slice of what /etc/subuid gives to the user.
    Delegated,
    /// The user's own id is the sandbox user's.
    Shared,
}

/// Owners of what the sandbox may write, as the process sees them that makes it.
#[derive(Debug, Clone, Copy)]
pub struct Owners {
    pub root: (u32, u32),
    pub user: (u32, u32),
}

pub fn choose(plan: &Plan, reports: &mut Reports) -> Result<Mode> {
    let denied = plan.deny.contains(&Layer::IdRanges);
    let Ids { base, count } = plan.ids;
    if geteuid().is_root() {
        if denied {
            return Err(refusal(Layer::IdRanges, "denied by the plan", "take id_ranges out of `deny`"));
        }
        reports.yes(Layer::IdRanges, format_args!("{count} ids from {base}"));
        return Ok(Mode::Root);
    }
    let missing = if denied { Some("denied by the plan".to_owned()) } else { delegated(plan.ids).err() };
    match missing {
        None => {
            reports.yes(Layer::IdRanges, format_args!("{count} ids from {base} by newuidmap"));
            Ok(Mode::Delegated)
        }
        Some(why) if plan.allow.shared_id => {
            let detail = format!("{why}; everything inside has the host's id {}", geteuid().as_raw());
            reports.reduced(Layer::IdRanges, detail, FIX);
            Ok(Mode::Shared)
        }
        Some(why) => Err(refusal(Layer::IdRanges, why, FIX)),
    }
}

impl Mode {
    pub fn owners(self, plan: &Plan) -> Owners {
        let pair = |id: u32, of: u32| (of + id, of + id);
        match self {
            Self::Root => Owners {
                root: pair(0, plan.ids.base),
                user: (plan.ids.base + plan.uid, plan.ids.base + plan.gid),
            },
            // Inside the helper's namespace, where 0 is the launcher's own id and the range begins at 1.
            Self::Delegated => Owners { root: (1, 1), user: (1 + plan.uid, 1 + plan.gid) },
            Self::Shared => {
                let own = (geteuid().as_raw(), getegid().as_raw());
                Owners { root: own, user: own }
            }
        }
    }

    /// Maps the ids of a new user namespace from outside of it.
    pub fn map(self, plan: &Plan, pid: i32) -> Result<()> {
        let Ids { base, count } = plan.ids;
        match self {
            Self::Root => {
                map_plain(pid, (0, 0), (base, base), count).or_broken(Layer::IdRanges, "write the id map")
            }
            Self::Delegated => map_delegated(pid, &[(0, base, count)]),
            Self::Shared => {
                let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
                fs::write(format!("/proc/{pid}/setgroups"), "deny")
                    .and_then(|()| fs::write(format!("/proc/{pid}/gid_map"), format!("{} {gid} 1", plan.gid)))
                    .and_then(|()| fs::write(format!("/proc/{pid}/uid_map"), format!("{} {uid} 1", plan.uid)))
                    .or_broken(Layer::IdRanges, "map the own id")
            }
        }
    }

    /// Takes, inside the new namespace, the id that the sandbox is set up as.
    pub fn become_root(self) -> Result<()> {
        if self == Self::Shared {
            return Ok(());
        }
        take_ids(0).or_broken(Layer::IdRanges, "become root inside")
    }

    /// Does work on files of the sandbox's ids and of our own.
    pub fn with_files(self, ids: Ids, work: impl FnOnce() -> Result<()>) -> Result<()> {
        match self {
            Self::Root | Self::Shared => work(),
            Self::Delegated => in_helper(ids, work),
        }
    }
}

/// A user namespace that is only a map: a mount shows `inside` of the file system, a user and a group, as `outside`.
pub fn map_namespace(inside: (u32, u32), outside: (u32, u32), count: u32) -> std::io::Result<OwnedFd> {
    let (wait, hold) = pipe_with(PipeFlags::CLOEXEC)?;
    let Some(child) = sys::clone_into(sys::NEW_USER, None)? else {
        drop(hold);
        let _ = fs::File::from(wait).read(&mut [0]);
        sys::exit_now(0);
    };
    let made =
        map_plain(child.pid, inside, outside, count).and_then(|()| sys::open_namespace(child.pid, "user"));
    drop(hold);
    reap(&child);
    made
}

fn map_plain(pid: i32, inside: (u32, u32), outside: (u32, u32), count: u32) -> std::io::Result<()> {
    fs::write(format!("/proc/{pid}/uid_map"), format!("{} {} {count}", inside.0, outside.0))?;
    fs::write(format!("/proc/{pid}/gid_map"), format!("{} {} {count}", inside.1, outside.1))
}

/// Runs work in a user namespace that has both our own id, as 0, and the range, from 1 on.
fn in_helper(ids: Ids, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let layer = Layer::IdRanges;
    let (go_read, go_write) = pipe_with(PipeFlags::CLOEXEC).or_broken(layer, "make a pipe")?;
    let (done_read, done_write) = pipe_with(PipeFlags::CLOEXEC).or_broken(layer, "make a pipe")?;
    let Some(child) = sys::clone_into(sys::NEW_USER, None).or_broken(layer, "make a user namespace")? else {
        drop((go_write, done_read));
        let told = matches!(fs::File::from(go_read).read(&mut [0]), Ok(1));
        if told && let Err(refused) = take_ids(0).or_broken(layer, "become root").and_then(|()| work()) {
            let _ = fs::File::from(done_write).write_all(&serde_json::to_vec(&refused).unwrap_or_default());
        }
        sys::exit_now(0);
    };
    drop((go_read, done_write));
    let mapped = map_delegated(child.pid, &[(0, u32::MAX, 1), (1, ids.base, ids.count)]);
    if mapped.is_ok() {
        let _ = fs::File::from(go_write).write_all(b"g");
    } else {
        drop(go_write);
    }
    let mut said = Vec::new();
    let _ = fs::File::from(done_read).read_to_end(&mut said);
    reap(&child);
    mapped?;
    match serde_json::from_slice(&said) {
        Ok(refused) => Err(refused),
        Err(_) => Ok(()),
    }
}

fn take_ids(id: u32) -> rustix::io::Result<()> {
    rustix::thread::set_thread_groups(&[])?;
    let (uid, gid) = (Uid::from_raw(id), Gid::from_raw(id));
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)
}

fn reap(child: &sys::Child) {
    let _ = pidfd_send_signal(&child.pidfd, Signal::KILL);
    let _ = rustix::process::waitid(
        rustix::process::WaitId::PidFd(std::os::fd::AsFd::as_fd(&child.pidfd)),
        rustix::process::WaitIdOptions::EXITED,
    );
}

/// `u32::MAX` stands for our own id, which `newuidmap` lets anybody map.
fn map_delegated(pid: i32, ranges: &[(u32, u32, u32)]) -> Result<()> {
    for (tool, own) in [("newuidmap", geteuid().as_raw()), ("newgidmap", getegid().as_raw())] {
        let mut arguments = vec![pid.to_string()];
        for (inside, outside, count) in ranges {
            let outside = if *outside == u32::MAX { own } else { *outside };
            arguments.extend([inside.to_string(), outside.to_string(), count.to_string()]);
        }
        map_with(tool, &arguments)?;
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "only the set-uid tool may map ids for an ordinary user")]
fn map_with(tool: &str, arguments: &[String]) -> Result<()> {
    let path =
        tool_path(tool).ok_or_else(|| refusal(Layer::IdRanges, format_args!("{tool} is missing"), FIX))?;
    let output = Command::new(path).args(arguments).env_clear().stdin(Stdio::null()).output().or_refuse(
        Layer::IdRanges,
        format_args!("run {path}"),
        FIX,
    )?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(refusal(Layer::IdRanges, format_args!("{tool} {}: {}", arguments.join(" "), said.trim()), FIX))
}

fn tool_path(tool: &str) -> Option<&'static str> {
    let places = match tool {
        "newuidmap" => ["/usr/bin/newuidmap", "/bin/newuidmap"],
        _ => ["/usr/bin/newgidmap", "/bin/newgidmap"],
    };
    places.into_iter().find(|path| Path::new(path).exists())
}

/// Whether the range is the user's to give.
fn delegated(ids: Ids) -> std::result::Result<(), String> {
    for tool in ["newuidmap", "newgidmap"] {
        tool_path(tool).ok_or_else(|| format!("{tool} is not installed"))?;
    }
    for file in ["/etc/subuid", "/etc/subgid"] {
        let text = fs::read_to_string(file).map_err(|error| format!("{file} cannot be read: {error}"))?;
        let ours = own_ranges(&text);
        let end = u64::from(ids.base) + u64::from(ids.count);
        if !ours.iter().any(|(base, count)| *base <= u64::from(ids.base) && end <= base + count) {
            return Err(format!("ids {} to {end} are not given to this user by {file}", ids.base));
        }
    }
    Ok(())
}

/// What a file such as /etc/subuid gives to the user that we are.
pub fn own_ranges(text: &str) -> Vec<(u64, u64)> {
    let uid = geteuid().as_raw().to_string();
    let name = fs::read_to_string("/etc/passwd").ok().and_then(|passwd| {
        let mut users = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
        users.find(|user| user.get(2) == Some(&uid.as_str())).map(|user| user[0].to_owned())
    });
    let mine = |owner: &str| owner == uid || Some(owner) == name.as_deref();
    text.lines()
        .filter_map(|line| {
            let (owner, range) = line.split_once(':')?;
            let (base, count) = range.split_once(':')?;
            mine(owner).then_some((base.parse().ok()?, count.trim().parse().ok()?))
        })
        .collect()
}
