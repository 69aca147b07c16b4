//! What /proc knows of a process: the CPU it has used and the memory it holds.

use std::time::Duration;

use anyhow::Context;

/// Whose CPU is charged to the side that is measured.
#[derive(Debug, Clone, Copy)]
pub struct Meter {
    pub pid: u32,
    /// The database's first process: it and all its children count too.
    pub postmaster: Option<u32>,
}

impl Meter {
    pub fn of(pid: u32) -> Self {
        Self { pid, postmaster: None }
    }

    /// CPU used so far, by everybody on this side.
    pub fn used(&self) -> anyhow::Result<Duration> {
        let mut ticks = Stat::read(self.pid)?.own();
        if let Some(postmaster) = self.postmaster {
            // What a child used moves to its parent's account when it ends.
            let parent = Stat::read(postmaster)?;
            ticks += parent.own() + parent.ended_children;
            ticks += children(postmaster)?.iter().map(Stat::own).sum::<u64>();
        }
        Ok(Duration::from_secs(ticks) / u32::try_from(rustix::param::clock_ticks_per_second())?)
    }
}

/// CPU that this program has used itself.
pub fn own_cpu() -> anyhow::Result<Duration> {
    Meter::of(std::process::id()).used()
}

pub fn parent_of(pid: u32) -> anyhow::Result<u32> {
    Ok(Stat::read(pid)?.parent)
}

/// Memory a process holds, in bytes.
pub fn resident_bytes(pid: u32) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib * 1024)
}

struct Stat {
    parent: u32,
    user: u64,
    system: u64,
    ended_children: u64,
}

impl Stat {
    fn read(pid: u32) -> anyhow::Result<Self> {
        let path = format!("/proc/{pid}/stat");
        let text = std::fs::read_to_string(&path).with_context(|| format!("process {pid} is gone"))?;
        Self::parse(&text).with_context(|| format!("cannot read {path}"))
    }

    /// The name in parentheses may contain anything; fields are counted from behind it.
    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some(Self {
            parent: fields.get(1)?.parse().ok()?,
            user: ticks(11)?,
            system: ticks(12)?,
            ended_children: ticks(13)? + ticks(14)?,
        })
    }

    fn own(&self) -> u64 {
        self.user + self.system
    }
}

fn children(of: u32) -> anyhow::Result<Vec<Stat>> {
    let pids =
        std::fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    // One that ends while we look has told its parent.
    Ok(pids.filter_map(|pid| Stat::read(pid).ok()).filter(|stat| stat.parent == of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_parentheses_is_passed_over() {
        let stat = Stat::parse("7 (a) b) S 3 7 7 0 -1 0 0 0 0 0 11 12 13 14 20 0").unwrap();
        assert_eq!((stat.parent, stat.own(), stat.ended_children), (3, 23, 27));
    }

    #[test]
    fn this_process_can_be_measured() {
        own_cpu().unwrap();
        assert!(resident_bytes(std::process::id()).unwrap() > 100_000);
    }
}
