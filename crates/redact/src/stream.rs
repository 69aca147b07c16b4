//! Masks secrets in a stream of chunks, wherever the stream is cut.

use std::{borrow::Cow, mem};

use crate::{Secrets, secrets::Reach, unit::Syntax};

/// Passes bytes on as they come. What may be the beginning of a secret at the end of a chunk waits for the next chunk.
#[derive(Debug)]
pub struct Stream {
    secrets: Secrets,
    held: Vec<u8>,
}

impl Stream {
    pub(crate) fn new(secrets: Secrets) -> Self {
        Self { secrets, held: Vec::new() }
    }

    pub fn push<'a>(&mut self, chunk: &'a [u8]) -> Cow<'a, [u8]> {
        let joined = if self.held.is_empty() {
            Cow::Borrowed(chunk)
        } else {
            let mut joined = mem::take(&mut self.held);
            joined.extend_from_slice(chunk);
            Cow::Owned(joined)
        };
        let reach = |text: &[u8]| match self.secrets.may_hold(text) {
            true => Reach::OpenFrom(self.secrets.open_at(text)),
            false => Reach::Whole,
        };
        let clean = match joined {
            Cow::Borrowed(text) => self.secrets.masked(text, Syntax::Text, reach(text)),
            Cow::Owned(text) => {
                Cow::Owned(self.secrets.masked(&text, Syntax::Text, reach(&text)).into_owned())
            }
        };
        let keep = self.secrets.open_at(&clean);
        self.held = clean[keep..].to_vec();
        match clean {
            Cow::Borrowed(clean) => Cow::Borrowed(&clean[..keep]),
            Cow::Owned(mut clean) => {
                clean.truncate(keep);
                Cow::Owned(clean)
            }
        }
    }

    /// What was held back, when nothing more comes.
    pub fn finish(&mut self) -> Vec<u8> {
        let held = mem::take(&mut self.held);
        self.secrets.bytes(&held).into_owned()
    }
}
