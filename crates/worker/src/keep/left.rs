//! What cannot be kept, by name and reason. Counted whole, listed up to a limit.

use omoi_protocol::sandbox::LeftOut;

/// How many are listed; the rest is counted.
pub const LISTED_MAX: usize = 50;
const NOTES_MAX: usize = 40;
const TEXT_CHARS_MAX: usize = 200;

/// What holds data and is neither in a commit nor set aside.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Losses {
    pub listed: Vec<LeftOut>,
    pub files: u64,
    pub bytes: u64,
}

impl Losses {
    pub fn add(&mut self, path: &[u8], bytes: u64, reason: impl Into<String>) {
        self.files += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        if self.listed.len() < LISTED_MAX {
            self.listed.push(LeftOut { path: show(path), bytes, reason: shortened(&reason.into()) });
        }
    }
}

/// What else there is to say, one line each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notes {
    lines: Vec<String>,
    beyond: u64,
}

impl Notes {
    pub fn push(&mut self, line: impl Into<String>) {
        if self.lines.len() < NOTES_MAX {
            self.lines.push(shortened(&line.into()));
        } else {
            self.beyond += 1;
        }
    }

    pub fn into_lines(self) -> Vec<String> {
        let beyond = (self.beyond > 0).then(|| format!("and {} more notes like these", self.beyond));
        self.lines.into_iter().chain(beyond).collect()
    }
}

/// A path as it is shown to people, without what moves a cursor: a long one keeps both ends.
pub fn show(path: &[u8]) -> String {
    let text = String::from_utf8_lossy(path).replace(char::is_control, "\u{fffd}");
    let count = text.chars().count();
    if count <= TEXT_CHARS_MAX {
        return text;
    }
    let half = TEXT_CHARS_MAX / 2;
    let (start, end): (String, String) =
        (text.chars().take(half).collect(), text.chars().skip(count - half).collect());
    format!("{start}…{end}")
}

pub fn shortened(text: &str) -> String {
    text.chars().take(2 * TEXT_CHARS_MAX).collect()
}
