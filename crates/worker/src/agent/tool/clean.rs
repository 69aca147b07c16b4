//! What a program writes for a terminal, as text for a model: without colours, cursor movements and other control
//! characters, and no longer than can be read.

/// Ends a string for the terminal that nobody has ended.
const STRING_CHARS_MAX: usize = 4096;

/// Bytes as the lines that a terminal would show.
pub fn clean(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut shown = String::with_capacity(text.len());
    // Where the line begins, and whether the next character begins it anew.
    let (mut line, mut returned) = (0, false);
    let mut rest = text.chars();
    while let Some(next) = rest.next() {
        match next {
            '\u{1b}' => skip_escape(&mut rest),
            '\n' => {
                shown.push('\n');
                (line, returned) = (shown.len(), false);
            }
            '\r' => returned = true,
            '\u{8}' if shown.len() > line => drop(shown.pop()),
            '\t' => shown.push('\t'),
            control if control.is_control() => {}
            character => {
                if std::mem::take(&mut returned) {
                    shown.truncate(line);
                }
                shown.push(character);
            }
        }
    }
    shown
}

/// The beginning and the end of what is longer than `chars_max`, with `note` of the number of characters left out.
pub fn cut_middle(text: &str, chars_max: usize, note: impl Fn(usize) -> String) -> Option<String> {
    // Bytes are never fewer than characters.
    if text.len() <= chars_max {
        return None;
    }
    let count = text.chars().count();
    let (head, tail) = (chars_max / 2, chars_max - chars_max / 2);
    let left_out = count.checked_sub(chars_max).filter(|left_out| *left_out > 0)?;
    let at = |number: usize| text.char_indices().nth(number).map_or(text.len(), |(at, _)| at);
    let (first, last) = (&text[..at(head)], &text[at(count - tail)..]);
    Some(format!("{first}\n{}\n{last}", note(left_out)))
}

/// The beginning and the end, within `bytes_max`.
pub fn shorten(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let half = bytes_max.saturating_sub(8) / 2;
    let (head, tail) = (text.floor_char_boundary(half), text.ceil_char_boundary(text.len() - half));
    format!("{}\n…\n{}", &text[..head], &text[tail..])
}

/// What follows an escape character: a sequence, a string, or a single character.
fn skip_escape(rest: &mut std::str::Chars<'_>) {
    let mut ahead = rest.clone();
    match ahead.next() {
        Some('[') => {
            *rest = ahead;
            skip_while(rest, |next| ('\u{20}'..='\u{3f}').contains(&next));
            skip_if(rest, |next| ('\u{40}'..='\u{7e}').contains(&next));
        }
        Some(']' | 'P' | 'X' | '^' | '_') => {
            *rest = ahead;
            skip_string(rest);
        }
        Some('\u{20}'..='\u{7e}') => {
            skip_while(rest, |next| ('\u{20}'..='\u{2f}').contains(&next));
            skip_if(rest, |next| ('\u{30}'..='\u{7e}').contains(&next));
        }
        _ => {}
    }
}

/// To the bell or the escape sequence that ends it; one without an end does not swallow what follows its line.
fn skip_string(rest: &mut std::str::Chars<'_>) {
    for _ in 0..STRING_CHARS_MAX {
        let mut ahead = rest.clone();
        match ahead.next() {
            None | Some('\n') => return,
            Some('\u{7}') => {
                *rest = ahead;
                return;
            }
            Some('\u{1b}') => {
                if ahead.next() == Some('\\') {
                    *rest = ahead;
                }
                return;
            }
            Some(_) => *rest = ahead,
        }
    }
}

fn skip_while(rest: &mut std::str::Chars<'_>, wanted: impl Fn(char) -> bool + Copy) {
    while skip_if(rest, wanted) {}
}

fn skip_if(rest: &mut std::str::Chars<'_>, wanted: impl Fn(char) -> bool) -> bool {
    let mut ahead = rest.clone();
    let skips = ahead.next().is_some_and(wanted);
    if skips {
        *rest = ahead;
    }
    skips
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_reads_what_a_person_sees() {
        for (bytes, expected) in [
            (&b"a\tb\n\nc"[..], "a\tb\n\nc"),
            (b"\x1b[1;31mred\x1b[0m \x1b[38;5;9mmore\x1b[K", "red more"),
            (b"\x1b]0;title\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "alink"),
            (b"\x1bPq...\x1b\\a\x1b(Bb\x1b=c\x1b", "abc"),
            (b"\x1b]never ended\nnext", "\nnext"),
            (b"10%\r50%\r100%\ndone\r\n", "100%\ndone\n"),
            (b"kept\r", "kept"),
            (b"N\x08NA\x08AME\n\x08x", "NAME\nx"),
            (b"a\0b\x07c\x0bd\x7fe\xc2\x85f", "abcdef"),
            (b"\xff\xfeok \xe2\x82\xac", "\u{fffd}\u{fffd}ok €"),
            (b"\x1b[", ""),
            (b"\x1b\xc3\xbc", "ü"),
        ] {
            assert_eq!(clean(bytes), expected, "{:?}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn the_middle_goes_first() {
        let note = |left_out| format!("[{left_out}]");
        assert_eq!(cut_middle("üüüü", 4, note), None);
        assert_eq!(cut_middle("abcdefgü", 4, note).as_deref(), Some("ab\n[4]\ngü"));
        let short = shorten(&"ü".repeat(1000), 100);
        assert!(short.len() <= 100 && short.starts_with('ü') && short.ends_with('ü'));
    }
}
