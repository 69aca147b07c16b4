//! The tool Edit: a piece of a file in place of another.

use std::fmt::Write as _;

use memchr::memmem;
use serde_json::json;

use super::{
    file::{self, FILE_BYTES_MAX},
    input::{self, Input},
    reach::Reach,
    seen::Seen,
    tools::Done,
};

/// How much is shown around the first change.
const AROUND_LINES: usize = 3;
const SNIPPET_LINES_MAX: usize = 40;
const SNIPPET_LINE_CHARS_MAX: usize = 300;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Input(#[from] input::Error),
    #[error(transparent)]
    File(#[from] file::Error),
    #[error("old_string and new_string are the same; nothing would change")]
    Same,
    #[error("old_string is empty; give the text to be replaced, or use Write for a new file")]
    Empty,
    #[error("old_string does not occur in {path}; {hint}")]
    Absent { path: String, hint: &'static str },
    #[error(
        "old_string occurs {count} times in {path}; give more of what is around the one you mean, or set replace_all"
    )]
    Ambiguous { path: String, count: usize },
    #[error("{path} would have {bytes} bytes, {FILE_BYTES_MAX} are the most")]
    Grows { path: String, bytes: usize },
}

pub fn run(reach: &Reach, seen: &Seen, input: &Input<'_>) -> Result<Done, Error> {
    let path = input.path("file_path")?;
    let change = Change {
        old: input.text("old_string")?.to_owned(),
        new: input.text("new_string")?.to_owned(),
        all: input.flag("replace_all")?,
    };
    change.check()?;
    let target = reach.target(path).map_err(file::Error::from)?;
    let Some(place) = &target.existing else {
        // Says that there is no such file.
        reach.find(path).map_err(file::Error::from)?;
        return Err(file::Error::Changed { path: path.to_owned() }.into());
    };
    let content = file::read_whole(path, place, "it is too big for Edit; change it with a command")?;
    file::check_seen(path, place, &content, seen)?;
    let edited = change.fitting(&content).apply(path, &content)?;
    let real = target.real.clone();
    file::put(path, target, &edited.content, seen)?;
    let times = if edited.count == 1 { String::new() } else { format!(" in {} places", edited.count) };
    let text = format!("changed {}{times}; it now reads:\n{}", reach.shown(&real), edited.snippet());
    let response = json!({ "type": "update", "file_path": real, "replacements": edited.count });
    Ok(Done::good(text, response))
}

#[derive(Debug, Clone)]
struct Change {
    old: String,
    new: String,
    all: bool,
}

struct Edited {
    content: Vec<u8>,
    count: usize,
    /// Where the first change begins and ends.
    first: (usize, usize),
}

impl Change {
    fn check(&self) -> Result<(), Error> {
        match () {
            () if self.old.is_empty() => Err(Error::Empty),
            () if self.old == self.new => Err(Error::Same),
            () => Ok(()),
        }
    }

    /// In a file whose lines end with CR LF, which Read does not show, the same is meant with CR LF.
    fn fitting(self, content: &[u8]) -> Self {
        let ends = memchr::memchr_iter(b'\n', content).count();
        let all_crlf = ends > 0 && memmem::find_iter(content, b"\r\n").count() == ends;
        let crlf = |text: &str| text.replace("\r\n", "\n").replace('\n', "\r\n");
        let found = memmem::find(content, self.old.as_bytes()).is_some();
        let other = crlf(&self.old);
        if all_crlf || (!found && memmem::find(content, other.as_bytes()).is_some()) {
            return Self { new: crlf(&self.new), old: other, all: self.all };
        }
        self
    }

