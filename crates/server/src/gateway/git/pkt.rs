//! Git's lines with a length in front, as far as pushes need them: the list of wishes that comes before a pack, and the
//! report that answers it.

use std::collections::BTreeMap;

use crate::domain::{commit::CommitId, push::RefUpdate};

/// How long a list of wishes may be.
pub const WISHES_BYTES_MAX: usize = 64 << 10;
const LINE_BYTES_MAX: usize = 65_520;

/// What a push asks for, in front of its pack.
#[derive(Debug, PartialEq, Eq)]
pub struct Wishes {
    pub updates: Vec<RefUpdate>,
    pub capabilities: Vec<String>,
    /// Where the pack begins.
    pub bytes: usize,
}

impl Wishes {
    pub fn can(&self, capability: &str) -> bool {
        self.capabilities.iter().any(|known| known == capability)
    }

    /// Reads the list, or says that there must be more of it, or what is wrong with it.
    pub fn read(bytes: &[u8]) -> Result<Option<Self>, &'static str> {
        let mut wishes = Self { updates: Vec::new(), capabilities: Vec::new(), bytes: 0 };
        loop {
            match line(&bytes[wishes.bytes..])? {
                _ if wishes.bytes > WISHES_BYTES_MAX => return Err("it asks for more than 64 KiB of refs"),
                Line::Unfinished => return Ok(None),
                Line::Flush => {
                    wishes.bytes += 4;
                    return Ok(Some(wishes));
                }
                Line::Text(text, length) => {
                    wishes.take(text)?;
                    wishes.bytes += length;
                }
            }
        }
    }

    fn take(&mut self, text: &[u8]) -> Result<(), &'static str> {
        let text = std::str::from_utf8(text).map_err(|_| "a ref's name is not UTF-8")?;
        let (wish, capabilities) = text.split_once('\0').unwrap_or((text, ""));
        if self.updates.is_empty() {
            self.capabilities.extend(capabilities.split_ascii_whitespace().map(str::to_owned));
        }
        let wish = wish.strip_suffix('\n').unwrap_or(wish);
        // A shallow clone says where its history ends; Git itself judges that.
        if let Some(id) = wish.strip_prefix("shallow ") {
            return known_id(id).map(|_| ());
        }
        let mut words = wish.splitn(3, ' ');
        let (Some(old), Some(new), Some(name)) = (words.next(), words.next(), words.next()) else {
            return Err("a line is not OLD NEW REF");
        };
        if name.is_empty() || name.contains(|c: char| c.is_ascii_control() || c == ' ') {
            return Err("a ref's name holds what none may");
        }
        self.updates.push(RefUpdate { name: name.to_owned(), old: known_id(old)?, new: known_id(new)? });
        Ok(())
    }
}

/// All zeros stand for nothing.
fn known_id(text: &str) -> Result<Option<CommitId>, &'static str> {
    if matches!(text.len(), 40 | 64) && text.bytes().all(|b| b == b'0') {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| "a line holds what is not an object's id")
}

/// What Git answers to a push.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// By ref: fine, or why not.
    pub refs: BTreeMap<String, Result<(), String>>,
    /// What people are told beside it.
    pub said: String,
}

impl Report {
    /// Reads as much as makes sense.
    pub fn read(bytes: &[u8], side_band: bool) -> Self {
        let (mut report, mut status) = (Self::default(), Vec::new());
        if side_band {
            for text in texts(bytes) {
                match text.split_first() {
                    Some((1, rest)) => status.extend_from_slice(rest),
                    Some((_, rest)) => report.said.push_str(&String::from_utf8_lossy(rest)),
                    None => {}
                }
            }
        } else {
            status.extend_from_slice(bytes);
        }
        for text in texts(&status) {
            let text = String::from_utf8_lossy(text);
            let mut words = text.trim_end().splitn(3, ' ');
            match (words.next(), words.next(), words.next()) {
                (Some("ok"), Some(name), _) => _ = report.refs.insert(name.to_owned(), Ok(())),
                (Some("ng"), Some(name), why) => {
                    report.refs.insert(name.to_owned(), Err(why.unwrap_or("refused").to_owned()));
                }
                _ => {}
            }
        }
        report
    }

    /// As a client of these capabilities reads it.
    pub fn write(&self, wishes: &Wishes) -> Vec<u8> {
        let mut status = Vec::new();
        if wishes.can("report-status") || wishes.can("report-status-v2") {
            push_line(&mut status, b"unpack ok\n");
            for (name, done) in &self.refs {
                let text = match done {
                    Ok(()) => format!("ok {name}\n"),
                    Err(why) => format!("ng {name} {why}\n"),
                };
                push_line(&mut status, text.as_bytes());
            }
            status.extend_from_slice(b"0000");
        }
        if !wishes.can("side-band-64k") {
            return status;
        }
        let mut out = Vec::new();
        for part in status.chunks(LINE_BYTES_MAX - 5) {
            push_line(&mut out, &[&[1], part].concat());
        }
        out.extend_from_slice(b"0000");
        out
    }
}

