//! All scenarios that can be played: those that come with the program, and those of a directory. One of the directory
//! goes before one of the same name that comes with the program.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

use super::{
    super::refusal::Refusal,
    faults::Faults,
    place::scenario_of_id,
    read::{self, Error},
    scenario::Scenario,
    talk::Talk,
};
use crate::{
    config,
    domain::{model_key::SCRIPTED, price::Tariff},
};

/// Chooses the scenario of a conversation, at the beginning of its first message.
const CHOICE: &str = "@scenario ";
const FILES_MAX: usize = 1000;
const FILE_BYTES_MAX: u64 = 1024 * 1024;

macro_rules! shipped {
    ($($name:literal),+) => {
        &[$(($name, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/", $name, ".yaml")))),+]
    };
}

const SHIPPED: &[(&str, &str)] =
    shipped!["binomial", "circles", "judge", "long", "loop", "recover", "soak", "spec", "steering"];

#[derive(Debug, Clone)]
pub struct Library(Arc<Inner>);

#[derive(Debug)]
pub struct Inner {
    scenarios: BTreeMap<String, Arc<Scenario>>,
    pub faults: Faults,
    /// What all times are divided by.
    pub speed: f64,
}

impl std::ops::Deref for Library {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl Library {
    pub fn load(config: &config::Model) -> Result<Self, Error> {
        let mut scenarios = BTreeMap::new();
        let mut add = |scenario: Scenario| drop(scenarios.insert(scenario.name.clone(), Arc::new(scenario)));
        for (name, text) in SHIPPED {
            add(read::scenario(&format!("{name}.yaml"), name, text)?);
        }
        if let Some(directory) = &config.scenarios {
            of_directory(directory)?.into_iter().for_each(add);
        }
        let speed = config.scenario_speed;
        Ok(Self(Arc::new(Inner { scenarios, faults: Faults::default(), speed })))
    }

    /// Prices that scenarios set for themselves.
    pub fn tariffs(&self) -> impl Iterator<Item = Tariff> {
        self.scenarios.values().filter_map(|scenario| scenario.price.clone())
    }

    /// The one that a conversation plays: the one it has played before, the one that its first message chooses, or the
    /// one that the model's name says.
    pub fn choose(&self, model: &str, talk: &Talk) -> Result<Arc<Scenario>, Refusal> {
        let named = model.strip_prefix(SCRIPTED).unwrap_or_default().trim_start_matches('/');
        let named = self.named(named)?;
        let ids = talk.exchanges.iter().rev().flat_map(|exchange| &exchange.ids);
        if let Some(played) = ids.filter_map(|id| self.scenarios.get(scenario_of_id(id)?)).next() {
            return Ok(played.clone());
        }
        let first = talk.opening.texts.iter().find_map(|text| text.trim_start().strip_prefix(CHOICE));
        match first.and_then(|rest| rest.split_whitespace().next()) {
            Some(chosen) => self.named(chosen),
            None => Ok(named),
        }
    }

    fn named(&self, name: &str) -> Result<Arc<Scenario>, Refusal> {
        self.scenarios.get(name).cloned().ok_or_else(|| {
            let known = self.scenarios.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            let name: String = name.chars().take(read::NAME_CHARS_MAX).collect();
            let message = format!("there is no scenario {name:?}; known are {known}");
            Refusal::new(axum::http::StatusCode::NOT_FOUND, "scenario_unknown", message)
        })
    }
}

fn of_directory(directory: &Path) -> Result<Vec<Scenario>, Error> {
    let unreadable = |source| Error::Directory { path: directory.display().to_string(), source };
    let entries = fs::read_dir(directory).map_err(unreadable)?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml") {
            paths.push(path);
        }
    }
    paths.sort();
    if paths.len() > FILES_MAX {
        let what = format!("holds more than {FILES_MAX} files");
        return Err(Error::File { file: directory.display().to_string(), what });
    }
    paths.iter().map(|path| of_file(path)).collect()
}

fn of_file(path: &Path) -> Result<Scenario, Error> {
    let file = path.display().to_string();
    let unreadable = |source| Error::Directory { path: file.clone(), source };
    if fs::metadata(path).map_err(unreadable)?.len() > FILE_BYTES_MAX {
        return Err(Error::File { what: format!("is larger than {FILE_BYTES_MAX} bytes"), file });
    }
    let text = fs::read_to_string(path).map_err(unreadable)?;
    let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    read::scenario(&file, name, &text)
}
