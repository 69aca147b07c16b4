//! What the agents of a conflict are told: who else is there, where, and what to do about it.

use omoi_protocol::{
    ConflictKind,
    conductor::{Clash, Side},
};

/// So many files are named in a message.
const FILES_SHOWN: usize = 5;
const PLACES_SHOWN: usize = 3;

/// Conflicts with the same places are told together; so many of them are shown, with so many other tasks each.
const CAUSES_SHOWN: usize = 5;
const OTHERS_SHOWN: usize = 4;

/// A conflict as one of its agents sees it. The default branch is a side without a sandbox.
#[derive(Debug, Clone, Copy)]
pub struct News<'a> {
    pub kind: ConflictKind,
    pub other: &'a Side,
    pub files: &'a [Clash],
}

impl News<'_> {
    pub fn is_with_default(&self) -> bool {
        self.other.sandbox_id.is_none() && self.other.branch.is_some()
    }
}

/// All that is new to one agent, as one message.
pub fn told(news: &[News<'_>]) -> String {
    let of_tasks: Vec<&News<'_>> = news.iter().filter(|one| !one.is_with_default()).collect();
    let of_default = news.iter().filter(|one| one.is_with_default()).map(told_of_default);
    let mut parts: Vec<String> = match of_tasks.as_slice() {
        [] => Vec::new(),
        [one] => vec![told_of_one(one)],
        many => vec![told_of_many(many)],
    };
    parts.extend(of_default);
    parts.join("\n\n")
}

fn told_of_one(news: &News<'_>) -> String {
    let what = match news.kind {
        ConflictKind::Merge => "Your branch does not merge with that of another task",
        ConflictKind::Lines => "Another task that is under way changes the same lines as you do",
        ConflictKind::Files => "Another task that is under way changes the same file as you do",
    };
    format!(
        "{what}: {}. It concerns {}.\nKeep what you change there as small as your task allows, leave alone what belongs to the \
         other task, and say in your summary what has to be brought together. Go on with your task.",
        name(news.other),
        places(news.files)
    )
}

/// Several others, by the places where they meet the agent.
fn told_of_many(news: &[&News<'_>]) -> String {
    let mut causes: Vec<(String, Vec<String>)> = Vec::new();
    for one in news {
        let (places, name) = (places(one.files), name(one.other));
        match causes.iter_mut().find(|(known, _)| *known == places) {
            Some((_, names)) => names.push(name),
            None => causes.push((places, vec![name])),
        }
    }
    let mut lines: Vec<String> = causes
        .iter()
        .take(CAUSES_SHOWN)
        .map(|(places, names)| format!("- {places}: {}", listed(names, OTHERS_SHOWN, "tasks")))
        .collect();
    if causes.len() > CAUSES_SHOWN {
        lines.push(format!("- {} more places", causes.len() - CAUSES_SHOWN));
    }
    format!(
        "{} other running tasks change the same files as you:\n{}\nKeep what you change there as small as your task allows, leave alone what \
         belongs to the other tasks, and say in your summary what has to be brought together. Go on with your task.",
        news.len(),
        lines.join("\n")
    )
}

fn name(other: &Side) -> String {
    let task = other.task_id.as_ref().map(|id| format!(" ({id})")).unwrap_or_default();
    let branch = other.branch.as_ref().map(|name| format!(" on the branch {name}")).unwrap_or_default();
    format!("\"{}\"{task}{branch}", other.title)
}

fn listed(names: &[String], shown: usize, what: &str) -> String {
    let mut all: Vec<String> = names.iter().take(shown).cloned().collect();
    if names.len() > shown {
        all.push(format!("{} more {what}", names.len() - shown));
    }
    all.join(", ")
}

/// To an agent whose branch has fallen behind.
fn told_of_default(news: &News<'_>) -> String {
    let branch = news.other.branch.as_deref().unwrap_or_default();
    format!(
        "The branch {branch}, which your work is to be merged into, has changed where your branch has. It concerns {}.\nFetch it, \
         merge origin/{branch} into your branch and resolve this before you finish.",
        places(news.files)
    )
}

fn places(files: &[Clash]) -> String {
    let mut all: Vec<String> = files.iter().take(FILES_SHOWN).map(place).collect();
    if files.len() > FILES_SHOWN {
        all.push(format!("{} more files", files.len() - FILES_SHOWN));
    }
    all.join("; ")
}

fn place(clash: &Clash) -> String {
    let ranges: Vec<String> = clash
        .lines
        .iter()
        .take(PLACES_SHOWN)
        .map(|range| match range.last {
            Some(last) if last == range.first => format!("line {last}"),
            Some(last) => format!("lines {}-{last}", range.first),
            None => format!("from line {} on", range.first),
        })
        .collect();
    if ranges.is_empty() { clash.path.clone() } else { format!("{} ({})", clash.path, ranges.join(", ")) }
}

#[cfg(test)]
mod tests {
    use omoi_protocol::conductor::LineRange;

    use super::*;

    #[test]
    fn a_message_names_the_other_task_its_branch_and_the_places() {
        let other = Side {
            sandbox_id: Some("sbx-2".parse().unwrap()),
            task_id: Some("task-2".parse().unwrap()),
            title: "Rename it".to_owned(),
            branch: Some("rename/it".to_owned()),
        };
        let range = |first, last| LineRange { first, last };
        let files = [
            Clash { path: "src/a.rs".to_owned(), lines: vec![range(3, Some(7)), range(9, Some(9))] },
            Clash { path: "logo.png".to_owned(), lines: vec![range(1, None)] },
            Clash { path: "b.rs".to_owned(), lines: vec![] },
        ];
        let news = |other, files| News { kind: ConflictKind::Lines, other, files };
        let said = told(&[news(&other, &files)]);
        for part in [
            "\"Rename it\" (task-2) on the branch rename/it",
            "src/a.rs (lines 3-7, line 9); logo.png (from line 1 on); b.rs.",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }

    #[test]
    fn many_conflicts_are_one_message_of_bounded_length() {
        let side = |n: usize| Side {
            sandbox_id: Some(format!("sbx-{n}").parse().unwrap()),
            task_id: None,
            title: format!("Task {n}"),
            branch: None,
        };
        let main = Side {
            sandbox_id: None,
            task_id: None,
            title: "main".to_owned(),
            branch: Some("main".to_owned()),
        };
        let file = |n: usize| vec![Clash { path: format!("src/{n}.rs"), lines: vec![] }];
        let (sides, files): (Vec<Side>, Vec<Vec<Clash>>) =
            ((0..40).map(side).collect(), (0..40).map(file).collect());
        let news = |other, files| News { kind: ConflictKind::Files, other, files };
        let said = told(&[news(&sides[0], &files[0]), news(&sides[1], &files[0]), news(&main, &files[1])]);
        assert!(said.contains("- src/0.rs: \"Task 0\", \"Task 1\"\n"), "{said}");
        assert!(said.contains("merge origin/main"), "{said}");
        let all: Vec<News<'_>> = sides.iter().zip(&files).map(|(side, files)| news(side, files)).collect();
        let said = told(&all);
        assert!(said.starts_with("40 other running tasks") && said.contains("35 more places"), "{said}");
        assert!(said.len() < 2_000, "{}", said.len());
    }
}
