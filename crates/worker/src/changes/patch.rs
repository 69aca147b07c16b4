//! What Git prints about two trees, read as it comes: first a list of files, closed by zeros, then their diffs in the
//! same order. Memory stays within a limit whatever the size of the diffs; lines are counted to the end.

use std::io;

use omoi_protocol::event::FileChange;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    process::ChildStdout,
};

use super::{CHANGES_MAX, Change, Error, shown};
use crate::git::{Feed, Git};

/// What is kept of one diff, and of all together.
const DIFF_BYTES_MAX: usize = 8 * 1024 * 1024;
const DIFFS_BYTES_MAX: usize = 32 * 1024 * 1024;
/// What is kept of a diff when all together are too much.
const DIFF_BYTES_MIN: usize = 8 * 1024;

const LIST: [&str; 6] = ["diff-tree", "-r", "-z", "--raw", "--full-index", "--no-abbrev"];
const DIFF: [&str; 6] = ["-p", "-M", "--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/"];

/// One file of the list.
#[derive(Debug, Clone)]
pub struct Record {
    pub mode: (String, String),
    pub id: (String, String),
    pub status: u8,
    pub path: Vec<u8>,
    pub previous: Option<Vec<u8>>,
}

#[derive(Debug, Default)]
pub struct Patch {
    pub changes: Vec<Change>,
    /// How many changed files are not among them.
    pub left_out: usize,
}

impl Patch {
    pub async fn between(git: &Git, old: &str, new: &str) -> Result<Self, Error> {
        let args = [&LIST[..], &DIFF, &[old, new]].concat();
        let (records, mut patch) = git.read(&args, read).await?;
        measure(git, &records, &mut patch.changes).await?;
        Ok(patch)
    }
}

/// The list alone, each file under its own name.
pub async fn list(git: &Git, old: &str, new: &str) -> Result<Vec<Record>, Error> {
    let args = [&LIST[..], &["--no-renames", old, new]].concat();
    let read =
        async |stdout: &mut ChildStdout| Ok(read_list(&mut BufReader::new(stdout), usize::MAX).await?.0);
    Ok(git.read(&args, read).await?)
}

async fn read(stdout: &mut ChildStdout) -> io::Result<(Vec<Record>, Patch)> {
    let mut stdout = BufReader::with_capacity(64 * 1024, stdout);
    let (records, left_out) = read_list(&mut stdout, CHANGES_MAX).await?;
    let mut sections = Sections::new(&records);
    let mut line = Vec::new();
    while sections.is_open() && stdout.read_until(b'\n', &mut line).await? > 0 {
        sections.line(&line);
        line.clear();
    }
    tokio::io::copy(&mut stdout, &mut tokio::io::sink()).await?;
    let changes = sections.close();
    Ok((records, Patch { changes, left_out }))
}

/// `:MODE MODE ID ID STATUS`, a path, and for a rename the new one. An empty field ends the list.
async fn read_list(stdout: &mut BufReader<&mut ChildStdout>, max: usize) -> io::Result<(Vec<Record>, usize)> {
    let (mut records, mut left_out) = (Vec::new(), 0);
    loop {
        let head = field(stdout).await?;
        let Some(head) = head.strip_prefix(b":") else { return Ok((records, left_out)) };
        let head = String::from_utf8_lossy(head).into_owned();
        let mut parts = head.split(' ').map(str::to_owned);
        let mut part = || parts.next().unwrap_or_default();
        let (mode, id) = ((part(), part()), (part(), part()));
        let status = part().bytes().next().unwrap_or_default();
        let first = field(stdout).await?;
        let (path, previous) =
            if status == b'R' { (field(stdout).await?, Some(first)) } else { (first, None) };
        if records.len() < max {
            records.push(Record { mode, id, status, path, previous });
        } else {
            left_out += 1;
        }
    }
}

async fn field(stdout: &mut BufReader<&mut ChildStdout>) -> io::Result<Vec<u8>> {
    let mut field = Vec::new();
    // No path is longer.
    stdout.take(64 * 1024).read_until(0, &mut field).await?;
    if field.last() == Some(&0) {
        field.pop();
    }
    Ok(field)
}

/// The diffs, as they fall to the files of the list.
struct Sections<'a> {
    records: &'a [Record],
    changes: Vec<Change>,
    text: Vec<u8>,
    /// Of the file that is read, how many sections are to come: a file that becomes a link has two.
    to_come: usize,
    in_hunk: bool,
    bytes_left: usize,
}

