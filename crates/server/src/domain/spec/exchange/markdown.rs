//! Markdown as lines under headings. Knows headings, fences and list items, and leaves the rest to whoever reads it.

/// A heading and the lines up to the next one of any level, by their numbers from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section<'a> {
    pub level: usize,
    pub title: &'a str,
    pub line: usize,
    pub body: Vec<(usize, &'a str)>,
}

/// The first one is what comes before any heading, of level 0.
pub fn sections(text: &str) -> Vec<Section<'_>> {
    let mut sections = vec![Section { level: 0, title: "", line: 1, body: Vec::new() }];
    let mut fence: Option<&str> = None;
    for (at, line) in text.lines().enumerate() {
        let number = at + 1;
        let marks = fence_of(line);
        match (fence, marks) {
            (Some(open), Some(marks)) if marks.len() >= open.len() && line.trim() == marks => fence = None,
            (None, Some(marks)) => fence = Some(marks),
            _ => {}
        }
        let level = line.bytes().take_while(|byte| *byte == b'#').count();
        let title = line[level..].strip_prefix(' ');
        match title {
            Some(title) if fence.is_none() && (1..=6).contains(&level) => {
                sections.push(Section { level, title: title.trim(), line: number, body: Vec::new() });
            }
            _ => sections.last_mut().expect("the first is always there").body.push((number, line)),
        }
    }
    sections
}

/// The sections below one, up to the next of its level or above.
pub fn below<'s, 'a>(sections: &'s [Section<'a>], at: usize) -> &'s [Section<'a>] {
    let rest = &sections[at + 1..];
    let end = rest.iter().position(|section| section.level <= sections[at].level).unwrap_or(rest.len());
    &rest[..end]
}

/// The section whose title has one of these words, in any case.
pub fn find<'s, 'a>(
    sections: &'s [Section<'a>],
    level: usize,
    words: &[&str],
) -> Option<(usize, &'s Section<'a>)> {
    let named = |section: &Section<'_>| {
        let title = section.title.to_lowercase();
        section.level == level && words.iter().any(|word| title.contains(word))
    };
    sections.iter().enumerate().find(|(_, section)| named(section))
}

/// A list item: how far it is indented, and its text. `* x`, `- x`, `1. x`.
pub fn item(line: &str) -> Option<(usize, &str)> {
    let text = line.trim_start();
    let indent = line.len() - text.len();
    let rest = text.strip_prefix("- ").or_else(|| text.strip_prefix("* ")).or_else(|| {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        text[digits..].strip_prefix(". ").filter(|_| digits > 0)
    });
    rest.map(|rest| (indent, rest.trim()))
}

/// `**Key:** value` or `**Key**: value`.
pub fn field(text: &str) -> Option<(&str, &str)> {
    let (key, value) = text.trim().strip_prefix("**")?.split_once("**")?;
    let key = key.trim_end_matches(':').trim();
    Some((key, value.trim_start_matches(':').trim())).filter(|(key, _)| !key.is_empty())
}

/// `_Key: value_`, in which tools keep what is not prose.
pub fn note(text: &str) -> Option<(&str, &str)> {
    let (key, value) = text.trim().strip_prefix('_')?.strip_suffix('_')?.split_once(':')?;
    Some((key.trim(), value.trim()))
}

/// A title and the id in brackets at its end, if there is one with this prefix.
pub fn with_id<'a>(title: &'a str, prefix: &str) -> (&'a str, Option<&'a str>) {
    let split = || {
        let (before, id) = title.trim_end().strip_suffix(')')?.rsplit_once('(')?;
        let plain = id.strip_prefix(prefix)?.strip_prefix('-')?;
        plain.chars().all(|c| c.is_ascii_alphanumeric() || c == '-').then(|| (before.trim_end(), Some(id)))
    };
    split().unwrap_or((title.trim(), None))
}

