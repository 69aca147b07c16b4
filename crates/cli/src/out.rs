//! What the program says: answers on standard output, for people or as JSON; notes and failures on standard error.

use std::{
    io::{self, IsTerminal, Write, stderr, stdout},
    sync::atomic::{AtomicBool, Ordering},
};

use anyhow::Result;
use owo_colors::{OwoColorize, Style as Paint};
use serde::Serialize;

use crate::failure::Failure;

#[derive(Debug)]
pub struct Out {
    json: bool,
    /// How standard output may look.
    pub style: Style,
    colour_notes: bool,
    /// Whether the command goes on when nobody reads on.
    outlasts_reader: AtomicBool,
}

#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// Somebody looks at a terminal: tables have lines and keep to its width.
    pub tty: bool,
    pub colour: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

impl Style {
    pub const PLAIN: Self = Self { tty: false, colour: false };

    pub fn paint(self, text: &str, paint: Paint) -> String {
        if self.colour { text.style(paint).to_string() } else { text.to_owned() }
    }
}

impl Out {
    pub fn new(json: bool, no_color: bool) -> Self {
        let tty = stdout().is_terminal();
        Self {
            json,
            style: Style { tty, colour: tty && !no_color },
            colour_notes: stderr().is_terminal() && !no_color,
            outlasts_reader: AtomicBool::new(false),
        }
    }

    /// For a command that follows work or passes judgement: a reader who has seen enough (`| head -1`) ends what is written, and
    /// the exit code still says how it ended. Other commands are done by then, and end well.
    pub fn outlast_reader(&self) {
        self.outlasts_reader.store(true, Ordering::Relaxed);
    }

    pub fn is_json(&self) -> bool {
        self.json
    }

    /// The answer of a command: `value` for programs, `people` for people.
    pub fn answer(&self, value: &impl Serialize, people: impl FnOnce(Style) -> String) -> Result<()> {
        if self.json {
            return self.line(&serde_json::to_string_pretty(value)?);
        }
        let text = people(self.style);
        if text.is_empty() { Ok(()) } else { self.line(text.trim_end_matches('\n')) }
    }

    /// One value of several that come one by one: a JSON object per line, or a line for people.
    pub fn item(&self, value: &impl Serialize, people: impl FnOnce(Style) -> String) -> Result<()> {
        if self.json { self.line(&serde_json::to_string(value)?) } else { self.line(&people(self.style)) }
    }

    pub fn line(&self, text: &str) -> Result<()> {
        self.raw(&format!("{text}\n"))
    }

    /// Bytes as they are.
    pub fn raw(&self, text: &str) -> Result<()> {
        self.write(&mut stdout().lock(), text)
    }

    /// What a command in a sandbox wrote, to where it wrote it.
    pub fn pass_on(&self, text: &str, to: Stream) -> Result<()> {
        if to == Stream::Stdout {
            return self.raw(text);
        }
        self.write(&mut stderr().lock(), text)
    }

    fn write(&self, to: &mut impl Write, text: &str) -> Result<()> {
        let nobody_reads = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
        match to.write_all(text.as_bytes()).and_then(|()| to.flush()) {
            Err(error) if nobody_reads(&error) && self.outlasts_reader.load(Ordering::Relaxed) => Ok(()),
            written => Ok(written?),
        }
    }

    /// What is good to know and no part of the answer.
    pub fn note(&self, text: &str) {
        self.tell(&format!("{text}\n"));
    }

    pub fn failure(&self, failure: &Failure) {
        let style = Style { tty: false, colour: self.colour_notes };
        let error = style.paint("error:", Paint::new().red().bold());
        let mut text = format!("{error} {}\n", clean(&failure.cause));
        if let Some(hint) = &failure.hint {
            text.push_str(&format!("{} {}\n", style.paint("hint:", Paint::new().cyan().bold()), clean(hint)));
        }
        self.tell(&text);
    }

    /// There is nobody to tell when standard error is gone.
    fn tell(&self, text: &str) {
        let _: io::Result<()> = stderr().lock().write_all(text.as_bytes());
    }
}

/// Text of others, made safe to show: what steers a terminal or turns the direction of writing is spelt out.
pub fn clean(text: &str) -> String {
    let harmless = |c: char| matches!(c, '\n' | '\t') || !(c.is_control() || turns_text(c));
    if text.chars().all(harmless) {
        return text.to_owned();
    }
    text.chars()
        .flat_map(|c| {
            let (plain, spelt) = if harmless(c) { (Some(c), None) } else { (None, Some(c.escape_unicode())) };
            plain.into_iter().chain(spelt.into_iter().flatten())
        })
        .collect()
}

fn turns_text(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_cannot_steer_the_terminal() {
        assert_eq!(clean("plain ünï\n\ttext"), "plain ünï\n\ttext");
        assert_eq!(clean("\u{1b}[2Jgone\r"), "\\u{1b}[2Jgone\\u{d}");
        assert_eq!(clean("a\u{202e}b"), "a\\u{202e}b");
    }

    #[test]
    fn colours_are_for_those_who_see_them() {
        let red = Paint::new().red();
        assert_eq!(Style::PLAIN.paint("x", red), "x");
        assert_eq!(Style { tty: true, colour: true }.paint("x", red), "\u{1b}[31mx\u{1b}[0m");
    }
}
