//! Kiro's layout: `requirements.md` with numbered requirements and their acceptance criteria, `design.md`, and `tasks.md`
//! with numbered boxes.

use std::collections::{BTreeMap, BTreeSet};

use omoi_protocol::spec::{
    Phase,
    output::{Prd, Requirement, Requirements, Tasks},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Exchange, Files, ImportError,
    checklist::{self, Group, Refs},
    design, feature_code,
    markdown::{self, Section},
    note::{self, flat},
    requirement::{short, shown},
};
use crate::domain::spec::ears;

pub fn write(spec: &Exchange) -> Files {
    let mut files = Files::new();
    let output = |phase| spec.outputs.get(&phase);
    let prd = output(Phase::Prd).and_then(|value| Prd::deserialize(value).ok()).unwrap_or_default();
    if let Some(all) = output(Phase::Requirements).and_then(|value| Requirements::deserialize(value).ok()) {
        files.insert("requirements.md".to_owned(), requirements(&all, &prd));
    }
    if let Some(text) = output(Phase::Design).and_then(|value| design::write("Design", value)) {
        files.insert("design.md".to_owned(), text);
    }
    if let Some(all) = output(Phase::Tasks).and_then(|value| Tasks::deserialize(value).ok()) {
        files.insert("tasks.md".to_owned(), tasks(&all, &spec.done));
    }
    files
}

fn requirements(all: &Requirements, prd: &Prd) -> String {
    let mut text = format!("# Requirements: {}\n\n## Requirements\n\n", flat(&all.feature_name));
    for (at, one) in all.requirements.iter().enumerate() {
        text.push_str(&format!("### Requirement {}: {} ({})\n\n", at + 1, flat(&one.title), flat(&one.id)));
        let story = prd.user_stories.iter().find(|story| one.user_stories.contains(&story.id));
        if let Some(Value::String(story)) = one.rest.get("user_story") {
            text.push_str(&format!("**User Story:** {}\n\n", flat(story)));
        } else if let Some(story) = story {
            let (role, want, benefit) = (flat(&story.role), flat(&story.want), flat(&story.benefit));
            text.push_str(&format!("**User Story:** As a {role}, I want {want}, so that {benefit}\n\n"));
        }
        text.push_str(&format!("**Statement:** {}\n\n", flat(&one.text)));
        if !one.priority.is_empty() {
            text.push_str(&format!("**Priority:** {}\n\n", flat(&one.priority)));
        }
        if !one.dependencies.is_empty() {
            text.push_str(&format!("**Depends on:** {}\n\n", flat(&one.dependencies.join(", "))));
        }
        text.push_str("#### Acceptance Criteria\n\n");
        for (at, criterion) in one.acceptance_criteria.iter().enumerate() {
            text.push_str(&format!("{}. {}\n", at + 1, flat(criterion)));
        }
        text.push('\n');
    }
    for (heading, items) in [
        ("Assumptions", &all.assumptions),
        ("Out of Scope", &all.out_of_scope),
        ("Open Questions", &all.open_questions),
    ] {
        let items: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
        if !items.is_empty() {
            text.push_str(&format!("## {heading}\n\n"));
            items.iter().for_each(|item| text.push_str(&format!("- {}\n", flat(item))));
            text.push('\n');
        }
    }
    format!("{}\n", text.trim_end())
}

fn tasks(all: &Tasks, done: &BTreeSet<String>) -> String {
    let mut text = format!("# Implementation Plan: {}\n", flat(&all.feature_name));
    for (at, (ticket, tasks)) in note::grouped(all).into_iter().enumerate() {
        let mark = |done: bool| if done { 'x' } else { ' ' };
        let all_done = !tasks.is_empty() && tasks.iter().all(|task| done.contains(&task.id));
        text.push_str(&format!(
            "\n- [{}] {}. {} ({})\n",
            mark(all_done),
            at + 1,
            flat(&ticket.title),
            flat(&ticket.id)
        ));
        note::of_ticket(ticket).iter().for_each(|note| text.push_str(&format!("  - {note}\n")));
        for (index, task) in tasks.into_iter().enumerate() {
            let (box_, title, id) = (mark(done.contains(&task.id)), flat(&task.title), flat(&task.id));
            text.push_str(&format!("- [{box_}] {}.{} {title} ({id})\n", at + 1, index + 1));
            note::of_task(task).iter().for_each(|note| text.push_str(&format!("  - {note}\n")));
        }
    }
    text
}

pub fn read(files: &Files, title: &str, known: Option<&BTreeSet<String>>) -> Result<Exchange, ImportError> {
    let mut spec = Exchange { title: title.to_owned(), ..Exchange::default() };
    let mut refs = Refs::default();
    if let Some(text) = files.get("requirements.md") {
        let value = read_requirements(text, title, &mut refs)?;
        spec.outputs.insert(Phase::Requirements, value);
    }
    if let Some(text) = files.get("design.md") {
        spec.outputs.insert(Phase::Design, design::read("design.md", text, title, known)?);
    }
    if let Some(text) = files.get("tasks.md") {
        let sections = markdown::sections(text);
        let feature = design::heading(&sections).unwrap_or(title);
        let (value, done) = checklist::tasks("tasks.md", feature, &groups(text)?, &refs, known)?;
        spec.outputs.insert(Phase::Tasks, value);
        spec.done = done;
    }
    Ok(spec)
}

const REQUIREMENTS: &str = "requirements.md";

