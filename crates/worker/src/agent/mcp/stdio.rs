//! A server that is a program: one message a line, in by its standard input and out by its standard output. It leads a
//! process group, which ends when this is dropped.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    path::Path,
    process::Stdio,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use omoi_protocol::launch::McpServer;
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::timeout,
};

use super::{
    error::Error,
    rpc::{self, Fault, Incoming},
};
use crate::{agent::http::quote, group::Group};

/// Messages that may wait for the program to take them.
const QUEUE_MAX: usize = 32;
/// A longer line ends the connection: nothing behind it could be trusted.
const LINE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Of what it prints besides, kept for when it ends.
const COMPLAINT_BYTES_MAX: usize = 600;
/// How long its last words may take once its output has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

pub struct Program {
    waiting: Arc<Mutex<Waiting>>,
    lines: mpsc::Sender<Value>,
    _process: Process,
    _tasks: JoinSet<()>,
}

/// Questions without an answer yet.
#[derive(Default)]
struct Waiting {
    next: u64,
    by_id: HashMap<u64, oneshot::Sender<Result<Value, Fault>>>,
    /// Why there will be no more answers.
    over: Option<String>,
}

type Complaint = Arc<Mutex<VecDeque<u8>>>;

impl Program {
    pub fn start(
        server: &McpServer,
        program: &str,
        env: &BTreeMap<String, String>,
        cwd: &Path,
    ) -> Result<Self, Error> {
        let mut process = Process::start(server, program, env, cwd)?;
        let waiting = Arc::new(Mutex::new(Waiting::default()));
        let (lines, queue) = mpsc::channel(QUEUE_MAX);
        let mut tasks = JoinSet::new();
        let complaint = Complaint::default();
        let stderr = process.child.stderr.take();
        let (listening, listened) = oneshot::channel::<()>();
        let complained = complaint.clone();
        tasks.spawn(async move {
            listen(stderr, complained).await;
            drop(listening);
        });
        if let Some(stdin) = process.child.stdin.take() {
            tasks.spawn(write(stdin, queue));
        }
        if let Some(stdout) = process.child.stdout.take() {
            let (waiting, lines) = (waiting.clone(), lines.clone());
            tasks.spawn(async move {
                let why = read(stdout, &waiting, &lines).await;
                let said = last_words(listened, &complaint).await;
                let mut waiting = held(&waiting);
                waiting.over = Some(format!("{why}{said}"));
                // Whoever waits finds the other end gone.
                waiting.by_id.clear();
            });
        }
        Ok(Self { waiting, lines, _process: process, _tasks: tasks })
    }

    /// Waits for the answer. Who drops the future has it cancelled.
    pub async fn request(&self, method: &str, params: &Value) -> Result<Value, Error> {
        let (answer, question) = {
            let (sender, answer) = oneshot::channel();
            let mut waiting = held(&self.waiting);
            if let Some(why) = &waiting.over {
                return Err(Error::Gone(why.clone()));
            }
            waiting.next += 1;
            let id = waiting.next;
            waiting.by_id.insert(id, sender);
            (answer, Question { program: self, id })
        };
        let gone = || Error::Gone(held(&self.waiting).over.clone().unwrap_or_default());
        self.lines.send(rpc::request(question.id, method, params)).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?.map_err(|fault| fault.of(method))
    }

    pub async fn notify(&self, method: &str, params: &Value) -> Result<(), Error> {
        let sent = self.lines.send(rpc::notification(method, params)).await;
        sent.map_err(|_| Error::Gone(String::new()))
    }
}

/// One that nobody waits for any more is taken back.
struct Question<'a> {
    program: &'a Program,
    id: u64,
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        if held(&self.program.waiting).by_id.remove(&self.id).is_some() {
            // A program that does not read is not helped by one more line.
            let _ = self.program.lines.try_send(rpc::cancelled(self.id));
        }
    }
}

struct Process {
    child: Child,
}

impl Process {
    #[expect(clippy::disallowed_methods, reason = "a launch names the programs that offer tools")]
    fn start(
        server: &McpServer,
        program: &str,
        env: &BTreeMap<String, String>,
        cwd: &Path,
    ) -> Result<Self, Error> {
        let mut command = Command::new(program);
        command.args(&server.args).env_clear().envs(env).envs(&server.env).current_dir(cwd);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true);
        let child = command.spawn().map_err(|source| Error::Start { program: program.to_owned(), source })?;
        Ok(Self { child })
    }
}

impl Drop for Process {
    /// Before its leader is waited for, so that the number is still its own.
    fn drop(&mut self) {
        if let Some(group) = Group::led_by(&self.child) {
            group.kill();
        }
    }
}

async fn write(mut stdin: ChildStdin, mut queue: mpsc::Receiver<Value>) {
    while let Some(message) = queue.recv().await {
        let line = format!("{message}\n");
        if stdin.write_all(line.as_bytes()).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
    }
}

/// Until the end of the output; says how that came.
async fn read(stdout: ChildStdout, waiting: &Mutex<Waiting>, lines: &mpsc::Sender<Value>) -> String {
    let mut stdout = BufReader::new(stdout);
    loop {
        let mut line = Vec::new();
        match (&mut stdout).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await {
            Ok(0) => return String::new(),
            Ok(_) if line.len() as u64 == LINE_BYTES_MAX => {
                return format!(": a line of its output has {LINE_BYTES_MAX} bytes or more");
            }
            Ok(_) => {}
            Err(error) => return format!(": its output cannot be read: {error}"),
        }
        match rpc::parse(&line) {
            Some(Incoming::Answer { id, result }) => {
                if let Some(asker) = held(waiting).by_id.remove(&id) {
                    let _ = asker.send(result);
                }
            }
            // One that asks faster than it reads has to do without.
            Some(Incoming::Question { reply }) => drop(lines.try_send(reply)),
            Some(Incoming::News) | None => {}
        }
    }
}

/// Takes what is printed besides, so that the program never waits for somebody to read it.
async fn listen(stderr: Option<ChildStderr>, complaint: Complaint) {
    let Some(mut stderr) = stderr else { return };
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
        let mut kept = held(&complaint);
        kept.extend(&buffer[..count]);
        let excess = kept.len().saturating_sub(COMPLAINT_BYTES_MAX);
        kept.drain(..excess);
    }
}

async fn last_words(listened: oneshot::Receiver<()>, complaint: &Complaint) -> String {
    // Something that the program has started may keep it open.
    let _ = timeout(LAST_WORDS, listened).await;
    let kept: Vec<u8> = held(complaint).iter().copied().collect();
    let said = quote(&String::from_utf8_lossy(&kept), COMPLAINT_BYTES_MAX);
    if said.is_empty() { String::new() } else { format!("; it last said: {said}") }
}

/// What is held is whole at any moment.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