/// Lines as paragraphs of prose, without list items, fences and rules.
pub fn prose(body: &[(usize, &str)]) -> String {
    let mut text = String::new();
    let mut fence: Option<&str> = None;
    for (_, line) in body {
        let marks = fence_of(line);
        if let Some(marks) = marks {
            fence = if fence.is_some() { None } else { Some(marks) };
            continue;
        }
        let line = line.trim();
        if fence.is_some() || item(line).is_some() || field(line).is_some() || line == "---" {
            continue;
        }
        match (line.is_empty(), text.is_empty() || text.ends_with('\n')) {
            (true, true) => {}
            (true, false) => text.push('\n'),
            (false, true) => text.push_str(line),
            (false, false) => text.extend([" ", line]),
        }
    }
    text.trim().to_owned()
}

/// The texts of top-level list items, with what is wrapped onto further lines.
pub fn items(body: &[(usize, &str)]) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    let mut open = false;
    for (_, line) in body {
        match item(line) {
            Some((0, text)) => {
                items.push(text.to_owned());
                open = true;
            }
            Some(_) => open = false,
            None if line.trim().is_empty() => open = false,
            None if open && line.starts_with(' ') => {
                if let Some(last) = items.last_mut() {
                    last.extend([" ", line.trim()]);
                }
            }
            None => open = false,
        }
    }
    items
}

/// The text within the first fence of a language.
pub fn fenced(body: &[(usize, &str)], language: &str) -> Option<String> {
    let start = body.iter().position(|(_, line)| {
        fence_of(line).is_some_and(|marks| line.trim()[marks.len()..].trim() == language)
    })?;
    let marks = fence_of(body[start].1)?;
    let end = body[start + 1..].iter().position(|(_, line)| line.trim() == marks)?;
    let lines = body[start + 1..start + 1 + end].iter().map(|(_, line)| *line);
    Some(lines.collect::<Vec<_>>().join("\n"))
}

/// Texts in backticks that look like paths, and bare words that do.
pub fn paths(text: &str) -> Vec<&str> {
    let is_path = |word: &&str| {
        let name = word.rsplit('/').next().unwrap_or_default();
        let plain = |c: char| c.is_alphanumeric() || "/._-+@".contains(c);
        let ending = name.rsplit_once('.').is_some_and(|(_, end)| {
            (1..=5).contains(&end.len()) && end.chars().all(|c| c.is_ascii_alphanumeric())
        });
        word.chars().all(plain)
            && ending
            && !word.starts_with(['/', '.', '-'])
            && !word.contains("//")
            && !word.contains("..")
    };
    let words = text.split(|c: char| c.is_whitespace() || "`,;()\"'".contains(c));
    let words = words.map(|word| word.trim_end_matches(['.', ':', '?', '!']));
    words.filter(|word| word.contains('/') && is_path(word)).collect()
}

fn fence_of(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let ticks = line.bytes().take_while(|byte| *byte == b'`').count();
    (ticks >= 3).then(|| &line[..ticks])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_in_fences_are_none() {
        let text = "intro\n# A\nx\n```sh\n# no heading\n```\n## B\ny\n####### seven\n#no\n";
        let found: Vec<(usize, &str, usize)> =
            sections(text).iter().map(|section| (section.level, section.title, section.line)).collect();
        assert_eq!(found, [(0, "", 1), (1, "A", 2), (2, "B", 7)]);
    }

    #[test]
    fn pieces_of_lines_are_found() {
        assert_eq!(item("  - a b "), Some((2, "a b")));
        assert_eq!(item("12. c"), Some((0, "c")));
        assert_eq!(item("-c"), None);
        assert_eq!(field("**File:** `a`"), Some(("File", "`a`")));
        assert_eq!(field("**Why this**: because"), Some(("Why this", "because")));
        assert_eq!(note("_Requirements: 1.1, 2_"), Some(("Requirements", "1.1, 2")));
        assert_eq!(with_id("Do (it) (TSK-001)", "TSK"), ("Do (it)", Some("TSK-001")));
        assert_eq!(with_id("Do (it)", "TSK"), ("Do (it)", None));
    }

    #[test]
    fn paths_are_told_from_words() {
        let text = "Write `src/a.rs` and tests/b_test.py, see https://x.org/y.html, 1.5 and e.g. this/that.";
        assert_eq!(paths(text), ["src/a.rs", "tests/b_test.py"]);
    }
}
