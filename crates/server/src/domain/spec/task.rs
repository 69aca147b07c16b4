//! The tasks of a spec: small, with files of their own or in an order, and together all that was required and designed.

use std::collections::{BTreeMap, BTreeSet};

use omoi_protocol::spec::{
    Phase, Wrong,
    output::{Bugfix, Design, Requirements, Tasks},
};

use super::{
    evaluate::{Known, Marks, share},
    fact, name, requirement,
};

const HOURS_MIN: f64 = 1.0;
const HOURS_MAX: f64 = 4.0;
const DESCRIPTION_CHARS_MIN: usize = 20;

pub fn judge(output: &Tasks, known: &Known<'_>, marks: &mut Marks) {
    if output.tasks.is_empty() {
        return marks.issue("$.tasks", "is empty; there is nothing to do");
    }
    marks.earn(0.03, 1.0);
    tickets(output, marks);
    structure(output, marks);
    hours(output, marks);
    let requirements: Option<Requirements> = known.output(Phase::Requirements);
    let (bad_ids, circles) = (fact::ids(output, requirements.as_ref()), fact::cycles(output));
    marks.earn(0.05, if bad_ids.is_empty() { 1.0 } else { 0.0 });
    marks.earn(0.08, 1.0 - 0.2 * bad_ids.len() as f64);
    marks.earn(0.15, if circles.is_empty() { 1.0 } else { 0.0 });
    bad_ids.into_iter().chain(circles).for_each(|wrong| issue(wrong, marks));
    parents(output, marks);
    files(output, known, marks);
    fact::order(output).into_iter().for_each(|wrong| issue(wrong, marks));
    covered(output, requirements.as_ref(), known, marks);
    critical_path(output, marks);
    if let Some(bugfix) = &output.bugfix {
        mends(bugfix, output, known, marks);
    }
}

fn issue(wrong: Wrong, marks: &mut Marks) {
    marks.issue(wrong.at, wrong.text);
}

fn tickets(output: &Tasks, marks: &mut Marks) {
    let mut good = 0;
    for (at, ticket) in output.tickets.iter().enumerate() {
        if ticket.tasks.is_empty() {
            marks.issue(format!("$.tickets[{at}].tasks"), format!("{} has no task that does it", ticket.id));
        } else {
            good += 1;
        }
    }
    if output.tickets.is_empty() {
        marks.issue("$.tickets", "is empty; every task belongs to a ticket");
    }
    marks.earn(0.12, if good == 0 { 0.0 } else { share(good, output.tickets.len()) });
}

fn structure(output: &Tasks, marks: &mut Marks) {
    let mut good = 0;
    for (at, task) in output.tasks.iter().enumerate() {
        let at = format!("$.tasks[{at}]");
        let described = task.description.trim().chars().count() >= DESCRIPTION_CHARS_MIN;
        if !described {
            marks.warn(format!("{at}.description"), "says too little for somebody who knows nothing else");
        }
        let criteria = &task.acceptance_criteria;
        let testable = requirement::criteria(criteria, 1, &format!("{at}.acceptance_criteria"), marks);
        good += usize::from(described && testable);
    }
    marks.earn(0.15, share(good, output.tasks.len()));
}

fn hours(output: &Tasks, marks: &mut Marks) {
    let mut good = 0;
    for (at, task) in output.tasks.iter().enumerate() {
        let at = format!("$.tasks[{at}].estimated_hours");
        match task.estimated_hours {
            None => marks.warn(at, format!("is missing; estimate {HOURS_MIN} to {HOURS_MAX} hours")),
            Some(hours) if !(HOURS_MIN..=HOURS_MAX).contains(&hours) => marks.issue(
                at,
                format!("is {hours}; a task takes {HOURS_MIN} to {HOURS_MAX} hours, so split it or join it with another"),
            ),
            Some(_) => good += 1,
        }
    }
    marks.earn(0.12, share(good, output.tasks.len()));
    let sum: f64 = output.tasks.iter().map(fact::hours).sum();
    match output.total_estimated_hours {
        Some(total) if (total - sum).abs() > 0.01 => {
            marks.issue("$.total_estimated_hours", format!("is {total}, but the tasks add up to {sum}"));
        }
        Some(_) => marks.earn(0.05, 1.0),
        None => marks.warn("$.total_estimated_hours", "is missing"),
    }
}

/// A task and its ticket name each other.
fn parents(output: &Tasks, marks: &mut Marks) {
    let mut good = 0;
    let listed: BTreeMap<&str, &[String]> =
        output.tickets.iter().map(|ticket| (ticket.id.as_str(), ticket.tasks.as_slice())).collect();
    let parent: BTreeMap<&str, &str> =
        output.tasks.iter().map(|task| (task.id.as_str(), task.parent_ticket.as_str())).collect();
    for (at, task) in output.tasks.iter().enumerate() {
        let Some(tasks) = listed.get(task.parent_ticket.as_str()) else { continue };
        if tasks.contains(&task.id) {
            good += 1;
        } else {
            let text = format!(
                "{} does not list {} among its tasks",
                name::short(&task.parent_ticket),
                name::short(&task.id)
            );
            marks.issue(format!("$.tasks[{at}].parent_ticket"), text);
        }
    }
    for (at, ticket) in output.tickets.iter().enumerate() {
        for (index, task) in ticket.tasks.iter().enumerate() {
            if let Some(of) = parent.get(task.as_str())
                && *of != ticket.id
            {
                marks.issue(
                    format!("$.tickets[{at}].tasks[{index}]"),
                    format!("{task} belongs to {}", name::short(of)),
                );
            }
        }
    }
    marks.earn(0.12, share(good, output.tasks.len()));
}

