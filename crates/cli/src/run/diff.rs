//! A unified diff as a few coloured lines.

use owo_colors::Style as Paint;

use crate::out::{Style, clean};

const LINES_MAX: usize = 12;
/// So few more are shown rather than counted.
const LINES_SPARE: usize = 3;
const LINE_CHARS_MAX: usize = 160;

/// What was added and removed, hunk by hunk; names of files and the rest of the head are left out.
pub fn small(diff: &str, style: Style) -> Vec<String> {
    let lines: Vec<&str> = diff.lines().skip_while(|line| !line.starts_with("@@")).collect();
    let count = if lines.len() <= LINES_MAX + LINES_SPARE { lines.len() } else { LINES_MAX };
    let mut shown: Vec<String> = lines[..count].iter().map(|line| paint(line, style)).collect();
    if lines.len() > count {
        let more = format!("… {} more lines", lines.len() - count);
        shown.push(style.paint(&more, Paint::new().dimmed()));
    }
    shown
}

/// `+3 −1`
pub fn counts(added: u64, removed: u64, style: Style) -> String {
    let (plus, minus) = (format!("+{added}"), format!("−{removed}"));
    format!("{} {}", style.paint(&plus, Paint::new().green()), style.paint(&minus, Paint::new().red()))
}

fn paint(line: &str, style: Style) -> String {
    let cut: String = clean(line).chars().take(LINE_CHARS_MAX).collect();
    match line.as_bytes().first() {
        Some(b'+') => style.paint(&cut, Paint::new().green()),
        Some(b'-') => style.paint(&cut, Paint::new().red()),
        Some(b'@') => style.paint(&cut, Paint::new().cyan()),
        _ => cut,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_is_shown_from_its_first_hunk_and_no_longer_than_a_few_lines() {
        let diff = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-old \u{1b}[2J\n+new\n same\n";
        assert_eq!(small(diff, Style::PLAIN), ["@@ -1,2 +1,2 @@", "-old \\u{1b}[2J", "+new", " same"]);
        let long = format!("@@ -0,0 +1,50 @@\n{}", "+line\n".repeat(50));
        let shown = small(&long, Style::PLAIN);
        assert_eq!((shown.len(), shown[12].as_str()), (13, "… 39 more lines"));
        assert!(small("Binary files differ\n", Style::PLAIN).is_empty());
    }

    #[test]
    fn what_came_is_green_and_what_went_is_red() {
        let colour = Style { tty: true, colour: true };
        assert_eq!(small("@@ x\n+a\n-b", colour)[1..], ["\u{1b}[32m+a\u{1b}[0m", "\u{1b}[31m-b\u{1b}[0m"]);
        assert_eq!(counts(3, 1, Style::PLAIN), "+3 −1");
    }
}
