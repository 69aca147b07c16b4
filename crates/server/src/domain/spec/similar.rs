//! How alike two texts are, to offer work that may exist already. The same texts always give the same number, on every
//! machine: it counts the words and the pieces of words that both have.

/// From here on two titles are offered as the same work.
pub const SIMILAR: f64 = 0.6;
/// More of a text is not compared.
const CHARS_MAX: usize = 500;
/// Words that say nothing about what work it is.
const COMMON: [&str; 14] =
    ["a", "an", "and", "as", "by", "for", "from", "in", "is", "of", "on", "the", "to", "with"];

/// What of a text is compared: three letters in a row of each word, with its beginning and end marked, so that `export` is
/// near `exports`. Sorted, so that comparing two takes one walk along both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Likeness(Vec<[char; 3]>);

impl Likeness {
    pub fn of(text: &str) -> Self {
        let text: String = text.chars().take(CHARS_MAX).flat_map(char::to_lowercase).collect();
        let words = text.split(|c: char| !c.is_alphanumeric());
        let mut pieces = Vec::new();
        for word in words.filter(|word| !word.is_empty() && !COMMON.contains(word)) {
            let letters: Vec<char> = [' '].into_iter().chain(word.chars()).chain([' ']).collect();
            pieces.extend(letters.windows(3).map(|piece| [piece[0], piece[1], piece[2]]));
        }
        pieces.sort_unstable();
        Self(pieces)
    }

    /// From 0, nothing in common, to 1, the same words in any order.
    pub fn to(&self, other: &Self) -> f64 {
        let (mut at, mut there, mut both) = (0, 0, 0);
        while let (Some(one), Some(two)) = (self.0.get(at), other.0.get(there)) {
            let order = one.cmp(two);
            both += usize::from(order.is_eq());
            at += usize::from(order.is_le());
            there += usize::from(order.is_ge());
        }
        let all = self.0.len() + other.0.len();
        if all == 0 { 0.0 } else { 2.0 * both as f64 / all as f64 }
    }

    /// Those that are like this one, the most alike first: where they are, and how alike.
    pub fn duplicates<'a>(&self, existing: impl IntoIterator<Item = &'a Self>) -> Vec<(usize, f64)> {
        let alike = existing.into_iter().enumerate().map(|(at, other)| (at, self.to(other)));
        let mut found: Vec<(usize, f64)> = alike.filter(|(_, how)| *how >= SIMILAR).collect();
        found.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_work_in_other_words_is_alike() {
        let table = [
            ("Export rows as CSV", "Export the rows as CSV", 1.0, 1.0),
            ("Export rows as CSV", "csv export of rows", 0.99, 1.0),
            ("Export rows as CSV", "Export row to CSV file", SIMILAR, 0.99),
            ("Export rows as CSV", "Delete stale sessions", 0.0, 0.2),
            ("", "", 0.0, 0.0),
            ("the", "the", 0.0, 0.0),
            ("größer", "GRÖSSER", 0.3, 0.9),
        ];
        for (a, b, least, most) in table {
            let (one, two) = (Likeness::of(a), Likeness::of(b));
            let how = one.to(&two);
            assert!((least..=most).contains(&how), "{a} and {b}: {how}");
            assert_eq!(how, two.to(&one), "{a} and {b}");
        }
    }

    #[test]
    fn duplicates_are_offered_by_how_alike_they_are() {
        let existing = ["Delete stale sessions", "Export row to CSV file", "Export rows as CSV"];
        let existing = existing.map(Likeness::of);
        let found = Likeness::of("Export rows as CSV").duplicates(&existing);
        assert_eq!(found.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [2, 1]);
    }
}
