//! Programs that work on this machine would use: Git, coding agents, Node.

use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use omoi_server::sandbox::local::Programs;

use super::{Check, Need};

const AREA: &str = "programs";
pub const LAUNCHER: &str = "omoi-launcher";
const GIT_MIN: (u32, u32) = (2, 31);
const VERSION_TIMEOUT: Duration = Duration::from_secs(5);
const AGENTS: &[&str] =
    &["claude", "codex", "gemini", "opencode", "goose", "aider", "cursor-agent", "copilot", "amp"];

pub async fn checks(path: Option<&str>) -> Vec<Check> {
    let path = path.unwrap_or_default();
    let node = "install Node.js 20 or later, which agents written in JavaScript need";
    vec![
        git(find(path, "git")).await.needed_by(Need::Sandboxes),
        versioned("node", find(path, "node"), node).await,
        agents(path),
    ]
}

/// The programs that make a sandbox and work in it.
pub fn ours(programs: &Programs) -> Vec<Check> {
    let one = |name, path: &Path, key: &str| {
        let check = if runs(path) {
            Check::ok(AREA, name, path.display().to_string())
        } else {
            let wrong = if path.exists() { "cannot be executed" } else { "is not there" };
            let fix = format!("install it beside omoi, or say where it is with {key}");
            Check::missing(AREA, name, format!("{} {wrong}", path.display()), fix)
        };
        check.needed_by(Need::Sandboxes)
    };
    vec![
        one(LAUNCHER, &programs.launcher, "sandbox.launcher"),
        one("omoi-worker", &programs.worker, "sandbox.worker"),
    ]
}

/// The mirrors of projects use what older ones do not have.
async fn git(program: Option<PathBuf>) -> Check {
    let (least_major, least_minor) = GIT_MIN;
    let fix = format!("install Git {least_major}.{least_minor} or later, and put it on the PATH");
    let check = versioned("git", program, &fix).await;
    match git_version(&check.detail) {
        Some(found) if found < GIT_MIN => {
            Check::missing(AREA, "git", format!("{} is too old", check.detail), fix)
        }
        _ => check,
    }
}

fn git_version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.strip_prefix("git version ")?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

async fn versioned(name: &'static str, program: Option<PathBuf>, fix: &str) -> Check {
    let Some(program) = program else { return Check::missing(AREA, name, "not on the PATH", fix) };
    match version(&program).await {
        Some(version) => Check::ok(AREA, name, format!("{version} ({})", program.display())),
        None => Check::warn(AREA, name, format!("{} does not tell its version", program.display()), fix),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "asks a program that was found for its version, and nothing else"
)]
async fn version(program: &Path) -> Option<String> {
    let mut asked = tokio::process::Command::new(program);
    asked.arg("--version").stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(VERSION_TIMEOUT, asked.output()).await.ok()?.ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next()?.trim().to_owned();
    (output.status.success() && !line.is_empty()).then_some(line)
}

fn agents(path: &str) -> Check {
    let name = "agents";
    let found = AGENTS.iter().filter_map(|agent| Some(format!("{agent} ({})", find(path, agent)?.display())));
    let found: Vec<_> = found.collect();
    if found.is_empty() {
        let fix = format!("install one of {} where your workers run", AGENTS.join(", "));
        return Check::warn(AREA, name, "none on the PATH", fix);
    }
    Check::ok(AREA, name, found.join(", "))
}

/// The program that a shell would start.
fn find(path: &str, name: &str) -> Option<PathBuf> {
    path.split(':')
        .filter(|directory| !directory.is_empty())
        .map(|directory| Path::new(directory).join(name))
        .find(|file| runs(file))
}

fn runs(file: &Path) -> bool {
    file.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    #[tokio::test]
    async fn an_old_git_is_as_good_as_none() {
        let dir = tempfile::tempdir().unwrap();
        for (said, level) in [
            ("git version 2.30.9", Level::Missing),
            ("git version 2.31.0", Level::Ok),
            ("git version 2.39.5 (Apple Git-1)", Level::Ok),
            ("git version 3.0", Level::Ok),
        ] {
            let file = dir.path().join("git");
            std::fs::write(&file, format!("#!/bin/sh\necho '{said}'\n")).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
            assert_eq!(git(Some(file)).await.level, level, "{said}");
        }
        assert_eq!(git(None).await.level, Level::Missing);
    }

    #[test]
    fn a_program_of_ours_that_cannot_be_run_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        program(dir.path(), "omoi-launcher", 0o755);
        program(dir.path(), "omoi-worker", 0o644);
        let programs =
            Programs { launcher: dir.path().join("omoi-launcher"), worker: dir.path().join("omoi-worker") };
        let found: Vec<_> = ours(&programs).into_iter().map(|check| check.level).collect();
        assert_eq!(found, [Level::Ok, Level::Missing]);
    }

    fn program(directory: &Path, name: &str, mode: u32) {
        let file = directory.join(name);
        std::fs::write(&file, "#!/bin/sh\necho \"$0 9.9\"\n").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[tokio::test]
    async fn programs_are_found_where_a_shell_finds_them() {
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        program(a.path(), "git", 0o644);
        program(b.path(), "git", 0o755);
        program(b.path(), "claude", 0o755);
        let path = format!("{}::{}", a.path().display(), b.path().display());
        let [git, node, agents] = checks(Some(&path)).await.try_into().unwrap();
        assert_eq!(git.level, Level::Ok);
        assert!(git.detail.contains("git 9.9"), "{}", git.detail);
        assert_eq!(node.level, Level::Missing);
        assert!(agents.detail.starts_with("claude ("), "{}", agents.detail);
        let needed: Vec<_> = checks(None).await.iter().map(|check| check.needed_by).collect();
        assert_eq!(needed, [Some(Need::Sandboxes), None, None]);
    }
}