impl<'a> Sections<'a> {
    fn new(records: &'a [Record]) -> Self {
        Self {
            records,
            changes: Vec::new(),
            text: Vec::new(),
            to_come: 0,
            in_hunk: false,
            bytes_left: DIFFS_BYTES_MAX,
        }
    }

    /// There is room for more.
    fn is_open(&self) -> bool {
        !self.records.is_empty() && self.changes.len() <= self.records.len()
    }

    fn line(&mut self, line: &[u8]) {
        // Inside a hunk each line begins with a sign of its own.
        if line.starts_with(b"diff --git ") {
            self.in_hunk = false;
            if self.to_come == 0 {
                self.finish();
                let Some(record) = self.records.get(self.changes.len()) else {
                    // What follows belongs to files that are left out.
                    self.records = &[];
                    return;
                };
                self.to_come = if record.status == b'T' { 2 } else { 1 };
                self.changes.push(record.change());
            }
            self.to_come -= 1;
        }
        let room = DIFF_BYTES_MAX.min(self.bytes_left).max(DIFF_BYTES_MIN);
        let Some(change) = self.changes.last_mut() else { return };
        self.in_hunk |= line.starts_with(b"@@ ");
        match line.first() {
            Some(b'+') if self.in_hunk => change.lines_added += 1,
            Some(b'-') if self.in_hunk => change.lines_removed += 1,
            _ if !self.in_hunk && line.starts_with(b"Binary files ") => change.is_binary = true,
            _ => {}
        }
        change.diff_chars += chars(line);
        if !change.is_cut && self.text.len() + line.len() <= room {
            self.text.extend_from_slice(line);
        } else if !change.is_cut {
            change.is_cut = true;
            let part = beginning(line, room.saturating_sub(self.text.len()));
            self.text.extend_from_slice(part);
        }
    }

    fn finish(&mut self) {
        if let Some(change) = self.changes.last_mut().filter(|_| !self.text.is_empty()) {
            self.bytes_left = self.bytes_left.saturating_sub(self.text.len());
            // A zero further down than Git looks is no text that a store takes.
            change.diff = String::from_utf8_lossy(&self.text).replace('\0', "\u{2400}");
            self.text.clear();
        }
    }

    fn close(mut self) -> Vec<Change> {
        self.finish();
        self.changes
    }
}

impl Record {
    fn change(&self) -> Change {
        let change_type = match self.status {
            b'A' => FileChange::Created,
            b'D' => FileChange::Deleted,
            b'R' => FileChange::Renamed,
            _ => FileChange::Modified,
        };
        Change::new(shown(&self.path), self.previous.as_deref().map(shown), change_type)
    }
}

/// Says of binary files how large they were and are.
async fn measure(git: &Git, records: &[Record], changes: &mut [Change]) -> Result<(), Error> {
    let binary: Vec<(&Record, &mut Change)> =
        records.iter().zip(changes).filter(|(_, change)| change.is_binary).collect();
    if binary.is_empty() {
        return Ok(());
    }
    let ids: Vec<&String> = binary.iter().flat_map(|(record, _)| [&record.id.0, &record.id.1]).collect();
    let feed = async |feed: &mut Feed| {
        for id in ids {
            feed.write_all(format!("{id}\n").as_bytes()).await?;
        }
        Ok(())
    };
    let sizes = git.feed(&["cat-file", "--batch-check=%(objectsize)"], feed).await?;
    let sizes = String::from_utf8_lossy(&sizes).into_owned();
    // What is not there has no number.
    let mut sizes = sizes.lines().map(|line| line.parse::<u64>().ok());
    for (_, change) in binary {
        let (old, new) = (sizes.next().flatten(), sizes.next().flatten());
        change.measured(old, new);
    }
    Ok(())
}

/// At most `bytes` of it, up to the end of a character.
fn beginning(line: &[u8], bytes: usize) -> &[u8] {
    let is_inside = |byte: &u8| (0x80..0xc0).contains(byte);
    let end = (0..=bytes.min(line.len())).rev().find(|at| !line.get(*at).is_some_and(is_inside));
    &line[..end.unwrap_or_default()]
}

fn chars(line: &[u8]) -> u64 {
    match std::str::from_utf8(line) {
        Ok(text) => text.chars().count() as u64,
        Err(_) => String::from_utf8_lossy(line).chars().count() as u64,
    }
}
