//! Masks secrets in a stream of chunks, wherever the stream is cut.

use std::mem;

use crate::{Secrets, secrets::Reach, unit::Syntax};

/// How much of what was passed on is remembered: enough to recognise a secret whose first characters were too few to
/// be held back.
const CONTEXT: usize = 16;

/// Passes bytes on as they come. What looks like the beginning of a secret at the end of a chunk waits for the next chunk.
#[derive(Debug)]
pub struct Stream {
    secrets: Secrets,
    /// The end of what was passed on.
    passed: Vec<u8>,
    held: Vec<u8>,
}

impl Stream {
    pub(crate) fn new(secrets: Secrets) -> Self {
        Self { secrets, passed: Vec::new(), held: Vec::new() }
    }

    pub fn push(&mut self, chunk: &[u8]) -> Vec<u8> {
        let (from, text) = self.joined(chunk);
        let reach = match self.secrets.may_hold(&text) {
            true => Reach::OpenFrom(self.secrets.open_at(&text)),
            false => Reach::Whole,
        };
        let mut clean = self.secrets.masked(&text, Syntax::Text, reach).into_owned();
        let keep = self.secrets.open_at(&clean).max(from);
        self.held = clean.split_off(keep);
        self.passed = clean[clean.len().saturating_sub(CONTEXT)..].to_vec();
        clean.split_off(from)
    }

    /// What was held back, when nothing more comes.
    pub fn finish(&mut self) -> Vec<u8> {
        let (from, text) = self.joined(&[]);
        self.passed.clear();
        self.secrets.bytes(&text)[from..].to_vec()
    }

    /// All that is known, and where in it begins what was not passed on yet.
    fn joined(&mut self, chunk: &[u8]) -> (usize, Vec<u8>) {
        let (mut text, held) = (mem::take(&mut self.passed), mem::take(&mut self.held));
        let from = text.len();
        text.extend(held);
        text.extend_from_slice(chunk);
        (from, text)
    }
}
