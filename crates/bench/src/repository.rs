//! A repository for sandboxes to start from: 1,500 files, 50 MB, a few commits. The same content every time.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, ensure};

pub const FILES: usize = 1500;
pub const BYTES: usize = 50_000_000;

const COMMITS: usize = 5;
const DIRECTORIES: usize = 60;
const DATE: &str = "2026-01-01T00:00:00Z";

/// Makes it below a directory.
pub fn make(below: &Path) -> anyhow::Result<PathBuf> {
    let dir = below.join("repository");
    fs::create_dir(&dir)?;
    git(&dir, &["init", "--quiet", "--initial-branch=main", "."])?;
    let mut noise = Noise(1);
    for commit in 0..COMMITS {
        for n in (commit..FILES).step_by(COMMITS) {
            write(&dir, n, &mut noise)?;
        }
        git(&dir, &["add", "--all"])?;
        git(&dir, &["commit", "--quiet", "-m", &format!("Add part {commit}")])?;
    }
    Ok(dir)
}

fn write(dir: &Path, n: usize, noise: &mut Noise) -> anyhow::Result<()> {
    let below = dir.join(format!("src/part{:02}", n % DIRECTORIES));
    fs::create_dir_all(&below)?;
    Ok(fs::write(below.join(format!("file{n}.txt")), noise.text(BYTES / FILES))?)
}

/// Lines that compress as source does, about by half.
struct Noise(u64);

impl Noise {
    fn text(&mut self, bytes: usize) -> Vec<u8> {
        let mut text = Vec::with_capacity(bytes + 16);
        while text.len() < bytes {
            // xorshift64
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            let end = if self.0.is_multiple_of(4) { '\n' } else { ' ' };
            text.extend_from_slice(format!("{:015x}{end}", self.0 >> 4).as_bytes());
        }
        text.truncate(bytes);
        text
    }
}

#[expect(clippy::disallowed_methods, reason = "what a person does with a repository")]
fn git(dir: &Path, args: &[&str]) -> anyhow::Result<()> {
    let output = Command::new("git")
        .args(["-c", "user.name=Bench", "-c", "user.email=bench@omoi.invalid", "-c", "gc.auto=0"])
        .args(args)
        .current_dir(dir)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .envs([("GIT_AUTHOR_DATE", DATE), ("GIT_COMMITTER_DATE", DATE)])
        .stdin(Stdio::null())
        .output()
        .context("cannot run git; install it")?;
    ensure!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_is_the_same_every_time() {
        let (one, other) = (Noise(1).text(1000), Noise(1).text(1000));
        assert_eq!(one, other);
        assert_eq!(one.len(), 1000);
        assert_ne!(one[..100], one[100..200]);
    }
}
