//! spec-kit's layout: `spec.md` with user stories and `FR-001`, `plan.md`, and `tasks.md` with phases of `T001`.

use std::collections::BTreeSet;

use omoi_protocol::spec::{
    Phase,
    output::{Prd, Requirement, Requirements, Tasks},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    Exchange, Files, ImportError,
    checklist::{self, Group, Refs},
    design, feature_code, markdown,
    note::{self, flat},
    requirement::{short, shown},
};

const SPEC: &str = "spec.md";

pub fn write(spec: &Exchange) -> Files {
    let mut files = Files::new();
    let output = |phase| spec.outputs.get(&phase);
    let prd = output(Phase::Prd).and_then(|value| Prd::deserialize(value).ok()).unwrap_or_default();
    if let Some(all) = output(Phase::Requirements).and_then(|value| Requirements::deserialize(value).ok()) {
        files.insert(SPEC.to_owned(), requirements(&all, &prd));
    }
    if let Some(text) = output(Phase::Design).and_then(|value| design::write("Implementation Plan", value)) {
        files.insert("plan.md".to_owned(), text);
    }
    if let Some(all) = output(Phase::Tasks).and_then(|value| Tasks::deserialize(value).ok()) {
        files.insert("tasks.md".to_owned(), tasks(&all, &spec.done));
    }
    files
}

fn requirements(all: &Requirements, prd: &Prd) -> String {
    let mut text = format!("# Feature Specification: {}\n\n", flat(&all.feature_name));
    if !prd.user_stories.is_empty() {
        text.push_str("## User Scenarios & Testing\n\n");
        for story in &prd.user_stories {
            let (role, want, benefit) = (flat(&story.role), flat(&story.want), flat(&story.benefit));
            let (id, priority) = (flat(&story.id), flat(&story.priority));
            text.push_str(&format!(
                "- **{id}** ({priority}): As a {role}, I want {want}, so that {benefit}\n"
            ));
        }
        text.push('\n');
    }
    text.push_str("## Requirements\n\n### Functional Requirements\n\n");
    for (at, one) in all.requirements.iter().enumerate() {
        text.push_str(&format!("- **FR-{:03}**: {}\n", at + 1, flat(&one.text)));
        let mut notes = vec![format!("_Id: {}_", flat(&one.id)), format!("_Title: {}_", flat(&one.title))];
        if !one.priority.is_empty() {
            notes.push(format!("_Priority: {}_", flat(&one.priority)));
        }
        if !one.dependencies.is_empty() {
            notes.push(format!("_Depends on: {}_", flat(&one.dependencies.join(", "))));
        }
        notes.extend(one.acceptance_criteria.iter().map(|criterion| flat(criterion)));
        notes.iter().for_each(|note| text.push_str(&format!("  - {note}\n")));
    }
    let assumptions: Vec<&str> = all.assumptions.iter().filter_map(Value::as_str).collect();
    if !assumptions.is_empty() {
        text.push_str("\n## Assumptions\n\n");
        assumptions.iter().for_each(|item| text.push_str(&format!("- {}\n", flat(item))));
    }
    text
}

fn tasks(all: &Tasks, done: &BTreeSet<String>) -> String {
    let mut text = format!("# Tasks: {}\n", flat(&all.feature_name));
    let mut number = 0;
    for (at, (ticket, tasks)) in note::grouped(all).into_iter().enumerate() {
        text.push_str(&format!("\n## Phase {}: {} ({})\n\n", at + 1, flat(&ticket.title), flat(&ticket.id)));
        note::of_ticket(ticket).iter().for_each(|note| text.push_str(&format!("{note}\n\n")));
        let ids: BTreeSet<&str> = tasks.iter().map(|task| task.id.as_str()).collect();
        for task in tasks {
            number += 1;
            let mark = if done.contains(&task.id) { 'x' } else { ' ' };
            let free = !task.dependencies.depends_on.iter().any(|on| ids.contains(on.as_str()));
            let parallel = if free && ids.len() > 1 { "[P] " } else { "" };
            let (title, id) = (flat(&task.title), flat(&task.id));
            text.push_str(&format!("- [{mark}] T{number:03} {parallel}{title} ({id})\n"));
            note::of_task(task).iter().for_each(|note| text.push_str(&format!("  - {note}\n")));
        }
    }
    text
}

