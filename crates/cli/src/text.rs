//! Times, durations and long texts, as people read and write them.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use omoi_protocol::cost::ReportedCost;

/// `5m ago`, `in 2h`, `now`.
pub fn relative(now: Timestamp, at: Timestamp) -> String {
    let apart = now.duration_since(at);
    match apart.as_secs() {
        0 => "now".to_owned(),
        1.. => format!("{} ago", span(apart)),
        _ => format!("in {}", span(apart)),
    }
}

/// When, for one thing in full.
pub fn moment(now: Timestamp, at: Timestamp) -> String {
    format!("{} ({})", at.strftime("%Y-%m-%d %H:%M:%SZ"), relative(now, at))
}

/// Below what money is counted in.
const NEARLY_NOTHING_USD: f64 = 1e-9;

/// What workers say that they spent, marked as such, where that says more than the server counted. A worker that calls its
/// models through the server repeats the server's figure.
pub fn reported(cost: Option<&ReportedCost>, beside_usd: f64) -> Option<String> {
    let ReportedCost { cost_usd, counted_usd, ignored } = cost?;
    if *counted_usd <= 0.0 && *ignored == 0 && *cost_usd <= beside_usd + NEARLY_NOTHING_USD {
        return None;
    }
    let ignored = match ignored {
        0 => String::new(),
        ignored => format!("; {ignored} reported amounts were ignored"),
    };
    Some(format!("${cost_usd:.2} by the worker, ${counted_usd:.2} of it counted in budgets{ignored}"))
}

/// A duration in its largest unit, with the next one where that says much more: `45s`, `5m`, `2h 10m`, `3d 4h`.
pub fn span(duration: SignedDuration) -> String {
    let seconds = duration.as_secs().unsigned_abs();
    let two = |big: u64, b: &str, small: u64, s: &str| match small {
        0 => format!("{big}{b}"),
        small => format!("{big}{b} {small}{s}"),
    };
    match seconds {
        0 => format!("{}ms", duration.subsec_millis().unsigned_abs()),
        1..60 => format!("{seconds}s"),
        60..600 => two(seconds / 60, "m", seconds % 60, "s"),
        600..3600 => format!("{}m", seconds / 60),
        3600..86_400 => two(seconds / 3600, "h", seconds % 3600 / 60, "m"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3600, "h"),
    }
}

/// `512 B`, `1.5 GiB`.
pub fn size(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", units[unit])
}

const UNITS: &[(&str, u64)] = &[("s", 1), ("m", 60), ("h", 3600), ("d", 86_400), ("w", 7 * 86_400)];
const SPAN_MAX: Duration = Duration::from_secs(100 * 366 * 86_400);

/// `90s`, `30m`, `12h`, `30d` or `4w`.
pub fn parse_span(text: &str) -> Result<Duration, String> {
    let bad = || format!("{text:?} is not a duration such as 90s, 30m, 12h, 30d or 4w");
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (count, unit) = text.split_at(digits);
    let (_, seconds) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(bad)?;
    let total = count.parse::<u64>().ok().and_then(|count| count.checked_mul(*seconds)).ok_or_else(bad)?;
    let span = Duration::from_secs(total);
    if span > SPAN_MAX { Err(bad()) } else { Ok(span) }
}

/// `20`, `$0.5`.
pub fn parse_usd(text: &str) -> Result<f64, String> {
    let usd = text.trim_start_matches('$').parse::<f64>().ok();
    usd.filter(|usd| (0.0..=1e9).contains(usd))
        .ok_or_else(|| format!("{text:?} is not an amount such as 20 or 0.5"))
}

/// The first line, cut to so many characters.
pub fn short(text: &str, chars_max: usize) -> String {
    let text = text.trim();
    let line = text.lines().next().unwrap_or_default();
    if line.len() == text.len() && line.chars().count() <= chars_max {
        return line.to_owned();
    }
    let mut cut: String = line.chars().take(chars_max.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_from_now() {
        let now: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
        for (at, told) in [
            ("2026-01-02T00:00:00Z", "now"),
            ("2026-01-01T23:59:15Z", "45s ago"),
            ("2026-01-01T23:57:55Z", "2m 5s ago"),
            ("2026-01-01T23:29:30Z", "30m ago"),
            ("2026-01-01T22:00:00Z", "2h ago"),
            ("2025-12-29T20:00:00Z", "3d 4h ago"),
            ("2026-01-02T01:30:00Z", "in 1h 30m"),
        ] {
            assert_eq!(relative(now, at.parse().unwrap()), told);
        }
        assert_eq!(span(SignedDuration::from_millis(250)), "250ms");
        let at = "2026-01-01T22:00:00.123Z".parse().unwrap();
        assert_eq!(moment(now, at), "2026-01-01 22:00:00Z (1h 59m ago)");
    }

    #[test]
    fn durations_are_read_with_their_unit() {
        for (text, seconds) in
            [("90s", 90), ("30m", 1800), ("12h", 43_200), ("30d", 2_592_000), ("4w", 2_419_200)]
        {
            assert_eq!(parse_span(text), Ok(Duration::from_secs(seconds)));
        }
        for bad in ["", "30", "d", "-1d", "1.5h", "30 d", "99999999999d", "99999999999999999999d", "1y"] {
            assert!(parse_span(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_are_told_in_their_unit() {
        for (bytes, told) in
            [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1_048_575, "1.0 MiB"), (3 << 29, "1.5 GiB")]
        {
            assert_eq!(size(bytes), told);
        }
    }

    #[test]
    fn what_a_worker_reports_is_told_as_such() {
        let cost = ReportedCost { cost_usd: 1.75, counted_usd: 0.5, ignored: 0 };
        let told = reported(Some(&cost), 0.0).unwrap();
        assert_eq!(told, "$1.75 by the worker, $0.50 of it counted in budgets");
        let told = reported(Some(&ReportedCost { ignored: 2, ..cost.clone() }), 0.0).unwrap();
        assert!(told.ends_with("; 2 reported amounts were ignored"), "{told}");
        let echo = ReportedCost { counted_usd: 0.0, ..cost };
        assert_eq!((reported(Some(&echo), 1.75), reported(None, 0.0)), (None, None));
        assert!(reported(Some(&echo), 1.0).is_some());
    }

    #[test]
    fn a_long_text_shows_that_it_goes_on() {
        assert_eq!(short(" as it is\n", 20), "as it is");
        assert_eq!(short("a\nb", 20), "a…");
        assert_eq!(short("äöüß", 3), "äö…");
    }
}
