//! The tool Grep: lines of files by a regular expression.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use ignore::{
    overrides::{Override, OverrideBuilder},
    types::{Types, TypesBuilder},
};
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use serde_json::json;

use super::{
    input::{self, Input},
    reach::{self, Reach},
    tools::Done,
    walk::{Cut, Halt, cut_note, walk},
};

const PATTERN_BYTES_MAX: usize = 16 * 1024;
const HEAD_DEFAULT: u64 = 250;
const HEAD_MAX: u64 = 10_000;
const TEXT_CHARS_MAX: usize = 30_000;
const LINE_CHARS_MAX: usize = 500;
const CONTEXT_LINES_MAX: u64 = 100;
/// The longest line that is searched, or the biggest file when lines are searched together.
const HEAP_BYTES_MAX: usize = 16 * 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Input(#[from] input::Error),
    #[error(transparent)]
    Reach(#[from] reach::Error),
    #[error(
        "the field `pattern` of Grep is no regular expression: {0}; for several lines at once set multiline"
    )]
    Pattern(#[from] grep_regex::Error),
    #[error("the field `glob` of Grep is no pattern: {0}")]
    Glob(ignore::Error),
    #[error("the field `type` of Grep names no type of file: {0}; try `glob` in its place")]
    Type(ignore::Error),
}

pub fn run(reach: &Reach, input: &Input<'_>, halt: &Halt) -> Result<Done, Error> {
    let query = Query::of(input)?;
    let base = input.path_or_none("path")?.unwrap_or(".");
    let place = reach.find(base)?;
    let mut report = Report::new(query.mode, query.head, query.numbers);
    let mut searcher = query.searcher();
    if place.is_dir() {
        let only = only(&place.real, input.words_or_none("glob")?)?;
        let types = types(input.words_or_none("type")?)?;
        for entry in walk(&place.real, only, types) {
            report.cut = report.cut.or(halt.cut());
            if report.cut.is_some() || report.full {
                break;
            }
            let Ok(entry) = entry else { continue };
            if entry.file_type().is_some_and(|kind| kind.is_file())
                && let Some(file) = open(entry.path())
            {
                report.search(&mut searcher, &query.matcher, reach, entry.path(), file, halt);
            }
        }
    } else {
        let file = place.open(base)?;
        report.search(&mut searcher, &query.matcher, reach, &place.real, file, halt);
    }
    Ok(report.told())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Output {
    Content,
    Files,
    Count,
}

struct Query {
    matcher: RegexMatcher,
    mode: Output,
    numbers: bool,
    before: usize,
    after: usize,
    head: usize,
    multiline: bool,
}

impl Query {
    fn of(input: &Input<'_>) -> Result<Self, Error> {
        let pattern = input.text("pattern")?;
        input.bounded("pattern", pattern, PATTERN_BYTES_MAX, "give a shorter one")?;
        let mode = match input.words_or_none("output_mode")? {
            None | Some("files_with_matches") => Output::Files,
            Some("content") => Output::Content,
            Some("count") => Output::Count,
            Some(_) => {
                return Err(input
                    .wrong("output_mode", "has to be content, files_with_matches or count")
                    .into());
            }
        };
        let multiline = input.flag("multiline")?;
        let mut builder = RegexMatcherBuilder::new();
        builder.case_insensitive(input.flag("-i")?).multi_line(true).dot_matches_new_line(multiline);
        if !multiline {
            builder.line_terminator(Some(b'\n'));
        }
        let lines = |field| {
            let lines = input.number(field)?;
            Ok::<_, input::Error>(lines.map(|lines| lines.min(CONTEXT_LINES_MAX) as usize))
        };
        let context = lines("-C")?;
        Ok(Self {
            matcher: builder.build(pattern)?,
            mode,
            numbers: input.flag_or("-n", true)?,
            before: lines("-B")?.or(context).unwrap_or(0),
            after: lines("-A")?.or(context).unwrap_or(0),
            head: input.number("head_limit")?.filter(|head| *head > 0).unwrap_or(HEAD_DEFAULT).min(HEAD_MAX)
                as usize,
            multiline,
        })
    }

    fn searcher(&self) -> Searcher {
        let mut builder = SearcherBuilder::new();
        builder.line_number(true).multi_line(self.multiline).heap_limit(Some(HEAP_BYTES_MAX));
        builder.binary_detection(BinaryDetection::quit(0));
        if self.mode == Output::Content {
            builder.before_context(self.before).after_context(self.after);
        }
        builder.build()
    }
}

fn only(base: &Path, glob: Option<&str>) -> Result<Override, Error> {
    let Some(glob) = glob else { return Ok(Override::empty()) };
    let mut builder = OverrideBuilder::new(base);
    builder.add(glob).map_err(Error::Glob)?;
    builder.build().map_err(Error::Glob)
}

fn types(name: Option<&str>) -> Result<Types, Error> {
    let Some(name) = name else { return Ok(Types::empty()) };
    let mut builder = TypesBuilder::new();
    builder.add_defaults().select(name);
    builder.build().map_err(Error::Type)
}

/// None for what is not there any more, or became something else than a file.
fn open(path: &Path) -> Option<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(CWD, path, flags, Mode::empty()).ok()?;
    let regular = FileType::from_raw_mode(fstat(&file).ok()?.st_mode) == FileType::RegularFile;
    regular.then(|| file.into())
}

