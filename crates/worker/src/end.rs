//! How a command ended, and why: the difference between "failed", "killed" and "out of memory".

use std::{fs, os::unix::process::ExitStatusExt, process::ExitStatus};

use omoi_protocol::{FailureKind, outcome::Failure};

const SIGKILL: i32 = 9;
/// What a shell adds to the number of the signal that ended its command.
const SHELL_SIGNAL: i32 = 128;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    /// Something in the sandbox was killed for want of memory while the command ran.
    pub out_of_memory: bool,
}

impl End {
    pub fn new(status: ExitStatus, out_of_memory: bool) -> Self {
        Self { exit_code: status.code(), signal: status.signal(), out_of_memory }
    }

    pub fn is_success(&self) -> bool {
        self.exit_code == Some(0)
    }

    /// As a shell would say it.
    pub fn code(&self) -> u8 {
        let code = self.exit_code.or(self.signal.map(|signal| SHELL_SIGNAL + signal)).unwrap_or(1);
        u8::try_from(code).unwrap_or(1)
    }

    /// None for a success.
    pub fn failure(&self) -> Option<Failure> {
        if self.is_success() {
            return None;
        }
        let killed = self.signal == Some(SIGKILL) || self.exit_code == Some(SHELL_SIGNAL + SIGKILL);
        let (kind, message) = match (self.signal, self.exit_code) {
            _ if killed && self.out_of_memory => (
                FailureKind::OutOfMemory,
                "the command was killed because the sandbox has no more memory; give it more, or let it use less"
                    .to_owned(),
            ),
            (Some(signal), _) => {
                (FailureKind::Agent, format!("the command was killed by signal {signal}"))
            }
            (None, code) => {
                (FailureKind::Agent, format!("the command ended with exit code {}", code.unwrap_or(-1)))
            }
        };
        let failure = Failure::new(kind, message);
        Some(Failure { exit_code: self.exit_code, signal: self.signal, ..failure })
    }
}

/// How often the kernel has killed something in this sandbox for want of memory; None where that is not to be
/// seen.
pub fn oom_kills() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    counters(&groups).iter().find_map(|path| oom_kill(&fs::read_to_string(path).ok()?))
}

/// Where the counter may be: in the control group that `/proc/self/cgroup` names, or, in a namespace of control
/// groups, at its root.
fn counters(groups: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let path = path.trim_end_matches('/');
        if controllers.is_empty() {
            paths.push(format!("/sys/fs/cgroup{path}/memory.events"));
        } else if controllers.split(',').any(|one| one == "memory") {
            paths.push(format!("/sys/fs/cgroup/memory{path}/memory.oom_control"));
        }
    }
    paths.push("/sys/fs/cgroup/memory.events".to_owned());
    paths.push("/sys/fs/cgroup/memory/memory.oom_control".to_owned());
    paths
}

fn oom_kill(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_says_why() {
        let end = |exit_code, signal, out_of_memory| End { exit_code, signal, out_of_memory };
        let table = [
            (end(Some(0), None, false), None, 0),
            (end(Some(0), None, true), None, 0),
            (end(Some(3), None, false), Some(FailureKind::Agent), 3),
            (end(None, Some(15), false), Some(FailureKind::Agent), 143),
            (end(None, Some(9), false), Some(FailureKind::Agent), 137),
            (end(None, Some(9), true), Some(FailureKind::OutOfMemory), 137),
            (end(Some(137), None, true), Some(FailureKind::OutOfMemory), 137),
            (end(Some(1), None, true), Some(FailureKind::Agent), 1),
        ];
        for (end, kind, code) in table {
            assert_eq!((end.failure().map(|failure| failure.kind), end.code()), (kind, code), "{end:?}");
        }
    }

    #[test]
    fn the_counter_is_found_in_either_version_of_control_groups() {
        let groups = "5:cpu,cpuacct:/a\n4:memory:/box/1\n0::/box/1\n";
        assert_eq!(
            counters(groups)[..2],
            ["/sys/fs/cgroup/memory/box/1/memory.oom_control", "/sys/fs/cgroup/box/1/memory.events"]
        );
        assert_eq!(oom_kill("low 0\noom 2\noom_kill 3\noom_group_kill 0\n"), Some(3));
        assert_eq!(oom_kill("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"), Some(1));
        assert_eq!(oom_kill("low 0\n"), None);
    }
}
