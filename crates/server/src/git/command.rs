//! The one place that runs `git` on the host. Its environment starts from empty and its configuration is ours alone:
//! no file of the machine, of a user or of a repository's tree makes it run a hook, a filter, a helper or another
//! transport than the one asked for. What it prints is bounded, what it takes is limited in time, and whatever it has
//! started ends with it.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use omoi_protocol::git::SLIPS;
use rustix::process::{Pid, Signal, kill_process_group};
use secrecy::{ExposeSecret, SecretString};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
};

/// How much of what a command prints is taken.
const OUTPUT_BYTES_MAX: usize = 32 << 20;
const ERROR_BYTES_KEPT: usize = 4 << 10;
const ERROR_LINES_SHOWN: usize = 6;
/// How long a command may take to clean up behind itself when it is ended.
const GRACE: Duration = Duration::from_secs(2);

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Nobody is there to answer a question.
pub(super) const SSH: &str = "ssh -o BatchMode=yes -o ConnectTimeout=20";

const CONFIG: &[&str] = &[
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.protectHFS=true",
    "core.protectNTFS=true",
    "core.askPass=",
    "credential.helper=",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "transfer.credentialsInUrl=die",
    "transfer.fsckObjects=true",
    "advice.detachedHead=false",
];

/// Read by the far side of a fetch from a local path as well, which takes no settings from the command line. Whose
/// repository it is does not matter, since nothing in it is trusted.
const CONFIG_FILE: &str = "[safe]\n\tdirectory = *\n";

#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("git cannot be started: {0}; install Git 2.40 or newer")]
    Start(#[source] std::io::Error),
    #[error("git {name} broke off: {source}")]
    Broken { name: String, source: std::io::Error },
    #[error("git {name} took longer than {limit:?}")]
    TimedOut { name: String, limit: Duration },
    #[error("git {name} printed more than {OUTPUT_BYTES_MAX} bytes")]
    TooMuch { name: String },
    #[error("git {name} ended with {status}{}{stderr}", if stderr.is_empty() { "" } else { ": " })]
    Exit { name: String, status: ExitStatus, stderr: String },
}

#[derive(Debug, Clone)]
pub struct Git {
    config_file: Arc<Path>,
    timeout: Duration,
}

impl Git {
    /// Writes its configuration file into `dir`, which it makes.
    pub fn new(dir: &Path, timeout: Duration) -> std::io::Result<Self> {
        std::fs::create_dir_all(dir)?;
        let git = Self { config_file: dir.join("gitconfig").into(), timeout };
        git.prepare()?;
        Ok(git)
    }

    /// Writes the configuration file again, where it is not as it should be.
    pub fn prepare(&self) -> std::io::Result<()> {
        super::file::replace(&self.config_file, CONFIG_FILE.as_bytes(), 0o600)
    }

    /// A command on a repository.
    pub fn call(&self, git_dir: &Path, name: &'static str) -> Call {
        let mut call = self.call_nowhere(name);
        call.before.push(joined("--git-dir=", git_dir));
        call
    }

    pub fn call_nowhere(&self, name: &'static str) -> Call {
        Call {
            git: self.clone(),
            name,
            before: Vec::new(),
            args: Vec::new(),
            env: Vec::new(),
            protocol: "none",
            input: Vec::new(),
            secret: None,
        }
    }
}

/// A command that is about to run.
#[derive(Debug)]
pub struct Call {
    git: Git,
    name: &'static str,
    before: Vec<OsString>,
    args: Vec<OsString>,
    env: Vec<(&'static str, OsString)>,
    protocol: &'static str,
    input: Vec<u8>,
    secret: Option<SecretString>,
}

impl Call {
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    pub fn args<S: Into<OsString>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    pub fn work_tree(mut self, path: &Path) -> Self {
        self.before.push(joined("--work-tree=", path));
        self
    }

    /// A setting for this call, over those of every call.
    pub fn config(mut self, setting: impl Into<OsString>) -> Self {
        self.before.extend(["-c".into(), setting.into()]);
        self
    }

    pub fn env(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.env.push((name, value.into()));
        self
    }

    /// The one transport that it may use.
    pub fn protocol(mut self, protocol: &'static str) -> Self {
        self.protocol = protocol;
        self
    }

    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = bytes.into();
        self
    }

    /// A setting that holds a secret: not to be seen among the arguments, and cut out of what is repeated.
    pub fn secret_config(mut self, key: &str, value: SecretString) -> Self {
        self.env.push(("GIT_CONFIG_COUNT", "1".into()));
        self.env.push(("GIT_CONFIG_KEY_0", key.into()));
        self.env.push(("GIT_CONFIG_VALUE_0", value.expose_secret().into()));
        self.secret = Some(value);
        self
    }

    /// Runs it to its end; anything but success is a failure.
    pub async fn run(self) -> Result<Vec<u8>, Failure> {
        self.run_for(&[]).await.map(|(_, output)| output)
    }

