//! Reads on the way what a call used, however the answer is cut into chunks. It holds a bounded part of the answer, and
//! what it does not understand it lets pass. An answer that is longer than any answer may be ends there.

use omoi_protocol::Vendor;

use super::usage;
use crate::domain::{
    charge::{Ceiling, Told},
    price::Usage,
};

/// A longer line of a stream is not looked at; those that tell of usage are short.
const LINE_BYTES_MAX: usize = 256 * 1024;
/// A longer answer in one piece is not looked at.
const WHOLE_BYTES_MAX: usize = 16 * 1024 * 1024;
const STOP_REASON_CHARS_MAX: usize = 100;
/// Agents do not read a longer event either.
const EVENT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Lines of a stream. An event has two or three, and a token no more than an event of its own.
const LINES_MAX: u64 = 8_000_000;

/// An answer that is longer than it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Excess {
    #[error("it exceeds model.answer_bytes_max ({0} bytes)")]
    Answer(u64),
    #[error("one line of it has more than {0} bytes")]
    Line(usize),
    #[error("it has more than {0} lines")]
    Lines(u64),
}

pub struct Meter {
    vendor: Vendor,
    form: Form,
    /// Of the line, or of the answer, that is not complete.
    held: Vec<u8>,
    /// What is held has grown too long and was let go.
    skipped: bool,
    seen: Told,
    stop_reason: Option<String>,
    /// Of text that the model wrote.
    text_bytes: u64,
    bytes: u64,
    bytes_max: u64,
    lines: u64,
    /// Of the line that is not complete.
    line_bytes: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Server-sent events.
    Stream,
    Whole,
}

/// What a call used, as far as anybody said.
#[derive(Debug, PartialEq, Eq)]
pub struct Reading {
    pub usage: Usage,
    pub estimated: bool,
    pub stop_reason: Option<String>,
}

impl Meter {
    pub fn new(vendor: Vendor, form: Form, bytes_max: usize) -> Self {
        Self {
            vendor,
            form,
            held: Vec::new(),
            skipped: false,
            seen: Told::default(),
            stop_reason: None,
            text_bytes: 0,
            bytes: 0,
            bytes_max: bytes_max as u64,
            lines: 0,
            line_bytes: 0,
        }
    }

    pub fn form(&self) -> Form {
        self.form
    }

    /// Takes the next part of the answer, unless it is one too many.
    pub fn feed(&mut self, chunk: &[u8]) -> Result<(), Excess> {
        self.bytes += chunk.len() as u64;
        if self.bytes > self.bytes_max {
            return Err(Excess::Answer(self.bytes_max));
        }
        match self.form {
            Form::Whole => self.hold(chunk, WHOLE_BYTES_MAX),
            Form::Stream => self.stream(chunk),
        }
        if self.line_bytes > EVENT_BYTES_MAX {
            return Err(Excess::Line(EVENT_BYTES_MAX));
        }
        if self.lines > LINES_MAX {
            return Err(Excess::Lines(LINES_MAX));
        }
        Ok(())
    }

    fn stream(&mut self, mut chunk: &[u8]) {
        while let Some(end) = chunk.iter().position(|byte| *byte == b'\n') {
            let line = &chunk[..end];
            chunk = &chunk[end + 1..];
            self.lines += 1;
            self.line_bytes = 0;
            if self.held.is_empty() && !self.skipped {
                self.line(line);
            } else {
                self.hold(line, LINE_BYTES_MAX);
                let held = std::mem::take(&mut self.held);
                if !std::mem::take(&mut self.skipped) {
                    self.line(&held);
                }
            }
        }
        self.line_bytes += chunk.len();
        self.hold(chunk, LINE_BYTES_MAX);
    }

    /// The end of an answer. A request that was refused used nothing; for the rest, what nobody told, or what cannot be
    /// true, is estimated by the number of bytes.
    pub fn finish(mut self, accepted: bool, ceiling: &Ceiling) -> Reading {
        let held = std::mem::take(&mut self.held);
        match self.form {
            Form::Whole => self.note(&held),
            // The last line may lack its end.
            Form::Stream => self.line(&held),
        }
        let stop_reason = self.stop_reason.take();
        if !accepted {
            return Reading { usage: Usage::default(), estimated: false, stop_reason };
        }
        let text_bytes = if self.form == Form::Whole { self.bytes } else { self.text_bytes };
        let charge = ceiling.charge(&self.seen, text_bytes);
        Reading { usage: charge.usage, estimated: charge.estimated, stop_reason }
    }

