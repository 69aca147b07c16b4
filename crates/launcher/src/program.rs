//! The client of the program `omoi-launcher` itself.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::wire::Error;
use crate::{Answer, Plan, Report};

/// Where the program is installed.
#[derive(Debug, Clone)]
pub struct Launcher {
    program: PathBuf,
}

impl Launcher {
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into() }
    }

    /// Makes the sandbox of a plan, or finds it. A refusal is an answer and no error.
    pub fn run(&self, plan: &Plan) -> Result<Answer, Error> {
        let input = serde_json::to_vec(plan).map_err(|error| Error::Strange(error.to_string()))?;
        let output = self.call(&["run".as_ref()], &input)?;
        serde_json::from_slice(&output.stdout).map_err(|_| said(&output))
    }

    /// Kills whatever runs in a sandbox's directory, and returns when it is gone.
    pub fn kill(&self, dir: &Path) -> Result<(), Error> {
        self.done(&["kill".as_ref(), dir])
    }

    /// Kills, then removes the directory and everything else that the sandbox had. May be repeated.
    pub fn remove(&self, dir: &Path) -> Result<(), Error> {
        self.done(&["remove".as_ref(), dir])
    }

    /// Tries each layer in a sandbox that is thrown away.
    pub fn probe(&self, cache: &Path) -> Result<Vec<Report>, Error> {
        let output = self.call(&["probe".as_ref(), "--cache".as_ref(), cache], &[])?;
        serde_json::from_slice(&output.stdout).map_err(|_| said(&output))
    }

    fn done(&self, arguments: &[&Path]) -> Result<(), Error> {
        let output = self.call(arguments, &[])?;
        if output.status.success() { Ok(()) } else { Err(said(&output)) }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that starts the launcher, with an empty environment"
    )]
    fn call(&self, arguments: &[&Path], input: &[u8]) -> Result<Output, Error> {
        let failed = |source| Error::Program { program: self.program.clone(), source };
        let mut child = Command::new(&self.program)
            .args(arguments)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        // It may refuse before it has read everything; its answer then says why.
        let _ = child.stdin.take().map(|mut stdin| stdin.write_all(input));
        child.wait_with_output().map_err(failed)
    }
}

fn said(output: &Output) -> Error {
    let text = String::from_utf8_lossy(&output.stderr);
    Error::Launcher(format!("{} ({})", text.trim(), output.status))
}
