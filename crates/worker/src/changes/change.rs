//! One changed file, and the event that tells of it.

use omoi_protocol::event::{AgentFileEdited, DIFF_PREVIEW_CHARS_MAX, DIFF_PREVIEW_LINES_MAX, FileChange};

use super::{scan::LARGE_BYTES, shown};

/// How much room a diff takes in its event, as JSON. The server takes 1 MiB for the whole.
const DIFF_JSON_BYTES_MAX: usize = 700 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Relative to the workspace. What is not UTF-8 shows as U+FFFD.
    pub file_path: String,
    pub previous_path: Option<String>,
    pub change_type: FileChange,
    pub lines_added: u64,
    pub lines_removed: u64,
    /// As Git prints it, with `a/`, `b/` and `/dev/null`.
    pub diff: String,
    /// Of the whole diff, of which `diff` may be the beginning.
    pub diff_chars: u64,
    pub is_cut: bool,
    pub is_binary: bool,
}

impl Change {
    pub fn new(file_path: String, previous_path: Option<String>, change_type: FileChange) -> Self {
        Self {
            file_path,
            previous_path,
            change_type,
            lines_added: 0,
            lines_removed: 0,
            diff: String::new(),
            diff_chars: 0,
            is_cut: false,
            is_binary: false,
        }
    }

    /// Of a file that is too large to be read.
    pub fn large(path: &[u8], change_type: FileChange, old_bytes: Option<u64>, bytes: u64) -> Self {
        let mut change = Self::new(shown(path), None, change_type);
        let name = change.file_path.replace(char::is_control, "\u{fffd}");
        let (old, new) = (format!("a/{name}"), format!("b/{name}"));
        let none = "/dev/null".to_owned();
        let (left, right) = match change.change_type {
            FileChange::Created => (&none, &new),
            FileChange::Deleted => (&old, &none),
            _ => (&old, &new),
        };
        let sizes = sizes(old_bytes, (change.change_type != FileChange::Deleted).then_some(bytes));
        change.diff = format!(
            "diff --git {old} {new}\nBinary files {left} and {right} differ ({sizes}; not read, being over {LARGE_BYTES} \
             bytes)\n"
        );
        change.diff_chars = change.diff.chars().count() as u64;
        change.is_binary = true;
        change
    }

    /// Adds the sizes to what Git says of a binary file.
    pub fn measured(&mut self, old: Option<u64>, new: Option<u64>) {
        if let Some(end) = self.diff.rfind(" differ\n") {
            let said = format!(" ({})", sizes(old, new));
            self.diff.insert_str(end + " differ".len(), &said);
            self.diff_chars += said.chars().count() as u64;
        }
    }

    pub fn event(&self, turn: u64, tool_use_id: Option<&str>) -> AgentFileEdited {
        let preview = preview(&self.diff);
        AgentFileEdited {
            turn: Some(turn),
            tool_use_id: tool_use_id.map(str::to_owned),
            file_path: Some(self.file_path.clone()),
            previous_path: self.previous_path.clone(),
            change_type: Some(self.change_type.clone()),
            lines_added: Some(self.lines_added),
            lines_removed: Some(self.lines_removed),
            full_diff_available: Some(self.is_cut || preview.len() < self.diff.len()),
            diff_preview: Some(preview.to_owned()),
            full_diff: Some(self.full()),
            full_diff_size: Some(self.diff_chars),
            ..AgentFileEdited::default()
        }
    }

    /// The diff, or as much of it as an event takes.
    fn full(&self) -> String {
        let end = fits(&self.diff);
        if end == self.diff.len() && !self.is_cut {
            return self.diff.clone();
        }
        let kept = whole_lines(&self.diff[..end]);
        let rest = self.diff_chars.saturating_sub(kept.chars().count() as u64);
        let line_end = if kept.ends_with('\n') { "" } else { "\n" };
        format!("{kept}{line_end}[the diff goes on for {rest} characters; it is too long to be kept whole]\n")
    }
}

fn preview(diff: &str) -> &str {
    let lines = diff.split_inclusive('\n').take(DIFF_PREVIEW_LINES_MAX).map(str::len).sum();
    match diff[..lines].char_indices().nth(DIFF_PREVIEW_CHARS_MAX) {
        Some((end, _)) => whole_lines(&diff[..end]),
        None => &diff[..lines],
    }
}

/// Without the line that is cut, unless that is most of it.
fn whole_lines(text: &str) -> &str {
    text.rfind('\n').filter(|end| *end > text.len() / 2).map_or(text, |end| &text[..=end])
}

/// How many bytes of it fit, up to the end of a character.
fn fits(diff: &str) -> usize {
    let mut room = DIFF_JSON_BYTES_MAX;
    for (at, c) in diff.char_indices() {
        let taken = match c {
            '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
            '\0'..='\u{1f}' => 6,
            c => c.len_utf8(),
        };
        match room.checked_sub(taken) {
            Some(left) => room = left,
            None => return at,
        }
    }
    diff.len()
}

fn sizes(old: Option<u64>, new: Option<u64>) -> String {
    match (old, new) {
        (Some(old), Some(new)) => format!("{old} bytes before, {new} bytes now"),
        (Some(old), None) => format!("{old} bytes before"),
        (None, Some(new)) => format!("{new} bytes"),
        (None, None) => "of unknown size".to_owned(),
    }
}