    fn hold(&mut self, part: &[u8], max: usize) {
        if self.skipped || self.held.len() + part.len() > max {
            self.skipped = true;
            self.held = Vec::new();
        } else {
            self.held.extend_from_slice(part);
        }
    }

    fn line(&mut self, line: &[u8]) {
        if let Some(data) = line.strip_prefix(b"data:") {
            self.note(data.trim_ascii());
        }
    }

    /// Numbers of a stream are sums so far, so of several the largest counts.
    fn note(&mut self, json: &[u8]) {
        if !json.starts_with(b"{") && !json.trim_ascii_start().starts_with(b"{") {
            return;
        }
        let Some(piece) = usage::told(self.vendor, json) else { return };
        let (sum, new) = (&mut self.seen.usage, piece.told.usage);
        sum.input = sum.input.max(new.input);
        sum.output = sum.output.max(new.output);
        sum.cache_read = sum.cache_read.max(new.cache_read);
        sum.cache_write = sum.cache_write.max(new.cache_write);
        sum.cache_write_long = sum.cache_write_long.max(new.cache_write_long);
        self.seen.input |= piece.told.input;
        self.seen.output |= piece.told.output;
        self.text_bytes += piece.text_bytes;
        let stop = piece.stop_reason.map(|reason| reason.chars().take(STOP_REASON_CHARS_MAX).collect());
        self.stop_reason = stop.or(self.stop_reason.take());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::charge::Output;

    const ANTHROPIC: &str = concat!(
        "event: message_start\n",
        r#"data: {"type":"message_start","message":{"id":"msg","model":"m","stop_reason":null,"usage":{"input_tokens":25,"#,
        r#""cache_creation_input_tokens":40,"cache_creation":{"ephemeral_5m_input_tokens":30,"ephemeral_1h_input_tokens":10},"#,
        r#""cache_read_input_tokens":7,"output_tokens":1}}}"#,
        "\n\n: ping\n\n",
        "event: content_block_delta\r\n",
        r#"data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Grüße \"x\" \n"}}"#,
        "\r\n\r\n",
        r#"data: {"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{\"a\":1}"}}"#,
        "\n\ndata: not json\n\n",
        r#"data:{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":15}}"#,
        "\n\n",
        r#"data: {"type":"message_stop"}"#,
        "\n\n",
    );
    const OPENAI: &str = concat!(
        r#"data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"Hello"}}],"usage":null}"#,
        "\n\n",
        r#"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\""}}]}}]}"#,
        "\n\n",
        r#"data: {"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
        "\n\n",
        r#"data: {"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":60}}}"#,
        "\n\ndata: [DONE]\n\n",
    );

    fn usage(input: u64, output: u64, cache_read: u64, cache_write: u64, cache_write_long: u64) -> Usage {
        Usage { input, output, cache_read, cache_write, cache_write_long }
    }

    const CEILING: Ceiling = Ceiling { request_bytes: 400, output: Output { expected: 1000, max: 1000 } };

    fn meter(vendor: Vendor, form: Form) -> Meter {
        Meter::new(vendor, form, 64 << 20)
    }

    fn read(vendor: Vendor, form: Form, text: &str, accepted: bool) -> Reading {
        let mut meter = meter(vendor, form);
        meter.feed(text.as_bytes()).unwrap();
        meter.finish(accepted, &CEILING)
    }

    fn reading(usage: Usage, estimated: bool, stop: Option<&str>) -> Reading {
        Reading { usage, estimated, stop_reason: stop.map(str::to_owned) }
    }

    #[test]
    fn usage_is_read_in_every_form_that_the_vendors_have() {
        use Vendor::{Anthropic, Openai};
        let message =
            r#"{"type":"message","usage":{"input_tokens":3,"output_tokens":4},"stop_reason":"max_tokens"}"#;
        let completion = r#" {"choices":[{"message":{"content":"hi"},"finish_reason":"length"}],
            "usage":{"prompt_tokens":3,"completion_tokens":4}}"#;
        for (vendor, form, text, expected) in [
            (Anthropic, Form::Stream, ANTHROPIC, reading(usage(25, 15, 7, 40, 10), false, Some("end_turn"))),
            (Openai, Form::Stream, OPENAI, reading(usage(40, 9, 60, 0, 0), false, Some("stop"))),
            (Anthropic, Form::Whole, message, reading(usage(3, 4, 0, 0, 0), false, Some("max_tokens"))),
            (Openai, Form::Whole, completion, reading(usage(3, 4, 0, 0, 0), false, Some("length"))),
        ] {
            assert_eq!(read(vendor, form, text, true), expected);
        }
    }

