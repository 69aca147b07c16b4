//! The lines below a box in which an export says what is not prose: `_Files: +src/a.rs_`, `_Depends on: TSK-001_`.

use omoi_protocol::spec::output::{Task, Tasks, Ticket};

/// The notes of a ticket, a line each.
pub fn of_ticket(ticket: &Ticket) -> Vec<String> {
    let mut notes = lines(&ticket.description, &ticket.title);
    notes.extend(ticket.acceptance_criteria.iter().map(|text| format!("_Done when: {}_", flat(text))));
    notes.extend(listed("Requirements", &ticket.requirements));
    notes.extend(worded("Priority", &ticket.priority));
    notes.extend(worded("Estimate", &ticket.estimate));
    let waits = &ticket.dependencies;
    if !(waits.blocked_by.is_empty() && waits.blocks.is_empty()) {
        notes.push(format!("_Blocked by: {}_", or_none(&waits.blocked_by)));
        notes.extend(listed("Blocks", &waits.blocks));
    }
    notes
}

/// The notes of a task, a line each.
pub fn of_task(task: &Task) -> Vec<String> {
    let mut notes = lines(&task.description, &task.title);
    notes.extend(task.acceptance_criteria.iter().map(|text| format!("_Done when: {}_", flat(text))));
    notes.extend(listed("Requirements", &task.requirements_addressed));
    let made = task.files_to_create.iter().map(|path| format!("+{path}"));
    let files: Vec<String> = made.chain(task.files_to_modify.iter().cloned()).collect();
    notes.push(format!("_Files: {}_", or_none(&files)));
    let hours = task.estimated_hours.map(|hours| format!("{hours} h"));
    let size = Some(task.estimate.clone()).filter(|size| !size.is_empty());
    let estimate: Vec<String> = hours.into_iter().chain(size).collect();
    notes.extend(listed("Estimate", &estimate));
    notes.extend(worded("Type", &task.r#type));
    notes.extend(worded("Priority", &task.priority));
    notes.push(format!("_Depends on: {}_", or_none(&task.dependencies.depends_on)));
    notes.extend(listed("Blocks", &task.dependencies.blocks));
    notes
}

/// The tasks of each ticket, in the order of the output; none of a ticket that is not there.
pub fn grouped(output: &Tasks) -> Vec<(&Ticket, Vec<&Task>)> {
    let of = |ticket: &Ticket| output.tasks.iter().filter(|task| task.parent_ticket == ticket.id).collect();
    output.tickets.iter().map(|ticket| (ticket, of(ticket))).collect()
}

/// In one line.
pub fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn lines(text: &str, title: &str) -> Vec<String> {
    let lines = text.lines().map(flat).filter(|line| !line.is_empty());
    if text.trim() == title.trim() { Vec::new() } else { lines.collect() }
}

fn worded(name: &str, word: &str) -> Option<String> {
    (!word.is_empty()).then(|| format!("_{name}: {}_", flat(word)))
}

fn listed(name: &str, items: &[String]) -> Option<String> {
    (!items.is_empty()).then(|| format!("_{name}: {}_", flat(&items.join(", "))))
}

fn or_none(items: &[String]) -> String {
    if items.is_empty() { "none".to_owned() } else { flat(&items.join(", ")) }
}
