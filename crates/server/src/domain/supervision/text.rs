//! Text as supervision compares it: cut to a length, hashed, and without what differs each time (durations, times,
//! addresses, line numbers).

use std::collections::VecDeque;

/// Of a long result, so much of its beginning and of its end is compared.
const COMPARED_BYTES: usize = 1500;
const SEED: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

/// FNV-1a: the same in every version of the program, so that what is kept can be compared later.
pub const fn hash(text: &str) -> u64 {
    let (bytes, mut hash, mut at) = (text.as_bytes(), SEED, 0);
    while at < bytes.len() {
        hash = step(hash, bytes[at]);
        at += 1;
    }
    hash
}

pub fn hash_both(a: u64, b: u64) -> u64 {
    (a ^ b.rotate_left(29)).wrapping_mul(PRIME) ^ b
}

const fn step(hash: u64, byte: u8) -> u64 {
    (hash ^ byte as u64).wrapping_mul(PRIME)
}

/// At most `chars_max` characters, with a sign that there was more.
pub fn clip(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
    }
}

/// One line, cut.
pub fn line(text: &str, chars_max: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().take(chars_max).collect();
    clip(&words.join(" "), chars_max)
}

/// What two results have in common when only the time of day or the time taken differs.
pub fn hash_result(text: &str) -> u64 {
    let bytes = text.trim_end().as_bytes();
    if bytes.len() <= 2 * COMPARED_BYTES {
        return hash_alike(bytes, SEED);
    }
    let first = hash_alike(&bytes[..COMPARED_BYTES], SEED);
    hash_alike(&bytes[bytes.len() - COMPARED_BYTES..], step(first, 0))
}

fn hash_alike(bytes: &[u8], seed: u64) -> u64 {
    let (mut hash, mut at) = (seed, 0);
    while at < bytes.len() {
        let byte = bytes[at];
        let starts = byte.is_ascii_digit() && !at.checked_sub(1).is_some_and(|before| is_word(bytes[before]));
        let end = if starts { number_end(bytes, at) } else { at };
        if starts && varies(bytes, at, end) {
            (hash, at) = (step(hash, b'#'), end);
            continue;
        }
        let end = end.max(at + 1);
        hash = bytes[at..end].iter().fold(hash, |hash, byte| step(hash, *byte));
        at = end;
    }
    hash
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Where a number ends; one with an `x`, dots or colons in it is one number.
fn number_end(bytes: &[u8], from: usize) -> usize {
    let is_hex = bytes[from] == b'0' && bytes.get(from + 1) == Some(&b'x');
    let goes_on = |byte: &u8| match is_hex {
        true => byte.is_ascii_hexdigit() || *byte == b'x',
        false => byte.is_ascii_digit() || matches!(byte, b'.' | b':'),
    };
    let length = bytes[from..].iter().take_while(|byte| goes_on(byte)).count();
    let trailing =
        bytes[from..from + length].iter().rev().take_while(|byte| matches!(byte, b'.' | b':')).count();
    from + length - trailing
}

/// A duration, a time of day, an address, or a line number.
fn varies(bytes: &[u8], from: usize, end: usize) -> bool {
    let number = &bytes[from..end];
    if number.starts_with(b"0x") || number.contains(&b':') || bytes[..from].ends_with(b"line ") {
        return true;
    }
    let rest = bytes[end..].strip_prefix(b" ").unwrap_or(&bytes[end..]);
    let unit = rest.iter().take_while(|byte| is_word(**byte)).count();
    matches!(
        &rest[..unit],
        b"s" | b"ms" | b"us" | b"ns" | b"sec" | b"secs" | b"second" | b"seconds" | b"minutes"
    )
}

/// What kind of error a failed call's result shows, and a line of it for people. None where it says nothing but its
/// exit code, as a search without a hit does.
pub fn error_of(result: &str) -> Option<(u64, String)> {
    let said = |line: &&str| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with("[exit code") && line != "(no output)" && line != "no output"
    };
    let last = result.lines().rev().take(200).find(said)?;
    let blames = |line: &&str| {
        let line = line.to_ascii_lowercase();
        ["error", "fail", "cannot", "not found", "denied", "exception", "refused", "no such"]
            .iter()
            .any(|word| line.contains(word))
    };
    let blamed = result.lines().take(400).filter(said).find(blames).unwrap_or(last);
    let (blamed_hash, last_hash) = (hash_result(blamed), hash_result(last));
    // The one that names an error tells people more than a sum of failures does.
    let shown = if blames(&last) && !last.contains("FAILED (") { last } else { blamed };
    Some((hash_both(blamed_hash, last_hash), line(shown, 160)))
}

