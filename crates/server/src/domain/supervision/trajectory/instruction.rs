//! What people tell the agent while it works, and whether it shows in what the agent does.

use jiff::Timestamp;

use super::super::text::{clip, words};

pub const INSTRUCTIONS: usize = 8;
const TEXT_CHARS: usize = 300;
const WORDS_MAX: usize = 24;
/// Of one text that the agent says or does.
const HEARD_WORDS_MAX: usize = 400;
const AVOID_MAX: usize = 3;

#[derive(Debug, Clone)]
pub struct Instruction {
    pub seq: i64,
    pub at: Timestamp,
    pub from: String,
    pub text: String,
    /// Words of it that are in nothing that was said before.
    words: Vec<u64>,
    /// How many of them must show.
    needed: usize,
    seen: Vec<u64>,
    /// Files that are not to be changed.
    avoid: Vec<String>,
    /// Nothing but: stop.
    pub stop: bool,
    pub calls_after: u32,
    /// The event that does what was not to be done.
    pub broken: Option<i64>,
}

impl Instruction {
    pub fn new(text: &str, from: &str, known: &[u64], seq: i64, at: Timestamp) -> Self {
        let mut new: Vec<u64> = words(text).filter(|word| !known.contains(word)).take(WORDS_MAX).collect();
        new.sort_unstable();
        new.dedup();
        let few = text.split_whitespace().count() <= 4;
        let first =
            text.split(|c: char| !c.is_alphabetic()).find(|word| !matches!(*word, "" | "please" | "Please"));
        let stop = few && first.is_some_and(|word| matches!(word.to_lowercase().as_str(), "stop" | "halt"));
        Self {
            seq,
            at,
            from: clip(from, 80),
            text: clip(text.trim(), TEXT_CHARS),
            // Of a word or two nothing can be expected.
            needed: match new.len() {
                _ if is_foreign(text) => 0,
                0..3 => 0,
                3 => 1,
                _ => 2,
            },
            words: new,
            seen: Vec::new(),
            avoid: avoided(text),
            stop,
            calls_after: 0,
            broken: None,
        }
    }

    /// Whether what came after it speaks of it.
    pub fn is_heard(&self) -> bool {
        self.seen.len() >= self.needed
    }

    fn hear(&mut self, words: &[u64]) {
        for word in words {
            if !self.is_heard() && self.words.binary_search(word).is_ok() && !self.seen.contains(word) {
                self.seen.push(*word);
            }
        }
    }

    pub fn edited(&mut self, path: &str, seq: i64) {
        let named = |avoid: &String| {
            path == avoid
                || path.ends_with(&format!("/{avoid}"))
                || path.starts_with(&format!("{}/", avoid.trim_end_matches('/')))
        };
        if self.broken.is_none() && self.avoid.iter().any(named) {
            self.broken = Some(seq);
        }
    }

    pub fn heap_bytes(&self) -> usize {
        let avoid = self.avoid.iter().map(String::capacity).sum::<usize>();
        (self.words.capacity() + self.seen.capacity()) * size_of::<u64>()
            + self.from.capacity()
            + self.text.capacity()
            + avoid
    }
}

/// Whether a text is written in another script than commands and files are, so that none of its words can be expected there.
fn is_foreign(text: &str) -> bool {
    let letters = text.chars().filter(|c| c.is_alphabetic());
    let (latin, other): (Vec<char>, Vec<char>) = letters.partition(|c| *c < '\u{250}');
    other.len() > latin.len()
}

/// What is said or done after instructions, for those that have not been heard yet.
pub fn hear<'a>(instructions: impl Iterator<Item = &'a mut Instruction>, text: &str) {
    let mut open = instructions.filter(|one| !one.is_heard()).peekable();
    if open.peek().is_some() {
        let words: Vec<u64> = words(text).take(HEARD_WORDS_MAX).collect();
        open.for_each(|one| one.hear(&words));
    }
}

