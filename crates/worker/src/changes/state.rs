//! Where the last step ended, on disk, so that a worker that comes after a killed one goes on from there.

use std::{fs, path::Path};

use serde::{Deserialize, Serialize};

use super::{Error, LargeFiles};

const FILE: &str = "state.json";

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct State {
    /// The tree of the last step.
    pub last: String,
    #[serde(with = "pairs")]
    pub large: LargeFiles,
}

impl State {
    /// None if there is none, or none that can be read.
    pub fn read(dir: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(dir.join(FILE)).ok()?).ok()
    }

    /// Whole or not at all.
    pub fn write(&self, dir: &Path) -> Result<(), Error> {
        let new = dir.join("state.new");
        let text = serde_json::to_vec(self).expect("a state is pairs and texts");
        fs::write(&new, text)
            .and_then(|()| fs::rename(&new, dir.join(FILE)))
            .map_err(|source| Error::Scratch { path: dir.to_owned(), source })
    }
}

/// JSON has texts alone as keys, and a path may be no text.
mod pairs {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::changes::{LargeFiles, scan::Large};

    pub fn serialize<S: Serializer>(files: &LargeFiles, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(files)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<LargeFiles, D::Error> {
        Ok(Vec::<(Vec<u8>, Large)>::deserialize(from)?.into_iter().collect())
    }
}
