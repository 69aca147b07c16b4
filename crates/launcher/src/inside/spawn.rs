//! Starting a command: a child of the init that joins the control groups, gives up everything, and becomes the command. What
//! goes wrong on the way comes back through a pipe that closes by itself when it went well.

use std::ffi::{CString, NulError};
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use omoi_launcher::{Exec, Layer, Refusal};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{DumpableBehavior, chdir, set_dumpable_behavior, setsid, umask};

use crate::host::cgroup;
use crate::inside::restrict::Rules;
use crate::refuse::{OrRefuse as _, Result, refusal};
use crate::sys;

/// A program that names no directory is looked for here when the environment has no PATH.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// What every command of the sandbox is started with.
#[derive(Debug)]
pub struct Spawner {
    pub rules: Rules,
    pub joins: Vec<File>,
    pub oom_score_adj: u16,
}

#[derive(Debug)]
pub struct Spawned {
    pub pid: i32,
    /// Ends when the command has started, and has said a refusal before if it has not.
    pub trouble: OwnedFd,
}

impl Spawner {
    pub fn spawn(&self, exec: &Exec, stdio: [BorrowedFd<'_>; 3]) -> Result<Spawned> {
        let image =
            Image::new(exec).or_refuse(Layer::Command, "use the arguments", "leave out zero bytes")?;
        if image.argv.is_empty() {
            return Err(refusal(Layer::Command, "no command is given", "name one in `argv`"));
        }
        let (trouble, report) = pipe_with(PipeFlags::CLOEXEC).or_broken(Layer::Command, "make a pipe")?;
        match sys::fork().or_refuse(Layer::Command, "make a process", "let the host have more processes")? {
            Some(pid) => Ok(Spawned { pid, trouble }),
            None => {
                let refused = self.become_command(exec, &image, stdio);
                let _ = File::from(report).write_all(&serde_json::to_vec(&refused).unwrap_or_default());
                sys::exit_now(127)
            }
        }
    }

    fn become_command(&self, exec: &Exec, image: &Image, stdio: [BorrowedFd<'_>; 3]) -> Refusal {
        match self.prepare(exec, stdio) {
            Err(refused) => refused,
            Ok(()) => image.execute(),
        }
    }

    fn prepare(&self, exec: &Exec, stdio: [BorrowedFd<'_>; 3]) -> Result<()> {
        let layer = Layer::Command;
        sys::default_signals();
        setsid().or_broken(layer, "make a session")?;
        cgroup::join(&self.joins)?;
        sys::hide_cgroups().or_broken(layer, "make a control group namespace")?;
        attach_stdio(stdio)?;
        sys::take_terminal();
        sys::close_from(3, true).or_broken(layer, "close what is the init's")?;
        self.raise_oom_score();
        umask(rustix::fs::Mode::from_raw_mode(0o022));
        self.rules.apply(exec.uid, exec.gid)?;
        let cwd = exec.cwd.display();
        chdir(&exec.cwd).or_refuse(
            layer,
            format_args!("enter {cwd}"),
            "name a directory that the sandbox has",
        )
    }

    /// The init may not be looked into, and a child of it neither until it is a program of its own: for this one write it must.
    fn raise_oom_score(&self) {
        if self.oom_score_adj > 0 {
            let _ = set_dumpable_behavior(DumpableBehavior::Dumpable);
            let _ = fs::write("/proc/self/oom_score_adj", self.oom_score_adj.min(1000).to_string());
            let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
        }
    }
}

impl Spawned {
    /// What kept the command from starting. Waits until it is known.
    pub fn wait_started(&mut self) -> Result<()> {
        let mut said = Vec::new();
        // An interrupted read is retried by the standard library; nothing else can fail here.
        let _ = file(&self.trouble).and_then(|pipe| pipe.take(64 * 1024).read_to_end(&mut said));
        started(&said)
    }
}

/// Reads what a command's pipe has said.
pub fn started(said: &[u8]) -> Result<()> {
    match serde_json::from_slice(said) {
        Ok(refused) => Err(refused),
        Err(_) => Ok(()),
    }
}

fn file(fd: &OwnedFd) -> std::io::Result<File> {
    Ok(File::from(fd.try_clone()?))
}

/// Strings as the kernel wants them.
struct Image {
    argv: Vec<CString>,
    env: Vec<CString>,
    path: String,
}

impl Image {
    fn new(exec: &Exec) -> std::result::Result<Self, NulError> {
        let argv = exec
            .argv
            .iter()
            .map(|text| CString::new(text.as_bytes()))
            .collect::<std::result::Result<_, _>>()?;
        let env = exec.env.iter().map(|(name, value)| CString::new(format!("{name}={value}")));
        let path = exec.env.get("PATH").map_or(PATH, String::as_str).to_owned();
        Ok(Self { argv, env: env.collect::<std::result::Result<_, _>>()?, path })
    }

    /// Returns only when it failed.
    fn execute(&self) -> Refusal {
        let name = self.argv[0].to_string_lossy().into_owned();
        let argv: Vec<_> = self.argv.iter().map(CString::as_c_str).collect();
        let env: Vec<_> = self.env.iter().map(CString::as_c_str).collect();
        let places: Vec<_> = match name.contains('/') {
            true => vec![name.clone()],
            false => self
                .path
                .split(':')
                .map(|dir| Path::new(dir).join(&name).to_string_lossy().into_owned())
                .collect(),
        };
        let mut last = std::io::Error::from_raw_os_error(libc::ENOENT);
        for place in places {
            let Ok(program) = CString::new(place) else { continue };
            let error = sys::execve(&program, &argv, &env);
            // A place without the program says nothing about the next one.
            if error.kind() != std::io::ErrorKind::NotFound {
                last = error;
            }
        }
        refusal(
            Layer::Command,
            format_args!("cannot run {name}: {last}"),
            "name a program that the image has",
        )
    }
}

/// Through copies far above, as a descriptor may be the number that another one is to get.
fn attach_stdio(stdio: [BorrowedFd<'_>; 3]) -> Result<()> {
    let copies: Vec<OwnedFd> = stdio
        .iter()
        .map(|fd| rustix::io::fcntl_dupfd_cloexec(fd, 10))
        .collect::<rustix::io::Result<_>>()
        .or_broken(Layer::Command, "copy standard input and output")?;
    let [input, output, error] = &copies[..] else { unreachable!("three were copied") };
    rustix::stdio::dup2_stdin(input.as_fd())
        .and_then(|()| rustix::stdio::dup2_stdout(output.as_fd()))
        .and_then(|()| rustix::stdio::dup2_stderr(error.as_fd()))
        .or_broken(Layer::Command, "connect standard input and output")
}