/// Sentences that forbid or demand for good.
pub fn constraints(text: &str) -> impl Iterator<Item = &str> {
    let sentences = text.split(['\n', ';']).flat_map(|line| line.split(". ")).map(str::trim);
    sentences.filter(|sentence| {
        let lower = sentence.to_lowercase();
        let demands = ["must ", "never ", "only ", "without ", "always ", "do not ", "don't ", "leave "];
        (8..400).contains(&sentence.len()) && demands.iter().any(|word| lower.contains(word))
    })
}

/// Files that a text says to leave alone.
fn avoided(text: &str) -> Vec<String> {
    let sentences = text.split(['\n', ';', '!']).flat_map(|line| line.split(". "));
    let forbids = |sentence: &&str| {
        let lower = sentence.to_lowercase();
        let words = [
            "do not ",
            "don't ",
            "never ",
            "leave ",
            "keep out",
            "hands off",
            "without touching",
            "without changing",
            "stop ",
        ];
        words.iter().any(|word| lower.contains(word))
    };
    let path = |word: &str| {
        let word = word.trim_matches(|c: char| !(c.is_alphanumeric() || matches!(c, '/' | '_' | '.' | '-')));
        let word = word.trim_end_matches('.').trim_start_matches("./");
        let has_end =
            word.rsplit_once('.').is_some_and(|(name, end)| !name.is_empty() && (1..=5).contains(&end.len()));
        (word.len() > 2 && !word.contains("://") && (word.contains('/') || has_end)).then(|| clip(word, 120))
    };
    // What stands behind "but" or "only" is what may be done.
    let forbidden = |sentence: &'_ str| sentence.split(" but ").next().unwrap_or_default().to_owned();
    let sentences: Vec<String> = sentences.filter(forbids).map(forbidden).collect();
    sentences
        .iter()
        .flat_map(|sentence| sentence.split_whitespace())
        .filter_map(path)
        .take(AVOID_MAX)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Instruction {
        Instruction::new(text, "ann", &[], 1, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn files_that_are_to_be_left_alone_are_known() {
        let table: &[(&str, &[&str])] = &[
            ("Do not touch shop/cart.py.", &["shop/cart.py"]),
            ("Please don't change `README.md`; change docs/a.md instead", &["README.md"]),
            ("leave migrations/ alone", &["migrations/"]),
            ("Do not edit a.py but mend b.py", &["a.py"]),
            ("Add a test to tests/test_cart.py", &[]),
            ("never mind", &[]),
        ];
        for (text, files) in table {
            assert_eq!(told(text).avoid, *files, "{text}");
        }
        let mut one = told("Do not touch shop/cart.py");
        one.edited("shop/price.py", 5);
        assert_eq!(one.broken, None);
        one.edited("shop/cart.py", 6);
        assert_eq!(one.broken, Some(6));
    }

    #[test]
    fn what_is_followed_shows() {
        let mut one = told("Also add a case for empty input to the suite");
        assert!(!one.is_heard());
        hear([&mut one].into_iter(), "I look at the cart.");
        assert!(!one.is_heard());
        hear([&mut one].into_iter(), "def test_empty(self): suite");
        assert!(one.is_heard());
        for text in [
            "ok",
            "Thanks, that looks good, continue like this.",
            "What are you doing?",
            "Напиши в журнал изменений о доставке и скидках",
        ] {
            assert!(told(text).is_heard(), "nothing can be expected of {text}");
        }
    }

    #[test]
    fn a_bare_stop_is_known() {
        assert!(told("Stop").stop && told("please stop now!").stop);
        assert!(!told("Stop using requests and take urllib").stop && !told("non-stop").stop);
    }

    #[test]
    fn constraints_are_sentences_that_bind() {
        let text = "Mend the parser. It must not lose lines. Never touch the API\nGood luck";
        assert_eq!(constraints(text).collect::<Vec<_>>(), ["It must not lose lines", "Never touch the API"]);
    }
}