/// Appends a line with its length.
pub fn push_line(out: &mut Vec<u8>, text: &[u8]) {
    out.extend_from_slice(format!("{:04x}", text.len() + 4).as_bytes());
    out.extend_from_slice(text);
}

/// Something that Git shows to people beside the report.
pub fn side_note(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    push_line(&mut out, &[&[2], text.as_bytes()].concat());
    out
}

enum Line<'a> {
    Unfinished,
    Flush,
    /// Its text, and how long it is with its length.
    Text(&'a [u8], usize),
}

fn line(bytes: &[u8]) -> Result<Line<'_>, &'static str> {
    let Some(head) = bytes.get(..4) else { return Ok(Line::Unfinished) };
    let digits = std::str::from_utf8(head).ok().filter(|head| head.bytes().all(|b| b.is_ascii_hexdigit()));
    let length = digits.and_then(|head| usize::from_str_radix(head, 16).ok());
    match length {
        Some(0) => Ok(Line::Flush),
        Some(length @ 5..=LINE_BYTES_MAX) => {
            Ok(bytes.get(4..length).map_or(Line::Unfinished, |text| Line::Text(text, length)))
        }
        _ => Err("a line's length is not one that Git writes"),
    }
}

/// All lines up to the first that cannot be read.
fn texts(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut texts = Vec::new();
    loop {
        match line(bytes) {
            Ok(Line::Text(text, length)) => {
                texts.push(text);
                bytes = &bytes[length..];
            }
            Ok(Line::Flush) => bytes = &bytes[4..],
            Ok(Line::Unfinished) | Err(_) => return texts,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const ZERO: &str = "0000000000000000000000000000000000000000";

    fn lines(texts: &[&str]) -> Vec<u8> {
        let mut out = Vec::new();
        texts.iter().for_each(|text| push_line(&mut out, text.as_bytes()));
        out.extend_from_slice(b"0000");
        out
    }

    #[test]
    fn wishes_are_read_wherever_the_network_cuts_them() {
        let first = format!("{ZERO} {A} refs/heads/fix/1\0 report-status side-band-64k agent=git/2.47");
        let mut bytes = lines(&[&format!("shallow {A}"), &first, &format!("{A} {ZERO} refs/heads/b\n")]);
        let end = bytes.len();
        bytes.extend_from_slice(b"PACK...");
        for cut in 0..end {
            assert_eq!(Wishes::read(&bytes[..cut]), Ok(None), "{cut}");
        }
        let wishes = Wishes::read(&bytes).unwrap().unwrap();
        assert_eq!((wishes.bytes, wishes.updates.len()), (end, 2));
        assert_eq!(wishes.updates[0].name, "refs/heads/fix/1");
        assert_eq!((&wishes.updates[0].old, &wishes.updates[1].new), (&None, &None));
        assert!(wishes.can("report-status") && wishes.can("side-band-64k") && !wishes.can("side-band"));
        assert_eq!(Wishes::read(b"0000").unwrap().unwrap().updates, []);
    }

    #[test]
    fn what_is_not_a_list_of_wishes_is_refused() {
        let long = "x".repeat(2000);
        let many: Vec<String> = (0..40).map(|n| format!("{A} {A} refs/heads/{n}{long}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        for bytes in [
            b"PACK".to_vec(),
            b"0001".to_vec(),
            b"0004".to_vec(),
            b"+00a".to_vec(),
            b"ffff".to_vec(),
            lines(&["push-cert\0"]),
            lines(&[&format!("{A} {A}")]),
            lines(&[&format!("{A} {A} ")]),
            lines(&[&format!("{A} main refs/heads/x")]),
            lines(&[&format!("{A} {A} refs/heads/x\ny")]),
            lines(&["shallow x"]),
            lines(&many),
        ] {
            assert!(
                Wishes::read(&bytes).is_err(),
                "{}",
                String::from_utf8_lossy(&bytes[..bytes.len().min(60)])
            );
        }
    }

    #[test]
    fn a_report_reads_back_as_it_was_written() {
        let refs =
            [("refs/heads/a".to_owned(), Ok(())), ("refs/heads/b".to_owned(), Err("not yours".to_owned()))];
        let report = Report { refs: refs.into(), said: String::new() };
        for capabilities in ["report-status", "report-status-v2 side-band-64k"] {
            let wish = format!("{ZERO} {A} refs/heads/a\0{capabilities}");
            let wishes = Wishes::read(&lines(&[&wish])).unwrap().unwrap();
            let side_band = wishes.can("side-band-64k");
            assert_eq!(Report::read(&report.write(&wishes), side_band), report);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_break_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..400), side_band: bool) {
            let _ = Wishes::read(&bytes);
            let _ = Report::read(&bytes, side_band);
        }
    }
}
