//! Markdown with a head: `key: value` lines between two lines of `---`, as skills and helpers are written in.

use std::{
    collections::BTreeMap,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

const BYTES_MAX: u64 = 64 * 1024;
const FILES_MAX: usize = 100;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    pub head: BTreeMap<String, String>,
    pub body: String,
}

impl Page {
    /// None when there is no file there, or more than one page should be.
    pub fn read(path: &Path) -> Option<Self> {
        if !path.symlink_metadata().ok()?.is_file() {
            return None;
        }
        let mut text = Vec::new();
        File::open(path).ok()?.take(BYTES_MAX).read_to_end(&mut text).ok()?;
        Some(Self::parse(&String::from_utf8_lossy(&text)))
    }

    pub fn parse(text: &str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let (head, body) = match text.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---")) {
            Some((head, rest)) => (head, rest.split_once('\n').map_or("", |(_, body)| body)),
            None => ("", text),
        };
        let line = |line: &str| {
            let (key, value) = line.split_once(':')?;
            Some((key.trim().to_ascii_lowercase(), value.trim().trim_matches(['"', '\'']).to_owned()))
        };
        Self { head: head.lines().filter_map(line).collect(), body: body.trim().to_owned() }
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.head.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }
}

/// What a directory holds, in the order of the names.
pub fn list(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut paths: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).take(FILES_MAX).collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_optional() {
        let page = Page::parse("---\nname: tidy\ndescription: \"Keeps it: tidy\"\n---\n\nDo it.\n");
        assert_eq!((page.get("name"), page.get("description")), (Some("tidy"), Some("Keeps it: tidy")));
        assert_eq!(page.body, "Do it.");
        let page = Page::parse("Do it.\n---\nand that");
        assert_eq!((page.head.len(), page.body.as_str()), (0, "Do it.\n---\nand that"));
        assert_eq!(Page::parse("---\nname: open").head.len(), 0);
    }
}