/// Lines for the model, as many as it wants and can be shown.
struct Report {
    mode: Output,
    head: usize,
    numbers: bool,
    lines: Vec<String>,
    chars: usize,
    files: usize,
    matches: u64,
    unsearched: usize,
    full: bool,
    cut: Option<Cut>,
}

impl Report {
    fn new(mode: Output, head: usize, numbers: bool) -> Self {
        let (lines, chars, files, matches, unsearched) = (Vec::new(), 0, 0, 0, 0);
        Self { mode, head, numbers, lines, chars, files, matches, unsearched, full: false, cut: None }
    }

    fn search(
        &mut self,
        searcher: &mut Searcher,
        matcher: &RegexMatcher,
        reach: &Reach,
        path: &Path,
        file: File,
        halt: &Halt,
    ) {
        let name = reach.shown(path);
        let mut sink = InFile { report: self, name: &name, matches: 0, halt };
        let searched = searcher.search_reader(matcher, Watched { file, halt }, &mut sink);
        let matches = sink.matches;
        self.cut = self.cut.or(halt.cut());
        if searched.is_err() && self.cut.is_none() {
            self.unsearched += 1;
        }
        if matches > 0 {
            self.files += 1;
            self.matches += matches;
            match self.mode {
                Output::Files => self.push(name),
                Output::Count => self.push(format!("{name}:{matches}")),
                Output::Content => {}
            }
        }
    }

    fn push(&mut self, line: String) {
        if self.lines.len() >= self.head || self.chars >= TEXT_CHARS_MAX {
            self.full = true;
            return;
        }
        self.chars += line.chars().count() + 1;
        self.lines.push(line);
    }

    fn told(self) -> Done {
        let mut lines = self.lines;
        if self.matches == 0 && self.cut.is_none() {
            lines.push("no match".to_owned());
        }
        if self.full {
            let shown = lines.len();
            lines.push(format!(
                "(the first {shown} lines; narrow the search, or raise head_limit, to see others)"
            ));
        }
        if self.unsearched > 0 {
            lines.push(format!("({} files could not be searched: unreadable, or too big)", self.unsearched));
        }
        lines.extend(self.cut.map(cut_note));
        let truncated = self.full || self.cut.is_some();
        let response = json!({ "files": self.files, "matches": self.matches, "truncated": truncated });
        Done::good(lines.join("\n"), response).cut_by(self.cut)
    }
}

/// What is found in one file.
struct InFile<'a> {
    report: &'a mut Report,
    name: &'a str,
    matches: u64,
    halt: &'a Halt,
}

impl InFile<'_> {
    /// As `grep` writes it: `:` after a match, `-` around it.
    fn show(&mut self, bytes: &[u8], number: Option<u64>, mark: char) {
        for (line, number) in bytes.split_inclusive(|byte| *byte == b'\n').zip(number.unwrap_or(0)..) {
            let line = String::from_utf8_lossy(line);
            let line = line.trim_end_matches(['\n', '\r']);
            let text: String = line.chars().take(LINE_CHARS_MAX).collect();
            let more = if text.len() < line.len() { "… (the line goes on)" } else { "" };
            let number = if self.report.numbers { format!("{number}{mark}") } else { String::new() };
            self.report.push(format!("{}{mark}{number}{text}{more}", self.name));
        }
    }
}

impl Sink for InFile<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        self.matches += 1;
        match self.report.mode {
            Output::Files => return Ok(false),
            Output::Count => {}
            Output::Content => self.show(found.bytes(), found.line_number(), ':'),
        }
        Ok(!self.report.full && self.halt.cut().is_none())
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        self.show(context.bytes(), context.line_number(), '-');
        Ok(!self.report.full)
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        self.report.push("--".to_owned());
        Ok(!self.report.full)
    }
}

/// A file that ends when time is up, however big it is.
struct Watched<'a> {
    file: File,
    halt: &'a Halt,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.halt.cut().is_some() {
            return Err(io::Error::other("cut"));
        }
        self.file.read(buffer)
    }
}
