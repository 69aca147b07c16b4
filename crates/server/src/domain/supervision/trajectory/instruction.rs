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

/// Verbs of what may be done to a file, with their form behind `stop` and `without`.
const VERBS: [[&str; 2]; 11] = [
    ["touch", "touching"],
    ["edit", "editing"],
    ["change", "changing"],
    ["modify", "modifying"],
    ["write", "writing"],
    ["delete", "deleting"],
    ["remove", "removing"],
    ["rename", "renaming"],
    ["move", "moving"],
    ["alter", "altering"],
    ["overwrite", "overwriting"],
];
/// Words between such a verb and the file.
const FILLERS: [&str; 15] = [
    "the",
    "file",
    "files",
    "folder",
    "directory",
    "anything",
    "everything",
    "in",
    "to",
    "under",
    "or",
    "my",
    "our",
    "any",
    "code",
];
/// Words before an imperative.
const OPENINGS: [&str; 9] = ["please", "and", "also", "but", "so", "then", "again", "ok", "just"];

/// Files that a text says to leave alone: the objects of an imperative that forbids.
fn avoided(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let sentences = text.split(['\n', ';', '!']).flat_map(|line| line.split(". "));
    for clauses in sentences.flat_map(|sentence| sentence.split(" but ")).flat_map(|part| part.split(": ")) {
        let mut forbids = false;
        for clause in clauses.split(" and ").flat_map(|part| part.split(", ")) {
            let words: Vec<&str> = clause.split_whitespace().collect();
            // A list of files goes on.
            let goes_on = forbids && words.first().is_some_and(|word| path(word).is_some());
            let objects = if goes_on { Some(words.as_slice()) } else { forbidden(&words) };
            forbids = objects.is_some();
            let is_filler = |word: &&&str| FILLERS.contains(&word.to_lowercase().as_str());
            let mut objects = objects.unwrap_or_default().iter().filter(|word| !is_filler(word));
            found.extend(objects.by_ref().map_while(|word| path(word)));
        }
    }
    found.truncate(AVOID_MAX);
    found
}

/// What stands behind the words of a clause that forbid something.
fn forbidden<'a, 'b>(words: &'a [&'b str]) -> Option<&'a [&'b str]> {
    let lower: Vec<String> = words.iter().map(|word| word.to_lowercase().replace('’', "'")).collect();
    let word = |at: usize| lower.get(at).map_or("", |word| word.trim_matches([',', ':', '-', '*']));
    let is_verb = |at: usize| VERBS.iter().flatten().any(|verb| *verb == word(at));
    let without = (0..words.len()).find(|at| word(*at) == "without" && is_verb(at + 1)).map(|at| at + 2);
    let first = (0..words.len()).find(|at| !word(*at).is_empty() && !OPENINGS.contains(&word(*at)))?;
    let is_path = |at: usize| words.get(at).is_some_and(|word| path(word).is_some());
    let begins = match (word(first), word(first + 1), word(first + 2)) {
        ("leave", ..) | ("hands", "off", _) | ("keep", "out", "of") | ("keep", "off", _) => {
            let skipped = match word(first) {
                "leave" => 1,
                "keep" if word(first + 1) == "out" => 3,
                _ => 2,
            };
            Some(first + skipped)
        }
        ("do", "not", _) => Some(first + 2),
        ("don't" | "dont" | "never" | "stop", ..) => Some(first + 1),
        _ => None,
    };
    let at = begins.map(|at| at + usize::from(word(at) == "ever"));
    let is_bare = !matches!(word(first), "do" | "don't" | "dont" | "never" | "stop");
    let mut after = at.filter(|at| is_bare || is_verb(*at) || is_path(*at));
    // "Do not touch or rename a.py".
    while let Some(next) = after.filter(|at| is_verb(*at) || word(*at) == "or") {
        after = Some(next + 1);
    }
    words.get(after.or(without)?..)
}

/// A word that names a file or a directory.
fn path(word: &str) -> Option<String> {
    let word = word.trim_matches(|c: char| !(c.is_alphanumeric() || matches!(c, '/' | '_' | '.' | '-')));
    let word = word.trim_end_matches('.').trim_start_matches("./");
    let has_end =
        word.rsplit_once('.').is_some_and(|(name, end)| !name.is_empty() && (1..=5).contains(&end.len()));
    (word.len() > 2 && !word.contains("://") && (word.contains('/') || has_end)).then(|| clip(word, 120))
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
            ("Never change anything in config/; the other team owns it", &["config/"]),
            ("Please leave config/rates.toml alone, we change it by hand", &["config/rates.toml"]),
            ("Do not touch a.py, b.py and c/d.py", &["a.py", "b.py", "c/d.py"]),
            ("Fix the sum without touching shop/cart.py", &["shop/cart.py"]),
            ("Important: never edit src/api.rs", &["src/api.rs"]),
            ("Stop editing src/a.py", &["src/a.py"]),
            ("Hands off the files in deploy/", &["deploy/"]),
            ("The tests in src/a.py don't pass yet, please fix them", &[]),
            ("It never worked with empty input, see src/parse.py", &[]),
            ("Stop using requests in src/http.py and use urllib", &[]),
            ("Leave everything as it is and only fix src/a.py", &[]),
            ("We do not handle empty input in src/parse.py", &[]),
            ("Do not change the behaviour of src/a.py, only make it faster", &[]),
            ("Leave a comment in src/a.py", &[]),
            ("Do not touch anything but src/a.py", &[]),
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
