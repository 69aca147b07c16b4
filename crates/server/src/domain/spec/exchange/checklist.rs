//! Checklists: `- [ ] 1.1 Title` with lines below that say more, and what both layouts make of them. Notes such as
//! `_Requirements: 1.1_` are Kiro's; those on files, criteria, hours and dependencies are in the same manner.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{ImportError, markdown};

/// As many as an output may have.
const TASKS_MAX: usize = 500;

/// Tasks that belong together: a ticket.
#[derive(Debug, Clone)]
pub struct Group {
    pub line: usize,
    pub title: String,
    pub details: Vec<(usize, String)>,
    pub items: Vec<Item>,
}

#[derive(Debug, Clone)]
pub struct Item {
    pub line: usize,
    pub done: bool,
    /// `1`, `1.2`, `T001`.
    pub number: String,
    pub title: String,
    /// May run beside others of its group.
    pub parallel: bool,
    /// What it is for: `US1`.
    pub story: Option<String>,
    pub details: Vec<(usize, String)>,
}

/// The requirements that a checklist may name.
#[derive(Debug, Default)]
pub struct Refs {
    /// By how the files call it (`1`, `FR-001`, `US1`), the id.
    pub names: BTreeMap<String, String>,
    /// By id, what is to be seen.
    pub criteria: BTreeMap<String, Vec<String>>,
}

impl Refs {
    /// The id, and the criterion of it if one is meant: `1.2` is the second of requirement 1.
    fn find(&self, name: &str) -> Option<(String, Option<String>)> {
        if self.criteria.contains_key(name) {
            return Some((name.to_owned(), None));
        }
        if let Some(id) = self.names.get(name) {
            return Some((id.clone(), None));
        }
        let (number, criterion) = name.split_once('.')?;
        let id = self.names.get(number)?;
        let at = criterion.parse::<usize>().ok()?.checked_sub(1)?;
        Some((id.clone(), Some(self.criteria.get(id)?.get(at)?.clone())))
    }
}

