//! The `git` program, run with an environment of ours, a limit on its time and one on what it says.

use std::{
    collections::{BTreeMap, HashSet},
    io,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{Child, ChildStdout, Command},
    time::timeout,
};

use crate::group::Group;

const OUTPUT_BYTES_MAX: u64 = 256 * 1024 * 1024;
const STDERR_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Before a path, which Git would otherwise take for a pattern.
const HERE: &[u8] = b"./";
/// The exit code of a Git that cannot work.
const FATAL: i32 = 128;
/// How much of what Git complains about goes into an error.
const COMPLAINT_CHARS_MAX: usize = 600;

/// For Git directories of ours: nothing of the machine's or the workspace's has a say, and no program is run.
pub const OWN_CONFIG: &str = "\
[core]
	bare = false
	hooksPath = /dev/null
	fsmonitor = false
	untrackedCache = false
	excludesFile = /dev/null
	attributesFile = /dev/null
	autocrlf = false
	protectHFS = false
	protectNTFS = false
	logAllRefUpdates = false
[gc]
	auto = 0
[maintenance]
	auto = false
[submodule]
	recurse = false
";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot start git: {0}; it has to be in the image, on the PATH")]
    Start(io::Error),
    #[error("git {what}: {source}")]
    Io { what: String, source: io::Error },
    #[error("git {what} took longer than {} s", limit.as_secs())]
    TimedOut { what: String, limit: Duration },
    #[error("git {what} failed: {complaint}")]
    Failed { what: String, code: Option<i32>, complaint: String },
}

/// Where Git runs, and with what.
#[derive(Debug, Clone)]
pub struct Git {
    pub dir: PathBuf,
    pub env: BTreeMap<String, String>,
    pub limit: Duration,
}

impl Git {
    /// What it prints.
    pub async fn bytes(&self, args: &[&str]) -> Result<Vec<u8>, Error> {
        self.feed(args, async |_| Ok(())).await
    }