    /// Runs it to its end; the named exit codes are answers and no failures.
    pub async fn run_for(mut self, answers: &[i32]) -> Result<(i32, Vec<u8>), Failure> {
        let (name, limit, secret) = (self.name.to_owned(), self.git.timeout, self.secret.take());
        let input = std::mem::take(&mut self.input);
        let mut running = self.start()?;
        let ended = tokio::time::timeout(limit, running.finish(input)).await;
        let Ok(ended) = ended else { return Err(Failure::TimedOut { name, limit }) };
        let (status, output, said) = ended.map_err(|source| match source.kind() {
            std::io::ErrorKind::FileTooLarge => Failure::TooMuch { name: name.clone() },
            _ => Failure::Broken { name: name.clone(), source },
        })?;
        match status.code() {
            Some(code) if code == 0 || answers.contains(&code) => Ok((code, output)),
            _ => Err(Failure::Exit { name, status, stderr: last_lines(&said, secret.as_ref()) }),
        }
    }

    /// Starts it and leaves its pipes to the caller.
    #[expect(clippy::disallowed_methods, reason = "the one place that runs git")]
    pub fn start(self) -> Result<Running, Failure> {
        let mut command = Command::new("git");
        for setting in CONFIG {
            command.args(["-c", setting]);
        }
        for slip in SLIPS {
            command.arg("-c").arg(format!("fetch.fsck.{slip}=ignore"));
            command.arg("-c").arg(format!("receive.fsck.{slip}=ignore"));
            command.arg("-c").arg(format!("fsck.{slip}=ignore"));
        }
        command.args(&self.before).arg(self.name).args(&self.args);
        command.env_clear().env("PATH", PATH).env("HOME", "/nonexistent").env("LC_ALL", "C");
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", &*self.git.config_file);
        command.env("GIT_ATTR_NOSYSTEM", "1").env("GIT_TERMINAL_PROMPT", "0").env("GIT_SSH_COMMAND", SSH);
        command.env("GIT_NO_LAZY_FETCH", "1").env("GIT_NO_REPLACE_OBJECTS", "1");
        command.env("GIT_ALLOW_PROTOCOL", self.protocol);
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "Omoi").env(format!("GIT_{who}_EMAIL"), "omoi@localhost");
        }
        command.envs(self.env).current_dir("/").process_group(0).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().map(|child| Running { child: Some(child) }).map_err(Failure::Start)
    }
}

/// A command that runs. Dropped, it is asked to end, with all that it has started, and made to soon after.
#[derive(Debug)]
pub struct Running {
    child: Option<Child>,
}

impl Running {
    pub fn stdin(&mut self) -> Option<ChildStdin> {
        self.child.as_mut()?.stdin.take()
    }

    pub fn stdout(&mut self) -> Option<ChildStdout> {
        self.child.as_mut()?.stdout.take()
    }

    pub fn stderr(&mut self) -> Option<ChildStderr> {
        self.child.as_mut()?.stderr.take()
    }

    pub async fn wait(&mut self) -> std::io::Result<ExitStatus> {
        match &mut self.child {
            Some(child) => child.wait().await,
            None => Err(std::io::ErrorKind::NotFound.into()),
        }
    }

    async fn finish(&mut self, input: Vec<u8>) -> std::io::Result<(ExitStatus, Vec<u8>, Vec<u8>)> {
        let (stdin, stdout, stderr) = (self.stdin(), self.stdout(), self.stderr());
        let writing = async {
            if let Some(mut stdin) = stdin {
                // A command that ends without reading all says why by its exit.
                let _ = stdin.write_all(&input).await;
            }
        };
        let (_, output, said) =
            tokio::join!(writing, bounded(stdout, OUTPUT_BYTES_MAX), tail(stderr, ERROR_BYTES_KEPT));
        let output = output?;
        Ok((self.wait().await?, output, said))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        // Without an id it has ended and was waited for.
        let Some(group) = child.id().and_then(|id| Pid::from_raw(id.cast_signed())) else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            let _ = kill_process_group(group, Signal::KILL);
            return;
        };
        // Asked first, it takes its unfinished files with it.
        let _ = kill_process_group(group, Signal::TERM);
        runtime.spawn(async move {
            if tokio::time::timeout(GRACE, child.wait()).await.is_err() {
                let _ = kill_process_group(group, Signal::KILL);
                let _ = child.wait().await;
            }
        });
    }
}

/// All of it, or `FileTooLarge`.
pub async fn bounded(from: Option<impl AsyncRead + Unpin>, max: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        from.take(max as u64 + 1).read_to_end(&mut bytes).await?;
    }
    if bytes.len() > max { Err(std::io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes) }
}

