//! How alike two texts are, to offer work that may exist already. The same texts always give the same number, on every
//! machine: it counts the words and the pieces of words that both have.

use std::collections::BTreeMap;

/// From here on two titles are offered as the same work.
pub const SIMILAR: f64 = 0.6;
/// More of a text is not compared.
const CHARS_MAX: usize = 2_000;
/// Words that say nothing about what work it is.
const COMMON: [&str; 14] =
    ["a", "an", "and", "as", "by", "for", "from", "in", "is", "of", "on", "the", "to", "with"];

/// From 0, nothing in common, to 1, the same words in any order.
pub fn similar(a: &str, b: &str) -> f64 {
    let (a, b) = (pieces(a), pieces(b));
    let count = |pieces: &BTreeMap<String, usize>| pieces.values().sum::<usize>();
    let (all, both) = (
        count(&a) + count(&b),
        a.iter().map(|(piece, n)| b.get(piece).map_or(0, |m| *n.min(m))).sum::<usize>(),
    );
    if all == 0 { 0.0 } else { 2.0 * both as f64 / all as f64 }
}

/// The existing texts that are like this one, the most alike first: where they are, and how alike.
pub fn duplicates<'a>(text: &str, existing: impl IntoIterator<Item = &'a str>) -> Vec<(usize, f64)> {
    let alike = existing.into_iter().enumerate().map(|(at, other)| (at, similar(text, other)));
    let mut found: Vec<(usize, f64)> = alike.filter(|(_, how)| *how >= SIMILAR).collect();
    found.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    found
}

/// Three letters in a row of each word, with its beginning and end marked, so that `export` is near `exports`.
fn pieces(text: &str) -> BTreeMap<String, usize> {
    let text: String = text.chars().take(CHARS_MAX).flat_map(char::to_lowercase).collect();
    let mut pieces = BTreeMap::new();
    for word in text.split(|c: char| !c.is_alphanumeric()) {
        if word.is_empty() || COMMON.contains(&word) {
            continue;
        }
        let letters: Vec<char> = [' '].into_iter().chain(word.chars()).chain([' ']).collect();
        for piece in letters.windows(3) {
            *pieces.entry(piece.iter().collect()).or_insert(0) += 1;
        }
    }
    pieces
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
            let how = similar(a, b);
            assert!((least..=most).contains(&how), "{a} and {b}: {how}");
            assert_eq!(how, similar(b, a), "{a} and {b}");
        }
    }

    #[test]
    fn duplicates_are_offered_by_how_alike_they_are() {
        let existing = ["Delete stale sessions", "Export row to CSV file", "Export rows as CSV"];
        let found = duplicates("Export rows as CSV", existing);
        assert_eq!(found.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [2, 1]);
    }
}
