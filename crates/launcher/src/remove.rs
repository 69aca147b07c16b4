//! `omoi-launcher kill` and `remove`: they trust the lock and the state, and need no word from the init.

use std::ffi::CString;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use omoi_launcher::{Directory, Layer};
use rustix::process::geteuid;

use crate::host::claim::Intent;
use crate::host::ids::Mode;
use crate::host::{cgroup, claim, copy};
use crate::refuse::{OrRefuse as _, Result, refusal};

const FREE_WITHIN: Duration = Duration::from_secs(20);

/// Kills whatever runs for a directory and returns when its lock is free.
pub fn kill(dir: &Path) -> Result<()> {
    let place = Directory::new(dir);
    let deadline = Instant::now() + FREE_WITHIN;
    loop {
        let state = place.state().or_broken(Layer::Directory, "read the state")?;
        if let Some(state) = &state {
            claim::end(state)?;
        }
        if !place.alive().or_broken(Layer::Directory, "look at the lock")? {
            return Ok(());
        }
        // A sandbox that is just being made has no state yet.
        if Instant::now() > deadline {
            let detail = format!("{} stays locked", dir.display());
            return Err(refusal(Layer::Directory, detail, "see who holds the file `lock` open"));
        }
        crate::pause(Duration::from_millis(5));
    }
}

/// Kills, then removes the control groups and the directory. What is gone already is well.
pub fn remove(dir: &Path) -> Result<()> {
    if fs::symlink_metadata(dir).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
        return Ok(());
    }
    kill(dir)?;
    let intent = Intent::read(dir);
    cgroup::remove(&intent.cgroups);
    let wrong = "name the sandbox's own directory";
    let parent = dir.parent().ok_or_else(|| refusal(Layer::Directory, "the root is no sandbox", wrong))?;
    let name =
        dir.file_name().ok_or_else(|| refusal(Layer::Directory, "the directory has no name", wrong))?;
    let name = CString::new(name.as_bytes()).or_refuse(Layer::Directory, "use the name", wrong)?;
    let parent =
        File::open(parent).or_refuse(Layer::Directory, format_args!("open {}", parent.display()), wrong)?;
    let erase =
        || copy::erase(&parent, &name).or_broken(Layer::Directory, format_args!("remove {}", dir.display()));
    match intent.delegated {
        // An ordinary user's sandbox has files of ids that only the plan's map reaches.
        Some(ids) if !geteuid().is_root() => Mode::Delegated.with_files(ids, erase),
        _ => erase(),
    }
}
