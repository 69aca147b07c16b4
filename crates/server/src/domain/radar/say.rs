//! What the agents of a conflict are told: who else is there, where, and what to do about it.

use omoi_protocol::{
    ConflictKind,
    conductor::{Clash, Side},
};

/// So many files are named in a message.
const FILES_SHOWN: usize = 5;
const PLACES_SHOWN: usize = 3;

/// To one agent, about the other.
pub fn told(kind: ConflictKind, other: &Side, files: &[Clash]) -> String {
    let what = match kind {
        ConflictKind::Merge => "Your branch does not merge with that of another task",
        ConflictKind::Lines => "Another task that is under way changes the same lines as you do",
        ConflictKind::Files => "Another task that is under way changes the same file as you do",
    };
    let task = other.task_id.as_ref().map(|id| format!(" ({id})")).unwrap_or_default();
    let branch = other.branch.as_ref().map(|name| format!(" on the branch {name}")).unwrap_or_default();
    format!(
        "{what}: \"{}\"{task}{branch}. It concerns {}.\nKeep what you change there as small as your task allows, leave alone what \
         belongs to the other task, and say in your summary what has to be brought together. Go on with your task.",
        other.title,
        places(files)
    )
}

/// To an agent whose branch has fallen behind.
pub fn told_of_default(branch: &str, files: &[Clash]) -> String {
    format!(
        "The branch {branch}, which your work is to be merged into, has changed where your branch has. It concerns {}.\nFetch it, \
         merge origin/{branch} into your branch and resolve this before you finish.",
        places(files)
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
            sandbox_id: None,
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
        let said = told(ConflictKind::Lines, &other, &files);
        for part in [
            "\"Rename it\" (task-2) on the branch rename/it",
            "src/a.rs (lines 3-7, line 9); logo.png (from line 1 on); b.rs.",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert!(told_of_default("main", &files[2..]).contains("merge origin/main"));
    }
}
