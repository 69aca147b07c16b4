//! Server-sent events, from bytes that may be cut anywhere.

/// A longer line is not one of ours.
pub(crate) const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    /// None for what is not named, as events are not.
    pub event: Option<String>,
    pub id: Option<String>,
    pub data: String,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LineTooLong;

#[derive(Debug, Default)]
pub(crate) struct Parser {
    line: Vec<u8>,
    /// The newline that may follow belongs to the line before.
    after_cr: bool,
    begun: bool,
    frame: Frame,
    has_data: bool,
}

impl Parser {
    /// The frames that these bytes complete.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Frame>, LineTooLong> {
        let mut frames = Vec::new();
        for &byte in bytes {
            let second_half = byte == b'\n' && std::mem::take(&mut self.after_cr);
            match byte {
                b'\n' if second_half => {}
                b'\n' | b'\r' => {
                    self.after_cr = byte == b'\r';
                    frames.extend(self.end_line());
                }
                _ if self.line.len() >= LINE_BYTES_MAX => return Err(LineTooLong),
                _ => {
                    self.after_cr = false;
                    self.line.push(byte);
                }
            }
        }
        Ok(frames)
    }

    fn end_line(&mut self) -> Option<Frame> {
        let line = std::mem::take(&mut self.line);
        let mut line = String::from_utf8_lossy(&line);
        if !std::mem::replace(&mut self.begun, true) {
            line = line.trim_start_matches('\u{feff}').to_owned().into();
        }
        if line.is_empty() {
            let frame = std::mem::take(&mut self.frame);
            let has_data = std::mem::take(&mut self.has_data);
            return (has_data || frame.id.is_some()).then_some(frame);
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.frame.data.push('\n');
                }
                self.frame.data.push_str(value);
            }
            "event" => self.frame.event = Some(value.to_owned()),
            "id" => self.frame.id = Some(value.to_owned()),
            // Comments keep the connection alive.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(id: Option<&str>, data: &str) -> Frame {
        Frame { event: None, id: id.map(str::to_owned), data: data.to_owned() }
    }

    fn named(event: &str, frame: Frame) -> Frame {
        Frame { event: Some(event.to_owned()), ..frame }
    }

    #[test]
    fn frames_are_told_apart_however_lines_end() {
        let cases: &[(&str, &[Frame])] = &[
            ("id: 1\ndata: a\n\n", &[frame(Some("1"), "a")]),
            ("id:1\r\ndata:a\r\n\r\n", &[frame(Some("1"), "a")]),
            ("id: 1\rdata: a\r\rdata: b\r\r", &[frame(Some("1"), "a"), frame(None, "b")]),
            ("\u{feff}data: a\n\n", &[frame(None, "a")]),
            ("data: a\ndata:  b\ndata\n\n", &[frame(None, "a\n b\n")]),
            (": ping\n\n:\n\n", &[]),
            ("event: x\nretry: 5\nid: 7\n\n", &[named("x", frame(Some("7"), ""))]),
            (": ping\nid: 7\n\nevent: x\n\n", &[frame(Some("7"), "")]),
            ("data: {\"a\":\"b:c\"}\n\n", &[frame(None, "{\"a\":\"b:c\"}")]),
            ("data: not ended", &[]),
            ("data\n\n", &[frame(None, "")]),
        ];
        for (text, frames) in cases {
            assert_eq!(Parser::default().push(text.as_bytes()).unwrap(), *frames, "{text:?}");
        }
    }

    #[test]
    fn cuts_anywhere_change_nothing() {
        let text =
            ": hello\r\n\r\nid: 41\r\nevent: x\r\ndata: grüße 🦀\r\ndata: two\r\n\r\nid: 42\ndata: b\n\n";
        let whole = Parser::default().push(text.as_bytes()).unwrap();
        assert_eq!(whole, [named("x", frame(Some("41"), "grüße 🦀\ntwo")), frame(Some("42"), "b")]);
        for size in 1..text.len() {
            let mut parser = Parser::default();
            let pieces = text.as_bytes().chunks(size);
            let frames: Vec<_> = pieces.flat_map(|piece| parser.push(piece).unwrap()).collect();
            assert_eq!(frames, whole, "cut every {size} bytes");
        }
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let mut parser = Parser::default();
        let piece = vec![b'x'; LINE_BYTES_MAX];
        assert_eq!(parser.push(&piece), Ok(vec![]));
        assert_eq!(parser.push(b"x"), Err(LineTooLong));
    }
}
