//! A server under test, commands that ask it, and a worker that reports to it.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, ChildStdout, Command, Stdio},
    sync::mpsc,
    time::Duration,
};

use omoi_client::Client;
use omoi_protocol::{EventSource, SandboxId, event::NewEvent};
use serde_json::{Value, value::to_raw_value};

use crate::program::{Dir, Said, finish};

pub struct Served<'d> {
    dir: &'d Dir,
    running: Running,
    pub url: String,
    pub token: Option<String>,
    pub banner: String,
}

impl<'d> Served<'d> {
    /// What a script reads.
    pub fn start(dir: &'d Dir) -> Self {
        Self::start_on(dir, None)
    }

    /// Without the loops: nothing happens but what is asked for.
    pub fn start_api(dir: &'d Dir) -> Self {
        Self::start_with(dir, &["--role", "api"])
    }

    pub fn start_on(dir: &'d Dir, database_url: Option<&str>) -> Self {
        let database = database_url.map(|url| ["--database-url", url]);
        Self::start_with(dir, database.as_slice().as_flattened())
    }

    fn start_with(dir: &'d Dir, more: &[&str]) -> Self {
        let mut running = serve(dir, &[&["--json"], more].concat());
        let banner = running.line();
        let said: Value = serde_json::from_str(&banner).unwrap();
        let text = |key: &str| said[key].as_str().map(str::to_owned);
        Self { dir, running, url: text("url").unwrap(), token: text("first_token"), banner }
    }

    /// What a person reads, to its last line.
    pub fn start_for_people(dir: &'d Dir) -> Self {
        let mut running = serve(dir, &[]);
        let mut banner = String::new();
        while !banner.contains("OMOI_TOKEN=") && !banner.contains("omoi token create") {
            banner.push_str(&running.line());
        }
        let word =
            |start: &str| banner.split_whitespace().find(|word| word.starts_with(start)).map(str::to_owned);
        Self { dir, running, url: word("http://").unwrap(), token: word("omoi_op_"), banner }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.dir.omoi(args);
        command.env("OMOI_URL", &self.url).env("OMOI_TOKEN", self.token.as_deref().unwrap_or_default());
        command
    }

    pub fn omoi(&self, args: &[&str]) -> Said {
        finish(&mut self.command(args))
    }

    /// A command that goes on while the test does.
    pub fn spawn(&self, args: &[&str]) -> Running {
        Running::start(&mut self.command(args))
    }

    /// A worker that runs elsewhere, and so comes to the server's own port.
    pub fn worker(&self, id: &str, token: &str) -> Worker {
        self.worker_through(None, id, token)
    }

    /// A worker that comes through the door of its sandbox, if it has one.
    pub fn worker_through(&self, door: Option<String>, id: &str, token: &str) -> Worker {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Worker {
            id: id.parse().unwrap(),
            client: Client::new(door.as_deref().unwrap_or(&self.url), token).unwrap(),
            door,
            operator: Client::new(&self.url, self.token.as_deref().unwrap_or_default()).unwrap(),
            token: token.to_owned(),
            runtime,
        }
    }

    /// Killed, and started again at the same address.
    pub fn restart(self) -> Self {
        let Self { dir, running, url, token, .. } = self;
        drop(running);
        let address = url.strip_prefix("http://").unwrap().to_owned();
        let mut again = Self::start_with(dir, &["--role", "api", "--listen", &address]);
        again.token = token;
        again
    }

    /// Asks it to stop; its exit code.
    pub fn stop(self) -> i32 {
        self.stop_by("-TERM")
    }

    pub fn stop_by(self, signal: &str) -> i32 {
        self.running.signal(signal);
        self.running.finish().code
    }
}

fn serve(dir: &Dir, more: &[&str]) -> Running {
    let listen: &[&str] = if more.contains(&"--listen") { &[] } else { &["--listen", "127.0.0.1:0"] };
    let args = [&["serve", "--data-dir", "data"], listen, more].concat();
    // The default model would need a key.
    Running::start(dir.omoi(&args).env("OMOI_LOG", "warn").env("OMOI_WORKER_MODEL", "scripted/binomial"))
}

/// Killed when the test is over.
pub struct Running {
    child: Child,
    /// None once nobody reads it any more.
    stdout: Option<BufReader<ChildStdout>>,
}

impl Running {
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = child.stdout.take().map(BufReader::new);
        Self { child, stdout }
    }

    pub fn line(&mut self) -> String {
        let mut line = String::new();
        if self.stdout.as_mut().unwrap().read_line(&mut line).unwrap() == 0 {
            panic!("it said no more: {}", self.stderr());
        }
        line
    }

    /// As `| head -1` does once it has its line.
    pub fn stop_reading(&mut self) {
        self.stdout = None;
    }

    /// As Ctrl-C does.
    pub fn interrupt(&self) {
        self.signal("-INT");
    }

    pub fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    /// Waits for its end, for so long at most.
    pub fn finish_within(mut self, limit: Duration) -> Option<Said> {
        // The pipes are read on a thread, since one that is full would keep the program from ending.
        let (tell, told) = mpsc::sync_channel(1);
        let (stdout, stderr) = (self.stdout.take(), self.child.stderr.take());
        std::thread::spawn(move || {
            let read = |pipe: Option<&mut dyn Read>| {
                let mut text = String::new();
                pipe.map(|pipe| pipe.read_to_string(&mut text)).transpose().unwrap();
                text
            };
            let mut stdout = stdout;
            let out = read(stdout.as_mut().map(|pipe| pipe as &mut dyn Read));
            let mut stderr = stderr;
            let _ = tell.send((out, read(stderr.as_mut().map(|pipe| pipe as &mut dyn Read))));
        });
        let (stdout, stderr) = told.recv_timeout(limit).ok()?;
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        Some(Said { code, stdout, stderr })
    }

    /// Waits for its end.
    pub fn finish(mut self) -> Said {
        let mut stdout = String::new();
        if let Some(rest) = &mut self.stdout {
            rest.read_to_string(&mut stdout).unwrap();
        }
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        Said { code, stdout, stderr: self.stderr() }
    }

    fn stderr(&mut self) -> String {
        let mut text = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        text
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended cannot be killed, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub struct Worker {
    id: SandboxId,
    client: Client,
    door: Option<String>,
    /// Says what the server would have told.
    operator: Client,
    token: String,
    runtime: tokio::runtime::Runtime,
}

impl Worker {
    /// The same one, with connections to a server that was started again.
    pub fn at(&self, served: &Served<'_>) -> Self {
        served.worker_through(self.door.clone(), self.id.as_str(), &self.token)
    }

    #[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
    pub fn post(&self, event_type: &str, data: Value) {
        self.post_by(&self.client, event_type, &data);
    }

    /// What the server tells of a model call.
    pub fn call_model(&self, data: &Value) {
        self.post_by(&self.operator, "model.call", data);
    }

    fn post_by(&self, client: &Client, event_type: &str, data: &Value) {
        let event_data = to_raw_value(data).unwrap();
        let source = EventSource::Agent;
        let event = NewEvent { event_type: event_type.to_owned(), event_data, source, worker_seq: None };
        self.runtime.block_on(client.event_append(&self.id, &event)).unwrap();
    }

    /// The texts of the messages that come, once some do.
    pub fn take(&self) -> Vec<String> {
        let taken =
            self.runtime.block_on(self.client.message_take(&self.id, Duration::from_secs(20))).unwrap();
        taken.into_iter().map(|message| message.content).collect()
    }
}