    /// What it prints, without white space around it.
    pub async fn text(&self, args: &[&str]) -> Result<String, Error> {
        let bytes = self.bytes(args).await?;
        Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    pub async fn run(&self, args: &[&str]) -> Result<(), Error> {
        self.bytes(args).await.map(drop)
    }

    /// What it prints when it is fed by `feeder`.
    pub async fn feed(
        &self,
        args: &[&str],
        feeder: impl AsyncFnOnce(&mut Feed) -> io::Result<()>,
    ) -> Result<Vec<u8>, Error> {
        self.talk(args, feeder, whole).await
    }

    /// What `reader` makes of all that it prints, for output that is not kept whole.
    pub async fn read<T>(
        &self,
        args: &[&str],
        reader: impl AsyncFnOnce(&mut ChildStdout) -> io::Result<T>,
    ) -> Result<T, Error> {
        self.talk(args, async |_| Ok(()), reader).await
    }

    /// What it complains about, whether or not that makes it fail. A Git that cannot work at all is an error.
    pub async fn complaints(&self, args: &[&str]) -> Result<Vec<u8>, Error> {
        let heard = async |stdout: &mut ChildStdout| tokio::io::copy(stdout, &mut tokio::io::sink()).await;
        match self.converse(args, async |_| Ok(()), heard).await? {
            (Some(0..FATAL), _, stderr) => Ok(stderr),
            (code, _, stderr) => Err(self.failed(args, code, &stderr)),
        }
    }

    /// Which of these paths are ignored; they are relative to the work tree. Git takes a path that begins with a colon for a
    /// pattern, so each is asked about with `./` before it.
    pub async fn ignored<'a>(
        &self,
        paths: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<HashSet<Vec<u8>>, Error> {
        let feed = async |feed: &mut Feed| {
            for path in paths {
                feed.write_all(HERE).await?;
                feed.write_all(path).await?;
                feed.write_all(b"\0").await?;
            }
            Ok(())
        };
        match self.feed(&["check-ignore", "-z", "--no-index", "--stdin"], feed).await {
            // None of them is.
            Err(Error::Failed { code: Some(1), .. }) => Ok(HashSet::new()),
            ignored => {
                let ignored = ignored?;
                let paths = ignored.split(|byte| *byte == 0).filter_map(|path| path.strip_prefix(HERE));
                Ok(paths.map(<[u8]>::to_owned).collect())
            }
        }
    }

    async fn talk<T>(
        &self,
        args: &[&str],
        feeder: impl AsyncFnOnce(&mut Feed) -> io::Result<()>,
        reader: impl AsyncFnOnce(&mut ChildStdout) -> io::Result<T>,
    ) -> Result<T, Error> {
        match self.converse(args, feeder, reader).await? {
            (Some(0), output, _) => Ok(output),
            (code, _, stderr) => Err(self.failed(args, code, &stderr)),
        }
    }

    fn failed(&self, args: &[&str], code: Option<i32>, stderr: &[u8]) -> Error {
        Error::Failed { what: what(args), code, complaint: complaint(stderr) }
    }

    async fn converse<T>(
        &self,
        args: &[&str],
        feeder: impl AsyncFnOnce(&mut Feed) -> io::Result<()>,
        reader: impl AsyncFnOnce(&mut ChildStdout) -> io::Result<T>,
    ) -> Result<(Option<i32>, T, Vec<u8>), Error> {
        let what = what(args);
        let mut child = self.spawn(args)?;
        let group = Group::led_by(&child);
        let worked = timeout(self.limit, converse(&mut child, feeder, reader)).await;
        if !matches!(worked, Ok(Ok(_)))
            && let Some(group) = group
        {
            group.kill();
        }
        match worked {
            Err(_) => Err(Error::TimedOut { what, limit: self.limit }),
            Ok(Err(source)) => Err(Error::Io { what, source }),
            Ok(Ok(ended)) => Ok(ended),
        }
    }

    #[expect(clippy::disallowed_methods, reason = "Git keeps the work")]
    fn spawn(&self, args: &[&str]) -> Result<Child, Error> {
        let mut command = Command::new("git");
        command.args(args).env_clear().envs(&self.env).current_dir(&self.dir);
        command.process_group(0).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().map_err(Error::Start)
    }
}

pub type Feed = tokio::io::BufWriter<tokio::process::ChildStdin>;

/// Settings come first and say little.
fn what(args: &[&str]) -> String {
    args.iter().find(|arg| !arg.starts_with('-') && !arg.contains('=')).unwrap_or(&"").to_string()
}

/// Everything, up to a limit.
async fn whole(stdout: &mut ChildStdout) -> io::Result<Vec<u8>> {
    let mut output = Vec::new();
    let mut stdout = stdout.take(OUTPUT_BYTES_MAX);
    stdout.read_to_end(&mut output).await?;
    if stdout.limit() == 0 { Err(io::Error::other("it prints too much")) } else { Ok(output) }
}

/// Its exit code, what was made of its output and what it complained about. All three streams move at once, so
/// that none can block another.
async fn converse<T>(
    child: &mut Child,
    feeder: impl AsyncFnOnce(&mut Feed) -> io::Result<()>,
    reader: impl AsyncFnOnce(&mut ChildStdout) -> io::Result<T>,
) -> io::Result<(Option<i32>, T, Vec<u8>)> {
    let missing = || io::Error::other("a stream of git is missing");
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let mut stdout = stdout.ok_or_else(missing)?;
    let mut stderr = stderr.ok_or_else(missing)?.take(STDERR_BYTES_MAX);
    let mut stdin = Feed::with_capacity(64 * 1024, stdin.ok_or_else(missing)?);
    let mut complaints = Vec::new();
    let feeding = async {
        let fed = async {
            feeder(&mut stdin).await?;
            stdin.flush().await
        };
        let fed = fed.await;
        drop(stdin);
        match fed {
            // Git says better than the broken pipe why it listens no more.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            fed => fed,
        }
    };
    let complaining = async {
        stderr.read_to_end(&mut complaints).await?;
        tokio::io::copy(stderr.get_mut(), &mut tokio::io::sink()).await
    };
    let ((), output, _) = tokio::try_join!(feeding, reader(&mut stdout), complaining)?;
    let status = child.wait().await?;
    Ok((status.code(), output, complaints))
}

/// The end of it, where the cause is.
fn complaint(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let text = text.trim();
    let skipped = text.chars().count().saturating_sub(COMPLAINT_CHARS_MAX);
    if text.is_empty() { "it does not say why".to_owned() } else { text.chars().skip(skipped).collect() }
}

/// Whether a path is a directory itself, and no link to one.
pub fn is_real_dir(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|meta| meta.is_dir())
}
