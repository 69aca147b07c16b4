//! Server-sent events, out of bytes that come in any pieces. Only their data is of interest: whoever sends them says
//! inside it what it is. Each byte is looked at once, and an event that grows too long is an error, so that neither time
//! nor memory depend on what the other side sends.

/// The longest event.
pub const EVENT_BYTES_MAX: usize = 16 * 1024 * 1024;

const BOM: &[u8] = b"\xef\xbb\xbf";

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("an event of the stream has more than {0} bytes")]
    TooLong(usize),
    #[error("an event of the stream is no valid UTF-8")]
    Encoding,
}

#[derive(Debug)]
pub struct Decoder {
    /// Of the line that is not complete.
    line: Vec<u8>,
    /// Of the event that is not complete; None before its first line of data.
    data: Option<String>,
    /// The line before ended in a carriage return: a line feed now belongs to it.
    returned: bool,
    /// No line has been seen.
    fresh: bool,
    event_bytes_max: usize,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new(EVENT_BYTES_MAX)
    }
}

impl Decoder {
    pub fn new(event_bytes_max: usize) -> Self {
        Self { line: Vec::new(), data: None, returned: false, fresh: true, event_bytes_max }
    }

    /// The events that `chunk` completes.
    pub fn push(&mut self, mut chunk: &[u8]) -> Result<Vec<String>, Error> {
        let mut events = Vec::new();
        if self.returned && !chunk.is_empty() {
            self.returned = false;
            chunk = chunk.strip_prefix(b"\n").unwrap_or(chunk);
        }
        while let Some(end) = chunk.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            self.hold(&chunk[..end])?;
            events.extend(self.end_line()?);
            let rest = &chunk[end + 1..];
            self.returned = chunk[end] == b'\r' && rest.is_empty();
            chunk = if chunk[end] == b'\r' { rest.strip_prefix(b"\n").unwrap_or(rest) } else { rest };
        }
        self.hold(chunk)?;
        Ok(events)
    }

    /// The end of the stream. What was under way counts as an event, since some servers leave out the empty line after
    /// their last one; whether it is whole, its content tells.
    pub fn finish(mut self) -> Result<Option<String>, Error> {
        self.end_line()?;
        Ok(self.data)
    }

    fn hold(&mut self, part: &[u8]) -> Result<(), Error> {
        let held = self.line.len() + self.data.as_ref().map_or(0, String::len);
        if held + part.len() > self.event_bytes_max {
            return Err(Error::TooLong(self.event_bytes_max));
        }
        self.line.extend_from_slice(part);
        Ok(())
    }

    fn end_line(&mut self) -> Result<Option<String>, Error> {
        let line = std::mem::take(&mut self.line);
        let line =
            if std::mem::take(&mut self.fresh) { line.strip_prefix(BOM).unwrap_or(&line) } else { &line };
        if line.is_empty() {
            return Ok(self.data.take());
        }
        let Some(value) = value(line) else { return Ok(None) };
        let value = std::str::from_utf8(value).map_err(|_| Error::Encoding)?;
        match &mut self.data {
            Some(data) => {
                data.push('\n');
                data.push_str(value);
            }
            None => self.data = Some(value.to_owned()),
        }
        Ok(None)
    }
}

/// What a line of data holds. All others are names, numbers and comments.
fn value(line: &[u8]) -> Option<&[u8]> {
    let rest = line.strip_prefix(b"data")?;
    match rest.strip_prefix(b":") {
        Some(value) => Some(value.strip_prefix(b" ").unwrap_or(value)),
        None => rest.is_empty().then_some(rest),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<String>, Error> {
        let mut decoder = Decoder::default();
        let mut events = Vec::new();
        for chunk in chunks {
            events.extend(decoder.push(chunk)?);
        }
        events.extend(decoder.finish()?);
        Ok(events)
    }

    #[test]
    fn only_data_is_taken_whatever_else_a_stream_holds() {
        for (text, events) in [
            ("", vec![]),
            ("\n\n\n", vec![]),
            ("data: a\n\n", vec!["a"]),
            ("data:a\n\ndata:  b\n\n", vec!["a", " b"]),
            ("data: a\r\n\r\ndata: b\r\rdata: c\n\n", vec!["a", "b", "c"]),
            ("\u{feff}data: a\n\n", vec!["a"]),
            (": a comment\n\nevent: x\nid: 7\nretry: 3\n\ndata: a\n\n", vec!["a"]),
            ("data: a\ndata: b\ndata\n\n", vec!["a\nb\n"]),
            ("datum: a\n\ndata2: b\n\n", vec![]),
            ("data: a\n\ndata: b", vec!["a", "b"]),
        ] {
            assert_eq!(
                decode([text.as_bytes()]),
                Ok(events.into_iter().map(str::to_owned).collect()),
                "{text:?}"
            );
        }
    }

    #[test]
    fn bad_encoding_and_endless_events_are_errors() {
        assert_eq!(decode([b"data: \xff\n\n".as_slice()]), Err(Error::Encoding));
        assert_eq!(decode([b"data: \xc3".as_slice()]), Err(Error::Encoding));
        let mut decoder = Decoder::new(8);
        assert_eq!(decoder.push(b"data: ab"), Ok(vec![]));
        assert_eq!(decoder.push(b"c"), Err(Error::TooLong(8)));
        let mut decoder = Decoder::new(8);
        assert_eq!(decoder.push(b"data: a\ndata: bcd\n"), Err(Error::TooLong(8)));
    }

    proptest! {
        #[test]
        fn where_a_stream_is_cut_into_pieces_makes_no_difference(cuts in prop::collection::vec(0..200usize, 0..20)) {
            let text = ": hi\r\n\r\ndata: Grüße 🦀\r\ndata: ß\r\n\r\nevent: x\rdata: y\r\rdata: {\"a\":1}\n\n\ndata: z\n\n";
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut % text.len()).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let chunks = cuts.windows(2).map(|pair| &text.as_bytes()[pair[0]..pair[1]]);
            prop_assert_eq!(decode(chunks), decode([text.as_bytes()]));
        }
    }
}
