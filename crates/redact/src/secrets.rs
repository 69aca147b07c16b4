//! The secrets that are masked, compiled once. Most texts hold none: one fast pass over the bytes says so, and only a
//! text in which something suspicious was found is taken apart.

use std::{borrow::Cow, fmt, sync::Arc};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use crate::{
    Stream, dump,
    form::{self, Form, MASK},
    shape::{self, Run, Shape},
    unit::{Syntax, Unit, Units, loose},
};

/// A shorter secret would mask ordinary words.
const LEN_MIN: usize = 8;
/// A shorter secret of letters alone may be a word, and one of digits alone a number.
const WORD_MIN: usize = 16;
/// Of an exact secret's forms, pieces of this length are looked for, at this distance. A piece between two line breaks
/// that is no shorter than both together is found.
const PROBE: usize = 8;
const PROBE_STEP: usize = 12;
/// So many characters at the end of a text look like the beginning of a secret. Fewer would hold back ordinary text.
const OPEN_MIN: usize = 4;
/// Escapes of visible characters, which no common program writes into JSON without need.
const ESCAPES: [&str; 6] = ["\\u002", "\\u003", "\\u004", "\\u005", "\\u006", "\\u007"];
/// A long text is taken apart in segments of this many characters, which overlap.
const SEGMENT: usize = 64 * 1024;

/// Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Secrets(Arc<Compiled>);

struct Compiled {
    probes: AhoCorasick,
    /// The first characters of all patterns: a text without any ends with no beginning of a secret.
    openers: AhoCorasick,
    /// All forms of exact secrets, then the prefixes of the shapes.
    patterns: AhoCorasick,
    pub exact: Vec<Form>,
    pub shapes: Vec<Shape>,
    /// The most characters that a match has.
    pub longest: usize,
}

/// Whether more of a text may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    Whole,
    /// A token that begins here or later may go on in what follows.
    OpenFrom(usize),
}

impl Reach {
    fn is_open(self, first: &Unit) -> bool {
        matches!(self, Self::OpenFrom(open) if first.start >= open)
    }
}

/// Whether a secret can be masked without masking ordinary words.
pub fn is_maskable(secret: &str) -> bool {
    let is_word = secret.chars().all(char::is_alphabetic) || secret.bytes().all(|byte| byte.is_ascii_digit());
    secret.len() >= LEN_MIN && (secret.len() >= WORD_MIN || !is_word)
}

impl Secrets {
    /// Leaves out what is not [maskable](is_maskable). Tokens are recognised in any case.
    pub fn new<S: AsRef<str>>(secrets: impl IntoIterator<Item = S>) -> Self {
        let (mut exact, mut probes) = (Vec::new(), Vec::new());
        for secret in secrets {
            let secret = secret.as_ref();
            if !is_maskable(secret) {
                continue;
            }
            let bytes = secret.as_bytes();
            let forms = form::all(bytes);
            probes.extend(forms.iter().flat_map(|form| pieces(&form.text)));
            for upper in [false, true] {
                let every = form::percent(bytes, upper, true);
                probes.extend(form::hex_probes(&form::hex(bytes, upper)));
                probes.push(every[..PROBE * 3].to_vec());
                probes.extend(pieces(&form::percent(bytes, upper, false)));
            }
            exact.extend(forms);
        }
        exact.sort_by(|one: &Form, other| one.text.cmp(&other.text));
        exact.dedup_by(|one, other| one.text == other.text);
        let shapes = shape::all();
        probes.extend(shapes.iter().flat_map(Shape::probes));
        probes.extend([b"%6F%6D%6F%69".to_vec(), b"%6f%6d%6f%69".to_vec()]);
        probes.extend(ESCAPES.map(|escape| escape.as_bytes().to_vec()));
        probes.sort();
        probes.dedup();
        let all = || exact.iter().map(|form| &form.text).chain(shapes.iter().map(|shape| &shape.prefix));
        let longest_exact = exact.iter().map(|form| form.text.len()).max().unwrap_or_default();
        let longest_shape = shapes.iter().map(|shape| shape.mask.len()).max().unwrap_or_default();
        let mut openers: Vec<&[u8]> = all().map(|text| &text[..OPEN_MIN]).collect();
        openers.sort_unstable();
        openers.dedup();
        Self(Arc::new(Compiled {
            probes: compiled(&probes, MatchKind::Standard),
            openers: compiled(&openers, MatchKind::Standard),
            patterns: compiled(&all().collect::<Vec<&Vec<u8>>>(), MatchKind::LeftmostLongest),
            longest: longest_exact.max(longest_shape),
            exact,
            shapes,
        }))
    }

    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.bytes(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            Cow::Owned(clean) => match String::from_utf8(clean) {
                Ok(clean) => Cow::Owned(clean),
                Err(broken) => Cow::Owned(String::from_utf8_lossy(broken.as_bytes()).into_owned()),
            },
        }
    }

    pub fn owned(&self, text: String) -> String {
        match self.text(&text) {
            Cow::Borrowed(_) => text,
            Cow::Owned(clean) => clean,
        }
    }

    pub fn bytes<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        self.masked(text, Syntax::Text, Reach::Whole)
    }

    /// Masks inside the strings of a JSON text, which stays valid. Several JSON texts may follow each other.
    pub fn json<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        self.masked(text, Syntax::Json, Reach::Whole)
    }

    pub fn owned_json(&self, text: String) -> String {
        match self.json(text.as_bytes()) {
            Cow::Borrowed(_) => text,
            // A mask is ASCII and covers whole characters.
            Cow::Owned(clean) => String::from_utf8_lossy(&clean).into_owned(),
        }
    }

    pub fn stream(&self) -> Stream {
        Stream::new(self.clone())
    }

    pub(crate) fn may_hold(&self, text: &[u8]) -> bool {
        self.0.probes.is_match(text)
    }

    pub(crate) fn masked<'a>(&self, text: &'a [u8], syntax: Syntax, reach: Reach) -> Cow<'a, [u8]> {
        if !self.may_hold(text) {
            return Cow::Borrowed(text);
        }
        let mut clean = Cow::Borrowed(text);
        let overlap = self.0.longest * 8;
        let mut units = Vec::new();
        for unit in Units::new(text, syntax) {
            units.push(unit);
            if units.len() >= SEGMENT + overlap {
                self.0.mask(&units, Reach::OpenFrom(usize::MAX), &mut clean);
                units.drain(..SEGMENT);
            }
        }
        self.0.mask(&units, reach, &mut clean);
        clean
    }

    /// Where a secret may have begun whose end has not come yet, at the end of `text`.
    pub(crate) fn open_at(&self, text: &[u8]) -> usize {
        let compiled = &*self.0;
        let from = text.len().saturating_sub(compiled.longest * 4);
        let tail = &text[from..];
        let squeezed: Vec<u8> = tail.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
        let is_escaped = || tail.iter().any(|byte| b"\\%".contains(byte));
        if !(compiled.openers.is_match(tail) || compiled.openers.is_match(&squeezed) || is_escaped()) {
            return text.len();
        }
        let units: Vec<Unit> = Units::new(tail, Syntax::Text).collect();
        let strict = compiled.open(&units, OPEN_MIN);
        // Behind a line break, a few characters are no sign of a secret.
        let loose = compiled.open(&loose(&units), PROBE);
        strict.into_iter().chain(loose).min().map_or(text.len(), |at| from + at)
    }
}

