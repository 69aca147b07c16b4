//! The documents name tests and files; each of them is there.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A test as the list names it: the file or directory that it is in, and its name.
struct Named<'a> {
    place: &'a str,
    name: &'a str,
}

impl Named<'_> {
    fn is_in(&self, path: &Path, text: &str) -> bool {
        let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
        let here = path.file_stem().is_some_and(|stem| stem == self.place) || parts.contains(&self.place);
        // A function, or a case of a macro that makes one.
        let (function, case) = (format!("fn {}(", self.name), format!("    {} ", self.name));
        here && (text.contains(&function) || text.contains(&case))
    }
}

fn sources(dir: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
}

#[test]
fn every_line_of_the_list_names_tests_that_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(root.join("docs/testing.md")).unwrap();
    let (_, list) = text.split_once("## What the first documents ask for").expect("the list is there");
    let mut all = Vec::new();
    for part in fs::read_dir(root.join("crates")).unwrap().flatten() {
        sources(&part.path(), &mut all);
    }
    let lines: Vec<&str> = list.lines().filter(|line| line.starts_with("| ")).skip(2).collect();
    assert!(lines.len() >= 30, "{} lines", lines.len());
    let mut missing = Vec::new();
    for line in lines {
        let shown: Vec<Named<'_>> = line
            .split('`')
            .skip(1)
            .step_by(2)
            .filter_map(|word| word.split_once("::"))
            .map(|(place, name)| Named { place, name })
            .collect();
        if shown.is_empty() {
            missing.push(line.to_owned());
        }
        let absent = shown.iter().filter(|named| !all.iter().any(|(path, text)| named.is_in(path, text)));
        missing.extend(absent.map(|named| format!("{}::{}", named.place, named.name)));
    }
    assert!(missing.is_empty(), "no such test: {missing:#?}");
}

#[test]
fn every_file_of_a_typical_change_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(root.join("CONTRIBUTING.md")).unwrap();
    let (_, changes) = text.split_once("## Typical changes").expect("the section is there");
    assert_eq!(changes.matches("\n### ").count(), 10);
    // A row begins with its files; its rest may name files that the change adds.
    let files =
        changes.lines().filter_map(|line| line.strip_prefix("| `")).filter_map(|row| row.split_once(" |"));
    let files: Vec<&str> = files.flat_map(|(files, _)| files.split('`').step_by(2)).collect();
    let missing: Vec<&&str> = files.iter().filter(|file| !root.join(file).exists()).collect();
    assert!(files.len() > 80 && missing.is_empty(), "missing: {missing:?}, of {}", files.len());
}
