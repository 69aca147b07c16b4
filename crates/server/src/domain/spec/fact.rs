//! What follows from requirements, design and tasks, worked out rather than believed: who comes before whom, what nobody
//! does, which names lead nowhere.

use std::collections::{BTreeMap, BTreeSet};

use omoi_protocol::spec::{
    Wrong,
    output::{Component, Design, Requirement, Requirements, Task, Tasks},
};

use super::{name, work};
use crate::domain::graph;

/// So many pairs of tasks are compared, and so many faults in their order told.
const COMPARED_MAX: usize = 200_000;
const WRONG_MAX: usize = 100;

/// `(a, b)` says that `a` comes after `b`.
pub type Edge<'a> = (&'a str, &'a str);

/// What the tasks say of each other, whichever side says it; names that lead nowhere are left out.
pub fn task_edges(output: &Tasks) -> BTreeSet<Edge<'_>> {
    let ids: BTreeSet<&str> = output.tasks.iter().map(|task| task.id.as_str()).collect();
    let after = output.tasks.iter().flat_map(|task| {
        let (depends_on, blocks) = (&task.dependencies.depends_on, &task.dependencies.blocks);
        let on = depends_on.iter().map(|on| (task.id.as_str(), on.as_str()));
        on.chain(blocks.iter().map(|later| (later.as_str(), task.id.as_str())))
    });
    after.filter(|(id, on)| ids.contains(id) && ids.contains(on)).collect()
}

pub fn ticket_edges(output: &Tasks) -> BTreeSet<Edge<'_>> {
    let ids: BTreeSet<&str> = output.tickets.iter().map(|ticket| ticket.id.as_str()).collect();
    let after = output.tickets.iter().flat_map(|ticket| {
        let (blocked_by, blocks) = (&ticket.dependencies.blocked_by, &ticket.dependencies.blocks);
        let on = blocked_by.iter().map(|on| (ticket.id.as_str(), on.as_str()));
        on.chain(blocks.iter().map(|later| (later.as_str(), ticket.id.as_str())))
    });
    after.filter(|(id, on)| ids.contains(id) && ids.contains(on)).collect()
}

/// The order of work: what the tasks say of each other and what follows from their tickets. The first tasks of a ticket come
/// after the last ones of each ticket that blocks it.
pub fn order_edges(output: &Tasks) -> BTreeSet<Edge<'_>> {
    let mut edges = task_edges(output);
    let parent: BTreeMap<&str, &str> =
        output.tasks.iter().map(|task| (task.id.as_str(), task.parent_ticket.as_str())).collect();
    let within = |(id, on): &&Edge<'_>| parent.get(id) == parent.get(on);
    let waits: BTreeSet<&str> = edges.iter().filter(within).map(|(id, _)| *id).collect();
    let awaited: BTreeSet<&str> = edges.iter().filter(within).map(|(_, on)| *on).collect();
    let mut first: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut last: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (id, ticket) in parent {
        if !waits.contains(id) {
            first.entry(ticket).or_default().push(id);
        }
        if !awaited.contains(id) {
            last.entry(ticket).or_default().push(id);
        }
    }
    for (ticket, on) in ticket_edges(output) {
        let (Some(first), Some(last)) = (first.get(ticket), last.get(on)) else { continue };
        work::step(first.len() * last.len());
        edges.extend(first.iter().flat_map(|first| last.iter().map(move |last| (*first, *last))));
    }
    edges
}

/// All that comes before each task, as bits: whatever an output says, it is soon worked out.
pub struct Before<'a> {
    index: BTreeMap<&'a str, usize>,
    bits: Vec<Vec<u64>>,
}

impl<'a> Before<'a> {
    pub fn new(edges: &BTreeSet<Edge<'a>>) -> Self {
        let ids: BTreeSet<&str> = edges.iter().flat_map(|(id, on)| [*id, *on]).collect();
        let index: BTreeMap<&str, usize> = ids.into_iter().enumerate().map(|(at, id)| (id, at)).collect();
        let mut bits = vec![vec![0; index.len().div_ceil(64)]; index.len()];
        for (id, on) in edges {
            let on = index[on];
            bits[index[id]][on / 64] |= 1 << (on % 64);
        }
        for through in 0..bits.len() {
            let further = bits[through].clone();
            for of in bits.iter_mut().filter(|of| has(of, through)) {
                of.iter_mut().zip(&further).for_each(|(word, more)| *word |= more);
            }
        }
        Self { index, bits }
    }

    /// Where a task stands here; one without dependencies on either side does not.
    pub fn place(&self, id: &str) -> Option<usize> {
        self.index.get(id).copied()
    }

    /// Whether the task at the first place comes after the one at the second.
    pub fn waits(&self, id: Option<usize>, on: Option<usize>) -> bool {
        work::step(1);
        matches!((id, on), (Some(id), Some(on)) if has(&self.bits[id], on))
    }

    /// How many come before it.
    pub fn count(&self, id: &str) -> u32 {
        self.place(id).map_or(0, |at| self.bits[at].iter().map(|word| word.count_ones()).sum())
    }
}

