//! Omoi's own tokens: a prefix that tells whose token it is, and 43 random characters. They are recognised by the
//! prefix, in clear text and encoded.

use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::{
    form::{MASK, base64_core, hex, hex_probes},
    unit::{SEPARATOR, Unit},
};

const PREFIXES: [&str; 3] = ["omoi_sbx_", "omoi_op_", "omoi_ses_"];
/// Characters after the prefix: 32 random bytes in base64.
const RANDOM: usize = 43;
/// A shorter run after a prefix is a word such as `omoi_op_create`, unless the text was cut off there.
const RUN_MIN: usize = 16;
const CUT_RUN_MIN: usize = 8;
/// Line breaks in a token in clear text, as `fold` puts them. Words of ordinary text are shorter than its lines.
const FOLDS_MAX: usize = 3;
/// After an encoded prefix, which hardly occurs by chance; a next line must be more than a word.
const ENCODED_RUN_MIN: usize = 4;
const ENCODED_LINE_MIN: usize = 16;

/// How the prefix is found in a text, and which characters belong to the token behind it.
pub struct Shape {
    pub prefix: Vec<u8>,
    /// The most characters that follow the prefix.
    pub rest: usize,
    /// What covers the prefix and all that may follow it.
    pub mask: Vec<u8>,
    encoding: Encoding,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Plain,
    Base64,
    Hex,
}

/// What follows a prefix.
pub enum Run {
    /// A token, with this many characters behind the prefix.
    Token(usize),
    /// The text ends before it is certain.
    Open,
    Other,
}

pub fn all() -> Vec<Shape> {
    let mut shapes = Vec::new();
    for prefix in PREFIXES {
        let bytes = prefix.as_bytes();
        let stars = vec![MASK; bytes.len() + RANDOM];
        shapes.push(Shape::new(bytes.to_vec(), stars.clone(), Encoding::Plain));
        for upper in [false, true] {
            shapes.push(Shape::new(hex(bytes, upper), hex(&stars, upper), Encoding::Hex));
        }
        for before in 0..3 {
            let mask = base64_core(&stars, before, &URL_SAFE_NO_PAD);
            shapes.push(Shape::new(base64_core(bytes, before, &URL_SAFE_NO_PAD), mask, Encoding::Base64));
        }
    }
    shapes
}

impl Shape {
    fn new(prefix: Vec<u8>, mask: Vec<u8>, encoding: Encoding) -> Self {
        Self { rest: mask.len() - prefix.len(), prefix, mask, encoding }
    }

    /// Pieces of the prefix that show up even when a line break falls into it.
    pub fn probes(&self) -> Vec<Vec<u8>> {
        match self.encoding {
            Encoding::Plain => vec![self.prefix.clone()],
            Encoding::Base64 => {
                vec![self.prefix[..6].to_vec(), self.prefix[self.prefix.len() - 6..].to_vec()]
            }
            Encoding::Hex => hex_probes(&self.prefix),
        }
    }

    /// Whether the prefix stays readable, so that a reader sees what was masked.
    pub fn shows_prefix(&self) -> bool {
        self.encoding == Encoding::Plain
    }

    /// Judges what stands behind the prefix; `more` says whether further text may still arrive. A line break ends a token
    /// in clear text, as the next line is usually other text, unless the lines together are a token of full length.
    pub fn judge(&self, units: &[Unit], more: bool) -> Run {
        let is_plain = self.encoding == Encoding::Plain;
        if is_plain {
            match self.folded(units, more) {
                Run::Other => {}
                folded => return folded,
            }
        }
        let belongs = |unit: &&Unit| self.continues(unit.byte) && !(is_plain && unit.is_joined);
        let run = units.iter().take(self.rest).take_while(belongs).count();
        let is_cut = units.get(run).is_none_or(|unit| unit.byte == SEPARATOR);
        if run < self.rest && run == units.len() && more {
            return Run::Open;
        }
        let is_token = match self.encoding {
            Encoding::Plain => {
                let has = |is: fn(&u8) -> bool| units[..run].iter().any(|unit| is(&unit.byte));
                // A name such as `omoi_ses_cleanup_2026` has no capitals.
                let is_random =
                    has(u8::is_ascii_uppercase) && (is_cut || run == self.rest || has(u8::is_ascii_digit));
                (run >= RUN_MIN || is_cut && run >= CUT_RUN_MIN) && is_random
            }
            Encoding::Base64 => {
                let line =
                    |units: &[Unit]| units.iter().skip(1).take_while(|unit| !unit.is_joined).count() + 1;
                let begins_here = units.first().is_some_and(|unit| !unit.is_joined);
                let line_min = if begins_here { ENCODED_RUN_MIN } else { ENCODED_LINE_MIN };
                line(&units[..run]) >= line_min
            }
            Encoding::Hex => run >= ENCODED_RUN_MIN,
        };
        if is_token { Run::Token(run) } else { Run::Other }
    }

    /// Whether a token in clear text stands here that is broken over several lines.
    fn folded(&self, units: &[Unit], more: bool) -> Run {
        let mut folds = 0;
        let mut run = 0;
        for unit in units {
            let is_over = !self.continues(unit.byte) || unit.is_joined && run == self.rest;
            if is_over {
                return if folds > 0 && self.is_whole(&units[..run]) { Run::Token(run) } else { Run::Other };
            }
            folds += usize::from(unit.is_joined);
            if folds > FOLDS_MAX || run == self.rest {
                return Run::Other;
            }
            run += 1;
        }
        match folds > 0 {
            true if more => Run::Open,
            true if self.is_whole(units) => Run::Token(run),
            _ => Run::Other,
        }
    }

    fn is_whole(&self, run: &[Unit]) -> bool {
        let has = |is: fn(&u8) -> bool| run.iter().any(|unit| is(&unit.byte));
        run.len() == self.rest && has(u8::is_ascii_uppercase) && has(u8::is_ascii_digit)
    }

    fn continues(&self, byte: u8) -> bool {
        match self.encoding {
            Encoding::Plain => byte.is_ascii_alphanumeric() || b"-_".contains(&byte),
            Encoding::Base64 => byte.is_ascii_alphanumeric() || b"+/-_".contains(&byte),
            Encoding::Hex => byte.is_ascii_hexdigit(),
        }
    }
}
