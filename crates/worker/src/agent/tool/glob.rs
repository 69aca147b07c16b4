//! The tool Glob: files by name, newest first.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    path::{Path, PathBuf},
    time::SystemTime,
};

use globset::{GlobBuilder, GlobMatcher};
use ignore::{overrides::Override, types::Types};
use serde_json::json;

use super::{
    input::{self, Input},
    reach::{self, Reach},
    tools::Done,
    walk::{Cut, Halt, cut_note, walk},
};

const FILES_MAX: usize = 100;
/// Of names in the record of a call.
const RECORD_BYTES_MAX: usize = 12 * 1024;
const PATTERN_BYTES_MAX: usize = 4096;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Input(#[from] input::Error),
    #[error(transparent)]
    Reach(#[from] reach::Error),
    #[error("{path} is a file; give the directory to look in")]
    NoDirectory { path: String },
    #[error("the field `pattern` of Glob is no pattern: {0}")]
    Pattern(#[from] globset::Error),
}

pub fn run(reach: &Reach, input: &Input<'_>, halt: &Halt) -> Result<Done, Error> {
    let pattern = input.text("pattern")?;
    input.bounded("pattern", pattern, PATTERN_BYTES_MAX, "give a shorter one")?;
    let (base, pattern) = match pattern.starts_with('/') {
        true => rooted(pattern),
        false => (input.path_or_none("path")?.unwrap_or("."), pattern),
    };
    let place = reach.find(base)?;
    if !place.is_dir() {
        return Err(Error::NoDirectory { path: base.to_owned() });
    }
    let pattern = pattern.trim_start_matches("./");
    let matcher =
        GlobBuilder::new(pattern).literal_separator(true).empty_alternates(true).build()?.compile_matcher();
    let found = Found::look(&place.real, &matcher, halt);
    Ok(found.told(reach))
}

/// The newest of what was found, and how much that was.
#[derive(Default)]
struct Found {
    newest: BinaryHeap<Reverse<(SystemTime, PathBuf)>>,
    count: usize,
    cut: Option<Cut>,
}

impl Found {
    fn look(base: &Path, matcher: &GlobMatcher, halt: &Halt) -> Self {
        let mut found = Self::default();
        for entry in walk(base, Override::empty(), Types::empty()) {
            found.cut = halt.cut();
            if found.cut.is_some() {
                break;
            }
            let Ok(entry) = entry else { continue };
            let wanted = entry.file_type().is_some_and(|kind| !kind.is_dir())
                && entry.path().strip_prefix(base).is_ok_and(|below| matcher.is_match(below));
            if wanted {
                let changed = entry.metadata().ok().and_then(|meta| meta.modified().ok());
                found.keep(changed.unwrap_or(SystemTime::UNIX_EPOCH), entry.into_path());
            }
        }
        found
    }

    fn keep(&mut self, changed: SystemTime, path: PathBuf) {
        self.count += 1;
        self.newest.push(Reverse((changed, path)));
        if self.newest.len() > FILES_MAX {
            self.newest.pop();
        }
    }

    fn told(self, reach: &Reach) -> Done {
        let newest = self.newest.into_sorted_vec();
        let mut names: Vec<String> = newest.iter().map(|Reverse((_, path))| reach.shown(path)).collect();
        let mut lines = names.clone();
        let mut bytes = 0;
        names.retain(|name| {
            bytes += name.len();
            bytes <= RECORD_BYTES_MAX
        });
        if self.count == 0 {
            lines.push("no file matches".to_owned());
        }
        if self.count > FILES_MAX {
            lines.push(format!(
                "(the newest {FILES_MAX} of {}; narrow the pattern to see others)",
                self.count
            ));
        }
        lines.extend(self.cut.map(cut_note));
        let truncated = self.cut.is_some() || self.count > FILES_MAX;
        let response = json!({ "count": self.count, "truncated": truncated, "files": names });
        Done::good(lines.join("\n"), response).cut_by(self.cut)
    }
}

/// Of an absolute pattern, the directory before the first part with a wildcard, and the rest.
fn rooted(pattern: &str) -> (&str, &str) {
    let wild = pattern.find(['*', '?', '[', '{']).unwrap_or(pattern.len());
    match pattern[..wild].rfind('/') {
        Some(0) | None => ("/", pattern.trim_start_matches('/')),
        Some(at) => (&pattern[..at], &pattern[at + 1..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absolute_pattern_begins_where_it_is_sure() {
        for (pattern, expected) in [
            ("/a/b/*.rs", ("/a/b", "*.rs")),
            ("/a/b*/c", ("/a", "b*/c")),
            ("/*.rs", ("/", "*.rs")),
            ("/a/b.rs", ("/a", "b.rs")),
            ("/a/{b,c}/**", ("/a", "{b,c}/**")),
        ] {
            assert_eq!(rooted(pattern), expected);
        }
    }
}
