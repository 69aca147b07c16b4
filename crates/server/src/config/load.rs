//! Where values come from: flags, then the environment, then the file, then the defaults.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use super::{
    Config, Error, Ineffective, Key, earlier, file,
    form::{Form, Kind, PATH},
    rule,
};

const FILE_NAME: &str = "omoi.yaml";
const FILE_ENV: &str = "OMOI_CONFIG";
const DATA_DIR_WITHOUT_HOME: &str = "./omoi-data";

/// A configuration with the story of each of its values.
#[derive(Debug, Clone)]
pub struct Resolved {
    pub config: Config,
    /// In the order of the default file.
    pub entries: Vec<Entry>,
    /// Settings that are made and have no effect.
    pub ineffective: Vec<Ineffective>,
}

/// One value as `omoi config show` prints it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub key: &'static str,
    /// Safe to print: a secret is masked.
    pub value: String,
    pub origin: Origin,
    pub doc: String,
    pub secret: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    Default,
    File(PathBuf),
    /// The variable's name.
    Env(&'static str),
    /// The flag's name, dashes included.
    Flag(&'static str),
}

/// A value given on the command line.
#[derive(Debug, Clone)]
pub struct Flag {
    /// As it is written: `--listen`.
    pub name: &'static str,
    /// The key it sets: `server.listen`.
    pub key: &'static str,
    pub value: String,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("the default"),
            Self::File(path) => path.display().fmt(f),
            Self::Env(name) | Self::Flag(name) => f.write_str(name),
        }
    }
}

/// Reads the configuration. `file` is the one given by a flag; without it `OMOI_CONFIG` names the file, and
/// without that `omoi.yaml` in the data directory is read if it is there. An empty variable counts as not set.
pub fn load(
    flags: &[Flag],
    env: impl Fn(&str) -> Option<String>,
    file: Option<&Path>,
) -> Result<Resolved, Error> {
    let mut reader = Reader::new(flags, &env);
    if let Some(flag) = flags.iter().find(|flag| Key::named(flag.key).is_none()) {
        return Err(Error::unknown_key(flag.key, Origin::Flag(flag.name)));
    }
    if let Some(path) = find_file(&reader, file)? {
        reader.file = Some(file::read(&path)?);
    }
    let config = Config::read(&mut reader)?;
    rule::check(&config, &reader.entries)?;
    let ineffective = earlier::ineffective(|name| reader.env(name).is_some(), &reader.entries);
    Ok(Resolved { config, entries: reader.entries, ineffective })
}

impl Default for Config {
    /// No flags, no environment, no file.
    fn default() -> Self {
        Self::read(&mut Reader::new(&[], &|_| None)).expect("a test reads every default")
    }
}

fn find_file(reader: &Reader<'_>, named: Option<&Path>) -> Result<Option<PathBuf>, Error> {
    if let Some(path) = named {
        return Ok(Some(path.to_owned()));
    }
    if let Some(path) = reader.env(FILE_ENV) {
        return Ok(Some(path.into()));
    }
    let (data_dir, origin) = reader.value(Key::named("data_dir").expect("a key of the table"), &PATH)?;
    let path = data_dir.join(FILE_NAME);
    match path.try_exists() {
        Ok(exists) => Ok(exists.then_some(path)),
        Err(source) => Err(Error::DataDir { path: data_dir, origin, source }),
    }
}

/// Finds, parses and records one value after another.
pub(super) struct Reader<'a> {
    flags: &'a [Flag],
    env: &'a dyn Fn(&str) -> Option<String>,
    file: Option<file::File>,
    entries: Vec<Entry>,
}

impl<'a> Reader<'a> {
    fn new(flags: &'a [Flag], env: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self { flags, env, file: None, entries: Vec::new() }
    }

    pub(super) fn read<T>(&mut self, name: &'static str, form: &Form<T>) -> Result<T, Error> {
        let key = Key::named(name).expect("the macro that names the key also lists it");
        let (value, origin) = self.value(key, form)?;
        let secret = key.kind == Kind::Secret;
        self.entries.push(Entry { key: name, value: (form.show)(&value), origin, doc: key.doc(), secret });
        Ok(value)
    }

    fn value<T>(&self, key: &'static Key, form: &Form<T>) -> Result<(T, Origin), Error> {
        let (mut text, origin) = self.text(key)?;
        if key.kind == Kind::Path {
            text = self.expand_home(text, &origin);
        }
        match (form.parse)(&text) {
            Some(value) => Ok((value, origin)),
            None => Err(Error::value(key, &text, origin)),
        }
    }

    fn text(&self, key: &'static Key) -> Result<(String, Origin), Error> {
        if let Some(flag) = self.flags.iter().rev().find(|flag| flag.key == key.name) {
            return Ok((flag.value.trim().to_owned(), Origin::Flag(flag.name)));
        }
        if let Some((name, value)) = key.env.iter().find_map(|name| Some((*name, self.env(name)?))) {
            let origin = Origin::Env(name);
            let Some(translation) = earlier::translation(name) else { return Ok((value, origin)) };
            return match (translation.read)(&value) {
                Some(value) => Ok((value, origin)),
                None => Err(Error::Value {
                    key: key.name,
                    origin,
                    value: format!("{value:?}"),
                    accepts: translation.accepts,
                }),
            };
        }
        if let Some(file) = &self.file
            && let Some(value) = file.values.get(key.name)
        {
            return Ok((value.trim().to_owned(), Origin::File(file.path.clone())));
        }
        Ok((key.default.to_owned(), Origin::Default))
    }

    fn env(&self, name: &str) -> Option<String> {
        (self.env)(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    fn expand_home(&self, text: String, origin: &Origin) -> String {
        match (text.strip_prefix("~/"), self.env("HOME")) {
            (Some(below), Some(home)) => format!("{}/{below}", home.trim_end_matches('/')),
            (Some(_), None) if *origin == Origin::Default => DATA_DIR_WITHOUT_HOME.to_owned(),
            _ => text,
        }
    }
}
