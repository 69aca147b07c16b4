//! Why a configuration was refused. Every case names the key or the file at fault, and none repeats a secret.

use std::{io, path::PathBuf};

use super::{Entry, Key, Origin, form::Kind, value::mask_user};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `value` is quoted, without the user and password of an address, or hidden when the key is a secret.
    #[error("{key} (from {origin}): {value} is not {accepts}")]
    Value { key: &'static str, origin: Origin, value: String, accepts: &'static str },
    #[error("{key} (from {origin}): no such key; the nearest is {nearest}")]
    UnknownKey { key: String, origin: Origin, nearest: &'static str },
    #[error("{section} (from {origin}): a section takes keys below it, not a value")]
    SectionValue { section: String, origin: Origin },
    /// As `server.role` and again as `role` below `server`.
    #[error("{key} (from {origin}): written twice")]
    Twice { key: &'static str, origin: Origin },
    /// Two values that are each acceptable, but not together.
    #[error(
        "{} is {} (from {}), but {rule} {}, which is {} (from {})",
        one.key, one.value, one.origin, other.key, other.value, other.origin
    )]
    Conflict { one: Box<Entry>, rule: &'static str, other: Box<Entry> },
    /// Found before any setting was looked at, because the configuration file may be in it.
    #[error("cannot open the data directory {path} (from {origin})", path = path.display())]
    DataDir { path: PathBuf, origin: Origin, source: io::Error },
    #[error("cannot read the configuration file {path}", path = path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("the configuration file {path} is not YAML", path = path.display())]
    Yaml { path: PathBuf, source: Box<serde_saphyr::Error> },
    #[error("the configuration file {path} is not a map of sections", path = path.display())]
    NotMap { path: PathBuf },
}

impl Error {
    pub(super) fn value(key: &Key, text: &str, origin: Origin) -> Self {
        let value =
            if key.kind == Kind::Secret { "***".to_owned() } else { format!("{:?}", mask_user(text)) };
        Self::Value { key: key.name, origin, value, accepts: key.accepts }
    }

    pub(super) fn unknown_key(name: &str, origin: Origin) -> Self {
        Self::UnknownKey { key: name.to_owned(), origin, nearest: Key::nearest(name).name }
    }
}
