//! The most that one model call can be charged for. Figures of a vendor beyond it are not believed, and what no vendor
//! told is estimated within what admission has reserved, so that no answer is booked at more than its request can cost.

use super::price::{Usage, tokens_of};

/// No model reads a longer prompt.
const INPUT_MAX: u64 = 10_000_000;
/// No model writes a longer answer.
const OUTPUT_MAX: u64 = 1_000_000;
/// What an answer is expected to have at most where its request does not bound it.
const OUTPUT_DEFAULT: u64 = 16_384;
/// No request gets more in all its answers together.
const OUTPUT_SUM_MAX: u64 = 10_000_000;

/// What is known of a call before it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ceiling {
    pub request_bytes: u64,
    pub output: Output,
}

/// Tokens of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Output {
    /// What admission reserves.
    pub expected: u64,
    /// What the vendor may write: the request's own bound, or that of any model.
    pub max: u64,
}

/// Tokens as a vendor told them; what it did not tell is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Told {
    pub usage: Usage,
    pub input: bool,
    pub output: bool,
}

/// Tokens as they are booked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Charge {
    pub usage: Usage,
    /// Some of the tokens are a guess.
    pub estimated: bool,
}

impl Output {
    /// Of a request that bounds each answer, and says how many answers it wants.
    pub fn asked(each: Option<u64>, answers: Option<u64>) -> Self {
        let sum =
            |each: u64| each.min(OUTPUT_MAX).saturating_mul(answers.unwrap_or(1).max(1)).min(OUTPUT_SUM_MAX);
        Self { expected: sum(each.unwrap_or(OUTPUT_DEFAULT)), max: sum(each.unwrap_or(OUTPUT_MAX)) }
    }

    pub fn bounded(tokens: u64) -> Self {
        Self::asked(Some(tokens), None)
    }
}

impl Ceiling {
    /// Of what costs nothing.
    pub const FREE: Self = Self { request_bytes: 0, output: Output { expected: 0, max: 0 } };

    /// Tokens to book for an answer that held so many bytes of text. A figure that cannot be true counts as not told.
    pub fn charge(&self, told: &Told, text_bytes: u64) -> Charge {
        let (mut usage, mut estimated) = (told.usage, false);
        let prompt = [usage.input, usage.cache_read, usage.cache_write];
        let prompt = prompt.into_iter().fold(0, u64::saturating_add);
        if !told.input || prompt > INPUT_MAX {
            let cached = if prompt > INPUT_MAX { Usage::default() } else { usage };
            usage = Usage { input: tokens_of(self.request_bytes), output: usage.output, ..cached };
            estimated = true;
        }
        let is_possible = usage.output <= self.output.max;
        if !told.output || !is_possible {
            let so_far = if is_possible { usage.output } else { 0 };
            usage.output = so_far.max(tokens_of(text_bytes)).min(self.output.expected);
            estimated = true;
        }
        usage.cache_write_long = usage.cache_write_long.min(usage.cache_write);
        Charge { usage, estimated }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::{money::Usd, price::Prices};

    fn usage(input: u64, output: u64, cache_read: u64, cache_write: u64) -> Usage {
        Usage { input, output, cache_read, cache_write, cache_write_long: 0 }
    }

    #[test]
    fn a_request_bounds_its_answer_and_no_model_writes_without_end() {
        let outputs = |each, answers| {
            let output = Output::asked(each, answers);
            (output.expected, output.max)
        };
        assert_eq!(outputs(None, None), (16_384, 1_000_000));
        assert_eq!(outputs(Some(7), None), (7, 7));
        assert_eq!(outputs(Some(7), Some(3)), (21, 21));
        assert_eq!(outputs(None, Some(0)), (16_384, 1_000_000));
        assert_eq!(outputs(Some(u64::MAX), Some(u64::MAX)), (10_000_000, 10_000_000));
    }

    #[test]
    fn what_cannot_be_true_is_not_booked() {
        let ceiling = Ceiling { request_bytes: 400, output: Output::bounded(1000) };
        let told = |usage| Told { usage, input: true, output: true };
        for (what, told, text_bytes, booked, estimated) in [
            ("all told", told(usage(5, 6, 7, 8)), 9_000_000, usage(5, 6, 7, 8), false),
            ("as long as it may be", told(usage(5, 1000, 0, 0)), 0, usage(5, 1000, 0, 0), false),
            ("longer than it may be", told(usage(5, 1001, 0, 0)), 80, usage(5, 20, 0, 0), true),
            ("a prompt of any model", told(usage(INPUT_MAX, 6, 0, 0)), 0, usage(INPUT_MAX, 6, 0, 0), false),
            ("a prompt of none", told(usage(INPUT_MAX, 6, 0, 1)), 0, usage(100, 6, 0, 0), true),
            (
                "figures that overflow",
                told(usage(u64::MAX, u64::MAX, u64::MAX, 1)),
                80,
                usage(100, 20, 0, 0),
                true,
            ),
            ("nothing told", Told::default(), 2_000_000_000, usage(100, 1000, 0, 0), true),
            ("a little text", Told::default(), 10, usage(100, 3, 0, 0), true),
            ("output alone", Told { input: false, ..told(usage(0, 6, 7, 8)) }, 0, usage(100, 6, 7, 8), true),
            ("a beginning", Told { output: false, ..told(usage(5, 1, 7, 8)) }, 40, usage(5, 10, 7, 8), true),
        ] {
            assert_eq!(ceiling.charge(&told, text_bytes), Charge { usage: booked, estimated }, "{what}");
        }
    }

    proptest! {
        #[test]
        fn an_estimate_costs_no_more_than_was_reserved(
            request_bytes in 0..u64::MAX / 4, each: Option<u64>, answers: Option<u64>, text_bytes: u64
        ) {
            let ceiling = Ceiling { request_bytes, output: Output::asked(each, answers) };
            for model in ["claude-sonnet-4-5", "gpt-5", "nobody-knows"] {
                let (price, _) = Prices::new(&[]).of(model);
                let charge = ceiling.charge(&Told::default(), text_bytes);
                let reserved = price.reserve(request_bytes, ceiling.output.expected);
                prop_assert!(charge.estimated && price.cost(&charge.usage) <= reserved);
            }
        }

        #[test]
        fn whatever_a_vendor_says_the_cost_has_a_bound(
            input: u64, output: u64, cache_read: u64, cache_write: u64, cache_write_long: u64, text_bytes: u64,
            told_input: bool, told_output: bool,
        ) {
            let ceiling = Ceiling { request_bytes: 1000, output: Output::bounded(1000) };
            let usage = Usage { input, output, cache_read, cache_write, cache_write_long };
            let told = Told { usage, input: told_input, output: told_output };
            let (price, _) = Prices::new(&["m=1/10/1/1".parse().unwrap()]).of("m");
            // Ten million tokens of input, all cached for long, and a thousand of output.
            let most: Usd = "16.01".parse().unwrap();
            prop_assert!(price.cost(&ceiling.charge(&told, text_bytes).usage) <= most);
        }
    }
}
