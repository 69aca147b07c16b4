//! The YAML file: reading it into text by key, and writing the default one, which is the documentation.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{Config, Error, KEYS, Key, Origin, form::Kind, key::SECTIONS};

pub(super) struct File {
    pub path: PathBuf,
    /// Keys without a value are absent, as if they were not written.
    pub values: BTreeMap<&'static str, String>,
}

pub(super) fn read(path: &Path) -> Result<File, Error> {
    let text = fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    // A snippet of the file could repeat a secret; a file of comments would pass the limit of kept comments.
    let options = serde_saphyr::options! { with_snippet: false, emit_comments: false };
    let tree = serde_saphyr::from_str_with_options(&text, options)
        .map_err(|source| Error::Yaml { path: path.to_owned(), source: Box::new(source) })?;
    let mut file = File { path: path.to_owned(), values: BTreeMap::new() };
    match tree {
        Value::Null => {}
        Value::Object(sections) => {
            for (name, value) in sections {
                file.add(name, value)?;
            }
        }
        _ => return Err(Error::NotMap { path: file.path }),
    }
    Ok(file)
}

impl File {
    fn add(&mut self, name: String, value: Value) -> Result<(), Error> {
        let Some(key) = Key::named(&name) else { return self.add_section(name, value) };
        let text = match &value {
            Value::Null => return Ok(()),
            Value::Array(items) if key.kind == Kind::List => {
                let items: Option<Vec<_>> = items.iter().map(scalar).collect();
                items.map(|items| items.join(","))
            }
            value => scalar(value),
        };
        let text = text.ok_or_else(|| Error::value(key, &value.to_string(), self.origin()))?;
        match self.values.insert(key.name, text) {
            Some(_) => Err(Error::Twice { key: key.name, origin: self.origin() }),
            None => Ok(()),
        }
    }

    fn add_section(&mut self, name: String, value: Value) -> Result<(), Error> {
        let known = SECTIONS.iter().any(|(section, _)| *section == name);
        match value {
            Value::Object(keys) if known || !keys.is_empty() => {
                for (key, value) in keys {
                    self.add(format!("{name}.{key}"), value)?;
                }
                Ok(())
            }
            Value::Null if known => Ok(()),
            _ if known => Err(Error::SectionValue { section: name, origin: self.origin() }),
            _ => Err(Error::unknown_key(&name, self.origin())),
        }
    }

    fn origin(&self) -> Origin {
        Origin::File(self.path.clone())
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

const PREFACE: &str = "\
# The configuration of Omoi. Every key stands below with what it means and its default;
# to change one, take away the # in front of it.
#
# A value comes from the first of these that has it: a flag, the environment (variables are named
# with each key, and an empty one counts as not set), this file, the default.
# `omoi config show` prints each value and where it came from.
#
# This file is the one given with --config or OMOI_CONFIG, else omoi.yaml in the data directory.
# A bad value or an unknown key stops the start.
";

impl Config {
    /// A file that sets nothing and says everything.
    pub fn default_file() -> String {
        let mut out = PREFACE.to_owned();
        for key in KEYS.iter().filter(|key| !key.name.contains('.')) {
            write_key(&mut out, "", key.name, key);
        }
        for (section, doc) in SECTIONS {
            write!(out, "\n#{doc}\n{section}:\n").expect("text takes text");
            for key in KEYS {
                if let Some((_, name)) = key.name.split_once('.').filter(|(parent, _)| parent == section) {
                    write_key(&mut out, "  ", name, key);
                }
            }
        }
        out
    }
}

fn write_key(out: &mut String, indent: &str, name: &str, key: &Key) {
    let default = match (key.kind, key.default) {
        (Kind::List, "") => "[]",
        (_, "") => "\"\"",
        (_, default) => default,
    };
    let doc: String = key.doc.iter().map(|line| format!("{indent}#{line}\n")).collect();
    let about =
        format!("{indent}# Takes {}.\n{indent}# Environment: {}\n", key.accepts, key.env.join(" or "));
    write!(out, "\n{doc}{about}{indent}#{name}: {default}\n").expect("text takes text");
}
