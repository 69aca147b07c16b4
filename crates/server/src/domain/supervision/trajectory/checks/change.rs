//! What one diff does to the tests in a file: checks and tests taken out or put in, and tests that were run before and are
//! skipped now. A test that is new with its mark takes nothing away.

use std::collections::HashSet;

use super::{
    super::super::text::hash,
    gate,
    language::{Language, Reader},
    mark::{self, Skip},
};

/// Lines of one diff that are looked at.
const LINES_MAX: usize = 20_000;
/// Lines on either side of a mark that are looked through for what it is about.
const REACH: usize = 60;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    pub asserts: i64,
    pub cases: i64,
    /// Marks by which tests that were there before are skipped, or may fail.
    pub skips: i64,
    /// It takes assertions out of a test that was there before, and leaves the test.
    pub takes_from_old: bool,
    /// The names of tests that it brings, hashed.
    pub new_cases: Vec<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Out,
    Kept,
    In,
}

#[derive(Debug)]
struct Line<'a> {
    side: Side,
    hunk: usize,
    raw: &'a str,
    code: String,
}

/// The lines of a diff, without its headers. A diff without hunks, as some tools make it, is one hunk.
fn lines(diff: &str, language: Option<Language>) -> Vec<Line<'_>> {
    let mut readers = language.map(|language| [Reader::new(language), Reader::new(language)]);
    let (mut found, mut hunk) = (Vec::new(), 0);
    let mut is_header =
        diff.starts_with("diff --git ") || diff.starts_with("--- ") || diff.starts_with("index ");
    for text in diff.lines().take(LINES_MAX) {
        if let Some(rest) = text.strip_prefix("@@") {
            (is_header, hunk) = (false, hunk + 1);
            readers.iter_mut().flatten().for_each(Reader::gap);
            // Codex writes the line around a hunk without the numbers of its lines.
            let alone = if rest.starts_with(" -") { "" } else { rest };
            let around = rest.split_once("@@").map_or(alone, |(_, around)| around);
            let code = language.map(|language| Reader::new(language).code(around)).unwrap_or_default();
            found.push(Line { side: Side::Kept, hunk, raw: around, code });
            continue;
        }
        is_header |= text.starts_with("diff --git ");
        if is_header || text.starts_with('\\') {
            continue;
        }
        let (side, raw) = match text.as_bytes().first() {
            Some(b'+') => (Side::In, &text[1..]),
            Some(b'-') => (Side::Out, &text[1..]),
            Some(b' ') => (Side::Kept, &text[1..]),
            _ => (Side::Kept, text),
        };
        let code = readers.as_mut().map_or_else(String::new, |[old, new]| match side {
            Side::Out => old.code(raw),
            Side::In => new.code(raw),
            Side::Kept => {
                old.code(raw);
                new.code(raw)
            }
        });
        found.push(Line { side, hunk, raw, code });
    }
    found
}

/// Of a file that holds tests. `own` are tests that the agent has written itself.
pub fn of_tests(language: Language, diff: &str, counts_asserts: bool, own: &[u64]) -> Change {
    let lines = lines(diff, Some(language));
    let declared = |line: &Line<'_>| mark::declares(language, &line.code, line.raw).map(|name| hash(&name));
    let gone: HashSet<u64> =
        lines.iter().filter(|line| line.side == Side::Out).filter_map(declared).collect();
    let (mut change, mut tables, mut brings) = (Change::default(), 0, false);
    for (at, line) in lines.iter().enumerate() {
        let sign = match line.side {
            Side::Kept => continue,
            Side::Out => -1,
            Side::In => 1,
        };
        let asserts = counts_asserts && mark::asserts(language, &line.code);
        change.asserts += sign * i64::from(asserts);
        if asserts && line.side == Side::Out {
            let within = subject(&lines, at, Skip::Within, &declared);
            change.takes_from_old |=
                within.is_some_and(|(side, name)| side == Side::Kept && !own.contains(&name));
        }
        let is_case = mark::begins_case(language, &line.code, line.raw).is_some();
        let skip = mark::skips(language, &line.code, line.raw);
        change.cases += sign * i64::from(is_case);
        brings |= line.side == Side::In && (is_case || asserts);
        tables += sign * i64::from(mark::tabulates(&line.code));
        if line.side == Side::In
            && let Some(name) = declared(line).filter(|name| !gone.contains(name))
        {
            change.new_cases.push(name);
        }
        let Some(skip) = skip else { continue };
        let about = subject(&lines, at, skip, &declared);
        let is_own = about
            .is_some_and(|(side, name)| own.contains(&name) || side == Side::In && !gone.contains(&name));
        if !is_own {
            change.skips += sign;
        }
    }
    change.takes_from_old &= change.asserts < 0 && change.cases == 0;
    // One test with a table in place of many is no loss.
    if tables > 0 && brings {
        (change.asserts, change.cases) = (change.asserts.max(0), change.cases.max(0));
    }
    change
}

/// The declaration that a mark is about, as far as the hunk shows it.
fn subject(
    lines: &[Line<'_>],
    at: usize,
    skip: Skip,
    declared: &impl Fn(&Line<'_>) -> Option<u64>,
) -> Option<(Side, u64)> {
    let line = &lines[at];
    let beside =
        |other: &&Line<'_>| other.hunk == line.hunk && (other.side == Side::Kept || other.side == line.side);
    let found = |other: &Line<'_>| declared(other).map(|name| (other.side, name));
    match skip {
        Skip::Here => found(line),
        Skip::Next => lines[at + 1..].iter().take(REACH).filter(beside).find_map(found),
        Skip::Within => lines[..at].iter().rev().take(REACH).filter(beside).find_map(found),
        Skip::Others => None,
    }
}

/// Of a file that says how tests are run.
pub fn of_gate(diff: &str) -> Change {
    let lines = lines(diff, None);
    let mut change = Change::default();
    for (at, line) in lines.iter().enumerate() {
        let sign = match line.side {
            Side::Kept => continue,
            Side::Out => -1,
            Side::In => 1,
        };
        if gate::passes_anyway(line.raw, &of_step(&lines, at)) {
            change.skips += sign;
        }
    }
    change
}

/// The other lines of the item of a list that a line is in.
fn of_step<'a>(lines: &'a [Line<'_>], at: usize) -> Vec<&'a str> {
    let begins = |line: &&Line<'_>| line.raw.trim_start().starts_with("- ");
    let beside = |other: &&Line<'_>| {
        other.hunk == lines[at].hunk && (other.side == Side::Kept || other.side == lines[at].side)
    };
    let mut around = Vec::new();
    if !begins(&&lines[at]) {
        for line in lines[..at].iter().rev().take(REACH).filter(beside) {
            around.push(line.raw);
            if begins(&line) {
                break;
            }
        }
    }
    let below = lines[at + 1..].iter().take(REACH).filter(beside).take_while(|line| !begins(line));
    around.extend(below.map(|line| line.raw));
    around
}