    fn apply(&self, path: &str, content: &[u8]) -> Result<Edited, Error> {
        let (old, new) = (self.old.as_bytes(), self.new.as_bytes());
        let count = memmem::find_iter(content, old).count();
        match count {
            0 => return Err(Error::Absent { path: path.to_owned(), hint: self.hint(content) }),
            2.. if !self.all => return Err(Error::Ambiguous { path: path.to_owned(), count }),
            _ => {}
        }
        let bytes = (content.len() - count * old.len()).saturating_add(count.saturating_mul(new.len()));
        if bytes as u64 > FILE_BYTES_MAX {
            return Err(Error::Grows { path: path.to_owned(), bytes });
        }
        let mut edited = Vec::with_capacity(bytes);
        let (mut at, mut first) = (0, None);
        for found in memmem::find_iter(content, old) {
            edited.extend_from_slice(&content[at..found]);
            first.get_or_insert((edited.len(), edited.len() + new.len()));
            edited.extend_from_slice(new);
            at = found + old.len();
        }
        edited.extend_from_slice(&content[at..]);
        Ok(Edited { content: edited, count, first: first.unwrap_or_default() })
    }

    fn hint(&self, content: &[u8]) -> &'static str {
        let numbered = |line: &str| {
            let rest = line.trim_start().trim_start_matches(|digit: char| digit.is_ascii_digit());
            rest.len() < line.trim_start().len() && rest.starts_with('\t')
        };
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        if self.old.lines().all(numbered) {
            "leave out the line numbers and the tab that Read puts before each line"
        } else if squeezed(&String::from_utf8_lossy(content)).contains(&squeezed(&self.old)) {
            "it does with other white space: take indentation and line ends exactly as Read shows them"
        } else {
            "it has to be there exactly; Read the place again and copy it"
        }
    }
}

impl Edited {
    fn snippet(&self) -> String {
        let line_of = |at: usize| memchr::memchr_iter(b'\n', &self.content[..at]).count();
        let (from, to) =
            (line_of(self.first.0).saturating_sub(AROUND_LINES), line_of(self.first.1) + AROUND_LINES);
        let lines = self.content.split(|byte| *byte == b'\n').enumerate().skip(from);
        let mut text = String::new();
        for (number, line) in lines.take((to - from + 1).min(SNIPPET_LINES_MAX)) {
            let line: String = String::from_utf8_lossy(line).chars().take(SNIPPET_LINE_CHARS_MAX).collect();
            let _ = writeln!(text, "{:>6}\t{}", number + 1, line.trim_end_matches('\r'));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(content: &str, old: &str, new: &str, all: bool) -> Result<String, Error> {
        let change = Change { old: old.to_owned(), new: new.to_owned(), all };
        change.check()?;
        let edited = change.fitting(content.as_bytes()).apply("f", content.as_bytes())?;
        Ok(String::from_utf8(edited.content).unwrap())
    }

    #[test]
    fn lines_end_as_they_did() {
        for (content, old, new, expected) in [
            ("a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", "x\r\ny\r\nz\r\nc\r\n"),
            ("a\r\nb\r\n", "b", "b\nc", "a\r\nb\r\nc\r\n"),
            ("a\r\nb\r\n", "a\r\nb", "c\r\nd", "c\r\nd\r\n"),
            // Mixed: as it is where that fits, else the way of the place.
            ("a\nb\r\nc\n", "a", "x\ny", "x\ny\nb\r\nc\n"),
            ("a\nb\r\nc\n", "b\nc", "d\ne", "a\nd\r\ne\n"),
            ("a\nb\n", "a\nb", "c", "c\n"),
        ] {
            assert_eq!(edit(content, old, new, false).unwrap(), expected, "{content:?} {old:?}");
        }
    }

    #[test]
    fn what_cannot_be_done_says_what_to_do() {
        let refused =
            |content: &str, old: &str, new: &str| edit(content, old, new, false).unwrap_err().to_string();
        assert!(refused("a a", "a", "b").contains("occurs 2 times"));
        assert!(refused("a", "a", "a").contains("the same"));
        assert!(refused("a", "", "b").contains("Write"));
        assert!(refused("let  x = 1;\n", "let x = 1;", "b").contains("white space"));
        assert!(refused("let x = 1;\n", "     1\tlet x = 1;", "b").contains("line numbers"));
        assert!(refused("abc", "xyz", "b").contains("Read"));
        assert_eq!(edit("a a", "a", "b", true).unwrap(), "b b");
        let grows = edit(&"a".repeat(1 << 20), "a", &"b".repeat(1 << 20), true).unwrap_err();
        assert!(matches!(grows, Error::Grows { .. }), "{grows}");
    }
}