/// Whether a checklist by itself is one of this layout.
pub fn is_checklist(text: &str) -> bool {
    text.lines().any(|line| {
        checklist::item("tasks.md", 1, line).ok().flatten().is_some_and(|item| is_number(&item.number))
    })
}

pub fn read(files: &Files, title: &str, known: Option<&BTreeSet<String>>) -> Result<Exchange, ImportError> {
    let mut spec = Exchange { title: title.to_owned(), ..Exchange::default() };
    let mut refs = Refs::default();
    if let Some(text) = files.get(SPEC) {
        let value = read_requirements(text, title, &mut refs)?;
        spec.outputs.insert(Phase::Requirements, value);
    }
    if let Some(text) = files.get("plan.md") {
        spec.outputs.insert(Phase::Design, design::read("plan.md", text, title, known)?);
    }
    if let Some(text) = files.get("tasks.md") {
        let sections = markdown::sections(text);
        let feature = design::heading(&sections).unwrap_or(title);
        let (value, done) = checklist::tasks("tasks.md", feature, &groups(&sections)?, &refs, known)?;
        spec.outputs.insert(Phase::Tasks, value);
        spec.done = done;
    }
    Ok(spec)
}

fn read_requirements(text: &str, title: &str, refs: &mut Refs) -> Result<Value, ImportError> {
    let sections = markdown::sections(text);
    let code = feature_code(title);
    let mut requirements = Vec::new();
    for section in &sections {
        if let Some(story) = section.title.strip_prefix("User Story ").filter(|_| section.level == 3) {
            requirements.extend(from_story(story, section, &code, refs)?);
        }
        for block in blocks(&section.body) {
            let (line, head) = block[0];
            let Some((name, text)) = functional(head) else { continue };
            let one = requirement(name, text, &block[1..], &code);
            if refs.criteria.contains_key(&one.id) || refs.names.contains_key(name) {
                return Err(ImportError::new(SPEC, line, format!("{name} is there twice")));
            }
            if one.text.is_empty() {
                let why = format!("{name} says nothing; write `- **{name}**: System MUST …`");
                return Err(ImportError::new(SPEC, line, why));
            }
            refs.names.insert(name.to_owned(), one.id.clone());
            refs.criteria.insert(one.id.clone(), one.acceptance_criteria.clone());
            requirements.push(shown(&one));
        }
    }
    if requirements.is_empty() {
        return Err(ImportError::new(
            SPEC,
            1,
            "has no requirement; expected lines such as `- **FR-001**: System MUST …`",
        ));
    }
    let feature = design::heading(&sections).unwrap_or(title);
    let mut value = json!({ "feature_name": feature, "requirements": requirements });
    let assumptions = design::items_of(&sections, &["assumptions"]);
    if !assumptions.is_empty() {
        value["assumptions"] = json!(assumptions);
    }
    Ok(value)
}

/// A story becomes a requirement of use: its first scenario in EARS form, all of them as criteria.
fn from_story(
    story: &str,
    section: &markdown::Section<'_>,
    code: &str,
    refs: &mut Refs,
) -> Result<Option<Value>, ImportError> {
    let digits = story.bytes().take_while(u8::is_ascii_digit).count();
    let number = &story[..digits];
    let scenarios: Vec<String> =
        markdown::items(&section.body).iter().map(|text| text.replace("**", "")).collect();
    let Some((when, then)) = scenarios.iter().find_map(|text| scenario(text)) else { return Ok(None) };
    let name = story[digits..].trim_start_matches([' ', '-', '–', ':']);
    let name = name.split(" (Priority").next().unwrap_or(name).trim();
    let one = Requirement {
        id: format!("REQ-{code}-USE-{number:0>3}"),
        title: if name.is_empty() { format!("User story {number}") } else { name.to_owned() },
        text: format!("WHEN {when}, THE system SHALL ensure that {then}"),
        acceptance_criteria: scenarios,
        rest: Map::from_iter([("user_story".to_owned(), Value::from(format!("US{number}")))]),
        ..Requirement::default()
    };
    if refs.names.insert(format!("US{number}"), one.id.clone()).is_some() {
        return Err(ImportError::new(SPEC, section.line, format!("user story {number} is there twice")));
    }
    refs.criteria.insert(one.id.clone(), one.acceptance_criteria.clone());
    Ok(Some(shown(&one)))
}

