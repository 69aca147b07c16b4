//! A batch of tasks that name each other by keys: who depends on whom, before any of them has an id.

use std::collections::BTreeMap;

use omoi_protocol::TaskId;

use super::graph;

/// What a task of a batch depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named {
    /// Another task of the batch, by its index.
    Here(usize),
    /// What must be a task that exists.
    Elsewhere(TaskId),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("the key {key:?} is given to more than one task of the batch")]
    Twice { key: String },
    #[error("task {key:?} depends on {named:?}, which is neither a key of the batch nor the id of a task")]
    Unknown { key: String, named: String },
    #[error("the batch has a cycle")]
    Cycle { cycle: Vec<String> },
}

/// For each task, given as its key and what it names, what it depends on: each once, and never in a circle.
pub fn resolve(tasks: &[(&str, &[String])]) -> Result<Vec<Vec<Named>>, Refused> {
    let mut by_key = BTreeMap::new();
    for (at, (key, _)) in tasks.iter().enumerate() {
        if by_key.insert(*key, at).is_some() {
            return Err(Refused::Twice { key: (*key).to_owned() });
        }
    }
    let mut resolved = Vec::with_capacity(tasks.len());
    let mut edges = Vec::new();
    for (key, names) in tasks {
        let mut named = Vec::with_capacity(names.len());
        for name in *names {
            let on = match by_key.get(name.as_str()) {
                Some(at) => Named::Here(*at),
                None => Named::Elsewhere(name.parse().map_err(|_| unknown(key, name))?),
            };
            if !named.contains(&on) {
                named.push(on);
                edges.push((*key, name.as_str()));
            }
        }
        resolved.push(named);
    }
    match graph::find_cycle(&[], &edges) {
        Some(cycle) => Err(Refused::Cycle { cycle: cycle.into_iter().map(str::to_owned).collect() }),
        None => Ok(resolved),
    }
}

pub fn unknown(key: &str, named: &str) -> Refused {
    Refused::Unknown { key: key.to_owned(), named: named.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Task = (&'static str, &'static [&'static str]);

    fn resolved(tasks: &[Task]) -> Result<Vec<Vec<Named>>, Refused> {
        let owned: Vec<(&str, Vec<String>)> = tasks
            .iter()
            .map(|(key, on)| (*key, on.iter().map(|name| (*name).to_owned()).collect()))
            .collect();
        resolve(&owned.iter().map(|(key, on)| (*key, on.as_slice())).collect::<Vec<_>>())
    }

    #[test]
    fn keys_are_resolved_whatever_their_order_and_other_names_are_ids() {
        let elsewhere = Named::Elsewhere("task-1".parse().unwrap());
        let found = resolved(&[("a", &["b", "task-1", "b"]), ("b", &[]), ("c", &["a", "b"])]);
        assert_eq!(
            found,
            Ok(vec![vec![Named::Here(1), elsewhere], vec![], vec![Named::Here(0), Named::Here(1)]])
        );
    }

    #[test]
    fn what_cannot_be_is_named() {
        let table: &[(&[Task], &str)] = &[
            (&[("a", &[]), ("a", &[])], r#"the key "a" is given to more than one task of the batch"#),
            (
                &[("a", &["no such key"])],
                r#"task "a" depends on "no such key", which is neither a key of the batch nor the id of a task"#,
            ),
        ];
        for (tasks, why) in table {
            assert_eq!(resolved(tasks).unwrap_err().to_string(), *why);
        }
    }

    #[test]
    fn a_circle_is_named_by_its_keys() {
        let circles: &[(&[Task], &[&str])] = &[
            (&[("a", &["a"])], &["a", "a"]),
            (&[("a", &["b"]), ("b", &["a"])], &["a", "b", "a"]),
            (&[("x", &["a"]), ("a", &["b"]), ("b", &["c"]), ("c", &["a"])], &["a", "b", "c", "a"]),
        ];
        for (tasks, circle) in circles {
            let cycle = circle.iter().map(|key| (*key).to_owned()).collect();
            assert_eq!(resolved(tasks), Err(Refused::Cycle { cycle }));
        }
    }
}
