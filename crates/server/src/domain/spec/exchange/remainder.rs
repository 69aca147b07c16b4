//! What an export holds beyond its Markdown, as changes to what the Markdown says. A change is made only where the Markdown
//! still says what it said: whatever somebody has edited stays as it was edited.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Exchange, FORMAT};

const DEPTH_MAX: usize = 100;
/// Items of longer lists are not looked for; such a list is kept as a whole.
const ITEMS_MAX: usize = 1_000;
/// Keys by which the items of a list are known, wherever they stand in it.
const NAMES: [&str; 2] = ["id", "name"];

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Remainder {
    format: String,
    title: String,
    changes: Vec<Change>,
    /// What the boxes say is done and what is, where these differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    done: Option<(BTreeSet<String>, BTreeSet<String>)>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Change {
    at: Vec<Step>,
    /// What the Markdown says; absent if nothing.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    was: Option<Value>,
    /// What is meant; absent if nothing.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    is: Option<Value>,
}

/// A value that is there, even if it is null.
fn present<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Step {
    Key(String),
    /// The item of a list whose `.0` is `.1`.
    Item(String, String),
}

impl Remainder {
    pub fn between(shown: &Exchange, meant: &Exchange) -> Self {
        let mut changes = Vec::new();
        differ(&outputs(shown), &outputs(meant), &mut Vec::new(), &mut changes);
        let done = (shown.done != meant.done).then(|| (shown.done.clone(), meant.done.clone()));
        Self { format: FORMAT.to_owned(), title: meant.title.clone(), changes, done }
    }

    pub fn title(&self) -> &str {
        &self.title
    }

    pub fn to_text(&self) -> String {
        let value = serde_json::to_value(self).expect("a remainder has no keys but text");
        format!("{value:#}\n")
    }

    /// Otherwise the line and what is wrong there.
    pub fn from_text(text: &str) -> Result<Self, (usize, String)> {
        let remainder: Self =
            serde_json::from_str(text).map_err(|error| (error.line().max(1), error.to_string()))?;
        match remainder.format.as_str() {
            FORMAT => Ok(remainder),
            other => Err((1, format!("is of format {other:?}; this reads {FORMAT:?}"))),
        }
    }

    pub fn apply(self, shown: Exchange) -> Result<Exchange, String> {
        let mut value = outputs(&shown);
        for change in self.changes {
            change.apply(&mut value);
        }
        let outputs = serde_json::from_value(value).map_err(|error| format!("cannot be applied: {error}"))?;
        let done = match self.done {
            Some((was, is)) if was == shown.done => is,
            _ => shown.done,
        };
        Ok(Exchange { title: self.title, outputs, done })
    }
}

impl Change {
    fn apply(self, root: &mut Value) {
        let (last, way) = match self.at.split_last() {
            Some((Step::Key(key), way)) => (Some(key), way),
            _ => (None, self.at.as_slice()),
        };
        let mut place = root;
        for step in way {
            let next = match step {
                Step::Key(key) => place.get_mut(key),
                Step::Item(by, name) => {
                    place.as_array_mut().filter(|items| items.len() <= ITEMS_MAX).and_then(|items| {
                        items.iter_mut().find(|item| item.get(by).and_then(Value::as_str) == Some(name))
                    })
                }
            };
            match next {
                Some(next) => place = next,
                None => return,
            }
        }
        match (place, last) {
            (place, None) if self.was.as_ref() == Some(&*place) => *place = self.is.unwrap_or_default(),
            (Value::Object(object), Some(key)) if object.get(key) == self.was.as_ref() => match self.is {
                Some(value) => drop(object.insert(key.clone(), value)),
                None => drop(object.remove(key)),
            },
            _ => {}
        }
    }
}

fn outputs(spec: &Exchange) -> Value {
    let object: Map<String, Value> =
        spec.outputs.iter().map(|(phase, output)| (phase.to_string(), output.clone())).collect();
    Value::Object(object)
}

fn differ(shown: &Value, meant: &Value, at: &mut Vec<Step>, changes: &mut Vec<Change>) {
    match (shown, meant) {
        (shown, meant) if shown == meant => {}
        (Value::Object(was), Value::Object(is)) if at.len() < DEPTH_MAX => {
            let added = is.keys().filter(|key| !was.contains_key(*key));
            for key in was.keys().chain(added) {
                at.push(Step::Key(key.clone()));
                match (was.get(key), is.get(key)) {
                    (Some(was), Some(is)) => differ(was, is, at, changes),
                    (was, is) => {
                        changes.push(Change { at: at.clone(), was: was.cloned(), is: is.cloned() });
                    }
                }
                at.pop();
            }
        }
        (Value::Array(was), Value::Array(is)) if at.len() < DEPTH_MAX && alike(was, is).is_some() => {
            let by = alike(was, is).unwrap_or_default();
            for (was, is) in was.iter().zip(is) {
                let name = is.get(by).and_then(Value::as_str).unwrap_or_default();
                // The list is gone into by its item, so that what stands in it is an object.
                at.push(Step::Item(by.to_owned(), name.to_owned()));
                differ(was, is, at, changes);
                at.pop();
            }
        }
        (was, is) => changes.push(Change { at: at.clone(), was: Some(was.clone()), is: Some(is.clone()) }),
    }
}

/// The key by which both lists name the same items in the same order, each once.
fn alike(was: &[Value], is: &[Value]) -> Option<&'static str> {
    fn names<'a>(items: &'a [Value], by: &str) -> Option<Vec<&'a str>> {
        items.iter().map(|item| item.get(by)?.as_str()).collect()
    }
    NAMES.into_iter().find(|by| match (names(was, by), names(is, by)) {
        (Some(was), Some(is)) => {
            let unique: BTreeSet<&&str> = is.iter().collect();
            was == is && unique.len() == is.len() && (1..=ITEMS_MAX).contains(&is.len())
        }
        _ => false,
    })
}