/// The end of it; the rest is read and dropped, so that the writer never waits.
pub async fn tail(from: Option<impl AsyncRead + Unpin>, max: usize) -> Vec<u8> {
    let (mut kept, mut part) = (Vec::new(), [0u8; 4096]);
    if let Some(mut from) = from {
        while let Ok(n @ 1..) = from.read(&mut part).await {
            kept.extend_from_slice(&part[..n]);
            kept.drain(..kept.len().saturating_sub(max));
        }
    }
    kept
}

fn joined(flag: &str, path: &Path) -> OsString {
    let mut arg = OsString::from(flag);
    arg.push(PathBuf::from(path).as_os_str() as &OsStr);
    arg
}

/// What people need to see of a command's complaints, without anything secret.
fn last_lines(said: &[u8], secret: Option<&SecretString>) -> String {
    let said = String::from_utf8_lossy(said);
    let lines: Vec<&str> = said.split(['\n', '\r']).map(str::trim_end).filter(|l| !l.is_empty()).collect();
    let text = lines[lines.len().saturating_sub(ERROR_LINES_SHOWN)..].join("; ");
    let text = match secret {
        Some(secret) => text.replace(secret.expose_secret(), "***"),
        None => text,
    };
    without_passwords(&text)
}

/// `https://user:password@host` becomes `https://***@host`.
pub fn without_passwords(text: &str) -> String {
    let mut parts = text.split("://");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let ends = part.find(['/', ' ', '\'', '"']).unwrap_or(part.len());
        let (authority, rest) = part.split_at(ends);
        let host = authority.rsplit_once('@').map_or(authority.to_owned(), |(_, host)| format!("***@{host}"));
        out.push_str(&format!("://{host}{rest}"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_are_short_and_hold_no_secret() {
        let said = b"remote: hint\nfatal: unable to access 'https://me:hidden@host/x': hidden-token\r\n\n";
        let shown = last_lines(said, Some(&"hidden-token".into()));
        assert_eq!(shown, "remote: hint; fatal: unable to access 'https://***@host/x': ***");
        let many = "line\n".repeat(1000);
        assert_eq!(last_lines(many.as_bytes(), None).matches("line").count(), ERROR_LINES_SHOWN);
    }

    #[tokio::test]
    async fn a_command_sees_nothing_of_our_environment_and_its_failure_says_what_it_said() {
        let dir = tempfile::tempdir().unwrap();
        let git = Git::new(dir.path(), Duration::from_secs(20)).unwrap();
        let output =
            git.call_nowhere("config").args(["list", "--show-scope", "--name-only"]).run().await.unwrap();
        let output = String::from_utf8(output).unwrap();
        assert!(
            output.lines().all(|line| line.starts_with("command") || line == "global\tsafe.directory"),
            "{output}"
        );

        let failure = git.call(dir.path(), "rev-parse").arg("HEAD").run().await.unwrap_err();
        assert!(failure.to_string().contains("not a git repository"), "{failure}");
        assert!(failure.to_string().starts_with("git rev-parse ended with exit status: 128: "), "{failure}");
    }

    #[tokio::test]
    async fn a_secret_reaches_git_and_is_not_seen_among_its_arguments() {
        let dir = tempfile::tempdir().unwrap();
        let git = Git::new(dir.path(), Duration::from_secs(20)).unwrap();
        let with_secret = |name| git.call_nowhere(name).secret_config("http.extraHeader", "hidden".into());
        let got = with_secret("config").args(["get", "http.extraHeader"]).run().await.unwrap();
        assert_eq!(got, b"hidden\n");
        let mut waiting = with_secret("stripspace").start().unwrap();
        let id = waiting.child.as_ref().unwrap().id().unwrap();
        let arguments = std::fs::read(format!("/proc/{id}/cmdline")).unwrap();
        assert!(!String::from_utf8_lossy(&arguments).contains("hidden"));
        drop(waiting.stdin());
        assert!(waiting.wait().await.unwrap().success());
        let failed =
            with_secret("config").args(["get", "--type=hidden", "x.y"]).run().await.unwrap_err().to_string();
        assert!(failed.contains("***") && !failed.contains("hidden"), "{failed}");
    }

    #[tokio::test]
    async fn a_command_that_takes_too_long_is_ended_with_all_it_started() {
        let dir = tempfile::tempdir().unwrap();
        let git = Git::new(dir.path(), Duration::from_millis(100)).unwrap();
        // An alias of the command line runs a shell, which starts another program.
        let pid_file = dir.path().join("pid");
        let alias = format!("alias.hang=!sleep 1000 & echo $! > {}; wait", pid_file.display());
        let hang = git.call_nowhere("hang").config(alias);
        assert!(matches!(hang.run().await, Err(Failure::TimedOut { .. })));
        let pid: i32 = std::fs::read_to_string(pid_file).unwrap().trim().parse().unwrap();
        let gone = async {
            while rustix::process::test_kill_process(Pid::from_raw(pid).unwrap()).is_ok() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), gone).await.expect("the grandchild ends");
    }
}
