//! What model calls cost: tokens by kind, a price for each kind, and which price a model's name stands for.

use std::{fmt, str::FromStr};

use super::money::Usd;

/// List prices, the first match counts. Where a vendor has tiers for one model, the dearer stands here, so that a
/// budget is not overshot.
const KNOWN: &str = "\
scripted/*=0/0, \
*fable-5-1*=10/50/0.25/12.5, *mythos-5-1*=10/50/0.25/12.5, *fable-5*=10/50/1/12.5, *mythos-5*=10/50/1/12.5, \
*opus-5-5*=4/20/0.2/5, *opus-5*=5/25/0.5/6.25, *opus-4-5*=5/25/0.5/6.25, *opus-4-6*=5/25/0.5/6.25, \
*opus-4-7*=5/25/0.5/6.25, *opus-4-8*=5/25/0.5/6.25, *claude-opus-4*=15/75/1.5/18.75, *claude-3-opus*=15/75/1.5/18.75, \
*sonnet-5*=2/10/0.2/2.5, *claude-sonnet-4*=3/15/0.3/3.75, *claude-3-7-sonnet*=3/15/0.3/3.75, \
*claude-3-5-sonnet*=3/15/0.3/3.75, *haiku-5-5*=0.5/2.5/0.05/0.625, *haiku-4-5*=1/5/0.1/1.25, \
*claude-3-5-haiku*=0.8/4/0.08/1, *claude-3-haiku*=0.25/1.25/0.03/0.3, \
*gpt-6-sol*=2/10/0.2/2.5, *gpt-6-luna*=0.1/0.5/0.01/0.125, *gpt-5.6-sol*=5/30/0.5, *gpt-5.6-terra*=2.5/15/0.25, \
*gpt-5.6-luna*=1/6/0.1, *gpt-5.5-pro*=30/180/30, *gpt-5.5*=5/30/0.5, *gpt-5.4-pro*=30/180/30, \
*gpt-5.4-mini*=0.75/4.5/0.075, *gpt-5.4-nano*=0.2/1.25/0.02, *gpt-5.4*=2.5/15/0.25, *gpt-5.2-pro*=21/168/21, \
*gpt-5.2*=1.75/14/0.175, *gpt-5-pro*=15/120/15, *gpt-5-mini*=0.25/2/0.025, *gpt-5-nano*=0.05/0.4/0.005, \
*gpt-5*=1.25/10/0.125, *gpt-4.1-mini*=0.4/1.6/0.1, *gpt-4.1-nano*=0.1/0.4/0.025, *gpt-4.1*=2/8/0.5, \
*gpt-4o-mini*=0.15/0.6/0.075, *gpt-4o*=2.5/10/1.25, *o4-mini*=1.1/4.4/0.275, *o3-mini*=1.1/4.4/0.55, o3*=2/8/0.5";

/// A rough but steady measure for text whose tokens nobody has counted.
const BYTES_PER_TOKEN: u64 = 4;

/// Tokens of one call. The kinds do not overlap, but for the last, which is a part of `cache_write`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    /// Kept for an hour in place of five minutes, at a higher price.
    pub cache_write_long: u64,
}

/// In millionths of a USD per million tokens, which is also a trillionth of a USD per token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
}

/// Whether a price is a model's own, or was taken for want of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Known,
    /// The dearest price there is.
    Guessed,
}

/// One line of the table, written `PATTERN=INPUT/OUTPUT[/CACHE_READ[/CACHE_WRITE]]` in USD per million tokens. A `*`
/// in the pattern stands for any text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tariff {
    pattern: String,
    price: Price,
}

#[derive(Debug, Clone)]
pub struct Prices(Vec<Tariff>);

impl Usage {
    /// What so many bytes of request come to, when nobody has counted them.
    pub fn of_request(bytes: u64) -> Self {
        Self { input: tokens_of(bytes), ..Self::default() }
    }
}

/// Roughly how many tokens so much text is.
pub fn tokens_of(bytes: u64) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN)
}

impl Price {
    /// Rounded up to the next nano-USD.
    pub fn cost(&self, usage: &Usage) -> Usd {
        let times = |tokens: u64, price: u64| u128::from(tokens) * u128::from(price);
        let long = usage.cache_write_long.min(usage.cache_write);
        let trillionths = times(usage.input, self.input)
            + times(usage.output, self.output)
            + times(usage.cache_read, self.cache_read)
            + times(usage.cache_write - long, self.cache_write)
            // Twice the price of input, where the short-lived kind costs five quarters of it.
            + times(long, self.cache_write) * 8 / 5;
        let nanos = i64::try_from(trillionths.div_ceil(1000)).unwrap_or(i64::MAX);
        Usd::from_nanos(nanos).min(Usd::MAX)
    }

    /// What a call may come to at most, as far as can be said beforehand.
    pub fn reserve(&self, request_bytes: u64, output_max: u64) -> Usd {
        let dear = Self { input: self.input.max(self.cache_write), ..*self };
        dear.cost(&Usage { output: output_max, ..Usage::of_request(request_bytes) })
    }
}

impl Prices {
    /// The list prices, behind those that somebody has set.
    pub fn new(set: &[Tariff]) -> Self {
        let known = KNOWN.split(',').filter_map(|line| line.trim().parse().ok());
        Self(set.iter().cloned().chain(known).collect())
    }

    pub fn of(&self, model: &str) -> (Price, Source) {
        if let Some(tariff) = self.0.iter().find(|tariff| fits(&tariff.pattern, model)) {
            return (tariff.price, Source::Known);
        }
        let dearest =
            self.0.iter().map(|tariff| tariff.price).max_by_key(|price| (price.output, price.input));
        let nothing = Price { input: 0, output: 0, cache_read: 0, cache_write: 0 };
        (dearest.unwrap_or(nothing), Source::Guessed)
    }
}