/// What is done and what comes of it: `Given …, When …, Then …`.
fn scenario(text: &str) -> Option<(&str, &str)> {
    let (_, rest) = text.split_once("When ")?;
    let (when, then) = rest.split_once("Then ")?;
    Some((when.trim().trim_end_matches(','), then.trim()))
}

/// A top-level list item with all that is below it.
fn blocks<'b, 'a>(body: &'b [(usize, &'a str)]) -> Vec<&'b [(usize, &'a str)]> {
    let starts: Vec<usize> = body
        .iter()
        .enumerate()
        .filter(|(_, (_, line))| matches!(markdown::item(line), Some((0, _))))
        .map(|(at, _)| at)
        .collect();
    let ends = starts.iter().skip(1).copied().chain([body.len()]);
    starts.iter().copied().zip(ends).map(|(start, end)| &body[start..end]).collect()
}

/// `- **FR-001**: text`.
fn functional(line: &str) -> Option<(&str, &str)> {
    let (name, text) = markdown::field(markdown::item(line)?.1)?;
    let number = name.strip_prefix("FR-").or_else(|| name.strip_prefix("NFR-"))?;
    (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some((name, text))
}

fn requirement(name: &str, text: &str, below: &[(usize, &str)], code: &str) -> Requirement {
    let number = name.rsplit('-').next().unwrap_or_default();
    let category = if name.starts_with('N') { "CON" } else { "FUNC" };
    let mut one = Requirement {
        id: format!("REQ-{code}-{category}-{number:0>3}"),
        title: short(text),
        text: text.to_owned(),
        ..Requirement::default()
    };
    for (_, line) in below {
        let Some((_, text)) = markdown::item(line) else { continue };
        match markdown::note(text) {
            Some(("Id", id)) => one.id = id.to_owned(),
            Some(("Title", title)) => one.title = title.to_owned(),
            Some(("Priority", word)) => one.priority = word.to_owned(),
            Some(("Depends on", ids)) => {
                one.dependencies = ids.split(',').map(|id| id.trim().to_owned()).collect();
            }
            _ => one.acceptance_criteria.push(text.to_owned()),
        }
    }
    one
}

/// Each phase is a group; its tasks are `T001` and so on.
fn groups(sections: &[markdown::Section<'_>]) -> Result<Vec<Group>, ImportError> {
    let mut groups: Vec<Group> = Vec::new();
    for section in sections {
        if section.level <= 2 {
            let title = section
                .title
                .split_once(": ")
                .filter(|_| section.title.starts_with("Phase "))
                .map_or(section.title, |(_, name)| name);
            let title = if title.is_empty() { "Tasks" } else { title };
            groups.push(Group {
                line: section.line,
                title: title.to_owned(),
                details: Vec::new(),
                items: Vec::new(),
            });
        }
        let Some(group) = groups.last_mut() else { continue };
        for (number, line) in &section.body {
            match checklist::item("tasks.md", *number, line)? {
                Some(item) if !is_number(&item.number) => {
                    let why = format!("{:?} is no number of a task; write `- [ ] T001 Title`", item.number);
                    return Err(ImportError::new("tasks.md", *number, why));
                }
                Some(item) => group.items.push(item),
                None => match (group.items.last_mut(), markdown::item(line)) {
                    (Some(item), Some((1.., text))) => item.details.push((*number, text.to_owned())),
                    (None, None)
                        if markdown::field(line).is_none()
                            && !line.trim().is_empty()
                            && line.trim() != "---" =>
                    {
                        group.details.push((*number, line.trim().to_owned()));
                    }
                    _ => {}
                },
            }
        }
    }
    groups.retain(|group| !group.items.is_empty());
    Ok(groups)
}

fn is_number(text: &str) -> bool {
    text.strip_prefix('T')
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}