fn has(bits: &[u64], at: usize) -> bool {
    bits[at / 64] >> (at % 64) & 1 == 1
}

pub fn cycles(output: &Tasks) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    let mut circle = |at: &str, what: &str, edges: BTreeSet<Edge<'_>>| {
        let edges: Vec<Edge<'_>> = edges.into_iter().collect();
        if let Some(cycle) = graph::find_cycle(&[], &edges) {
            let text = format!("{what} in a circle: {}; take one dependency away", cycle.join(" → "));
            wrong.push(Wrong { at: at.to_owned(), text });
        }
        wrong.len()
    };
    let direct = circle("$.tasks", "the tasks wait for each other", task_edges(output))
        + circle("$.tickets", "the tickets wait for each other", ticket_edges(output));
    if direct == 0 {
        circle("$.tickets", "tasks and tickets together wait for each other", order_edges(output));
    }
    wrong
}

/// Ids that are no ids, are given twice or lead nowhere.
pub fn ids(output: &Tasks, requirements: Option<&Requirements>) -> Vec<Wrong> {
    let mut names = Names { wrong: Vec::new() };
    let tickets = names.given("$.tickets", "TKT", output.tickets.iter().map(|ticket| ticket.id.as_str()));
    let tasks = names.given("$.tasks", "TSK", output.tasks.iter().map(|task| task.id.as_str()));
    let required: BTreeSet<&str> =
        requirements.iter().flat_map(|all| &all.requirements).map(|one| one.id.as_str()).collect();
    for (at, ticket) in output.tickets.iter().enumerate() {
        let at = format!("$.tickets[{at}]");
        names.used(&format!("{at}.tasks"), &ticket.tasks, &tasks, "task");
        names.used(&format!("{at}.requirements"), &ticket.requirements, &required, "requirement");
        names.used(
            &format!("{at}.dependencies.blocked_by"),
            &ticket.dependencies.blocked_by,
            &tickets,
            "ticket",
        );
        names.used(&format!("{at}.dependencies.blocks"), &ticket.dependencies.blocks, &tickets, "ticket");
    }
    for (at, task) in output.tasks.iter().enumerate() {
        let at = format!("$.tasks[{at}]");
        if !tickets.contains(task.parent_ticket.as_str()) {
            names.say(
                format!("{at}.parent_ticket"),
                format!("{:?} is no ticket of this output", task.parent_ticket),
            );
        }
        let addressed = &task.requirements_addressed;
        names.used(&format!("{at}.requirements_addressed"), addressed, &required, "requirement");
        names.used(&format!("{at}.dependencies.depends_on"), &task.dependencies.depends_on, &tasks, "task");
        names.used(&format!("{at}.dependencies.blocks"), &task.dependencies.blocks, &tasks, "task");
    }
    names.used("$.critical_path", &output.critical_path, &tasks, "task");
    names.wrong
}

struct Names {
    wrong: Vec<Wrong>,
}

impl Names {
    fn say(&mut self, at: String, text: String) {
        self.wrong.push(Wrong { at, text });
    }

    fn given<'a>(&mut self, at: &str, prefix: &str, ids: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
        let mut seen = BTreeSet::new();
        for (index, id) in ids.enumerate() {
            if !name::is_numbered(id, prefix) {
                self.say(format!("{at}[{index}].id"), format!("{id:?} is no id such as {prefix}-001"));
            }
            if !seen.insert(id) {
                self.say(format!("{at}[{index}].id"), format!("{id} is given twice; give each its own"));
            }
        }
        seen
    }

    fn used(&mut self, at: &str, used: &[String], known: &BTreeSet<&str>, what: &str) {
        for (index, id) in used.iter().enumerate() {
            if !known.contains(id.as_str()) {
                let article = if what == "requirement" { "of this spec" } else { "of this output" };
                self.say(format!("{at}[{index}]"), format!("{id:?} is no {what} {article}"));
            }
        }
    }
}

/// Tasks that change the same file without one waiting for the other, or before it is made.
pub fn order(output: &Tasks) -> Vec<Wrong> {
    let before = Before::new(&order_edges(output));
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for (path, users) in users(output) {
        for (at, (index, task, makes)) in users.iter().enumerate() {
            for (_, other, other_makes) in &users[..at] {
                compared += 1;
                work::step(1);
                if compared > COMPARED_MAX || wrong.len() >= WRONG_MAX {
                    let text = "too many tasks change the same files; divide the work by files".to_owned();
                    wrong.push(Wrong { at: "$.tasks".to_owned(), text });
                    return wrong;
                }
                let (one, two) = (task.id.as_str(), other.id.as_str());
                let (here, there) = (before.place(one), before.place(two));
                let (after, ahead) = (before.waits(here, there), before.waits(there, here));
                let text = match (after, ahead) {
                    _ if *makes && *other_makes => {
                        format!("{two} and {one} both make {path}; let one make it and the other modify it")
                    }
                    (false, false) => {
                        format!("{two} and {one} both change {path}; let one depend on the other")
                    }
                    _ if (*makes && !ahead) || (*other_makes && !after) => {
                        format!(
                            "{two} and {one} change {path} in the wrong order; whoever makes it comes first"
                        )
                    }
                    _ => continue,
                };
                wrong.push(Wrong { at: format!("$.tasks[{index}]"), text });
            }
        }
    }
    wrong
}

