//! Takes the key out of whatever comes back from a vendor, wherever it is cut into chunks.

use bytes::{Bytes, BytesMut};

const INSTEAD: &[u8] = b"***";

/// Passes bytes on as they come, but for the key. What could be the beginning of a key at the end of a chunk waits for
/// the next one.
pub struct Redactor {
    key: Vec<u8>,
    held: BytesMut,
}

impl Redactor {
    pub fn new(key: &str) -> Self {
        Self { key: key.as_bytes().to_vec(), held: BytesMut::new() }
    }

    pub fn push(&mut self, chunk: Bytes) -> Bytes {
        if self.held.is_empty() && !self.occurs(&chunk) && self.begins_at_the_end(&chunk) == 0 {
            return chunk;
        }
        let mut text = std::mem::take(&mut self.held);
        text.extend_from_slice(&chunk);
        let mut clean = self.replaced(&text);
        let keep = clean.len() - self.begins_at_the_end(&clean);
        self.held = clean.split_off(keep);
        clean.freeze()
    }

    /// What was held back at the end.
    pub fn finish(&mut self) -> Bytes {
        std::mem::take(&mut self.held).freeze()
    }

    /// A short text, whole.
    pub fn whole(&self, text: &[u8]) -> Vec<u8> {
        self.replaced(text).to_vec()
    }

    fn occurs(&self, text: &[u8]) -> bool {
        !self.key.is_empty() && find(text, &self.key).is_some()
    }

    fn replaced(&self, mut text: &[u8]) -> BytesMut {
        let mut clean = BytesMut::with_capacity(text.len());
        while let Some(at) = find(text, &self.key).filter(|_| !self.key.is_empty()) {
            clean.extend_from_slice(&text[..at]);
            clean.extend_from_slice(INSTEAD);
            text = &text[at + self.key.len()..];
        }
        clean.extend_from_slice(text);
        clean
    }

    /// How many of the last bytes are the beginning of the key.
    fn begins_at_the_end(&self, text: &[u8]) -> usize {
        let longest = self.key.len().saturating_sub(1).min(text.len());
        (1..=longest).rev().find(|n| text.ends_with(&self.key[..*n])).unwrap_or(0)
    }
}

/// Looks for the first byte, which is rare enough, and then for the rest.
fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    let first = wanted.first()?;
    let mut from = 0;
    while let Some(at) = text[from..].iter().position(|byte| byte == first) {
        if text[from + at..].starts_with(wanted) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn through(key: &str, chunks: &[&[u8]]) -> Vec<u8> {
        let mut redactor = Redactor::new(key);
        let mut out = Vec::new();
        for chunk in chunks {
            out.extend_from_slice(&redactor.push(Bytes::copy_from_slice(chunk)));
        }
        out.extend_from_slice(&redactor.finish());
        out
    }

    #[test]
    fn what_is_no_key_passes_at_once_and_unchanged() {
        let mut redactor = Redactor::new("sk-ant-1");
        for chunk in ["data: hello\n\n", "", "sk-", "ant", "-2", "s", "\n"] {
            redactor.push(Bytes::from(chunk));
        }
        assert_eq!(redactor.finish(), "");
        assert_eq!(Redactor::new("sk-ant-1").push(Bytes::from("x\n\n")), "x\n\n");
        assert_eq!(through("sk-ant-1", &[b"sk-", b"ant", b"-2 sk-an"]), b"sk-ant-2 sk-an");
    }

    proptest! {
        #[test]
        fn a_key_is_found_however_it_is_cut(
            before in "[sk-]{0,6}", after in "[sk-]{0,6}", cuts in prop::collection::vec(0usize..30, 0..6)
        ) {
            let key = "sks-k";
            let text = format!("{before}{key}{after}");
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.sort_unstable();
            let mut chunks = Vec::new();
            let mut from = 0;
            for cut in cuts.into_iter().chain([text.len()]) {
                chunks.push(&text.as_bytes()[from..cut]);
                from = cut;
            }
            let out = String::from_utf8(through(key, &chunks)).unwrap();
            prop_assert!(!out.contains(key), "{out}");
            prop_assert!(out.contains("***"));
        }
    }
}
