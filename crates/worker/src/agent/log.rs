//! The agent's log: everything that makes up its state, one JSON object per line, written before and after each effect
//! and never changed. Whoever reads it has the conversation as it stood, here or in another sandbox.

use std::{
    collections::{BTreeMap, HashSet},
    fs::{self, File, OpenOptions},
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use omoi_protocol::MessageId;
use omoi_redact::Secrets;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::talk::{Block, Message, Role};

const NAME: &str = "session.jsonl";
/// Of the first line, which names the session.
const FIRST_BYTES_MAX: u64 = 64 * 1024;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub enum Entry {
    /// A sandbox takes the session up, the first or a later one.
    Session { session_id: String, sandbox_id: String, model: String, at: String },
    /// Said to the model, or by it. `messages` are those of people and Guardian that are in it.
    Said {
        turn: u64,
        message: Message,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        messages: Vec<MessageId>,
    },
    /// A tool is about to be run.
    Call { id: String },
    /// It has been run; what the model is shown of it.
    Result { block: Block },
    /// What the model is shown from now on, in the place of everything before.
    Compacted { context: Vec<Message> },
}

/// Where a log stands.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Replay {
    pub session_id: Option<String>,
    /// Ready to be sent, but for what comes next: open tool calls have been answered.
    pub context: Vec<Message>,
    /// Calls whose outcome nobody knows.
    pub unknown: Vec<String>,
    /// The answers to open calls, which end the context and are not in the log yet.
    pub closing: Option<Message>,
    pub turn: u64,
    pub applied: HashSet<MessageId>,
}

#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    file: File,
    secrets: Secrets,
    size: watch::Sender<u64>,
}

impl Log {
    pub fn path_in(dir: &Path) -> PathBuf {
        dir.join(NAME)
    }

    /// The session that a log is of; None where there is none.
    pub fn session_of(path: &Path) -> Option<String> {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
        let mut line = Vec::new();
        BufReader::new(file).take(FIRST_BYTES_MAX).read_until(b'\n', &mut line).ok()?;
        match serde_json::from_slice(&line).ok()? {
            Entry::Session { session_id, .. } => Some(session_id),
            _ => None,
        }
    }

    /// Goes on with what is there. A last line that was torn by a kill is dropped.
    pub fn open(dir: &Path, secrets: Secrets) -> io::Result<(Self, Replay)> {
        let path = Self::path_in(dir);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let (entries, whole) = parse(&bytes);
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path)?;
        file.set_len(whole as u64)?;
        let size = watch::Sender::new(whole as u64);
        Ok((Self { path, file, secrets, size }, replay(entries)))
    }

    /// Puts a log that was stored elsewhere where [`Log::open`] finds it.
    pub fn restore(dir: &Path, bytes: &[u8]) -> io::Result<()> {
        let path = Self::path_in(dir);
        if path.exists() { Ok(()) } else { fs::write(path, bytes) }
    }

    /// On its way to the disk without secrets when this returns: the end of the process does not take it back.
    pub fn append(&mut self, entry: &Entry) -> io::Result<()> {
        let mut line = self.secrets.json(&serde_json::to_vec(entry)?).into_owned();
        line.push(b'\n');
        let before = *self.size.borrow();
        if let Err(error) = self.file.write_all(&line) {
            // Half a line would spoil the next one.
            let _ = self.file.set_len(before);
            return Err(error);
        }
        self.size.send_replace(before + line.len() as u64);
        Ok(())
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Hears how long it is.
    pub fn size(&self) -> watch::Receiver<u64> {
        self.size.subscribe()
    }
}

/// The entries, and how many bytes they take.
fn parse(bytes: &[u8]) -> (Vec<Entry>, usize) {
    let (mut entries, mut whole) = (Vec::new(), 0);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let Some(text) = line.strip_suffix(b"\n") else { break };
        // A line that nobody understands is kept and passed over; a later version may have written it.
        entries.extend(serde_json::from_slice::<Entry>(text));
        whole += line.len();
    }
    (entries, whole)
}

fn replay(entries: Vec<Entry>) -> Replay {
    let mut state = Replay::default();
    let (mut begun, mut results) = (HashSet::new(), BTreeMap::new());
    for entry in entries {
        match entry {
            Entry::Session { session_id, .. } => state.session_id = Some(session_id),
            Entry::Said { turn, message, messages } => {
                state.turn = state.turn.max(turn);
                state.applied.extend(messages);
                state.context.push(message);
            }
            Entry::Call { id } => {
                begun.insert(id);
            }
            Entry::Result { block } => {
                if let Block::ToolResult { tool_use_id, .. } = &block {
                    results.insert(tool_use_id.clone(), block);
                }
            }
            Entry::Compacted { context } => state.context = context,
        }
    }
    close(&mut state, &begun, &mut results);
    state
}

