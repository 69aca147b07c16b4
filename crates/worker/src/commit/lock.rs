//! Locks that a killed Git has left behind.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::time::sleep;

use crate::proc;

/// How long a Git that still runs may take.
const WAIT: Duration = Duration::from_secs(10);
const PERIOD: Duration = Duration::from_millis(100);

/// Removes locks that nobody holds. One that is held after a while stays, and Git says so.
pub async fn clear(dir: &Path, workspace: &Path, branch: &str) {
    let branch = format!("{branch}.lock");
    let names = ["index.lock", "HEAD.lock", "config.lock", "packed-refs.lock", &branch];
    let locks = || names.iter().map(|name| dir.join(name)).filter(|path| path.symlink_metadata().is_ok());
    let mut waited = Duration::ZERO;
    while locks().next().is_some() && waited < WAIT && is_busy(workspace) {
        sleep(PERIOD).await;
        waited += PERIOD;
    }
    let left: Vec<PathBuf> = locks().collect();
    if !left.is_empty() && !is_busy(workspace) {
        left.iter().for_each(|path| drop(fs::remove_file(path)));
    }
}

/// Whether a Git works in here, or one of which that cannot be told.
fn is_busy(workspace: &Path) -> bool {
    let workspace = workspace.canonicalize().unwrap_or_else(|_| workspace.to_owned());
    proc::all().iter().any(|process| {
        let place = PathBuf::from(format!("/proc/{}", process.pid));
        let is_git = fs::read_to_string(place.join("comm")).is_ok_and(|name| name.starts_with("git"));
        is_git
            && match fs::read_link(place.join("cwd")) {
                Ok(cwd) => cwd.starts_with(&workspace),
                Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
            }
    })
}
