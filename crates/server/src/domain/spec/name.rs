//! The names that outputs use for things: ids such as `TSK-001`, and paths of files.

use std::collections::BTreeSet;

const PATH_CHARS_MAX: usize = 300;
const SHORT_CHARS_MAX: usize = 60;

/// `US-001`, `TKT-001`, `TSK-001`: the prefix and three digits or more.
pub fn is_numbered(id: &str, prefix: &str) -> bool {
    id.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('-')).is_some_and(is_number)
}

/// `REQ-FEATURE-CATEGORY-001`; the feature may be of several words.
pub fn is_requirement(id: &str, categories: &[&str]) -> bool {
    let parts: Vec<&str> = id.split('-').collect();
    match parts.as_slice() {
        ["REQ", feature @ .., category, number] => {
            !feature.is_empty()
                && feature.iter().all(|word| is_word(word))
                && categories.contains(category)
                && is_number(number)
        }
        _ => false,
    }
}

fn is_number(text: &str) -> bool {
    text.len() >= 3 && text.len() <= 9 && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}

/// As much of an id as is said again. A long one may be named so often that saying it whole each time never ends.
pub fn short(id: &str) -> &str {
    id.char_indices().nth(SHORT_CHARS_MAX).map_or(id, |(end, _)| &id[..end])
}

/// The path of a file from the root of the repository, or why it is none.
pub fn path(text: &str) -> Result<&str, String> {
    let path = text.strip_prefix("./").unwrap_or(text);
    let why = if path.is_empty() {
        "is empty"
    } else if path.chars().count() > PATH_CHARS_MAX {
        "is too long"
    } else if path.starts_with('/') || path.contains(':') || path.contains('\\') {
        "is not a path from the root of the repository with `/` between its parts"
    } else if path.split('/').any(|part| part == "..") {
        "leaves the repository"
    } else if path.contains(['*', '?', '\n', '\t']) || path.trim() != path {
        "is a pattern or has blanks around it; name each file by itself"
    } else if path.ends_with('/') {
        "is a folder; name the files in it"
    } else {
        return Ok(path);
    };
    Err(format!("{text:?} {why}"))
}

/// Whether it is a file of the repository or a folder that has some.
pub fn is_there(files: &BTreeSet<String>, text: &str) -> bool {
    let path = text.strip_prefix("./").unwrap_or(text).trim_end_matches('/');
    if matches!(path, "" | ".") {
        return !files.is_empty();
    }
    let below = format!("{path}/");
    files.contains(path) || files.range(below.clone()..).next().is_some_and(|file| file.starts_with(&below))
}

/// Files that a wrong path may have meant: those of the same name.
pub fn meant(files: &BTreeSet<String>, text: &str) -> String {
    let name = text.rsplit('/').find(|part| !part.is_empty()).unwrap_or(text);
    let same: Vec<&str> = files
        .iter()
        .filter(|file| file.rsplit('/').next() == Some(name))
        .take(3)
        .map(String::as_str)
        .collect();
    if same.is_empty() { String::new() } else { format!("; there is {}", same.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_a_prefix_and_a_number() {
        let table = [
            ("TSK-001", true),
            ("TSK-1234", true),
            ("TSK-01", false),
            ("TASK-001", false),
            ("TSK001", false),
            ("TSK-0x1", false),
            ("tsk-001", false),
            ("", false),
        ];
        for (id, good) in table {
            assert_eq!(is_numbered(id, "TSK"), good, "{id}");
        }
        let table = [
            ("REQ-EXPORT-FUNC-001", true),
            ("REQ-CSV-EXPORT-SEC-001", true),
            ("REQ-FUNC-001", false),
            ("REQ-EXPORT-WISH-001", false),
            ("REQ-export-FUNC-001", false),
            ("REQ-EXPORT-FUNC-1", false),
            ("REQ-001", false),
        ];
        for (id, good) in table {
            assert_eq!(is_requirement(id, &["FUNC", "SEC"]), good, "{id}");
        }
    }

    #[test]
    fn a_path_stays_in_the_repository_and_names_one_file() {
        assert_eq!(path("./src/a.rs"), Ok("src/a.rs"));
        for bad in ["", "/etc/passwd", "../x", "a/../../x", "src/*.rs", "src/", "C:\\x", "a\nb", " a"] {
            assert!(path(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn folders_are_there_when_they_have_files() {
        let files = BTreeSet::from(["src/a.rs".to_owned(), "src-gen/b.rs".to_owned()]);
        let table = [("src/a.rs", true), ("./src", true), ("src/", true), ("sr", false), ("src/b.rs", false)];
        for (path, there) in table {
            assert_eq!(is_there(&files, path), there, "{path}");
        }
        assert_eq!(meant(&files, "lib/b.rs"), "; there is src-gen/b.rs");
    }
}
