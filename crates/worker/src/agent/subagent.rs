//! Helpers that the agent can ask by the tool Task: each has a prompt and a set of tools of its own, works in a conversation of
//! its own, and answers with its last words.

use std::path::Path;

use omoi_protocol::outcome::Tokens;
use serde::Deserialize;
use serde_json::Value;

use super::front::{Page, list};

/// Where a project keeps its own, the first wins.
const DIRS: [&str; 2] = [".omoi/agents", ".claude/agents"];
const SHIPPED: [(&str, &str, &[&str], &str); 4] = [
    (
        "code-reviewer",
        "reads a change with fresh eyes and names what is wrong with it",
        &["Read", "Grep", "Glob"],
        "You review code. Read what you are asked about and what it touches. Report real defects first, each with file, line and why it matters: wrong results, lost data, races, unhandled errors, security. Then what is hard to read. Do not praise, do not guess; say what you could not check.",
    ),
    (
        "test-runner",
        "runs tests and tells which fail and why",
        &["Bash", "Read", "Grep"],
        "You run tests. Find out how this project runs them, run what you are asked for, and report: the command, how many passed and failed, and for each failure the test, the message and the likely cause. Change nothing.",
    ),
    (
        "architect",
        "works out how a change fits the structure that is there",
        &["Read", "Grep", "Glob"],
        "You design. Read how the code is built, then say where the change belongs, which parts it touches, which it must not, what could break, and the order of steps. Name files. Prefer the smallest design that holds.",
    ),
    (
        "debugger",
        "finds the cause of a failure and mends it",
        &["Read", "Bash", "Edit", "Grep"],
        "You debug. Make the failure happen again, find its cause by observation and not by guessing, mend the cause with the smallest change, and show that the failure is gone. Report cause, change and proof.",
    ),
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Helper {
    pub name: String,
    pub description: String,
    /// Empty for all that the agent itself has, but for Task.
    pub tools: Vec<String>,
    pub prompt: String,
}

impl Helper {
    pub fn all(workspace: &Path) -> Vec<Self> {
        let mut helpers: Vec<Self> = Vec::new();
        let pages = DIRS.iter().flat_map(|dir| list(&workspace.join(dir)));
        let own = pages.filter(|path| path.extension().is_some_and(|end| end == "md")).filter_map(|path| {
            let page = Page::read(&path)?;
            let split = |tools: &str| {
                tools.split(',').map(|tool| tool.trim().to_owned()).filter(|tool| !tool.is_empty()).collect()
            };
            Some(Self {
                name: page.get("name").or(path.file_stem()?.to_str())?.to_owned(),
                description: page.get("description").unwrap_or("no description").to_owned(),
                tools: page.get("tools").map(split).unwrap_or_default(),
                prompt: page.body,
            })
        });
        let shipped = SHIPPED.iter().map(|(name, description, tools, prompt)| Self {
            name: (*name).to_owned(),
            description: (*description).to_owned(),
            tools: tools.iter().map(|tool| (*tool).to_owned()).collect(),
            prompt: (*prompt).to_owned(),
        });
        for helper in own.chain(shipped) {
            if !helpers.iter().any(|other| other.name == helper.name) {
                helpers.push(helper);
            }
        }
        helpers
    }
}

/// The input of the tool Task.
#[derive(Debug, Clone, Deserialize)]
pub struct Asked {
    #[serde(default)]
    pub description: String,
    pub prompt: String,
    #[serde(default)]
    pub subagent_type: String,
}

impl Asked {
    pub fn parse(input: &Value) -> Result<Self, String> {
        Self::deserialize(input).map_err(|error| format!("the input does not fit: {error}"))
    }
}

/// What was asked of a helper, and what it used.
#[derive(Debug, Clone)]
pub struct Report {
    pub asked: Asked,
    pub usage: Tokens,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_project_s_helpers_come_first() {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join(".claude/agents");
        std::fs::create_dir_all(&own).unwrap();
        std::fs::write(
            own.join("writer.md"),
            "---\ndescription: writes\ntools: Read, Write\n---\nYou write.",
        )
        .unwrap();
        std::fs::write(own.join("debugger.md"), "You are ours.").unwrap();
        let helpers = Helper::all(dir.path());
        let names: Vec<&str> = helpers.iter().map(|helper| helper.name.as_str()).collect();
        assert_eq!(names, ["debugger", "writer", "code-reviewer", "test-runner", "architect"]);
        assert_eq!(helpers[0].prompt, "You are ours.");
        assert_eq!(helpers[1].tools, ["Read", "Write"]);
    }
}