/// What is to be modified is there or is made by a task; what is to be made is not there.
fn files(output: &Tasks, known: &Known<'_>, marks: &mut Marks) {
    let made: BTreeSet<&str> = output
        .tasks
        .iter()
        .flat_map(|task| &task.files_to_create)
        .filter_map(|file| name::path(file).ok())
        .collect();
    let mut good = 0;
    for (at, task) in output.tasks.iter().enumerate() {
        let at = format!("$.tasks[{at}]");
        for (key, files) in
            [("files_to_create", &task.files_to_create), ("files_to_modify", &task.files_to_modify)]
        {
            for (index, file) in files.iter().enumerate() {
                let wrong = match name::path(file) {
                    Err(why) => why,
                    Ok(path) if key == "files_to_create" && name::is_there(known.files, path) => {
                        format!("{path:?} is in the repository already; put it under files_to_modify")
                    }
                    Ok(path)
                        if key == "files_to_modify"
                            && !known.files.contains(path)
                            && !made.contains(path) =>
                    {
                        let meant = known.meant(marks, path);
                        format!("{path:?} is not in the repository and no task makes it{meant}")
                    }
                    Ok(_) => continue,
                };
                marks.issue(format!("{at}.{key}[{index}]"), wrong);
            }
        }
        if task.files_to_create.is_empty() && task.files_to_modify.is_empty() {
            marks.warn(at, format!("{} names no file; say which it makes or modifies", task.id));
        } else {
            good += 1;
        }
    }
    marks.earn(0.08, share(good, output.tasks.len()));
}

fn covered(output: &Tasks, requirements: Option<&Requirements>, known: &Known<'_>, marks: &mut Marks) {
    for one in requirements.iter().flat_map(|all| fact::uncovered_requirements(all, output)) {
        marks.issue("$.tasks", format!("no task addresses {} ({})", one.id, one.title));
    }
    let design: Option<Design> = known.output(Phase::Design);
    for component in design.iter().flat_map(|design| fact::uncovered_components(design, output)) {
        let of = if component.file_path.is_empty() { "speaks of it" } else { "makes or modifies its file" };
        let file = if component.file_path.is_empty() { "" } else { " " };
        let text = format!("component {:?}{file}{}: no task {of}", component.name, component.file_path);
        marks.issue("$.tasks", text);
    }
}

fn critical_path(output: &Tasks, marks: &mut Marks) {
    let (path, hours) = fact::critical_path(output);
    let claimed = fact::chain(output, &output.critical_path);
    let right = claimed.is_some_and(|claimed| (claimed - hours).abs() < 0.01);
    let text = format!("the longest chain of dependent tasks is {} ({hours} hours)", path.join(", "));
    marks.expect(0.05, right, "$.critical_path", &text);
}

/// How a bug is shown, where it comes from, what mends it and what keeps it away.
fn mends(bugfix: &Bugfix, output: &Tasks, known: &Known<'_>, marks: &mut Marks) {
    let task = |id: &String| output.tasks.iter().find(|task| task.id == *id);
    if bugfix.reproduce.steps.is_empty() {
        marks.issue("$.bugfix.reproduce.steps", "is empty; say how to see the bug");
    }
    if bugfix.reproduce.observed.trim() == bugfix.reproduce.expected.trim() {
        marks.issue("$.bugfix.reproduce", "observed and expected are the same, so nothing is wrong");
    }
    if !name::is_there(known.files, &bugfix.cause.file) {
        let meant = known.meant(marks, &bugfix.cause.file);
        marks
            .issue("$.bugfix.cause.file", format!("{:?} is not in the repository{meant}", bugfix.cause.file));
    }
    for (key, ids) in [("fix", &bugfix.fix), ("guard.tasks", &bugfix.guard.tasks)] {
        if ids.is_empty() {
            marks.issue(format!("$.bugfix.{key}"), "is empty; name the tasks that do it");
        }
        for (index, id) in ids.iter().enumerate().filter(|(_, id)| task(id).is_none()) {
            marks.issue(format!("$.bugfix.{key}[{index}]"), format!("{id:?} is no task of this output"));
        }
    }
    let test = name::path(&bugfix.guard.test);
    let writes = |id: &String| {
        let files =
            task(id).into_iter().flat_map(|task| task.files_to_create.iter().chain(&task.files_to_modify));
        files.map(|file| name::path(file)).any(|file| file.is_ok() && file == test)
    };
    if !bugfix.guard.tasks.iter().any(writes) {
        let text = format!("none of the guard's tasks makes or modifies {:?}", bugfix.guard.test);
        marks.issue("$.bugfix.guard.test", text);
    }
}
