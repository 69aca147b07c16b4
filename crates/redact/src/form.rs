//! The encodings in which a secret may appear.

use base64::{
    Engine,
    engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};

/// Digits in a piece of hex that is looked for, and the distance between the beginnings of two pieces.
const HEX_PROBE: usize = 8;
const HEX_PROBE_STEP: usize = 12;

/// What a masked text reads once it is decoded.
pub const MASK: u8 = b'*';

/// The characters of a base64 text that depend on `bytes` alone, when `before` other bytes are encoded ahead of them.
pub fn base64_core(bytes: &[u8], before: usize, engine: &impl Engine) -> Vec<u8> {
    let mut padded = vec![0; before];
    padded.extend_from_slice(bytes);
    let text = engine.encode(&padded).into_bytes();
    let first = (before * 8).div_ceil(6);
    let end = padded.len() * 8 / 6;
    text[first.min(end)..end].to_vec()
}

/// A secret in one encoding, and its mask: of the same length, and a valid text of the same encoding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Form {
    pub text: Vec<u8>,
    pub mask: Vec<u8>,
}

/// Every form of a secret, without repetition. Percent-encoding and JSON escapes are undone before the search.
pub fn all(secret: &[u8]) -> Vec<Form> {
    let stars = vec![MASK; secret.len()];
    let escaped = json(secret);
    let mut forms = vec![
        Form { mask: stars.clone(), text: secret.to_vec() },
        Form { mask: vec![MASK; escaped.len()], text: escaped },
        Form { mask: hex(&stars, false), text: hex(secret, false) },
        Form { mask: hex(&stars, true), text: hex(secret, true) },
    ];
    for before in 0..3 {
        for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
            let mask = base64_core(&stars, before, engine);
            forms.push(Form { text: base64_core(secret, before, engine), mask });
        }
    }
    forms.sort_by(|one, other| one.text.cmp(&other.text));
    forms.dedup_by(|one, other| one.text == other.text);
    forms
}

pub fn hex(bytes: &[u8], upper: bool) -> Vec<u8> {
    let digits = if upper { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
    bytes.iter().flat_map(|byte| [digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]]).collect()
}

/// Pieces of a hex text, as programs group its digits. One of them shows up whole wherever a line break falls.
pub fn hex_probes(text: &[u8]) -> Vec<Vec<u8>> {
    let last = text.len() - HEX_PROBE;
    let grouped = |at: usize| {
        let digits = &text[at..at + HEX_PROBE];
        let by = |lengths: &[usize]| {
            let mut rest = digits;
            let groups = lengths.iter().map(|length| rest.split_off(..*length).unwrap_or_default());
            groups.collect::<Vec<_>>().join(&b' ')
        };
        [digits.to_vec(), by(&[2, 2, 2, 2]), by(&[4, 4]), by(&[2, 4, 2])]
    };
    (0..last).step_by(HEX_PROBE_STEP).chain([last]).flat_map(grouped).collect()
}

/// Percent-encoding, of every byte or of the reserved ones alone.
pub fn percent(bytes: &[u8], upper: bool, every: bool) -> Vec<u8> {
    let mut text = Vec::new();
    for byte in bytes {
        if !every && (byte.is_ascii_alphanumeric() || b"-._~".contains(byte)) {
            text.push(*byte);
        } else {
            text.push(b'%');
            text.extend(hex(&[*byte], upper));
        }
    }
    text
}

/// The inside of a JSON string, for JSON that stands inside another text.
fn json(bytes: &[u8]) -> Vec<u8> {
    bytes
        .iter()
        .flat_map(|byte| if b"\"\\".contains(byte) { vec![b'\\', *byte] } else { vec![*byte] })
        .collect()
}
