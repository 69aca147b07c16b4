//! Specs as files that people know: three Markdown files in the layout of Kiro or of spec-kit, or one JSON document.
//!
//! Markdown shows what people write and read; `omoi.json` beside it keeps the rest, so that a folder that was exported comes
//! back as it was. What somebody has changed in the Markdown wins over what is kept. A folder written by hand has no such
//! file and is read by itself.

mod checklist;
mod design;
mod kiro;
mod markdown;
mod note;
mod remainder;
mod requirement;
mod speckit;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use omoi_protocol::spec::Phase;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Keeps what Markdown does not show.
const REMAINDER: &str = "omoi.json";
const FORMAT: &str = "omoi.spec/1";
const FILES_MAX: usize = 100;
const FILE_BYTES_MAX: usize = 8 << 20;
const NAME_CHARS_MAX: usize = 60;

/// By path from the root of the repository, the text of a file.
pub type Files = BTreeMap<String, String>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// `.kiro/specs/NAME/requirements.md`, `design.md`, `tasks.md`.
    Kiro,
    /// `specs/NNN-NAME/spec.md`, `plan.md`, `tasks.md`.
    SpecKit,
}

impl Layout {
    /// The folder of a spec. spec-kit counts its folders; Kiro does not.
    pub fn folder(self, name: &str, number: u32) -> String {
        match self {
            Self::Kiro => format!(".kiro/specs/{name}"),
            Self::SpecKit => format!("specs/{number:03}-{name}"),
        }
    }
}

/// A spec outside of a server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Exchange {
    pub title: String,
    pub outputs: BTreeMap<Phase, Value>,
    /// Ids of tasks that are done.
    #[serde(default)]
    pub done: BTreeSet<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {text}")]
pub struct ImportError {
    pub file: String,
    /// From 1.
    pub line: usize,
    pub text: String,
}

impl ImportError {
    fn new(file: &str, line: usize, text: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line, text: text.into() }
    }
}