/// Answers the calls of a last answer that the log does not go beyond: the model takes no question without.
fn close(state: &mut Replay, begun: &HashSet<String>, results: &mut BTreeMap<String, Block>) {
    let Some(Message { role: Role::Assistant, content }) = state.context.last() else { return };
    let mut answers = Vec::new();
    for block in content {
        let Block::ToolUse { id, .. } = block else { continue };
        let answer = results.remove(id).unwrap_or_else(|| {
            let content = if begun.contains(id) {
                state.unknown.push(id.clone());
                "outcome unknown: the sandbox ended while this ran; look at what is there before you rely on it or do it again"
            } else {
                "not run: the sandbox ended before it could be"
            };
            Block::ToolResult { tool_use_id: id.clone(), content: content.to_owned(), is_error: true }
        });
        answers.push(answer);
    }
    if !answers.is_empty() {
        let closing = Message::user(answers);
        state.closing = Some(closing.clone());
        state.context.push(closing);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(turn: u64, message: Message) -> Entry {
        Entry::Said { turn, message, messages: Vec::new() }
    }

    fn call(id: &str) -> Block {
        Block::ToolUse { id: id.to_owned(), name: "Bash".to_owned(), input: json!({}) }
    }

    fn result(id: &str) -> Block {
        Block::ToolResult { tool_use_id: id.to_owned(), content: "done".to_owned(), is_error: false }
    }

    #[test]
    fn a_log_goes_on_where_it_ended_and_a_torn_line_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let secrets = || Secrets::new::<&str>([]);
        let (mut log, fresh) = Log::open(dir.path(), secrets()).unwrap();
        assert_eq!(fresh, Replay::default());
        log.append(&said(0, Message::user(vec![Block::text("do it")]))).unwrap();
        log.append(&said(1, Message::assistant(vec![Block::text("done")]))).unwrap();
        drop(log);
        let path = Log::path_in(dir.path());
        let mut bytes = fs::read(&path).unwrap();
        let whole = bytes.len() as u64;
        bytes.extend_from_slice(b"{\"entry\":\"said\",\"tu");
        fs::write(&path, &bytes).unwrap();

        let (mut log, replay) = Log::open(dir.path(), secrets()).unwrap();
        assert_eq!((replay.context.len(), replay.turn, *log.size().borrow()), (2, 1, whole));
        log.append(&said(2, Message::user(vec![Block::text("more")]))).unwrap();
        assert_eq!(Log::open(dir.path(), secrets()).unwrap().1.context.len(), 3);
    }

    #[test]
    fn no_secret_is_in_the_log() {
        let dir = tempfile::tempdir().unwrap();
        let token = "omoi_sbx_Ab3dEfGhIjKlMnOpQrStUvWxYz0123456789-_abcde";
        let (mut log, _) = Log::open(dir.path(), Secrets::new([token])).unwrap();
        log.append(&said(0, Message::user(vec![Block::text(format!("it is {token}"))]))).unwrap();
        let written = fs::read_to_string(log.path()).unwrap();
        assert!(written.contains("it is ****") && !written.contains("Ab3d"), "{written}");
        assert_eq!(*log.size().borrow(), written.len() as u64);
    }

    #[test]
    fn an_open_call_is_told_to_be_of_unknown_outcome() {
        let entries = vec![
            said(0, Message::user(vec![Block::text("do it")])),
            said(1, Message::assistant(vec![call("a"), call("b"), call("c")])),
            Entry::Call { id: "a".to_owned() },
            Entry::Result { block: result("a") },
            Entry::Call { id: "b".to_owned() },
        ];
        let replay = replay(entries);
        assert_eq!(replay.unknown, ["b"]);
        let Some(Message { role: Role::User, content }) = replay.context.last() else { panic!("{replay:?}") };
        let texts: Vec<&str> = content
            .iter()
            .map(|block| match block {
                Block::ToolResult { content, .. } => content.split(':').next().unwrap(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(texts, ["done", "outcome unknown", "not run"]);
    }

    #[test]
    fn what_was_compacted_is_gone_from_the_context() {
        let short = vec![Message::user(vec![Block::text("in short")])];
        let entries = vec![
            said(0, Message::user(vec![Block::text("long")])),
            Entry::Compacted { context: short.clone() },
        ];
        assert_eq!(replay(entries).context, short);
    }
}
