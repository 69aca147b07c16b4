//! EARS: `WHEN something happens, THE system SHALL do something`. The trigger (WHEN, WHILE, WHERE, IF … THEN) may be
//! missing; who does what may not.

/// The parts of a requirement's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ears<'a> {
    /// From the trigger's word up to who acts.
    pub condition: Option<&'a str>,
    pub system: &'a str,
    pub response: &'a str,
}

const TRIGGERS: [&str; 4] = ["WHEN", "WHILE", "WHERE", "IF"];
const FORM: &str = "write it as \"WHEN <something happens>, THE <system> SHALL <do something>\"";

pub fn parse(text: &str) -> Result<Ears<'_>, String> {
    let text = text.trim();
    let words = words(text);
    let normative =
        words.iter().position(|word| is_normative(word.1)).ok_or_else(|| format!("has no SHALL; {FORM}"))?;
    let (at, word) = words[normative];
    let (head, response) = (text[..at].trim(), text[at + word.len()..].trim());
    if words.len() - normative - 1 < 2 {
        return Err(format!("says nothing definite after {word}; {FORM}"));
    }
    let triggered =
        words.first().is_some_and(|first| TRIGGERS.iter().any(|t| first.1.eq_ignore_ascii_case(t)));
    if !triggered {
        return match bare(head) {
            "" => Err(format!("does not say who acts before {word}; {FORM}")),
            system => Ok(Ears { condition: None, system, response }),
        };
    }
    let split = subject(head, &words[..normative]);
    let (condition, system) = (head[..split].trim().trim_end_matches(','), bare(&head[split..]));
    if split == 0 || condition.split_whitespace().count() < 2 || system.is_empty() {
        return Err(format!("does not part what happens from who acts; {FORM}"));
    }
    Ok(Ears { condition: Some(condition), system, response })
}

/// Words and where they start.
fn words(text: &str) -> Vec<(usize, &str)> {
    let mut words = Vec::new();
    let mut start = None;
    for (at, c) in text.char_indices().chain([(text.len(), ' ')]) {
        if c.is_alphanumeric() || matches!(c, '_' | '-' | '\'') {
            start.get_or_insert(at);
        } else if let Some(from) = start.take() {
            words.push((from, &text[from..at]));
        }
    }
    words
}

/// Small `should` and `may` are common words, and mean nothing here.
fn is_normative(word: &str) -> bool {
    ["shall", "must"].iter().any(|normative| word.eq_ignore_ascii_case(normative))
        || matches!(word, "SHOULD" | "MAY")
}

/// Where the words on who acts begin: after THEN, after the last comma, or at the last THE.
fn subject(head: &str, words: &[(usize, &str)]) -> usize {
    let after = |word: &&(usize, &str)| word.1.eq_ignore_ascii_case("then");
    if let Some((at, word)) = words.iter().rev().find(after) {
        return at + word.len();
    }
    if let Some(comma) = head.rfind(',') {
        return comma + 1;
    }
    words.iter().skip(1).rev().find(|word| word.1.eq_ignore_ascii_case("the")).map_or(0, |(at, _)| *at)
}

fn bare(system: &str) -> &str {
    let system = system.trim().trim_start_matches(',').trim();
    match system.split_at_checked(3) {
        Some((the, rest)) if the.eq_ignore_ascii_case("the") && rest.starts_with(char::is_whitespace) => {
            rest.trim()
        }
        _ if system.eq_ignore_ascii_case("the") => "",
        _ => system,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_found() {
        let table = [
            (
                "WHEN a user asks for CSV, THE exporter SHALL write one line per row.",
                (Some("WHEN a user asks for CSV"), "exporter", "write one line per row."),
            ),
            (
                "If the disk is full then the system shall keep the old file",
                (Some("If the disk is full then"), "system", "keep the old file"),
            ),
            ("WHILE offline THE client SHALL queue calls", (Some("WHILE offline"), "client", "queue calls")),
            ("The server MUST answer within 200 ms", (None, "server", "answer within 200 ms")),
            (
                "WHERE quotas are on, WHEN one is used up, THE server SHALL answer 429",
                (Some("WHERE quotas are on, WHEN one is used up"), "server", "answer 429"),
            ),
        ];
        for (text, (condition, system, response)) in table {
            assert_eq!(parse(text), Ok(Ears { condition, system, response }), "{text}");
        }
    }

    #[test]
    fn what_is_missing_is_said() {
        let table = [
            ("", "has no SHALL"),
            ("Exports are nice to have and may be fast", "has no SHALL"),
            ("SHALL export the rows", "does not say who acts"),
            ("THE SHALL export the rows", "does not say who acts"),
            ("THE exporter SHALL work", "says nothing definite after SHALL"),
            ("WHEN asked SHALL export the rows", "does not part what happens from who acts"),
            ("WHEN, THE exporter SHALL write rows", "does not part what happens from who acts"),
        ];
        for (text, why) in table {
            let error = parse(text).expect_err(text);
            assert!(error.starts_with(why), "{text}: {error}");
        }
    }
}