fn read_requirements(text: &str, title: &str, refs: &mut Refs) -> Result<Value, ImportError> {
    let sections = markdown::sections(text);
    let feature = design::heading(&sections).unwrap_or(title);
    let (mut requirements, mut lines) = (Vec::new(), BTreeMap::new());
    for (at, section) in sections.iter().enumerate() {
        let Some((number, name)) = numbered(section) else { continue };
        if let Some(first) = lines.insert(number.to_owned(), section.line) {
            let why = format!("requirement {number} is in line {first} as well");
            return Err(ImportError::new(REQUIREMENTS, section.line, why));
        }
        let one = requirement(section, markdown::below(&sections, at), number, name, title)?;
        if refs.criteria.insert(one.id.clone(), one.acceptance_criteria.clone()).is_some() {
            return Err(ImportError::new(REQUIREMENTS, section.line, format!("{} is there twice", one.id)));
        }
        refs.names.insert(number.to_owned(), one.id.clone());
        requirements.push(shown(&one));
    }
    if requirements.is_empty() {
        return Err(ImportError::new(
            REQUIREMENTS,
            1,
            "has no requirement; expected headings such as `### Requirement 1`",
        ));
    }
    let mut value = json!({ "feature_name": feature, "requirements": requirements });
    if let Some((_, introduction)) = markdown::find(&sections, 2, &["introduction"]) {
        value["introduction"] = markdown::prose(&introduction.body).into();
    }
    for (key, word) in [
        ("assumptions", "assumptions"),
        ("out_of_scope", "out of scope"),
        ("open_questions", "open questions"),
    ] {
        let items = design::items_of(&sections, &[word]);
        if !items.is_empty() {
            value[key] = json!(items);
        }
    }
    Ok(value)
}

/// `### Requirement 1: Name`, with or without the name.
fn numbered<'a>(section: &Section<'a>) -> Option<(&'a str, &'a str)> {
    let rest = section.title.strip_prefix("Requirement ").filter(|_| section.level == 3)?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let name = rest[digits..].trim_start_matches([':', '.', '-', ' ']);
    (digits > 0).then(|| (&rest[..digits], name))
}

fn requirement(
    section: &Section<'_>,
    below: &[Section<'_>],
    number: &str,
    name: &str,
    title: &str,
) -> Result<Requirement, ImportError> {
    let (name, id) = markdown::with_id(name, "REQ");
    let made = || format!("REQ-{}-FUNC-{:0>3}", feature_code(title), number);
    let mut one = Requirement { id: id.map_or_else(made, str::to_owned), ..Requirement::default() };
    let criteria = markdown::find(below, 4, &["acceptance criteria"]).map(|(_, section)| section);
    one.acceptance_criteria = markdown::items(criteria.map_or(&section.body, |section| &section.body));
    for (_, line) in &section.body {
        match markdown::field(line) {
            Some(("User Story", story)) => drop(one.rest.insert("user_story".to_owned(), story.into())),
            Some(("Statement", text)) => one.text = text.to_owned(),
            Some(("Priority", word)) => one.priority = word.to_owned(),
            Some(("Depends on", ids)) => {
                one.dependencies = ids.split(',').map(|id| id.trim().to_owned()).collect();
            }
            _ => {}
        }
    }
    if one.text.is_empty() {
        // Kiro writes the criteria themselves in EARS form.
        let formed = one.acceptance_criteria.iter().find(|text| ears::parse(text).is_ok());
        match formed.or(one.acceptance_criteria.first()) {
            Some(text) => one.text = text.clone(),
            None => {
                let why = format!(
                    "requirement {number} has no acceptance criteria; list them as `1. WHEN … THE … SHALL …`"
                );
                return Err(ImportError::new(REQUIREMENTS, section.line, why));
            }
        }
    }
    let story = one.rest.get("user_story").and_then(Value::as_str);
    let want = story.and_then(|story| story.split_once("I want ")).map(|(_, want)| want);
    let wanted = want.map(|want| want.split(", so that").next().unwrap_or(want)).unwrap_or(&one.text);
    one.title = if name.is_empty() { short(wanted) } else { name.to_owned() };
    Ok(one)
}

/// `1.` begins a group; `1.1` belongs to it. A group without parts is its own only task.
fn groups(text: &str) -> Result<Vec<Group>, ImportError> {
    let mut groups: Vec<(Group, checklist::Item)> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let number = at + 1;
        // A box without a number below a task is a step of it.
        let step = |item: &checklist::Item| is_number(&item.number) || !line.starts_with([' ', '\t']);
        match checklist::item("tasks.md", number, line)?.filter(step) {
            Some(item) => match item.number.split_once('.') {
                _ if !is_number(&item.number) => {
                    let why = format!(
                        "{:?} is no number of a task; write `- [ ] 1. Title` or `- [ ] 1.1 Title`",
                        item.number
                    );
                    return Err(ImportError::new("tasks.md", number, why));
                }
                None => {
                    let group = Group {
                        line: number,
                        title: item.title.clone(),
                        details: Vec::new(),
                        items: Vec::new(),
                    };
                    groups.push((group, item));
                }
                Some((major, _)) => match groups.last_mut() {
                    Some((group, head)) if head.number == major => group.items.push(item),
                    _ => {
                        let why = format!("{} comes without a task {major} before it", item.number);
                        return Err(ImportError::new("tasks.md", number, why));
                    }
                },
            },
            None => {
                if let (Some((_, text)), Some((group, _))) = (markdown::item(line), groups.last_mut()) {
                    let details = group.items.last_mut().map_or(&mut group.details, |item| &mut item.details);
                    details.push((number, text.to_owned()));
                }
            }
        }
    }
    let alone = |(mut group, mut item): (Group, checklist::Item)| {
        if group.items.is_empty() {
            item.details.clone_from(&group.details);
            group.items.push(item);
        }
        group
    };
    Ok(groups.into_iter().map(alone).collect())
}

fn is_number(text: &str) -> bool {
    text.split('.').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
}