/// By path, the tasks that change it: where they are, and whether they make it.
fn users(output: &Tasks) -> BTreeMap<&str, Vec<(usize, &Task, bool)>> {
    let mut users: BTreeMap<&str, Vec<(usize, &Task, bool)>> = BTreeMap::new();
    for (index, task) in output.tasks.iter().enumerate() {
        for (files, makes) in [(&task.files_to_create, true), (&task.files_to_modify, false)] {
            for path in files.iter().filter_map(|path| name::path(path).ok()) {
                let of = users.entry(path).or_default();
                if of.last().is_none_or(|(last, ..)| *last != index) {
                    of.push((index, task, makes));
                }
            }
        }
    }
    users
}

/// The tasks and the tickets that name each requirement. Worked out once, since an output may have many of each.
pub struct Covering<'a>(BTreeMap<&'a str, (BTreeSet<&'a str>, BTreeSet<&'a str>)>);

impl<'a> Covering<'a> {
    pub fn new(output: &'a Tasks) -> Self {
        let mut by_requirement: BTreeMap<&str, (BTreeSet<&str>, BTreeSet<&str>)> = BTreeMap::new();
        for task in &output.tasks {
            work::step(task.requirements_addressed.len());
            for id in &task.requirements_addressed {
                by_requirement.entry(id).or_default().0.insert(&task.id);
            }
        }
        for ticket in &output.tickets {
            work::step(ticket.requirements.len());
            for id in &ticket.requirements {
                by_requirement.entry(id).or_default().1.insert(&ticket.id);
            }
        }
        Self(by_requirement)
    }

    pub fn of(&self, requirement: &str) -> (BTreeSet<&'a str>, BTreeSet<&'a str>) {
        let found = self.0.get(requirement).cloned().unwrap_or_default();
        work::step(found.0.len() + found.1.len());
        found
    }
}

pub fn uncovered_requirements<'a>(requirements: &'a Requirements, output: &Tasks) -> Vec<&'a Requirement> {
    let covered: BTreeSet<&String> =
        output.tasks.iter().flat_map(|task| &task.requirements_addressed).collect();
    requirements.requirements.iter().filter(|one| !covered.contains(&one.id)).collect()
}

/// Components whose file no task changes; of those without a file, ones that no task speaks of.
pub fn uncovered_components<'a>(design: &'a Design, output: &Tasks) -> Vec<&'a Component> {
    let files = output.tasks.iter().flat_map(|task| task.files_to_create.iter().chain(&task.files_to_modify));
    let changed: BTreeSet<String> =
        files.filter_map(|file| name::path(file).ok()).map(str::to_owned).collect();
    let said: String = output
        .tasks
        .iter()
        .map(|task| format!("{}\n{}\n", task.title, task.description).to_lowercase())
        .collect();
    let covered = |component: &Component| match name::path(component.file_path.trim_end_matches('/')) {
        Ok(path) => name::is_there(&changed, path),
        Err(_) => {
            work::step(said.len());
            said.contains(&component.name.trim().to_lowercase())
        }
    };
    design.components.iter().filter(|component| !covered(component)).collect()
}

/// The hours a task is thought to take; a size stands in where no number is given.
pub fn hours(task: &Task) -> f64 {
    let sized = match task.estimate.to_uppercase().as_str() {
        "S" => 1.0,
        "L" => 3.0,
        "XL" => 4.0,
        _ => 2.0,
    };
    task.estimated_hours.filter(|hours| hours.is_finite() && (0.0..=1000.0).contains(hours)).unwrap_or(sized)
}

/// The longest chain of tasks in the order of work, and its hours.
pub fn critical_path(output: &Tasks) -> (Vec<&str>, f64) {
    let weighed: Vec<(&str, u64)> =
        output.tasks.iter().map(|task| (task.id.as_str(), seconds(task))).collect();
    let edges: Vec<Edge<'_>> = task_edges(output).into_iter().collect();
    let (path, seconds) = graph::critical_path(&weighed, &edges);
    (path, seconds as f64 / 3600.0)
}

pub fn seconds(task: &Task) -> u64 {
    (hours(task) * 3600.0).round() as u64
}

/// Whether it is a chain in the order of work, and the hours of it.
pub fn chain(output: &Tasks, path: &[String]) -> Option<f64> {
    let edges = task_edges(output);
    let linked = path.windows(2).all(|pair| edges.contains(&(pair[1].as_str(), pair[0].as_str())));
    let task = |id: &String| output.tasks.iter().find(|task| task.id == *id).map(hours);
    path.iter().map(task).sum::<Option<f64>>().filter(|_| linked)
}
