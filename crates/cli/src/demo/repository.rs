//! The repositories that the demo works on: a few files and one commit each, made once in the data directory.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result};
use omoi_server::git::Git;

const GIT_TIMEOUT: Duration = Duration::from_secs(60);

/// A repository to be made.
pub struct Sample {
    name: &'static str,
    files: &'static [(&'static str, &'static str)],
}

macro_rules! shipped {
    ($($path:literal),+ $(,)?) => {
        &[$(($path, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/demo/units/", $path)))),+]
    };
}

/// A library that converts lengths, for which a spec asks for more.
pub const UNITS: Sample = Sample {
    name: "units",
    files: shipped![
        "README.md",
        "check.sh",
        "units/__init__.py",
        "units/length.py",
        "tests/__init__.py",
        "tests/test_length.py",
    ],
};

pub const BINOMIAL: Sample = Sample { name: "repository", files: BINOMIAL_FILES };

const BINOMIAL_FILES: &[(&str, &str)] = &[
    (
        "README.md",
        "# Demo\n\nA repository for `omoi demo`. The agent writes `binomial.py` here, on a branch of its own;\n\
         `test_binomial.py` says what it must do.\n",
    ),
    (
        "test_binomial.py",
        "import subprocess\nimport sys\nimport unittest\n\n\n\
         class Binomial(unittest.TestCase):\n\
         \x20   def test_of_fifty_and_twenty_five(self):\n\
         \x20       ran = subprocess.run([sys.executable, \"binomial.py\", \"50\", \"25\"], capture_output=True, text=True)\n\
         \x20       self.assertEqual(ran.stdout.strip(), \"126410606437752\")\n\n\n\
         if __name__ == \"__main__\":\n    unittest.main()\n",
    ),
];

/// Whole or not at all: what a crash has left of it is made again.
pub async fn make(data_dir: &Path, sample: &Sample) -> Result<PathBuf> {
    let place = std::path::absolute(data_dir.join("demo"))?;
    let (repository, unfinished) = (place.join(sample.name), place.join(format!("{}.new", sample.name)));
    if repository.join(".git/HEAD").is_file() {
        return Ok(repository);
    }
    let cannot = || format!("cannot make the demo's repository {}", repository.display());
    let git = Git::new(&place, GIT_TIMEOUT).with_context(cannot)?;
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished).with_context(cannot)?;
    }
    let init = git.call_nowhere("init").args(["--quiet", "--template=", "--initial-branch=main"]);
    init.arg(&unfinished).run().await.with_context(cannot)?;
    for (name, text) in sample.files {
        let path = unfinished.join(name);
        path.parent().map_or(Ok(()), fs::create_dir_all).with_context(cannot)?;
        fs::write(path, text).with_context(cannot)?;
    }
    let call = |name| git.call(&unfinished.join(".git"), name).work_tree(&unfinished);
    call("add").arg("--all").run().await.with_context(cannot)?;
    let people = ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"].into_iter().map(|name| (name, "Omoi"));
    let places = ["GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"].into_iter().map(|name| (name, "omoi@localhost"));
    let commit = people.chain(places).fold(call("commit"), |call, (name, value)| call.env(name, value));
    commit.args(["--quiet", "--message", "Begin"]).run().await.with_context(cannot)?;
    fs::rename(&unfinished, &repository).with_context(cannot)?;
    Ok(repository)
}