/// An item of a checklist, without its details; an error if it looks like one and is none.
pub fn item(file: &str, line: usize, text: &str) -> Result<Option<Item>, ImportError> {
    let Some((_, text)) = markdown::item(text) else { return Ok(None) };
    // `[text](address)` is a link.
    let Some((mark, rest)) = text.strip_prefix('[').and_then(|text| text.split_once(']')) else {
        return Ok(None);
    };
    if rest.starts_with('(') || mark.chars().count() > 1 {
        return Ok(None);
    }
    let done = match mark {
        " " => false,
        "x" | "X" => true,
        other => {
            let why = format!(
                "has a box with {other:?}; write `- [ ]` for what is to do and `- [x]` for what is done"
            );
            return Err(ImportError::new(file, line, why));
        }
    };
    // Kiro marks what may be left out.
    let rest = rest.strip_prefix('*').unwrap_or(rest).trim();
    let (number, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let mut item = Item {
        line,
        done,
        number: number.trim_end_matches('.').to_owned(),
        title: String::new(),
        parallel: false,
        story: None,
        details: Vec::new(),
    };
    let mut rest = rest.trim();
    while let Some((mark, after)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        match mark {
            "P" => item.parallel = true,
            story if story.starts_with("US") => item.story = Some(story.to_owned()),
            _ => break,
        }
        rest = after.trim();
    }
    if rest.is_empty() {
        return Err(ImportError::new(file, line, "is a task without a title; write `- [ ] 1. Title`"));
    }
    item.title = rest.to_owned();
    Ok(Some(item))
}

/// The output of the tasks phase and the ids of what is done.
pub fn tasks(
    file: &str,
    feature: &str,
    groups: &[Group],
    refs: &Refs,
    known: Option<&BTreeSet<String>>,
) -> Result<(Value, BTreeSet<String>), ImportError> {
    let mut reader = Reader { file, refs, known, ids: BTreeMap::new(), made: BTreeSet::new() };
    let lines: Vec<usize> = groups.iter().flat_map(|group| &group.items).map(|item| item.line).collect();
    if let Some(line) = lines.get(TASKS_MAX) {
        let why = format!(
            "is the first of {} tasks too many; at most {TASKS_MAX} are taken",
            lines.len() - TASKS_MAX
        );
        return Err(ImportError::new(file, *line, why));
    }
    reader.name_all(groups)?;
    let (mut tickets, mut tasks, mut done) = (Vec::new(), Vec::new(), BTreeSet::new());
    let mut order = Order::default();
    for group in groups {
        let ids: Vec<&str> = group.items.iter().map(|item| reader.id(Kind::Task, item.line)).collect();
        let (title, _) = markdown::with_id(&group.title, "TKT");
        let id = reader.id(Kind::Ticket, group.line).to_owned();
        tickets.push(reader.ticket(group, &id, title, &ids)?);
        for item in &group.items {
            let task_id = reader.id(Kind::Task, item.line).to_owned();
            let before = order.before(item, &task_id);
            tasks.push(reader.task(item, &task_id, &id, before)?);
            if item.done {
                done.insert(task_id);
            }
        }
        order.end_group();
    }
    if tasks.is_empty() {
        return Err(ImportError::new(file, 1, "has no task; expected lines such as `- [ ] 1. Title`"));
    }
    Ok((json!({ "feature_name": feature, "tickets": tickets, "tasks": tasks }), done))
}

/// Who comes before whom where a checklist says nothing but its order.
#[derive(Default)]
struct Order {
    /// What everything from here on waits for.
    barrier: Vec<String>,
    /// What runs at once since then.
    since: Vec<String>,
}

impl Order {
    fn before(&mut self, item: &Item, id: &str) -> Vec<String> {
        if item.parallel {
            self.since.push(id.to_owned());
            return self.barrier.clone();
        }
        self.end_group();
        std::mem::replace(&mut self.barrier, vec![id.to_owned()])
    }

    fn end_group(&mut self) {
        if !self.since.is_empty() {
            self.barrier = std::mem::take(&mut self.since);
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Ticket,
    Task,
}

impl Kind {
    fn prefix(self) -> &'static str {
        match self {
            Self::Ticket => "TKT",
            Self::Task => "TSK",
        }
    }
}

struct Reader<'a> {
    file: &'a str,
    refs: &'a Refs,
    known: Option<&'a BTreeSet<String>>,
    /// By what it is and its line, the id of a group or an item: a task without parts is both in one line.
    ids: BTreeMap<(Kind, usize), String>,
    /// Files that a task before makes.
    made: BTreeSet<String>,
}

impl Reader<'_> {
    fn wrong<T>(&self, line: usize, why: String) -> Result<T, ImportError> {
        Err(ImportError::new(self.file, line, why))
    }

    fn id(&self, kind: Kind, line: usize) -> &str {
        self.ids.get(&(kind, line)).map_or("", String::as_str)
    }

    /// Gives an id to each that says none, and refuses a number or an id that is there twice.
    fn name_all(&mut self, groups: &[Group]) -> Result<(), ImportError> {
        let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
        for item in groups.iter().flat_map(|group| &group.items) {
            if let Some(first) = numbers.insert(&item.number, item.line) {
                return self.wrong(
                    item.line,
                    format!("{} is the number of the task in line {first} as well", item.number),
                );
            }
        }
        let lines = groups.iter().map(|group| (group.line, group.title.as_str()));
        self.name(lines.collect(), Kind::Ticket)?;
        let lines = groups.iter().flat_map(|group| &group.items).map(|item| (item.line, item.title.as_str()));
        self.name(lines.collect(), Kind::Task)
    }

    fn name(&mut self, lines: Vec<(usize, &str)>, kind: Kind) -> Result<(), ImportError> {
        let prefix = kind.prefix();
        let mut taken: BTreeMap<String, usize> = BTreeMap::new();
        for (line, title) in &lines {
            let Some(id) = markdown::with_id(title, prefix).1 else { continue };
            if let Some(first) = taken.insert(id.to_owned(), *line) {
                return self.wrong(*line, format!("{id} is the id in line {first} as well"));
            }
            self.ids.insert((kind, *line), id.to_owned());
        }
        let mut number = 0;
        for (line, title) in lines {
            if markdown::with_id(title, prefix).1.is_some() {
                continue;
            }
            let id = loop {
                number += 1;
                let id = format!("{prefix}-{number:03}");
                if !taken.contains_key(&id) {
                    break id;
                }
            };
            self.ids.insert((kind, line), id);
        }
        Ok(())
    }

    fn ticket(&self, group: &Group, id: &str, title: &str, tasks: &[&str]) -> Result<Value, ImportError> {
        let mut ticket = json!({ "id": id, "title": title, "tasks": tasks });
        let said = self.details(&group.details)?;
        ticket["description"] = said.text_or(title).into();
        ticket["requirements"] = json!(said.requirements.iter().map(|(id, _)| id).collect::<Vec<_>>());
        ticket["acceptance_criteria"] = json!(said.criteria);
        said.words(&mut ticket);
        if let Some(blocked_by) = &said.blocked_by {
            ticket["dependencies"] = json!({ "blocked_by": blocked_by, "blocks": said.blocks });
        }
        Ok(ticket)
    }

    fn task(
        &mut self,
        item: &Item,
        id: &str,
        ticket: &str,
        before: Vec<String>,
    ) -> Result<Value, ImportError> {
        let (title, _) = markdown::with_id(&item.title, "TSK");
        let said = self.details(&item.details)?;
        let mut requirements: Vec<String> = Vec::new();
        let story = item.story.as_ref().and_then(|story| self.refs.find(story));
        for (id, _) in said.requirements.iter().cloned().chain(story) {
            if !requirements.contains(&id) {
                requirements.push(id);
            }
        }
        let told: Vec<String> =
            said.requirements.iter().filter_map(|(_, criterion)| criterion.clone()).collect();
        let criteria = if said.criteria.is_empty() { told } else { said.criteria.clone() };
        let (create, modify) = match &said.files {
            Some(files) => files.clone(),
            None => self.guess(item),
        };
        self.made.extend(create.iter().cloned());
        let mut task = json!({
            "id": id,
            "title": title,
            "description": said.text_or(title),
            "parent_ticket": ticket,
            "files_to_create": create,
            "files_to_modify": modify,
            "acceptance_criteria": criteria,
            "dependencies": { "depends_on": said.depends_on.clone().unwrap_or(before), "blocks": said.blocks },
            "requirements_addressed": requirements,
        });
        said.words(&mut task);
        Ok(task)
    }

    /// Files that are spoken of: made by the first who does, unless the repository has them.
    fn guess(&self, item: &Item) -> (Vec<String>, Vec<String>) {
        let Some(known) = self.known else { return Default::default() };
        let (mut create, mut modify) = (Vec::new(), Vec::new());
        let texts =
            [item.title.as_str()].into_iter().chain(item.details.iter().map(|(_, text)| text.as_str()));
        for path in texts.flat_map(markdown::paths) {
            let list =
                if known.contains(path) || self.made.contains(path) { &mut modify } else { &mut create };
            if !list.iter().any(|other| other == path) {
                list.push(path.to_owned());
            }
        }
        (create, modify)
    }

    fn details(&self, lines: &[(usize, String)]) -> Result<Said, ImportError> {
        let mut said = Said::default();
        for (line, text) in lines {
            let Some((key, value)) = markdown::note(text) else {
                said.text.push(text.clone());
                continue;
            };
            let list = || value.split(',').map(str::trim).filter(|item| !item.is_empty() && *item != "none");
            match key.to_lowercase().as_str() {
                "requirements" => {
                    for name in list() {
                        match self.refs.find(name) {
                            Some(found) => said.requirements.push(found),
                            None => {
                                return self.wrong(
                                    *line,
                                    format!("names requirement {name}, which is nowhere in the spec"),
                                );
                            }
                        }
                    }
                }
                "depends on" => said.depends_on = Some(self.named(*line, list(), Kind::Task)?),
                "blocks" => said.blocks = list().map(str::to_owned).collect(),
                "blocked by" => said.blocked_by = Some(self.named(*line, list(), Kind::Ticket)?),
                "files" => said.files = Some(files(list())),
                "done when" => said.criteria.push(value.to_owned()),
                "estimate" => said.estimate = Some(value.to_owned()),
                "type" | "priority" => said.word.push((key.to_lowercase(), value.to_owned())),
                _ => said.text.push(text.clone()),
            }
        }
        Ok(said)
    }

    fn named<'v>(
        &self,
        line: usize,
        names: impl Iterator<Item = &'v str>,
        kind: Kind,
    ) -> Result<Vec<String>, ImportError> {
        let mut ids = Vec::new();
        for name in names {
            if !self.ids.iter().any(|((of, _), id)| *of == kind && id == name) {
                return self.wrong(line, format!("depends on {name}, which is nowhere in {}", self.file));
            }
            ids.push(name.to_owned());
        }
        Ok(ids)
    }
}

