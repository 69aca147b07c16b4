//! Recordings below a directory, each with a name that says where it lies, and what a person saw in them.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use omoi_server::domain::supervision::score::Label;

use super::labels::{self, Labels};

const FILES_MAX: usize = 10_000;
const DEPTH_MAX: usize = 8;
const ENDINGS: [&str; 5] = ["jsonl", "ndjson", "json", "traj", "log"];

pub struct Files {
    /// By name: the path below the directory.
    pub paths: BTreeMap<String, PathBuf>,
    labels: Labels,
    own: BTreeMap<String, Vec<Label>>,
}

impl Files {
    /// A file, or everything below a directory that may be a recording.
    pub fn of(path: &Path) -> Result<Self> {
        let mut paths = BTreeMap::new();
        let mut shared = Labels::default();
        if path.is_file() {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            paths.insert(name, path.to_path_buf());
        } else {
            walk(path, path, 0, &mut paths)?;
            let all = path.join(labels::ALL);
            if all.is_file() {
                shared = Labels::read(&all)?;
            }
        }
        let mut own = BTreeMap::new();
        for (name, path) in &paths {
            own.extend(labels::beside(path)?.map(|labels| (name.clone(), labels)));
        }
        Ok(Self { paths, labels: shared, own })
    }

    /// None for a recording that no person has judged. `labels.yaml` may leave out the ending of a name.
    pub fn labels(&self, name: &str) -> Option<&[Label]> {
        let own = self.own.get(name).map(Vec::as_slice);
        let stem = || name.rsplit_once('.').and_then(|(stem, _)| self.labels.of(stem));
        own.or_else(|| self.labels.of(name)).or_else(stem)
    }
}

/// Links are left out: what they lead to is counted where it lies, and a link to a directory above has no end.
fn walk(root: &Path, dir: &Path, depth: usize, paths: &mut BTreeMap<String, PathBuf>) -> Result<()> {
    let entries = fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    for entry in entries {
        let path = entry?.path();
        let kind = path.symlink_metadata().with_context(|| format!("cannot read {}", path.display()))?;
        if kind.is_dir() && depth < DEPTH_MAX {
            walk(root, &path, depth + 1, paths)?;
        }
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        if kind.is_file() && ENDINGS.contains(&ending) {
            ensure!(paths.len() < FILES_MAX, "{} holds more than {FILES_MAX} recordings", root.display());
            let below = path.strip_prefix(root).unwrap_or(&path);
            paths.insert(below.to_string_lossy().into_owned(), path);
        }
    }
    Ok(())
}
