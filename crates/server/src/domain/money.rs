//! Money: whole nano-USD, so that sums are exact. A fraction of a dollar is a number of them and nothing else.

use std::{
    fmt,
    iter::Sum,
    ops::{Add, Sub},
    str::FromStr,
};

const NANOS: i64 = 1_000_000_000;
/// Far above any budget, and far below where sums would overflow.
const WHOLE_MAX: i64 = 1_000_000_000;

/// An amount in US dollars.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Usd(i64);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an amount in USD has up to nine digits before the point and up to nine behind it, such as 12.50")]
pub struct UsdError;

impl Usd {
    pub const ZERO: Self = Self(0);
    pub const MAX: Self = Self(WHOLE_MAX * NANOS);

    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// The nearest amount to what somebody wrote as a JSON number; none for what is no amount.
    pub fn from_f64(dollars: f64) -> Option<Self> {
        let sane = dollars.is_finite() && (0.0..=WHOLE_MAX as f64).contains(&dollars);
        sane.then(|| Self((dollars * NANOS as f64).round() as i64))
    }

    /// For people and JSON; never for sums.
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / NANOS as f64
    }
}

impl Add for Usd {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Usd {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Sum for Usd {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Add::add)
    }
}

impl FromStr for Usd {
    type Err = UsdError;

    fn from_str(text: &str) -> Result<Self, UsdError> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = |part: &str| part.len() <= 9 && part.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || text.ends_with('.') || !digits(whole) || !digits(fraction) {
            return Err(UsdError);
        }
        let number = |part: &str| part.parse::<i64>().map_err(|_| UsdError);
        Ok(Self(number(whole)? * NANOS + number(&format!("{fraction:0<9}"))?))
    }
}

impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, nanos) = (if self.0 < 0 { "-" } else { "" }, self.0.unsigned_abs());
        let (whole, fraction) = (nanos / NANOS as u64, nanos % NANOS as u64);
        if fraction == 0 {
            return write!(f, "{sign}{whole}");
        }
        let fraction = format!("{fraction:09}");
        write!(f, "{sign}{whole}.{}", fraction.trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_read_exactly_and_shown_as_it_was_written() {
        for (text, nanos) in [
            ("0", 0),
            ("0.01", 10_000_000),
            ("12.5", 12_500_000_000),
            ("0.000000001", 1),
            ("999999999", 999_999_999_000_000_000),
        ] {
            let amount: Usd = text.parse().unwrap();
            assert_eq!((amount.nanos(), amount.to_string().as_str()), (nanos, text));
        }
        for bad in ["", ".5", "1.", "-1", "1e3", "1,5", "0.0000000001", "1000000000", "one", "1.2.3"] {
            assert_eq!(bad.parse::<Usd>(), Err(UsdError), "{bad}");
        }
    }

    #[test]
    fn a_number_of_json_becomes_the_nearest_amount() {
        assert_eq!(Usd::from_f64(0.1).unwrap() + Usd::from_f64(0.2).unwrap(), "0.3".parse().unwrap());
        for bad in [-0.01, f64::NAN, f64::INFINITY, 1e10] {
            assert_eq!(Usd::from_f64(bad), None, "{bad}");
        }
        assert_eq!(Usd::from_nanos(10_500_000).as_f64(), 0.0105);
    }
}
