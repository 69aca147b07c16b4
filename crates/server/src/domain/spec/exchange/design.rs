//! The design as Markdown, under the headings that Kiro uses; spec-kit's plan is read and written the same way.

use std::collections::BTreeSet;

use omoi_protocol::spec::output::{Component, Design};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    ImportError,
    markdown::{self, Section},
    note::flat,
};

pub fn write(heading: &str, output: &Value) -> Option<String> {
    let design = Design::deserialize(output).ok()?;
    let mut text = format!("# {heading}: {}\n\n## Overview\n\n", flat(&design.feature_name));
    text.push_str(&paragraphs(&design.architecture_overview));
    if let Value::String(diagram) = &design.architecture_diagram
        && !diagram.trim().is_empty()
        && !diagram.contains("```")
    {
        text.push_str(&format!("## Architecture\n\n```mermaid\n{}\n```\n\n", diagram.trim_end()));
    }
    text.push_str("## Components and Interfaces\n\n");
    design.components.iter().for_each(|one| component(one, &mut text));
    if !design.data_models.is_empty() {
        text.push_str("## Data Models\n\n");
    }
    for model in &design.data_models {
        text.push_str(&format!("### {}\n\n", flat(&model.name)));
        text.push_str(&paragraphs(&said(&model.description)));
        for (field, of) in &model.fields {
            text.push_str(&format!("- `{}`: {}\n", flat(field), said(of)));
        }
        text.push('\n');
    }
    if !design.api_endpoints.is_empty() {
        text.push_str("## API\n\n");
        for one in &design.api_endpoints {
            let (method, path) = (flat(&one.method), flat(&one.path));
            text.push_str(&format!("- `{method} {path}` {}\n", flat(&one.description)));
        }
        text.push('\n');
    }
    bullets("## Error Handling", &entries(&design.error_handling), &mut text);
    let testing = &design.testing_strategy;
    if !(testing.unit_tests.is_empty() && testing.integration_tests.is_empty()) {
        text.push_str("## Testing Strategy\n\n");
        bullets("### Unit Tests", &texts(&testing.unit_tests), &mut text);
        bullets("### Integration Tests", &texts(&testing.integration_tests), &mut text);
    }
    bullets("## Security Considerations", &texts(&design.security_considerations), &mut text);
    bullets("## Integration Points", &texts(&design.integration_points), &mut text);
    Some(format!("{}\n", text.trim_end()))
}

