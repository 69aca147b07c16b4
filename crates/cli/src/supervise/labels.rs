//! What somebody sees in runs, by the run's name: a YAML file (`runs: { NAME: [{ kind, from }] }`), or a directory with
//! a NAME.yaml for each, whose `expect` says it.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::Result;
use omoi_server::domain::supervision::score::Label;
use serde::{Deserialize, de::DeserializeOwned};

use crate::failure::{Stop, USAGE};

const FILES_MAX: usize = 10_000;
/// What a person saw in the recordings of a directory, by their names.
pub const ALL: &str = "labels.yaml";

#[derive(Debug, Default)]
pub struct Labels(BTreeMap<String, Vec<Label>>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    runs: BTreeMap<String, Vec<Label>>,
}

#[derive(Deserialize)]
struct OfRun {
    expect: Vec<Label>,
}

impl Labels {
    pub fn read(path: &Path) -> Result<Self> {
        if !path.is_dir() {
            return Ok(Self(yaml::<File>(path)?.runs));
        }
        let mut labels = BTreeMap::new();
        for entry in fs::read_dir(path)?.take(FILES_MAX) {
            let file = entry?.path();
            if file.extension().is_some_and(|end| end == "yaml") {
                let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                labels.insert(name, yaml::<OfRun>(&file)?.expect);
            }
        }
        Ok(Self(labels))
    }

    /// None for a run that nobody has judged.
    pub fn of(&self, run: &str) -> Option<&[Label]> {
        self.0.get(run).map(Vec::as_slice)
    }
}

/// What the NAME.yaml beside a recording says, if there is one.
pub fn beside(recording: &Path) -> Result<Option<Vec<Label>>> {
    let file = recording.with_extension("yaml");
    if !file.is_file() || file.file_name().is_some_and(|name| name == ALL) {
        return Ok(None);
    }
    Ok(Some(yaml::<OfRun>(&file)?.expect))
}

fn yaml<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let wrong = |what: String| Stop::new(USAGE, format!("labels {}: {what}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    Ok(serde_saphyr::from_str(&text).map_err(|error| wrong(error.to_string()))?)
}