    #[test]
    fn what_nobody_told_is_guessed_by_the_number_of_bytes() {
        use Vendor::{Anthropic, Openai};
        let cut = &ANTHROPIC[..ANTHROPIC.find("data:{").unwrap()];
        // 13 bytes of text and 7 of arguments.
        assert_eq!(read(Anthropic, Form::Stream, cut, true), reading(usage(25, 5, 7, 40, 10), true, None));
        let cut = &OPENAI[..OPENAI.find("data: {\"choices\":[],").unwrap()];
        assert_eq!(
            read(Openai, Form::Stream, cut, true),
            reading(usage(100, 3, 0, 0, 0), true, Some("stop"))
        );
        assert_eq!(read(Anthropic, Form::Stream, "", true), reading(usage(100, 0, 0, 0, 0), true, None));
        assert_eq!(read(Openai, Form::Whole, "who knows", true), reading(usage(100, 3, 0, 0, 0), true, None));
        let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"later"}}"#;
        assert_eq!(read(Anthropic, Form::Whole, error, false), reading(Usage::default(), false, None));
    }

    #[test]
    fn a_line_without_end_is_let_go_and_the_next_one_is_read() {
        let mut meter = meter(Vendor::Anthropic, Form::Stream);
        meter.feed(b"data: {\"delta\":{\"text\":\"").unwrap();
        for _ in 0..100 {
            meter.feed(&[b'x'; 10_000]).unwrap();
            assert!(meter.held.len() <= LINE_BYTES_MAX);
        }
        meter.feed(b"\"}}\n\n").unwrap();
        meter.feed(ANTHROPIC.as_bytes()).unwrap();
        assert_eq!(meter.finish(true, &CEILING).usage, usage(25, 15, 7, 40, 10));
    }

    #[test]
    fn an_answer_has_a_bound_in_bytes_lines_and_the_length_of_a_line() {
        let fed = |form, bytes_max, chunk: &[u8], times: usize| {
            let mut meter = Meter::new(Vendor::Openai, form, bytes_max);
            let end = (0..times).try_for_each(|_| meter.feed(chunk));
            (end, meter.held.len() <= WHOLE_BYTES_MAX)
        };
        for form in [Form::Stream, Form::Whole] {
            assert_eq!(fed(form, 100, b"data: 4567\n", 9), (Ok(()), true));
            assert_eq!(fed(form, 100, b"data: 4567\n", 10), (Err(Excess::Answer(100)), true));
        }
        let (chunk, lines, endless) = (vec![b'x'; 1 << 20], vec![b'\n'; 1 << 20], 1 << 40);
        assert_eq!(fed(Form::Stream, endless, &chunk, 16), (Ok(()), true));
        assert_eq!(fed(Form::Stream, endless, &chunk, 17), (Err(Excess::Line(EVENT_BYTES_MAX)), true));
        assert_eq!(fed(Form::Stream, endless, &lines, 8), (Err(Excess::Lines(LINES_MAX)), true));
        assert_eq!(fed(Form::Whole, endless, &chunk, 40), (Ok(()), true));
    }

    #[test]
    fn json_that_is_nested_without_end_is_passed_over() {
        for open in ["[", "{\"usage\":", "{\"a\":"] {
            let deep = format!("{{\"choices\":{}", open.repeat(1_000_000));
            assert_eq!(
                read(Vendor::Openai, Form::Whole, &deep, true),
                reading(usage(100, 1000, 0, 0, 0), true, None)
            );
        }
    }

    proptest! {
        #[test]
        fn chunks_may_be_cut_anywhere(cuts in prop::collection::vec(0usize..2000, 0..40)) {
            for (vendor, text) in [(Vendor::Anthropic, ANTHROPIC), (Vendor::Openai, OPENAI)] {
                let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (text.len() + 1)).collect();
                cuts.sort_unstable();
                let mut meter = meter(vendor, Form::Stream);
                let mut from = 0;
                for cut in cuts.into_iter().chain([text.len()]) {
                    meter.feed(&text.as_bytes()[from..cut]).unwrap();
                    from = cut;
                }
                prop_assert_eq!(meter.finish(true, &CEILING), read(vendor, Form::Stream, text, true));
            }
        }

        #[test]
        fn nonsense_never_panics(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..20)) {
            for form in [Form::Stream, Form::Whole] {
                let mut meter = meter(Vendor::Anthropic, form);
                chunks.iter().try_for_each(|chunk| meter.feed(chunk)).unwrap();
                meter.finish(true, &CEILING);
            }
        }
    }
}