fn component(one: &Component, text: &mut String) {
    text.push_str(&format!("### {}\n\n{}", flat(&one.name), paragraphs(&one.description)));
    text.push_str(&format!("- **Responsibility:** {}\n", flat(&one.responsibility)));
    if !one.file_path.is_empty() {
        let action = if one.action.is_empty() { String::new() } else { format!(" ({})", flat(&one.action)) };
        text.push_str(&format!("- **File:** `{}`{action}\n", flat(&one.file_path)));
    }
    for (name, value) in [("Type", &one.r#type)] {
        if let Value::String(word) = value {
            text.push_str(&format!("- **{name}:** {}\n", flat(word)));
        }
    }
    texts(&one.interfaces).iter().for_each(|entry| text.push_str(&format!("- **Interface:** {entry}\n")));
    texts(&one.dependencies).iter().for_each(|entry| text.push_str(&format!("- **Depends on:** {entry}\n")));
    if !one.requirements.is_empty() {
        text.push_str(&format!("- **Requirements:** {}\n", flat(&one.requirements.join(", "))));
    }
    text.push('\n');
}

/// `known` tells which files of a design written by hand are there already.
pub fn read(
    file: &str,
    text: &str,
    title: &str,
    known: Option<&BTreeSet<String>>,
) -> Result<Value, ImportError> {
    let sections = markdown::sections(text);
    if sections.iter().all(|section| section.body.iter().all(|(_, line)| line.trim().is_empty())) {
        return Err(ImportError::new(
            file,
            1,
            "says nothing; expected `## Overview` and `## Components and Interfaces`",
        ));
    }
    let overview: Vec<String> = ["overview", "summary", "architecture"]
        .iter()
        .filter_map(|word| markdown::find(&sections, 2, &[word]))
        .map(|(_, section)| markdown::prose(&section.body))
        .filter(|text| !text.is_empty())
        .collect();
    let mut design = json!({
        "feature_name": heading(&sections).unwrap_or(title),
        "architecture_overview": if overview.is_empty() { title.to_owned() } else { overview.join("\n") },
        "components": components(&sections, known),
        "testing_strategy": {
            "unit_tests": under(&sections, &["test"], &["unit"]),
            "integration_tests": under(&sections, &["test"], &["integration", "end-to-end", "e2e"]),
        },
    });
    let diagram = sections.iter().find_map(|section| markdown::fenced(&section.body, "mermaid"));
    diagram.into_iter().for_each(|diagram| design["architecture_diagram"] = diagram.into());
    let models = models(&sections);
    if !models.is_empty() {
        design["data_models"] = models.into();
    }
    let endpoints: Vec<Value> =
        items_of(&sections, &["api"]).iter().filter_map(|text| endpoint(text)).collect();
    if !endpoints.is_empty() {
        design["api_endpoints"] = endpoints.into();
    }
    for (key, words) in
        [("security_considerations", ["security"]), ("integration_points", ["integration points"])]
    {
        let items = items_of(&sections, &words);
        if !items.is_empty() {
            design[key] = json!(items);
        }
    }
    if let Some(errors) = errors(&sections) {
        design["error_handling"] = errors;
    }
    Ok(design)
}

/// The feature's name, where the first heading says it: `# Design: CSV export`.
pub fn heading<'a>(sections: &[Section<'a>]) -> Option<&'a str> {
    let first = sections.iter().find(|section| section.level == 1)?;
    first.title.split_once(':').map(|(_, name)| name.trim()).filter(|name| !name.is_empty())
}