/// The name of a spec's folder.
pub fn slug(title: &str) -> String {
    let mut slug = String::new();
    for c in title.chars().flat_map(char::to_lowercase) {
        if c.is_ascii_alphanumeric() {
            slug.push(c);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
        if slug.len() >= NAME_CHARS_MAX {
            break;
        }
    }
    let slug = slug.trim_end_matches('-');
    if slug.is_empty() { "spec".to_owned() } else { slug.to_owned() }
}

/// The files of a spec, by their names in its folder.
pub fn export(layout: Layout, spec: &Exchange) -> Files {
    let mut files = match layout {
        Layout::Kiro => kiro::write(spec),
        Layout::SpecKit => speckit::write(spec),
    };
    files.values_mut().for_each(|text| *text = normal(text));
    // What cannot be read back, such as tasks that name each other wrongly, is kept in the remainder alone.
    let shown = loop {
        match read(&files, &spec.title, None) {
            Ok(shown) => break shown,
            Err(error) => {
                if files.remove(&error.file).is_none() {
                    break Exchange::default();
                }
            }
        }
    };
    let remainder = remainder::Remainder::between(&shown, spec);
    files.insert(REMAINDER.to_owned(), remainder.to_text());
    files
}

/// Reads the files of one folder, by their names or paths. `known` are the paths in the repository: a file that a folder
/// written by hand speaks of is made if it is not among them.
pub fn import(files: &Files, known: &BTreeSet<String>) -> Result<Exchange, ImportError> {
    let (folder, files) = one_folder(files)?;
    let title = titled(&folder);
    let Some(kept) = files.get(REMAINDER) else {
        return read(&files, &title, Some(known));
    };
    let remainder = remainder::Remainder::from_text(kept)
        .map_err(|(line, why)| ImportError::new(REMAINDER, line, why))?;
    // An exported folder may have no Markdown that can be read by itself.
    let shown = if files.len() == 1 { Exchange::default() } else { read(&files, remainder.title(), None)? };
    remainder.apply(shown).map_err(|why| ImportError::new(REMAINDER, 1, why))
}

pub fn to_json(spec: &Exchange) -> String {
    let mut value = serde_json::to_value(spec).expect("an exchange has no keys but text");
    value["format"] = FORMAT.into();
    format!("{value:#}\n")
}

pub fn from_json(text: &str) -> Result<Exchange, ImportError> {
    let wrong = |line, why: String| ImportError::new("spec.json", line, why);
    if text.len() > FILE_BYTES_MAX {
        return Err(wrong(1, format!("has {} bytes; at most {FILE_BYTES_MAX} are taken", text.len())));
    }
    let value: Value = serde_json::from_str(text).map_err(|error| wrong(error.line(), error.to_string()))?;
    match value.get("format").and_then(Value::as_str) {
        Some(FORMAT) => Exchange::deserialize(value).map_err(|error| wrong(1, error.to_string())),
        Some(other) => Err(wrong(1, format!("is of format {other:?}; this reads {FORMAT:?}"))),
        None => Err(wrong(1, format!("names no format; expected \"format\": {FORMAT:?}"))),
    }
}

/// The files without their folder, which must be the same for all.
fn one_folder(files: &Files) -> Result<(String, Files), ImportError> {
    let mut folder: Option<&str> = None;
    let mut named = Files::new();
    for (path, text) in files {
        let (of, name) = path.rsplit_once('/').unwrap_or(("", path));
        if !["requirements.md", "spec.md", "design.md", "plan.md", "tasks.md", REMAINDER].contains(&name) {
            continue;
        }
        if *folder.get_or_insert(of) != of {
            return Err(ImportError::new(
                path,
                1,
                "is in another folder than the rest; import one spec at a time",
            ));
        }
        if text.len() > FILE_BYTES_MAX {
            let why = format!("has {} bytes; at most {FILE_BYTES_MAX} are taken", text.len());
            return Err(ImportError::new(name, 1, why));
        }
        named.insert(name.to_owned(), normal(text));
    }
    if files.len() > FILES_MAX {
        return Err(ImportError::new(
            ".",
            1,
            format!("has {} files; at most {FILES_MAX} are taken", files.len()),
        ));
    }
    let folder = folder.unwrap_or_default().rsplit('/').next().unwrap_or_default().to_owned();
    Ok((folder, named))
}

/// Without what editors leave at the beginning and at the ends of lines.
fn normal(text: &str) -> String {
    text.trim_start_matches('\u{feff}').replace('\r', "")
}

fn read(files: &Files, title: &str, known: Option<&BTreeSet<String>>) -> Result<Exchange, ImportError> {
    let any = |names: [&'static str; 2]| names.into_iter().find(|name| files.contains_key(*name));
    match (any(["requirements.md", "design.md"]), any(["spec.md", "plan.md"])) {
        (Some(kiro), Some(kit)) => Err(ImportError::new(
            kit,
            1,
            format!("is of spec-kit's layout and {kiro} of Kiro's; leave the files of one of them"),
        )),
        (Some(_), None) => kiro::read(files, title, known),
        (None, Some(_)) => speckit::read(files, title, known),
        (None, None) => match files.get("tasks.md") {
            Some(tasks) if speckit::is_checklist(tasks) => speckit::read(files, title, known),
            Some(_) => kiro::read(files, title, known),
            None if files.contains_key(REMAINDER) => Ok(Exchange::default()),
            None => Err(ImportError::new(
                ".",
                1,
                "has no spec: expected requirements.md, design.md and tasks.md, or spec.md, plan.md and tasks.md",
            )),
        },
    }
}

/// A title from the name of a folder: `003-csv-export` is `Csv export`.
fn titled(folder: &str) -> String {
    let name = folder.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start_matches(['-', '_']);
    let words = name.replace(['-', '_'], " ");
    let mut letters = words.trim().chars();
    letters.next().map_or_else(|| "Spec".to_owned(), |first| first.to_uppercase().chain(letters).collect())
}

/// The part of an id of a requirement that stands for the feature.
fn feature_code(title: &str) -> String {
    let code = slug(title).to_uppercase();
    code.split('-').take(3).collect::<Vec<_>>().join("-")
}
