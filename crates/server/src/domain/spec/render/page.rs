//! Markdown as it is written, piece by piece. Text that belongs in a line stays in it, so that no value can pass for a
//! heading or a row.

use serde_json::{Map, Value};

use crate::domain::spec::evaluate::says;

/// Values are followed no deeper.
const DEPTH_MAX: usize = 8;

#[derive(Debug, Default)]
pub struct Page {
    text: String,
    in_list: bool,
}

impl Page {
    pub fn finish(self) -> String {
        format!("{}\n", self.text.trim_end())
    }

    pub fn heading(&mut self, level: usize, text: &str) {
        self.block(&format!("{} {}", "#".repeat(level), inline(text)));
    }

    /// A section with nothing in it is left out.
    pub fn section(&mut self, title: &str, fill: impl FnOnce(&mut Self)) {
        let start = self.text.len();
        self.heading(2, title);
        let empty = self.text.len();
        fill(self);
        if self.text.len() == empty {
            self.text.truncate(start);
        }
    }

    pub fn paragraph(&mut self, text: &str) {
        if !text.trim().is_empty() {
            let lines: Vec<String> = text.trim().lines().map(plain_start).collect();
            self.block(&lines.join("\n"));
        }
    }

    pub fn quote(&mut self, text: &str) {
        self.block(&format!("> {}", inline(text)));
    }

    pub fn fence(&mut self, language: &str, text: &str) {
        let fence = "`".repeat(longest_run(text).max(2) + 1);
        self.block(&format!("{fence}{language}\n{}\n{fence}", text.trim_end()));
    }

    pub fn bullet(&mut self, depth: usize, text: &str) {
        if !self.in_list {
            self.block("");
            self.in_list = true;
        }
        self.text.push_str(&format!("{}- {}\n", "  ".repeat(depth), text.trim()));
    }

    pub fn bullets(&mut self, items: impl Iterator<Item = String>) {
        items.for_each(|item| self.bullet(0, &item));
    }

    pub fn field(&mut self, name: &str, text: &str) {
        if !text.trim().is_empty() {
            self.bullet(0, &format!("**{name}:** {}", inline(text)));
        }
    }

    pub fn list(&mut self, name: &str, items: &[String]) {
        if !items.is_empty() {
            self.bullet(0, &format!("**{}:**", inline(name)));
            items.iter().for_each(|item| self.bullet(1, &inline(item)));
        }
    }

    pub fn values(&mut self, name: &str, items: &[Value]) {
        if items.iter().any(says) {
            self.bullet(0, &format!("**{}:**", inline(name)));
            items.iter().for_each(|item| self.value(item, 1));
        }
    }

    pub fn pair(&mut self, name: &str, value: &Value) {
        match value {
            value if !says(value) => {}
            Value::Array(_) | Value::Object(_) => {
                self.bullet(0, &format!("**{}:**", inline(name)));
                self.value(value, 1);
            }
            value => self.field(&inline(name), &short(value)),
        }
    }

    pub fn value(&mut self, value: &Value, depth: usize) {
        match value {
            value if !says(value) => {}
            value if depth >= DEPTH_MAX => self.bullet(depth, &code(&value.to_string())),
            Value::Array(items) => items.iter().for_each(|item| self.value(item, depth)),
            Value::Object(object) => self.map(object, depth),
            value => self.bullet(depth, &short(value)),
        }
    }

    pub fn map(&mut self, object: &Map<String, Value>, depth: usize) {
        for (key, value) in object.iter().filter(|(_, value)| says(value)) {
            match value {
                Value::Array(_) | Value::Object(_) => {
                    self.bullet(depth, &format!("**{}:**", titled(key)));
                    self.value(value, depth + 1);
                }
                value => self.bullet(depth, &format!("**{}:** {}", titled(key), short(value))),
            }
        }
    }

    pub fn table(&mut self, head: &[&str], rows: impl Iterator<Item = Vec<String>>) {
        let line = |cells: &[String]| format!("| {} |", cells.join(" | "));
        let rows: Vec<String> = rows
            .map(|cells| line(&cells.iter().map(|cell| cell.replace('|', "\\|")).collect::<Vec<_>>()))
            .collect();
        if !rows.is_empty() {
            let head: Vec<String> = head.iter().map(|cell| (*cell).to_owned()).collect();
            let rule = vec!["---".to_owned(); head.len()];
            self.block(&format!("{}\n{}\n{}", line(&head), line(&rule), rows.join("\n")));
        }
    }

    fn block(&mut self, text: &str) {
        self.in_list = false;
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
        if !text.is_empty() {
            self.text.push_str(text);
            self.text.push('\n');
        }
    }
}

/// In one line.
pub fn inline(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub fn code(text: &str) -> String {
    let (text, run) = (inline(text), longest_run(text));
    let ticks = "`".repeat(run + 1);
    if run == 0 { format!("`{text}`") } else { format!("{ticks} {text} {ticks}") }
}

/// `success_metrics` as `Success metrics`; names that are not such words stay as they are.
pub fn titled(key: &str) -> String {
    let words = inline(&key.replace('_', " "));
    let lower = key.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    match words.chars().next() {
        Some(first) if lower => format!("{}{}", first.to_ascii_uppercase(), &words[1..]),
        _ => inline(key),
    }
}

/// A value in one line.
pub fn short(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(flag) => (if *flag { "yes" } else { "no" }).to_owned(),
        Value::String(text) => inline(text),
        Value::Number(number) => number.to_string(),
        Value::Array(items) if items.iter().all(|item| !item.is_array() && !item.is_object()) => {
            items.iter().map(short).collect::<Vec<_>>().join(", ")
        }
        other => code(&other.to_string()),
    }
}

fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// A line of a paragraph that would begin a heading or a fence begins plainly.
fn plain_start(line: &str) -> String {
    let line = line.trim_end();
    if line.trim_start().starts_with(['#', '`', '>', '|']) || line.trim_start().starts_with("---") {
        format!("\\{}", line.trim_start())
    } else {
        line.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_value_passes_for_structure() {
        let mut page = Page::default();
        page.heading(2, "a\n# b");
        page.paragraph("one\n# two\n```");
        page.field("Name", "x\n- y");
        page.table(&["A"], [vec![inline("p|q\nr")]].into_iter());
        page.fence("mermaid", "a\n```\nb");
        let expected = "## a # b\n\none\n\\# two\n\\```\n\n- **Name:** x - y\n\n| A |\n| --- |\n| p\\|q r |\n\n````mermaid\na\n```\nb\n````\n";
        assert_eq!(page.finish(), expected);
    }

    #[test]
    fn values_become_lists() {
        let mut page = Page::default();
        page.section("Empty", |page| page.value(&json!({ "a": [], "b": "" }), 0));
        page.section("Full", |page| page.value(&json!({ "some_key": ["x", { "Y-1": true }], "n": 2 }), 0));
        let expected = "## Full\n\n- **N:** 2\n- **Some key:**\n  - x\n  - **Y-1:** yes\n";
        assert_eq!(page.finish(), expected);
    }
}
