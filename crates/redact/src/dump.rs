//! Dumps as `hexdump -C` and `xxd` print them. A line has an offset, bytes in hex and, in a last column, the same bytes
//! as characters.

use crate::unit::{SEPARATOR, Unit};

/// Digits of an offset.
const OFFSET: std::ops::RangeInclusive<usize> = 7..=8;
const BYTES_MAX: usize = 256;

/// The columns of all dumps in a text, each without what stands between its lines.
#[derive(Default)]
pub struct Columns {
    pub hex: Vec<Unit>,
    pub characters: Vec<Unit>,
}

/// Nothing if no line of the text belongs to a dump. In JSON inside another text, line breaks are still escaped.
pub fn columns(units: &[Unit]) -> Option<Columns> {
    of_lines(units).or_else(|| {
        let is_escaped = units.windows(2).any(|pair| pair[0].byte == b'\\' && pair[1].byte == b'n');
        is_escaped.then(|| of_lines(&without_escapes(units))).flatten()
    })
}

/// Puts line breaks in the place of their escapes.
fn without_escapes(units: &[Unit]) -> Vec<Unit> {
    let mut found: Vec<Unit> = Vec::with_capacity(units.len());
    for unit in units {
        let from = found.len() - found.iter().rev().take_while(|before| before.byte == b'\\').count();
        if unit.byte == b'n' && from < found.len() {
            found.truncate(from);
            found.push(Unit { byte: b'\n', ..*unit });
        } else {
            found.push(*unit);
        }
    }
    found
}

fn of_lines(units: &[Unit]) -> Option<Columns> {
    let mut columns = Columns::default();
    for line in units.split(|unit| unit.byte == b'\n') {
        // What is no line of a dump ends the dump before it.
        let (hex, characters) = of_line(line).unwrap_or_default();
        for (column, part) in [(&mut columns.hex, hex), (&mut columns.characters, characters)] {
            if !part.is_empty() {
                column.extend(part);
            } else if let Some(last) = column.last().filter(|last| last.byte != SEPARATOR).copied() {
                column.push(Unit { byte: SEPARATOR, ..last });
            }
        }
    }
    (!columns.hex.is_empty()).then_some(columns)
}

/// The digits of a line, and its characters.
fn of_line(line: &[Unit]) -> Option<(Vec<Unit>, Vec<Unit>)> {
    // In JSON a string may begin in this line.
    let line = line.rsplit(|unit| unit.byte == SEPARATOR).find(|part| !part.is_empty())?;
    let is_digit = |at: usize| line.get(at).is_some_and(|unit| unit.byte.is_ascii_hexdigit());
    let is = |at: usize, byte: u8| line.get(at).is_some_and(|unit| unit.byte == byte);
    let begin = line.iter().take_while(|unit| unit.byte == b' ').count();
    let offset = line[begin..].iter().take_while(|unit| unit.byte.is_ascii_hexdigit()).count();
    let mut at = begin + offset;
    let is_xxd = is(at, b':');
    at += usize::from(is_xxd);
    if !OFFSET.contains(&offset) || !is(at, b' ') {
        return None;
    }
    let mut hex = Vec::new();
    while hex.len() < BYTES_MAX * 2 {
        let spaces = line[at..].iter().take_while(|unit| unit.byte == b' ').count();
        // `hexdump` puts two spaces into the middle of a line, and `xxd` before the characters.
        if is_xxd && spaces > 1 && !hex.is_empty() || !is_digit(at + spaces) || !is_digit(at + spaces + 1) {
            break;
        }
        at += spaces;
        hex.extend_from_slice(&line[at..at + 2]);
        at += 2;
    }
    let mut end = line.len() - usize::from(is(line.len() - 1, b'\r'));
    end -= usize::from(end > at && is(end - 1, b'|'));
    let from = end.checked_sub(hex.len() / 2).filter(|from| *from > at);
    (!hex.is_empty()).then(|| (hex, from.map_or(Vec::new(), |from| line[from..end].to_vec())))
}
