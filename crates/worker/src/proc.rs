//! Processes as the kernel shows them: who belongs to whom, and how much they do.

use std::{collections::HashMap, fs};

/// What the worker and everything below it do together.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    pub processes: u64,
    pub cpu_seconds: f64,
    pub memory_bytes: u64,
    pub io_bytes: u64,
}

/// One process, as far as `/proc/PID/stat` tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub pid: i32,
    pub parent: i32,
    pub group: i32,
    pub session: i32,
    /// Ended, but its parent does not know yet.
    pub ended: bool,
    pub name: String,
    /// In ticks since the machine started; with the pid, a name that nobody else ever has.
    pub started: u64,
    cpu_ticks: u64,
    memory_pages: u64,
}

/// All that can be seen.
pub fn all() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter_map(read).collect()
}

pub fn read(pid: i32) -> Option<Process> {
    parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Of this process, what it has started, what those have started, and the members of `group`, whose parents may
/// be gone.
pub fn usage(group: Option<i32>) -> Usage {
    let (own, processes) = (std::process::id().cast_signed(), all());
    let parents: HashMap<i32, i32> = processes.iter().map(|one| (one.pid, one.parent)).collect();
    let tree = processes.iter().filter(|one| Some(one.group) == group || is_below(one.pid, own, &parents));
    let (tick, page) = (rustix::param::clock_ticks_per_second() as f64, rustix::param::page_size() as u64);
    tree.fold(Usage::default(), |sum, one| Usage {
        processes: sum.processes + 1,
        cpu_seconds: sum.cpu_seconds + one.cpu_ticks as f64 / tick,
        memory_bytes: sum.memory_bytes + one.memory_pages * page,
        io_bytes: sum.io_bytes + io_bytes(one.pid),
    })
}

pub fn is_below(pid: i32, top: i32, parents: &HashMap<i32, i32>) -> bool {
    let mut at = pid;
    // As many steps as there are processes: a chain that was read while it changed might go in a circle.
    for _ in 0..=parents.len() {
        if at == top {
            return true;
        }
        match parents.get(&at) {
            Some(parent) => at = *parent,
            None => return false,
        }
    }
    false
}

/// The name is in brackets and may hold anything, brackets included; all else follows the last one.
fn parse(stat: &str) -> Option<Process> {
    let pid = stat.split(' ').next()?.parse().ok()?;
    let (head, tail) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
    let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
    Some(Process {
        pid,
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        ended: matches!(*fields.first()?, "Z" | "X"),
        name: head.split_once('(')?.1.to_owned(),
        // With the children that have ended, so that a build of many short programs shows.
        cpu_ticks: (11..=14).filter_map(number).sum(),
        started: number(19)?,
        memory_pages: number(21)?,
    })
}

fn io_bytes(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    let field = |line: &str, name: &str| line.strip_prefix(name)?.trim().parse::<u64>().ok();
    text.lines().filter_map(|line| field(line, "rchar:").or_else(|| field(line, "wchar:"))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_spaces_hides_nothing() {
        let stat = "42 (a) b (c) S 7 42 1 0 -1 4194560 100 0 0 0 10 20 3 4 20 0 1 0 5555 9999 17 18446744073709551615";
        let process = parse(stat).unwrap();
        assert_eq!((process.pid, process.parent, process.group), (42, 7, 42));
        assert_eq!((process.session, process.ended, process.name.as_str()), (1, false, "a) b (c"));
        assert_eq!((process.cpu_ticks, process.started, process.memory_pages), (37, 5555, 17));
        assert_eq!(parse("42 (x) S"), None);
    }

    #[test]
    fn this_process_is_in_its_own_tree() {
        let usage = usage(None);
        assert!(usage.processes >= 1 && usage.memory_bytes > 0);
    }

    #[test]
    fn a_circle_of_parents_ends() {
        let parents = HashMap::from([(2, 3), (3, 2)]);
        assert!(!is_below(2, 1, &parents));
    }
}
