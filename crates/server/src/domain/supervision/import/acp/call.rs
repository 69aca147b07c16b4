//! A call of a tool, put together from what several messages tell of it.

use serde_json::Value;

use super::{
    super::make::Make,
    TEXT_BYTES_MAX,
    message::{CallUpdate, Part, texts},
};

/// A call whose result is awaited.
#[derive(Default)]
pub struct Open {
    pub title: String,
    pub kind: String,
    pub path: Option<String>,
    pub input: Option<Value>,
    pub output: String,
    pub exit_code: Option<i64>,
    pub diffs: Vec<(String, Option<String>, String)>,
    pub is_announced: bool,
}

impl Open {
    pub fn merge(&mut self, update: CallUpdate) {
        self.title = update.title.unwrap_or_else(|| std::mem::take(&mut self.title));
        self.kind = update.kind.unwrap_or_else(|| std::mem::take(&mut self.kind));
        self.input = update.raw_input.or_else(|| self.input.take());
        let located = update.locations.and_then(|all| all.into_iter().next().map(|one| one.path));
        self.path = located.or_else(|| self.path.take());
        if let Some(content) = update.content {
            let diffs: Vec<_> = content.iter().filter_map(diff).collect();
            if !diffs.is_empty() {
                self.diffs = diffs;
            }
            self.output = texts(&content);
        }
        if let Some(output) = &update.raw_output {
            self.exit_code = exit_code(output).or(self.exit_code);
            if let Some(text) = output_text(output) {
                self.output = text;
            }
        }
        if let Some(meta) = &update.meta {
            self.exit_code = meta["terminal_exit"]["exit_code"].as_i64().or(self.exit_code);
            let delta = meta["terminal_output_delta"]["data"].as_str();
            self.output.push_str(delta.filter(|_| self.output.len() < TEXT_BYTES_MAX).unwrap_or_default());
        }
    }

    pub fn tool(&self) -> &str {
        match self.kind.as_str() {
            "execute" => "Bash",
            "edit" | "delete" | "move" => "Edit",
            "read" => "Read",
            "search" => "Grep",
            "fetch" => "WebFetch",
            "" => "Tool",
            other => other,
        }
    }

    /// What was asked, with a shell's command and a file's path under the names that our own tools use.
    pub fn described(&self) -> Value {
        let mut fields = self.input.as_ref().and_then(Value::as_object).cloned().unwrap_or_default();
        if self.kind == "execute" {
            let command = match fields.get("command") {
                Some(Value::Array(words)) => {
                    words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")
                }
                Some(Value::String(text)) => text.clone(),
                _ => self.title.clone(),
            };
            fields.insert("command".to_owned(), command.into());
        }
        let named =
            ["file_path", "filePath", "path", "abs_path"].iter().find_map(|key| fields.get(*key)?.as_str());
        if let Some(path) = named.map(str::to_owned).or_else(|| self.path.clone()) {
            fields.insert("file_path".to_owned(), path.into());
        }
        if fields.is_empty() {
            fields.insert("title".to_owned(), self.title.clone().into());
        }
        for (_, _, new) in self.diffs.iter().filter(|_| self.input.is_none()) {
            fields.insert("content".to_owned(), new.clone().into());
        }
        Value::Object(fields)
    }

    pub fn end(self, id: &str, failed: bool, make: &mut Make) {
        let failed = failed || self.exit_code.is_some_and(|code| code != 0);
        make.result(id, &self.output, failed);
        if failed {
            return;
        }
        for (path, old, new) in &self.diffs {
            make.edited(path, old.as_deref().filter(|old| !old.is_empty()), Some(new));
        }
        if self.diffs.is_empty() && self.kind == "edit" {
            self.edited_by_input(make);
        }
    }

    /// Agents that send no diff say what they change in what they ask for.
    fn edited_by_input(&self, make: &mut Make) {
        let input = self.described();
        let text = |keys: &[&str]| keys.iter().find_map(|key| input[*key].as_str());
        let Some(path) = text(&["file_path"]) else { return };
        let (old, new) =
            (text(&["old_string", "oldString", "old_str"]), text(&["new_string", "newString", "new_str"]));
        match (old, new, text(&["content", "file_text"])) {
            (Some(old), Some(new), _) => make.edited(path, Some(old), Some(new)),
            (_, _, Some(content)) => make.edited(path, None, Some(content)),
            _ => {}
        }
    }
}

fn diff(part: &Part) -> Option<(String, Option<String>, String)> {
    match part {
        Part::Diff { path, old_text, new_text } => Some((path.clone(), old_text.clone(), new_text.clone())),
        Part::Text { .. } | Part::Content { .. } | Part::Other => None,
    }
}

fn output_text(output: &Value) -> Option<String> {
    let fields = ["output", "stdout", "formatted_output", "aggregated_output", "content"];
    let text = output.as_str().or_else(|| fields.iter().find_map(|key| output[*key].as_str()))?;
    Some(text.to_owned())
}

fn exit_code(output: &Value) -> Option<i64> {
    let found = [
        &output["exit_code"],
        &output["exitCode"],
        &output["metadata"]["exit"],
        &output["metadata"]["exit_code"],
    ];
    found.into_iter().find_map(Value::as_i64)
}