/// What the lines below an item say.
#[derive(Debug, Default)]
struct Said {
    text: Vec<String>,
    requirements: Vec<(String, Option<String>)>,
    depends_on: Option<Vec<String>>,
    blocked_by: Option<Vec<String>>,
    blocks: Vec<String>,
    files: Option<(Vec<String>, Vec<String>)>,
    criteria: Vec<String>,
    estimate: Option<String>,
    word: Vec<(String, String)>,
}

impl Said {
    fn text_or(&self, title: &str) -> String {
        if self.text.is_empty() { title.to_owned() } else { self.text.join("\n") }
    }

    fn words(&self, of: &mut Value) {
        for (key, word) in &self.word {
            of[key] = word.as_str().into();
        }
        let Some(estimate) = &self.estimate else { return };
        for part in estimate.split(',').map(str::trim) {
            match part.strip_suffix(" h").map(str::parse::<f64>) {
                Some(Ok(hours)) if hours.fract() == 0.0 && hours.abs() < 1e9 => {
                    of["estimated_hours"] = json!(hours as i64);
                }
                Some(Ok(hours)) => of["estimated_hours"] = json!(hours),
                _ => of["estimate"] = part.into(),
            }
        }
    }
}

/// `+path` is to be made.
fn files<'v>(list: impl Iterator<Item = &'v str>) -> (Vec<String>, Vec<String>) {
    let (mut create, mut modify) = (Vec::new(), Vec::new());
    for path in list.map(|path| path.trim_matches('`')) {
        match path.strip_prefix('+') {
            Some(path) => create.push(path.to_owned()),
            None => modify.push(path.to_owned()),
        }
    }
    (create, modify)
}