impl FromStr for Tariff {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (pattern, prices) = text.split_once('=').ok_or(())?;
        let (pattern, parts) =
            (pattern.trim(), prices.split('/').map(per_million).collect::<Option<Vec<_>>>());
        let price = match parts.as_deref() {
            Some([input, output]) => [*input, *output, *input, *input],
            Some([input, output, read]) => [*input, *output, *read, *input],
            Some([input, output, read, write]) => [*input, *output, *read, *write],
            _ => return Err(()),
        };
        let plain = !pattern.is_empty() && pattern.chars().all(|c| c.is_ascii_graphic() && c != '=');
        let [input, output, cache_read, cache_write] = price;
        let price = Price { input, output, cache_read, cache_write };
        plain.then(|| Self { pattern: pattern.to_ascii_lowercase(), price }).ok_or(())
    }
}

impl fmt::Display for Tariff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Price { input, output, cache_read, cache_write } = self.price;
        let usd =
            |millionths: u64| Usd::from_nanos(i64::try_from(millionths).unwrap_or(i64::MAX / 1000) * 1000);
        write!(f, "{}={}/{}", self.pattern, usd(input), usd(output))?;
        write!(f, "/{}/{}", usd(cache_read), usd(cache_write))
    }
}

fn per_million(text: &str) -> Option<u64> {
    let nanos = u64::try_from(text.trim().parse::<Usd>().ok()?.nanos()).ok()?;
    // Nobody's tokens cost a million, and a price beyond it would overflow what it is multiplied by.
    (nanos % 1000 == 0 && nanos <= 1_000_000_000_000_000).then_some(nanos / 1000)
}

/// Whether the text is the pattern, each `*` standing for anything. Letters match in either case.
fn fits(pattern: &str, text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usd(text: &str) -> Usd {
        text.parse().unwrap()
    }

    #[test]
    fn every_list_price_is_readable() {
        assert_eq!(Prices::new(&[]).0.len(), KNOWN.split(',').count());
    }

    #[test]
    fn a_model_has_the_price_of_the_first_pattern_that_fits() {
        let prices = Prices::new(&["my-*-model=1/2".parse().unwrap(), "*haiku*=9/9".parse().unwrap()]);
        let million = Usage { input: 1_000_000, ..Usage::default() };
        for (model, input, source) in [
            ("claude-opus-4-20250514", "15", Source::Known),
            ("claude-opus-4-1-20250805", "15", Source::Known),
            ("claude-opus-4-5-20251101", "5", Source::Known),
            ("claude-opus-5", "5", Source::Known),
            ("claude-opus-5-5", "4", Source::Known),
            ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "3", Source::Known),
            ("Claude-Sonnet-5-5", "2", Source::Known),
            ("gpt-5-mini-2025-08-07", "0.25", Source::Known),
            ("gpt-5.4", "2.5", Source::Known),
            ("gpt-5", "1.25", Source::Known),
            ("my-own-model", "1", Source::Known),
            ("my-own-models", "30", Source::Guessed),
            ("claude-haiku-4-5", "9", Source::Known),
            ("something else", "30", Source::Guessed),
            ("scripted/gpt-5", "0", Source::Known),
            ("", "30", Source::Guessed),
        ] {
            let (price, found) = prices.of(model);
            assert_eq!((price.cost(&million), found), (usd(input), source), "{model}");
        }
    }

    #[test]
    fn each_kind_of_token_has_its_price_and_the_sum_is_rounded_up() {
        let (price, _) = Prices::new(&["m=3/15/0.3/3.75".parse().unwrap()]).of("m");
        let usage = Usage { input: 10, output: 20, cache_read: 30, cache_write: 40, cache_write_long: 0 };
        // 30 + 300 + 9 + 150 millionths.
        assert_eq!(price.cost(&usage), usd("0.000489"));
        assert_eq!(price.cost(&Usage { cache_write_long: 40, ..usage }), usd("0.000579"));
        let (price, _) = Prices::new(&["m=0.0001/0".parse().unwrap()]).of("m");
        assert_eq!(price.cost(&Usage { input: 1, ..Usage::default() }), Usd::from_nanos(1));
        assert_eq!(price.cost(&Usage::default()), Usd::ZERO);
        let endless = Usage { input: u64::MAX, output: u64::MAX, ..Usage::default() };
        assert_eq!(Prices::new(&[]).of("gpt-5").0.cost(&endless), Usd::MAX);
    }

    #[test]
    fn a_reservation_is_no_less_than_what_is_known_of_the_call() {
        let (price, _) = Prices::new(&[]).of("claude-sonnet-4-5");
        assert_eq!(price.reserve(4_000_000, 1_000_000), usd("18.75"));
    }

    #[test]
    fn a_tariff_is_read_and_shown_alike() {
        for (text, shown) in [
            ("a*=3/15/0.3/3.75", "a*=3/15/0.3/3.75"),
            (" B = 1 / 2 ", "b=1/2/1/1"),
            ("o3*=2/8/0.5", "o3*=2/8/0.5/2"),
        ] {
            assert_eq!(text.parse::<Tariff>().unwrap().to_string(), shown);
        }
        for bad in ["", "a", "a=1", "=1/2", "a=1/2/3/4/5", "a=x/y", "a=-1/2", "a b=1/2", "a=0.0000001/1"] {
            assert!(bad.parse::<Tariff>().is_err(), "{bad}");
        }
    }
}