impl Compiled {
    fn mask(&self, units: &[Unit], reach: Reach, clean: &mut Cow<'_, [u8]>) {
        self.mask_in(units, reach, clean);
        self.mask_in(&loose(units), reach, clean);
        if let Some(columns) = dump::columns(units) {
            self.mask_in(&columns.hex, reach, clean);
            self.mask_in(&columns.characters, reach, clean);
        }
    }

    fn mask_in(&self, units: &[Unit], reach: Reach, clean: &mut Cow<'_, [u8]>) {
        let bytes: Vec<u8> = units.iter().map(|unit| unit.byte).collect();
        for found in self.patterns.find_iter(&bytes) {
            let pattern = found.pattern().as_usize();
            let (from, end, mask) = match self.shape(pattern) {
                None => (found.start(), found.end(), &self.exact[pattern].mask),
                Some(_) if reach.is_open(&units[found.start()]) => continue,
                Some(shape) => match shape.judge(&units[found.end()..], reach != Reach::Whole) {
                    Run::Token(run) if shape.shows_prefix() => (found.end(), found.end() + run, &shape.mask),
                    Run::Token(run) => (found.start(), found.end() + run, &shape.mask),
                    Run::Open | Run::Other => continue,
                },
            };
            let clean = clean.to_mut();
            for (unit, mask) in units[from..end].iter().zip(mask) {
                match &mut clean[unit.start..unit.end] {
                    [byte] => *byte = *mask,
                    escaped => escaped.fill(MASK),
                }
            }
        }
    }

    fn shape(&self, pattern: usize) -> Option<&Shape> {
        self.shapes.get(pattern.checked_sub(self.exact.len())?)
    }

    /// Where the first match begins that needs more than there is, if it has at least `len_min` characters.
    fn open(&self, units: &[Unit], len_min: usize) -> Option<usize> {
        let bytes: Vec<u8> = units.iter().map(|unit| unit.byte).collect();
        let is_open = |from: usize| {
            let tail = &bytes[from..];
            self.exact.iter().any(|form| form.text.len() > tail.len() && form.text.starts_with(tail))
                || self.shapes.iter().any(|shape| match tail.strip_prefix(shape.prefix.as_slice()) {
                    Some(_) => matches!(shape.judge(&units[from + shape.prefix.len()..], true), Run::Open),
                    None => shape.prefix.starts_with(tail),
                })
        };
        let last = (bytes.len() + 1).checked_sub(len_min)?;
        (bytes.len().saturating_sub(self.longest)..last.min(bytes.len()))
            .find(|from| is_open(*from))
            .map(|from| units[from].start)
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}

/// Pieces of a form of which one shows up whole between line breaks.
fn pieces(form: &[u8]) -> Vec<Vec<u8>> {
    if form.len() <= PROBE {
        return vec![form.to_vec()];
    }
    let last = form.len() - PROBE;
    (0..last).step_by(PROBE_STEP).chain([last]).map(|at| form[at..at + PROBE].to_vec()).collect()
}

fn compiled<P: AsRef<[u8]>>(patterns: &[P], kind: MatchKind) -> AhoCorasick {
    AhoCorasick::builder()
        .kind(Some(AhoCorasickKind::DFA))
        .match_kind(kind)
        .build(patterns)
        .expect("secrets are few and short, so the automaton is small")
}