/// Words that carry meaning: four letters or more, lower case, hashed.
pub fn words(text: &str) -> impl Iterator<Item = u64> {
    let long = text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.chars().nth(3).is_some());
    long.map(|word| hash(&word.to_lowercase())).filter(|word| !COMMON.contains(word))
}

/// Words that every sentence may have, and those of mere approval.
const COMMON: [u64; 44] = {
    let words = [
        "please", "also", "should", "would", "could", "this", "that", "with", "from", "have", "need", "make",
        "just", "then", "when", "what", "your", "will", "must", "dont", "file", "files", "thanks", "thank",
        "good", "great", "nice", "fine", "okay", "perfect", "looks", "look", "like", "well", "keep", "going",
        "continue", "carry", "right", "sure", "agree", "done", "work", "working",
    ];
    let (mut hashes, mut at) = ([0; 44], 0);
    while at < words.len() {
        hashes[at] = hash(words[at]);
        at += 1;
    }
    hashes
};

/// The newest of something, at most `N`.
#[derive(Debug, Clone)]
pub struct Ring<T, const N: usize>(VecDeque<T>);

impl<T, const N: usize> Default for Ring<T, N> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T, const N: usize> Ring<T, N> {
    pub fn push(&mut self, one: T) {
        if self.0.len() == N {
            self.0.pop_front();
        }
        self.0.push_back(one);
    }

    /// Oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + ExactSizeIterator {
        self.0.iter()
    }

    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut T> {
        self.0.iter_mut()
    }

    pub fn last(&self) -> Option<&T> {
        self.0.back()
    }

    pub fn retain(&mut self, keep: impl FnMut(&T) -> bool) {
        self.0.retain(keep);
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    pub fn heap_bytes(&self) -> usize {
        self.0.capacity() * size_of::<T>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_that_differ_in_times_alone_are_alike() {
        let same = [
            ("Ran 3 tests in 0.012s\nOK", "Ran 3 tests in 1.4s\nOK"),
            ("waiting, 3 seconds so far", "waiting, 12 seconds so far"),
            ("at 12:01:09 nothing", "at 12:03:10.5 nothing"),
            ("<Cart object at 0x7f00aa>", "<Cart object at 0x7f11bb>"),
            ("File x, line 12, in f", "File x, line 14, in f"),
        ];
        for (a, b) in same {
            assert_eq!(hash_result(a), hash_result(b), "{a} and {b}");
        }
        let different = [
            ("3 failed, 2 passed", "2 failed, 3 passed"),
            ("version 1.2", "version 1.3"),
            ("0 errors", "1 errors"),
            ("a1", "a2"),
        ];
        for (a, b) in different {
            assert_ne!(hash_result(a), hash_result(b), "{a} and {b}");
        }
    }

    #[test]
    fn a_long_result_is_compared_at_both_ends() {
        let text =
            |middle: &str, end: &str| format!("begin{}{middle}{}{end}", "x".repeat(3000), "y".repeat(3000));
        assert_eq!(hash_result(&text("a", "z")), hash_result(&text("b", "z")));
        assert_ne!(hash_result(&text("a", "z")), hash_result(&text("a", "w")));
    }

    #[test]
    fn an_exit_code_alone_is_no_error_to_compare() {
        assert_eq!(error_of("[exit code 1]"), None);
        assert_eq!(error_of("\n(no output)\n[exit code 1]"), None);
        let trace = "Traceback\n  File \"a.py\", line 3\nKeyError: 'fig'\n[exit code 1]";
        let (hash, shown) = error_of(trace).unwrap();
        assert_eq!(shown, "KeyError: 'fig'");
        assert_eq!(error_of(&trace.replace("line 3", "line 9")).unwrap().0, hash);
        assert_ne!(error_of(&trace.replace("fig", "pear")).unwrap().0, hash);
    }

    #[test]
    fn text_is_cut_at_characters() {
        assert_eq!(clip("über", 2), "üb…");
        assert_eq!(clip("über", 4), "über");
        assert_eq!(line(" a\n  b ", 10), "a b");
    }
}
