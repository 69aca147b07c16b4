//! What sandboxes may leave on a machine: processes, mounts, control groups, loop devices, directories.

use std::{collections::BTreeSet, fs, path::Path};

/// Everything on this machine that belongs to sandboxes of one data directory, or to any of these ids.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Traces {
    pub processes: BTreeSet<String>,
    pub mounts: BTreeSet<String>,
    pub cgroups: BTreeSet<String>,
    pub loops: BTreeSet<String>,
    pub directories: BTreeSet<String>,
}

impl Traces {
    pub fn find(data: &Path, ids: &[String]) -> Self {
        let data_text = data.display().to_string();
        let ours = |text: &str| text.contains(&data_text) || ids.iter().any(|id| text.contains(id.as_str()));
        let mut found = Self::default();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        found.mounts.extend(mounts.lines().filter(|line| ours(line)).map(str::to_owned));
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let cgroup = fs::read_to_string(entry.path().join("cgroup")).unwrap_or_default();
            // One that has ended and waits for its parent, the system's own first process, to ask for its end is none.
            let ended = fs::read_to_string(entry.path().join("stat")).is_ok_and(|stat| stat.contains(") Z "));
            if !ended && ids.iter().any(|id| cgroup.contains(id.as_str())) {
                let command = fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
                found.processes.insert(format!("{} {}", entry.path().display(), command.replace('\0', " ")));
            }
        }
        directories(Path::new("/sys/fs/cgroup"), ids, &mut found.cgroups, 6);
        for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
            let backing = fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
            if ours(&backing) {
                found.loops.insert(backing);
            }
        }
        for entry in fs::read_dir(data.join("sandboxes")).into_iter().flatten().flatten() {
            found.directories.insert(entry.path().display().to_string());
        }
        found
    }

    pub fn assert_none(data: &Path, ids: &[String]) {
        assert_eq!(Self::find(data, ids), Self::default());
    }
}

fn directories(path: &Path, ids: &[String], found: &mut BTreeSet<String>, depth: usize) {
    let Ok(entries) = fs::read_dir(path) else { return };
    for entry in entries.flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        if ids.iter().any(|id| name.contains(id.as_str())) {
            found.insert(entry.path().display().to_string());
        } else if depth > 0 {
            directories(&entry.path(), ids, found, depth - 1);
        }
    }
}
