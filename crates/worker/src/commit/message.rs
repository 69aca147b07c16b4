//! What a commit says: the task's title, the agent's last words, and where it comes from.

use omoi_protocol::{SandboxId, TaskId};

const SUBJECT_CHARS_MAX: usize = 72;
const BODY_CHARS_MAX: usize = 2000;
const LINE_CHARS_MAX: usize = 72;
const TRAILER_CHARS_MAX: usize = 200;

pub fn message(
    task_title: &str,
    summary: Option<&str>,
    task_id: Option<&TaskId>,
    sandbox_id: &SandboxId,
    model: Option<&str>,
) -> String {
    let mut subject = cut(&one_line(task_title), SUBJECT_CHARS_MAX);
    if subject.is_empty() {
        subject = "Keep the work of a sandbox".to_owned();
    }
    let body = wrapped(&cut(clean(summary.unwrap_or_default()).trim(), BODY_CHARS_MAX));
    let trailers = [
        ("Omoi-Task", task_id.map(ToString::to_string)),
        ("Omoi-Sandbox", Some(sandbox_id.to_string())),
        ("Omoi-Model", model.map(str::to_owned)),
    ];
    let trailers = trailers.into_iter().filter_map(|(name, value)| {
        let value = cut(&one_line(&value?), TRAILER_CHARS_MAX);
        (!value.is_empty()).then(|| format!("{name}: {value}\n"))
    });
    let body = if body.is_empty() { body } else { format!("{body}\n\n") };
    format!("{subject}\n\n{body}{}", trailers.collect::<String>())
}

fn one_line(text: &str) -> String {
    clean(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Without what steers a terminal or turns the direction of writing; no blank line follows another.
fn clean(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n").replace('\t', "    ");
    let is_kept = |c: &char| {
        *c == '\n' || !(c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'))
    };
    let text: String = without_colours(&text).chars().filter(is_kept).collect();
    let mut lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.dedup_by(|one, other| one.is_empty() && other.is_empty());
    lines.join("\n")
}

/// Sequences that begin with an escape and end with a letter.
fn without_colours(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_parameter = |c: char| c.is_ascii_digit() || matches!(c, ';' | '?');
        plain.extend(part.trim_start_matches(is_parameter).chars().skip(1));
    }
    plain
}

/// At a space, if one is near.
fn cut(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.to_owned();
    }
    let end = text.char_indices().nth(chars_max - 1).map_or(text.len(), |(at, _)| at);
    let kept = &text[..end];
    let kept = kept.rfind(char::is_whitespace).filter(|at| *at > end / 2).map_or(kept, |at| &kept[..at]);
    format!("{}…", kept.trim_end())
}

/// Prose only: what is indented, in fences or a table means its lines.
fn wrapped(text: &str) -> String {
    let mut in_fence = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        in_fence ^= is_fence;
        let is_prose = !is_fence && !in_fence && !line.starts_with("    ") && !line.starts_with('|');
        if is_prose && line.chars().count() > LINE_CHARS_MAX {
            wrap(line, &mut lines);
        } else {
            lines.push(line.to_owned());
        }
    }
    lines.join("\n")
}

/// The lines that follow stand below the first word of a list's item.
fn wrap(line: &str, lines: &mut Vec<String>) {
    let start = line.len() - line.trim_start().len();
    let mark = line[start..].split(' ').next().unwrap_or_default();
    let number = mark.trim_end_matches(['.', ')']);
    let is_item = matches!(mark, "-" | "*" | "+")
        || (number != mark && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()));
    let indent = " ".repeat(start + if is_item { mark.len() + 1 } else { 0 });
    let mut current = " ".repeat(start);
    let mut is_empty = true;
    for word in line.split_whitespace() {
        if !is_empty && current.chars().count() + 1 + word.chars().count() > LINE_CHARS_MAX {
            lines.push(std::mem::replace(&mut current, indent.clone()));
            is_empty = true;
        }
        if !is_empty {
            current.push(' ');
        }
        current.push_str(word);
        is_empty = false;
    }
    lines.push(current);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(title: &str, summary: Option<&str>) -> String {
        let (task, sandbox) = ("task-1".parse().unwrap(), "sbx-1".parse().unwrap());
        message(title, summary, Some(&task), &sandbox, Some("claude-opus-4-5"))
    }

    #[test]
    fn a_message_has_a_subject_a_body_and_trailers() {
        let expected = "Add the route\n\nIt answers 200.\n\nOmoi-Task: task-1\nOmoi-Sandbox: sbx-1\n\
                        Omoi-Model: claude-opus-4-5\n";
        assert_eq!(of(" Add\nthe   route ", Some("It answers 200.\n")), expected);
        let bare = message("", None, None, &"sbx-1".parse().unwrap(), None);
        assert_eq!(bare, "Keep the work of a sandbox\n\nOmoi-Sandbox: sbx-1\n");
    }

    #[test]
    fn a_long_subject_is_cut_at_a_word() {
        let message = of(&"word ".repeat(40), None);
        let subject = message.lines().next().unwrap();
        assert!(subject.chars().count() <= 72 && subject.ends_with("word…"), "{subject}");
        let message = of(&"ü".repeat(100), None);
        assert_eq!(message.lines().next().unwrap().chars().count(), 72);
    }

    #[test]
    fn what_steers_a_terminal_is_removed() {
        let message = of("a\u{1b}[31mred\u{1b}[0m\u{7}b\u{202e}c", Some("x\u{0}y\r\nz\u{1b}[1;32m!"));
        assert!(message.starts_with("aredbc\n\nxy\nz!\n\nOmoi-Task"), "{message:?}");
    }

    #[test]
    fn prose_is_wrapped_and_code_is_not() {
        let code = format!("    {}", "x ".repeat(60).trim_end());
        let item = format!("- {}", "word ".repeat(30).trim_end());
        let url = format!("https://example.com/{}", "x".repeat(80));
        let message = of("t", Some(&format!("{item}\n\n\n\n{code}\n```\n{item}\n```\n{url}")));
        assert!(message.contains(&code) && message.contains(&format!("```\n{item}\n```\n{url}")));
        let body: Vec<&str> = message.lines().skip(2).collect();
        assert!(body[0].starts_with("- word") && body[1].starts_with("  word") && body[0].len() <= 72);
        assert!(!message.contains("\n\n\n"));
    }

    #[test]
    fn a_long_summary_is_cut() {
        let message = of("t", Some(&"many words ".repeat(1000)));
        assert!(message.chars().count() < 2200 && message.contains("many…\n\nOmoi-Task"), "{message}");
    }
}