pub fn items_of(sections: &[Section<'_>], words: &[&str]) -> Vec<String> {
    markdown::find(sections, 2, words).map(|(_, section)| markdown::items(&section.body)).unwrap_or_default()
}

fn components(sections: &[Section<'_>], known: Option<&BTreeSet<String>>) -> Vec<Value> {
    let Some((at, _)) = markdown::find(sections, 2, &["component"]) else { return Vec::new() };
    let below = markdown::below(sections, at).iter().filter(|section| section.level == 3);
    below.map(|section| one_component(section, known)).collect()
}

fn one_component(section: &Section<'_>, known: Option<&BTreeSet<String>>) -> Value {
    let description = markdown::prose(&section.body);
    let mut one = json!({ "name": numberless(section.title), "description": description });
    let mut lists: Map<String, Value> = Map::new();
    for text in markdown::items(&section.body) {
        let Some((key, value)) = markdown::field(&text) else { continue };
        match key.to_lowercase().as_str() {
            "responsibility" | "purpose" => one["responsibility"] = value.into(),
            "type" => one["type"] = value.into(),
            "file" | "location" | "path" => {
                let (path, action) = value.split_once(" (").unwrap_or((value, ""));
                one["file_path"] = path.trim().trim_matches('`').into();
                if !action.is_empty() {
                    one["action"] = action.trim_end_matches(')').into();
                }
            }
            "interface" => push(&mut lists, "interfaces", value),
            "depends on" => push(&mut lists, "dependencies", value),
            "requirements" => {
                one["requirements"] = json!(value.split(',').map(str::trim).collect::<Vec<_>>());
            }
            _ => {}
        }
    }
    lists.into_iter().for_each(|(key, items)| one[key] = items);
    if let Some(known) = known {
        guess(&mut one, section, known);
    }
    one
}

/// What a component written by hand leaves to be seen from its words.
fn guess(one: &mut Value, section: &Section<'_>, known: &BTreeSet<String>) {
    let all: Vec<&str> = section.body.iter().map(|(_, line)| *line).collect();
    if one.get("file_path").is_none()
        && let Some(path) = markdown::paths(&all.join("\n")).first()
    {
        one["file_path"] = (*path).into();
    }
    if let Some(path) = one.get("file_path").and_then(Value::as_str)
        && one.get("action").is_none()
    {
        let action = if known.contains(path) { "modify" } else { "create" };
        one["action"] = action.into();
    }
    if one.get("responsibility").is_none() {
        let said = one["description"].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let first = || markdown::items(&section.body).into_iter().next();
        one["responsibility"] = said.or_else(first).unwrap_or_else(|| section.title.to_owned()).into();
    }
}

fn models(sections: &[Section<'_>]) -> Vec<Value> {
    let Some((at, _)) = markdown::find(sections, 2, &["data model"]) else { return Vec::new() };
    let below = markdown::below(sections, at).iter().filter(|section| section.level == 3);
    let model = |section: &Section<'_>| {
        let fields: Map<String, Value> = markdown::items(&section.body)
            .iter()
            .filter_map(|text| text.split_once(':'))
            .map(|(field, of)| (field.trim().trim_matches(['`', '*']).to_owned(), of.trim().into()))
            .collect();
        json!({
            "name": numberless(section.title),
            "description": markdown::prose(&section.body),
            "fields": fields,
        })
    };
    below.map(model).collect()
}

/// `GET /path` and what it does.
fn endpoint(text: &str) -> Option<Value> {
    let (call, description) = text.strip_prefix('`')?.split_once('`')?;
    let (method, path) = call.split_once(' ')?;
    Some(
        json!({ "method": method, "path": path, "description": description.trim().trim_start_matches(['-', ':', '–']).trim() }),
    )
}

fn errors(sections: &[Section<'_>]) -> Option<Value> {
    let (_, section) = markdown::find(sections, 2, &["error"])?;
    let mut errors = Map::new();
    for text in markdown::items(&section.body) {
        let (key, value) = markdown::field(&text).unwrap_or((text.as_str(), ""));
        errors.insert(key.to_owned(), value.into());
    }
    let prose = markdown::prose(&section.body);
    if errors.is_empty() && !prose.is_empty() {
        return Some(prose.into());
    }
    (!errors.is_empty()).then_some(Value::Object(errors))
}

fn under(sections: &[Section<'_>], words: &[&str], below: &[&str]) -> Vec<String> {
    let Some((at, section)) = markdown::find(sections, 2, words) else { return Vec::new() };
    match markdown::find(markdown::below(sections, at), 3, below) {
        Some((_, section)) => markdown::items(&section.body),
        // Without parts, all of them are taken for unit tests.
        None if below.contains(&"unit") => markdown::items(&section.body),
        None => Vec::new(),
    }
}

fn push(lists: &mut Map<String, Value>, key: &str, value: &str) {
    let list = lists.entry(key).or_insert_with(|| json!([]));
    list.as_array_mut().into_iter().for_each(|list| list.push(value.into()));
}

/// `1. Name` as `Name`.
fn numberless(title: &str) -> &str {
    markdown::item(title).map_or(title, |(_, rest)| rest).trim()
}

fn paragraphs(text: &str) -> String {
    if text.trim().is_empty() {
        return String::new();
    }
    let lines: Vec<String> = text.lines().map(flat).filter(|line| !line.is_empty()).collect();
    format!("{}\n\n", lines.join("\n\n"))
}

fn bullets(heading: &str, items: &[String], text: &mut String) {
    if !items.is_empty() {
        text.push_str(&format!("{heading}\n\n"));
        items.iter().for_each(|item| text.push_str(&format!("- {item}\n")));
        text.push('\n');
    }
}

fn texts(values: &[Value]) -> Vec<String> {
    values.iter().map(said).collect()
}

fn said(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => flat(text),
        other => other.to_string(),
    }
}

fn entries(value: &Value) -> Vec<String> {
    match value {
        Value::Object(object) => {
            object.iter().map(|(key, value)| format!("**{}:** {}", flat(key), said(value))).collect()
        }
        Value::Array(items) => texts(items),
        _ => Vec::new(),
    }
}
