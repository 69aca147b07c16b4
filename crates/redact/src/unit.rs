//! A text as a sequence of characters that remember which bytes they came from, with escapes undone.

/// Stands for what is no part of any secret, such as the end of a JSON string.
pub const SEPARATOR: u8 = 0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unit {
    pub byte: u8,
    pub start: usize,
    pub end: usize,
    /// Something that was dropped stood before it.
    pub is_joined: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    Text,
    /// Only what stands in strings is looked at.
    Json,
}

/// Reads a text from its beginning. In JSON, the escapes of strings are undone.
pub struct Units<'a> {
    text: &'a [u8],
    syntax: Syntax,
    at: usize,
    in_string: bool,
}

impl<'a> Units<'a> {
    pub fn new(text: &'a [u8], syntax: Syntax) -> Self {
        Self { text, syntax, at: 0, in_string: false }
    }

    fn unit(&mut self, byte: u8, len: usize) -> Option<Unit> {
        let start = self.at;
        self.at = (start + len).min(self.text.len());
        Some(Unit { byte, start, end: self.at, is_joined: false })
    }
}

impl Iterator for Units<'_> {
    type Item = Unit;

    fn next(&mut self) -> Option<Unit> {
        let byte = *self.text.get(self.at)?;
        if self.syntax == Syntax::Text {
            return self.unit(byte, 1);
        }
        match (self.in_string, byte) {
            (_, b'"') => {
                self.in_string = !self.in_string;
                self.unit(SEPARATOR, 1)
            }
            (false, _) => self.unit(SEPARATOR, 1),
            (true, b'\\') => match self.text.get(self.at + 1) {
                Some(b'n') => self.unit(b'\n', 2),
                Some(b'r') => self.unit(b'\r', 2),
                Some(b't') => self.unit(b'\t', 2),
                Some(b'u') => {
                    let decoded = self.text.get(self.at + 2..self.at + 6).and_then(ascii_of_hex);
                    self.unit(decoded.unwrap_or(SEPARATOR), 6)
                }
                Some(escaped @ (b'"' | b'\\' | b'/')) => self.unit(*escaped, 2),
                _ => self.unit(SEPARATOR, 2),
            },
            (true, _) => self.unit(byte, 1),
        }
    }
}

/// Drops line breaks and other spaces, undoes the escapes of JSON inside the text, and percent-encoding.
pub fn loose(units: &[Unit]) -> Vec<Unit> {
    let mut found: Vec<Unit> = Vec::with_capacity(units.len());
    let (mut at, mut is_joined) = (0, false);
    let mut keep = |unit: Unit, is_joined: &mut bool| {
        found.push(Unit { is_joined: std::mem::take(is_joined), ..unit });
    };
    while let Some(unit) = units.get(at) {
        at += 1;
        match unit.byte {
            byte if byte.is_ascii_whitespace() => is_joined = true,
            b'\\' => {
                is_joined = true;
                while units.get(at).is_some_and(|next| next.byte == b'\\') {
                    at += 1;
                }
                match units.get(at).map(|next| next.byte) {
                    Some(b'n' | b'r' | b't') => at += 1,
                    Some(b'u') => {
                        if let Some(decoded) = decoded(units, at + 1, 4) {
                            is_joined = false;
                            keep(Unit { start: unit.start, ..decoded }, &mut is_joined);
                            at += 5;
                        }
                    }
                    // The letter of such an escape is no digit of base64 or hex, and what covers the character covers
                    // its backslash too.
                    Some(escape @ (b'b' | b'f' | b'"' | b'/')) => {
                        let byte = match escape {
                            b'b' | b'f' => SEPARATOR,
                            visible => visible,
                        };
                        is_joined = false;
                        keep(Unit { byte, start: unit.start, ..units[at] }, &mut is_joined);
                        at += 1;
                    }
                    _ => {}
                }
            }
            b'%' => match decoded(units, at, 2) {
                Some(decoded) => {
                    keep(Unit { start: unit.start, ..decoded }, &mut is_joined);
                    at += 2;
                }
                None => keep(*unit, &mut is_joined),
            },
            _ => keep(*unit, &mut is_joined),
        }
    }
    found
}

/// The character that `count` hex digits from `at` on stand for. A character beyond ASCII is a separator.
fn decoded(units: &[Unit], at: usize, count: usize) -> Option<Unit> {
    let digits = units.get(at..at + count)?;
    let text: Vec<u8> = digits.iter().map(|unit| unit.byte).collect();
    if !text.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let (start, end) = (digits[0].start, digits[count - 1].end);
    Some(Unit { byte: ascii_of_hex(&text).unwrap_or(SEPARATOR), start, end, is_joined: false })
}

fn ascii_of_hex(digits: &[u8]) -> Option<u8> {
    let text = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()))?;
    let code = u32::from_str_radix(text, 16).ok()?;
    // A percent-encoded byte may be any; an escape in JSON is a character.
    u8::try_from(code).ok().filter(|byte| digits.len() == 2 || byte.is_ascii())
}
