//! Recordings below a directory, each with a name that says where it lies, and what a person saw in them.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use omoi_server::domain::supervision::score::Label;

use super::labels::Labels;

const FILES_MAX: usize = 10_000;
const DEPTH_MAX: usize = 8;
const ENDINGS: [&str; 5] = ["jsonl", "ndjson", "json", "traj", "log"];
/// What a person saw in the recordings of a directory, by their names.
const LABELS: &str = "labels.yaml";

pub struct Files {
    /// By name: the path below the directory, without its ending.
    pub paths: BTreeMap<String, PathBuf>,
    labels: Labels,
}

impl Files {
    /// A file, or everything below a directory that may be a recording.
    pub fn of(path: &Path) -> Result<Self> {
        let mut paths = BTreeMap::new();
        if path.is_file() {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            paths.insert(name, path.to_path_buf());
            return Ok(Self { paths, labels: Labels::default() });
        }
        walk(path, path, 0, &mut paths)?;
        let own = path.join(LABELS);
        let labels = Labels::read(if own.is_file() { &own } else { path })?;
        Ok(Self { paths, labels })
    }

    /// None for a recording that no person has judged.
    pub fn labels(&self, name: &str) -> Option<&[Label]> {
        self.labels.of(name)
    }
}

fn walk(root: &Path, dir: &Path, depth: usize, paths: &mut BTreeMap<String, PathBuf>) -> Result<()> {
    let entries = fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() && depth < DEPTH_MAX {
            walk(root, &path, depth + 1, paths)?;
        }
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        if path.is_file() && ENDINGS.contains(&ending) {
            ensure!(paths.len() < FILES_MAX, "{} holds more than {FILES_MAX} recordings", root.display());
            let below = path.strip_prefix(root).unwrap_or(&path).with_extension("");
            paths.insert(below.to_string_lossy().into_owned(), path);
        }
    }
    Ok(())
}
