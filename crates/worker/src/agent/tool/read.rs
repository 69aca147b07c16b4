//! The tool Read: lines of a text file, with their numbers.

use std::{
    fmt::Write as _,
    fs::File,
    io::{BufRead, BufReader, Read},
};

use serde_json::json;

use super::{
    file::{self, FILE_BYTES_MAX},
    input::{self, Input},
    reach::{Place, Reach},
    seen::{Digest, Seen},
    tools::Done,
    walk::{Cut, Halt},
};

const LINES_MAX: u64 = 2000;
const LINE_CHARS_MAX: usize = 2000;
const CONTENT_CHARS_MAX: usize = 100_000;
/// Where a zero byte shows that a file is no text.
const PROBE_BYTES: usize = 8192;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Input(#[from] input::Error),
    #[error(transparent)]
    File(#[from] file::Error),
    #[error(
        "the file {path} has {bytes} bytes and is no text; look at it with commands like `file` or `xxd`"
    )]
    Binary { path: String, bytes: u64 },
    #[error("{path} has {lines} lines, so there is none at offset {offset}")]
    Beyond { path: String, lines: u64, offset: u64 },
    #[error("reading {path} was stopped")]
    Stopped { path: String },
    #[error("reading {path} took too long; use Grep, or commands like `tail`")]
    Late { path: String },
}

pub fn run(reach: &Reach, seen: &Seen, input: &Input<'_>, halt: &Halt) -> Result<Done, Error> {
    let path = input.path("file_path")?;
    let (offset, limit) = (input.number("offset")?, input.number("limit")?);
    if limit == Some(0) {
        return Err(input.wrong("limit", "has to be at least 1").into());
    }
    let place = reach.find(path).map_err(file::Error::from)?;
    let file = place.open(path).map_err(file::Error::from)?;
    let (bytes, whole) = (place.bytes(), place.bytes() <= FILE_BYTES_MAX);
    if !whole && offset.is_none() && limit.is_none() {
        let hint = "give offset and limit to read a part of it, or use Grep";
        return Err(file::Error::TooBig { path: path.to_owned(), bytes, hint }.into());
    }
    let wanted =
        Wanted { first: offset.unwrap_or(1).max(1), count: limit.unwrap_or(LINES_MAX).min(LINES_MAX) };
    let lines = if whole {
        let content = file::read_whole(path, &place, "give offset and limit")?;
        check_text(path, &place, &content)?;
        seen.note(&place.real, Digest::of(&content));
        wanted.take(content.as_slice(), halt, path)?
    } else {
        wanted.take(BufReader::new(probed(path, &place, file)?), halt, path)?
    };
    if lines.shown == 0 && lines.passed > 0 {
        let (path, offset) = (path.to_owned(), wanted.first);
        return Err(Error::Beyond { path, lines: lines.passed, offset });
    }
    Ok(told(&place, &wanted, lines))
}

fn told(place: &Place, wanted: &Wanted, lines: Lines) -> Done {
    let mut content = lines.text;
    let next = wanted.first + lines.shown;
    if lines.shown == 0 {
        content.push_str("(the file is empty)");
    } else if lines.more {
        let _ = write!(content, "(the file goes on; read further with offset {next})");
    }
    let response = json!({
        "file_path": place.real, "start_line": wanted.first,
        "line_count": lines.shown, "truncated": lines.more, "file_bytes": place.bytes(),
    });
    Done::good(content, response)
}

struct Wanted {
    first: u64,
    count: u64,
}

#[derive(Default)]
struct Lines {
    text: String,
    shown: u64,
    passed: u64,
    more: bool,
}

impl Wanted {
    fn take(&self, mut from: impl BufRead, halt: &Halt, path: &str) -> Result<Lines, Error> {
        let mut lines = Lines::default();
        let mut chars = 0;
        loop {
            match halt.cut() {
                Some(Cut::Stopped) => return Err(Error::Stopped { path: path.to_owned() }),
                Some(Cut::Late) => return Err(Error::Late { path: path.to_owned() }),
                None => {}
            }
            let wanted = lines.passed + 1 >= self.first;
            let full = lines.shown == self.count || chars >= CONTENT_CHARS_MAX;
            if wanted && full {
                let rest = from.fill_buf().map_err(|source| unread(path, source))?;
                lines.more = !rest.is_empty();
                return Ok(lines);
            }
            let Some(line) = next_line(&mut from, halt).map_err(|source| unread(path, source))? else {
                return Ok(lines);
            };
            lines.passed += 1;
            if wanted {
                let before = lines.text.len();
                show(&mut lines.text, lines.passed, &line);
                chars += lines.text[before..].chars().count();
                lines.shown += 1;
            }
        }
    }
}

/// A line, or as much of it as could ever be shown; what is longer is passed over.
fn next_line(from: &mut impl BufRead, halt: &Halt) -> std::io::Result<Option<Vec<u8>>> {
    const KEPT: usize = LINE_CHARS_MAX * 4 + 4;
    let mut line = Vec::new();
    let mut any = false;
    loop {
        let buffer = from.fill_buf()?;
        if buffer.is_empty() || halt.cut().is_some() {
            return Ok(any.then_some(line));
        }
        any = true;
        let end = memchr::memchr(b'\n', buffer);
        let part = &buffer[..end.unwrap_or(buffer.len())];
        line.extend_from_slice(&part[..part.len().min(KEPT - line.len().min(KEPT))]);
        let used = end.map_or(buffer.len(), |end| end + 1);
        from.consume(used);
        if end.is_some() {
            return Ok(Some(line));
        }
    }
}

fn show(text: &mut String, number: u64, line: &[u8]) {
    let line = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line));
    let _ = write!(text, "{number:>6}\t");
    match line.char_indices().nth(LINE_CHARS_MAX) {
        Some((end, _)) => {
            text.push_str(&line[..end]);
            text.push_str("… (the line goes on)");
        }
        None => text.push_str(&line),
    }
    text.push('\n');
}

fn check_text(path: &str, place: &Place, content: &[u8]) -> Result<(), Error> {
    if memchr::memchr(0, &content[..content.len().min(PROBE_BYTES)]).is_none() {
        return Ok(());
    }
    Err(Error::Binary { path: path.to_owned(), bytes: place.bytes() })
}

/// The beginning, once it is known to be text, and the rest.
fn probed(path: &str, place: &Place, mut file: File) -> Result<impl Read, Error> {
    let mut probe = Vec::new();
    let read = file.by_ref().take(PROBE_BYTES as u64).read_to_end(&mut probe);
    read.map_err(|source| unread(path, source))?;
    check_text(path, place, &probe)?;
    Ok(std::io::Cursor::new(probe).chain(file))
}

fn unread(path: &str, source: std::io::Error) -> Error {
    file::Error::Read { path: path.to_owned(), source }.into()
}
