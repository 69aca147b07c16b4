//! How a value is written: what is accepted, how it is read, and how it is shown again.
//!
//! Every source gives text, so that a value means the same wherever it was written.

use std::{fmt::Display, path::PathBuf, str::FromStr, time::Duration};

use omoi_launcher::Layer;
use omoi_protocol::{ProviderKind, launch::Resources};
use secrecy::SecretString;
use tracing_subscriber::EnvFilter;

use crate::domain::{money::Usd, price::Tariff};

pub struct Form<T> {
    /// Finishes the sentence "… is not".
    pub accepts: &'static str,
    pub parse: fn(&str) -> Option<T>,
    pub show: fn(&T) -> String,
    pub kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Plain,
    /// Separated by commas, or a YAML list.
    List,
    /// A `~/` in front stands for the home directory.
    Path,
    /// Never repeated in an error.
    Secret,
}

/// Longer ones are slips, and would overflow sums of times.
const DURATION_MAX: Duration = Duration::from_secs(365 * 24 * 3600);
const COUNT_MAX: u32 = 1_000_000_000;

/// A duration that may be zero.
pub const DELAY: Form<Duration> = Form {
    accepts: "a duration such as 500ms, 30s, 5m or 1h (at most 8760h)",
    parse: parse_duration,
    show: show_duration,
    kind: Kind::Plain,
};

/// A duration that may not be zero.
pub const PERIOD: Form<Duration> = Form {
    accepts: "a duration above zero such as 500ms, 30s, 5m or 1h (at most 8760h)",
    parse: |text| parse_duration(text).filter(|duration| !duration.is_zero()),
    ..DELAY
};

pub const SIZE: Form<usize> = Form {
    accepts: "a size above zero such as 512B, 64KiB, 8MiB or 1GiB",
    parse: |text| parse_size(text).filter(|&bytes| bytes > 0),
    show: show_size,
    kind: Kind::Plain,
};

/// A time in which things grow old.
pub const DAYS: Form<u32> = Form {
    accepts: "a number of days from 1 to 36500",
    parse: |text| text.parse().ok().filter(|days| (1..=36_500).contains(days)),
    show: u32::to_string,
    kind: Kind::Plain,
};

/// A share of a whole.
pub const FRACTION: Form<f64> = Form {
    accepts: "a number from 0 to 1",
    parse: |text| text.parse().ok().filter(|share| (0.0..=1.0).contains(share)),
    show: f64::to_string,
    kind: Kind::Plain,
};

/// Something to multiply by that may not make smaller.
pub const BOOST: Form<f64> = Form {
    accepts: "a number from 1 to 100",
    parse: |text| text.parse().ok().filter(|factor| (1.0..=100.0).contains(factor)),
    ..FRACTION
};

/// Something to divide times by.
pub const SPEED: Form<f64> = Form {
    accepts: "a number from 0.01 to 100000",
    parse: |text| text.parse().ok().filter(|speed| (0.01..=100_000.0).contains(speed)),
    ..FRACTION
};

/// The parser of JSON has a limit of its own at 128.
pub const JSON_DEPTH: Form<usize> = Form {
    accepts: "a whole number from 1 to 127",
    parse: |text| text.parse().ok().filter(|depth| (1..=127).contains(depth)),
    show: usize::to_string,
    kind: Kind::Plain,
};

pub const MEMORY_GB: Form<u32> = Form {
    accepts: "a whole number of GiB from 1 to 8",
    parse: |text| parse_up_to(Resources::CAP.memory_gb, text),
    show: u32::to_string,
    kind: Kind::Plain,
};

pub const CPU: Form<u32> = Form {
    accepts: "a whole number from 1 to 4",
    parse: |text| parse_up_to(Resources::CAP.cpu, text),
    ..MEMORY_GB
};

pub const DISK_GB: Form<u32> = Form {
    accepts: "a whole number of GiB from 1 to 10",
    parse: |text| parse_up_to(Resources::CAP.disk_gb, text),
    ..MEMORY_GB
};

pub const PATH: Form<PathBuf> = Form {
    accepts: "a path (and ~/ needs HOME to be set)",
    parse: |text| (!text.is_empty() && !text.starts_with('~')).then(|| text.into()),
    show: |path| path.display().to_string(),
    kind: Kind::Path,
};

pub const PATH_OR_NONE: Form<Option<PathBuf>> = Form {
    accepts: "empty or a path (and ~/ needs HOME to be set)",
    parse: |text| if text.is_empty() { Some(None) } else { (PATH.parse)(text).map(Some) },
    show: |path| path.as_ref().map(PATH.show).unwrap_or_default(),
    kind: Kind::Path,
};

pub const TEXT: Form<Option<String>> = Form {
    accepts: "empty or a text of at most 200 characters",
    parse: |text| (text.len() <= 200).then(|| (!text.is_empty()).then(|| text.to_owned())),
    show: |text| text.clone().unwrap_or_default(),
    kind: Kind::Plain,
};

pub const MODEL: Form<String> = Form {
    accepts: "the name of a model, of at most 200 characters",
    parse: |text| {
        let plain =
            (1..=200).contains(&text.len()) && text.chars().all(|c| !c.is_control() && !c.is_whitespace());
        plain.then(|| text.to_owned())
    },
    show: String::clone,
    kind: Kind::Plain,
};

/// As long as a task may ask for.
pub const IDLE: Form<Duration> = Form {
    accepts: "a duration such as 30s or 5m (at most 24h)",
    parse: |text| parse_duration(text).filter(|idle| *idle <= Duration::from_secs(86_400)),
    ..DELAY
};

pub const SWITCH: Form<bool> = Form {
    accepts: "true or false",
    parse: |text| text.parse().ok(),
    show: bool::to_string,
    kind: Kind::Plain,
};

/// The other providers have a word and nobody who makes sandboxes there: one that is asked for is refused.
pub const PROVIDER: Form<ProviderKind> = Form {
    accepts: "a provider that sandboxes can be made at, of which there is one: local",
    parse: |text| text.parse().ok().filter(|kind| *kind == ProviderKind::Local),
    show: ProviderKind::to_string,
    kind: Kind::Plain,
};

pub const LOG_FILTER: Form<String> = Form {
    accepts: "a log filter such as info or omoi=debug,warn",
    parse: |text| EnvFilter::try_new(text).is_ok().then(|| text.to_owned()),
    show: String::clone,
    kind: Kind::Plain,
};

pub const URL: Form<Option<String>> = Form {
    accepts: "empty, or http://HOST or https://HOST with no user and no password",
    parse: |text| if text.is_empty() { Some(None) } else { parse_url(text).map(Some) },
    show: |url| url.clone().unwrap_or_default(),
    kind: Kind::Plain,
};

/// A password or token; empty: none.
pub const SECRET: Form<Option<SecretString>> = Form {
    accepts: "empty, or a secret of printable characters without spaces",
    parse: |text| {
        let plain = text.bytes().all(|b| b.is_ascii_graphic());
        plain.then(|| Some(text).filter(|text| !text.is_empty()).map(SecretString::from))
    },
    show: |secret| secret.as_ref().map_or(String::new(), |_| "***".to_owned()),
    kind: Kind::Secret,
};

/// An address that paths are put behind.
pub const BASE_URL: Form<String> = Form {
    accepts: "http://HOST or https://HOST, with a path or without, and with no user, password or query",
    parse: |text| parse_url(text).filter(|url| !url.contains(['?', '#'])),
    show: String::clone,
    kind: Kind::Plain,
};

pub const USD: Form<Usd> = Form {
    accepts: "an amount in USD such as 20 or 0.5",
    parse: |text| text.parse().ok(),
    show: Usd::to_string,
    kind: Kind::Plain,
};

pub const PRICES: Form<Vec<Tariff>> = Form {
    accepts: "a list of prices such as my-model*=3/15/0.3/3.75",
    parse: |text| parse_list(text, |tariff| tariff.parse().ok()),
    show: |tariffs| tariffs.iter().map(Tariff::to_string).collect::<Vec<_>>().join(","),
    kind: Kind::List,
};

pub const HOSTS: Form<Vec<String>> = Form {
    accepts: "a list of host names without scheme, port or path",
    parse: |text| {
        parse_list(text, |host| (!host.contains(['/', ':', '@', ' '])).then(|| host.to_ascii_lowercase()))
    },
    show: |hosts| hosts.join(","),
    kind: Kind::List,
};

pub const PATHS: Form<Vec<PathBuf>> = Form {
    accepts: "a list of absolute paths such as /srv/git",
    parse: |text| parse_list(text, |path| path.starts_with('/').then(|| path.into())),
    show: |paths| paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(","),
    kind: Kind::List,
};

pub const LAYERS: Form<Vec<Layer>> = Form {
    accepts: "a list of layers of isolation such as seccomp or network_namespace; `omoi doctor` names them all",
    parse: |text| {
        parse_list(text, |name| Layer::named(&name.to_ascii_lowercase()).filter(|layer| layer.isolates()))
    },
    show: |layers| layers.iter().map(Layer::to_string).collect::<Vec<_>>().join(","),
    kind: Kind::List,
};

pub const ORIGINS: Form<Vec<String>> = Form {
    accepts: "a list of origins such as https://omoi.example",
    parse: |text| parse_list(text, |origin| parse_url(origin).filter(|url| url.matches('/').count() == 2)),
    ..HOSTS
};

pub const PORTS: Form<Vec<u16>> = Form {
    accepts: "a list of ports from 1 to 65535",
    parse: |text| parse_list(text, |port| port.parse().ok().filter(|port| *port != 0)),
    ..list("")
};

pub const fn list<T: FromStr + Display>(accepts: &'static str) -> Form<Vec<T>> {
    Form {
        accepts,
        parse: |text| parse_list(text, |item| item.parse().ok()),
        show: |items| items.iter().map(T::to_string).collect::<Vec<_>>().join(","),
        kind: Kind::List,
    }
}

pub const fn count<T: TryFrom<u32> + Display>() -> Form<T> {
    Form {
        accepts: "a whole number from 1 to 1000000000",
        parse: |text| parse_count(text).filter(|&count| count > 0)?.try_into().ok(),
        show: T::to_string,
        kind: Kind::Plain,
    }
}

pub const fn count_or_zero<T: TryFrom<u32> + Display>() -> Form<T> {
    Form {
        accepts: "a whole number from 0 to 1000000000",
        parse: |text| parse_count(text)?.try_into().ok(),
        show: T::to_string,
        kind: Kind::Plain,
    }
}

fn parse_count(text: &str) -> Option<u32> {
    text.parse().ok().filter(|&count| count <= COUNT_MAX)
}

fn parse_up_to(max: u32, text: &str) -> Option<u32> {
    text.parse().ok().filter(|count| (1..=max).contains(count))
}

pub fn parse_duration(text: &str) -> Option<Duration> {
    let (number, unit) = split_unit(text)?;
    let unit_ms = match unit {
        "ms" => 1,
        "" | "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    let duration = Duration::from_millis(number.checked_mul(unit_ms)?);
    (duration <= DURATION_MAX).then_some(duration)
}

fn show_duration(duration: &Duration) -> String {
    match duration.as_millis() {
        0 => "0s".to_owned(),
        ms if ms % 3_600_000 == 0 => format!("{}h", ms / 3_600_000),
        ms if ms % 60_000 == 0 => format!("{}m", ms / 60_000),
        ms if ms % 1000 == 0 => format!("{}s", ms / 1000),
        ms => format!("{ms}ms"),
    }
}

fn parse_size(text: &str) -> Option<usize> {
    let (number, unit) = split_unit(text)?;
    let unit_bytes: u64 = match unit {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(unit_bytes)?.try_into().ok()
}

fn show_size(bytes: &usize) -> String {
    for (unit_bytes, unit) in [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] {
        if *bytes > 0 && bytes.is_multiple_of(unit_bytes) {
            return format!("{}{unit}", bytes / unit_bytes);
        }
    }
    format!("{bytes}B")
}

fn split_unit(text: &str) -> Option<(u64, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    Some((number.parse().ok()?, unit.trim_start()))
}

fn parse_url(text: &str) -> Option<String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"))?;
    let host_ends = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let plain = host_ends > 0 && !text.contains('@') && !text.contains(char::is_whitespace);
    plain.then(|| text.trim_end_matches('/').to_owned())
}

fn parse_list<T>(text: &str, parse: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_shown_in_their_largest_unit() {
        for (text, ms, shown) in [
            ("30s", 30_000, "30s"),
            ("120", 120_000, "2m"),
            ("10ms", 10, "10ms"),
            ("90m", 5_400_000, "90m"),
            ("24 h", 86_400_000, "24h"),
            ("0", 0, "0s"),
        ] {
            let duration = parse_duration(text).unwrap();
            assert_eq!(duration.as_millis(), ms, "{text}");
            assert_eq!(show_duration(&duration), shown);
        }
        for text in [
            "",
            "s",
            "-1s",
            "1.5s",
            "5 minutes",
            "1h30m",
            "8761h",
            "99999999999999999999s",
            "18446744073709551615h",
        ] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
        assert_eq!((PERIOD.parse)("0s"), None);
    }

    #[test]
    fn sizes_are_read_and_shown_in_their_largest_unit() {
        for (text, bytes, shown) in [
            ("1MiB", 1 << 20, "1MiB"),
            ("65536", 1 << 16, "64KiB"),
            ("1025B", 1025, "1025B"),
            ("2 GiB", 1 << 31, "2GiB"),
        ] {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
            assert_eq!(show_size(&bytes), shown);
        }
        for text in ["", "MiB", "1MB", "1.5MiB", "-1", "99999999999GiB"] {
            assert_eq!((SIZE.parse)(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_keep_to_their_range() {
        assert_eq!((FRACTION.parse)("0.25"), Some(0.25));
        for text in ["1.01", "-0.1", "NaN", "inf", "half"] {
            assert_eq!((FRACTION.parse)(text), None, "{text}");
        }
        assert_eq!((count::<u32>().parse)("0"), None);
        assert_eq!((count_or_zero::<u32>().parse)("0"), Some(0));
        assert_eq!((count::<usize>().parse)("1000000001"), None);
        assert_eq!((JSON_DEPTH.parse)("128"), None);
        assert_eq!((BOOST.parse)("0.9"), None);
    }

    #[test]
    fn what_a_sandbox_may_have_is_said_as_it_is_held() {
        let Resources { memory_gb, cpu, disk_gb } = Resources::CAP;
        for (form, max) in [(MEMORY_GB, memory_gb), (CPU, cpu), (DISK_GB, disk_gb)] {
            assert!(form.accepts.ends_with(&format!("from 1 to {max}")), "{}", form.accepts);
            assert_eq!((form.parse)(&max.to_string()), Some(max));
            assert_eq!((form.parse)(&(max + 1).to_string()), None);
            assert_eq!((form.parse)("0"), None);
        }
    }

    #[test]
    fn layers_are_known_by_their_names_and_steps_are_none() {
        assert_eq!(
            (LAYERS.parse)("seccomp, Network_Namespace"),
            Some(vec![Layer::Seccomp, Layer::NetworkNamespace])
        );
        for text in ["secomp", "seccomp,landlok", "command", "omoi.example"] {
            assert_eq!((LAYERS.parse)(text), None, "{text}");
        }
        assert_eq!((LAYERS.show)(&vec![Layer::IdRanges, Layer::Overlay]), "id_ranges,overlay");
    }

    #[test]
    fn lists_and_addresses_are_checked_item_by_item() {
        assert_eq!(
            (HOSTS.parse)(" Omoi.example, b ,"),
            Some(vec!["omoi.example".to_owned(), "b".to_owned()])
        );
        assert_eq!((HOSTS.parse)("https://omoi.example"), None);
        assert_eq!(
            (ORIGINS.parse)("https://a,http://b:80/"),
            Some(vec!["https://a".to_owned(), "http://b:80".to_owned()])
        );
        assert_eq!((ORIGINS.parse)("https://a/path"), None);
        assert_eq!((PORTS.parse)("80, 443"), Some(vec![80, 443]));
        assert_eq!((PORTS.parse)("80,0"), None);
        assert_eq!((URL.parse)(""), Some(None));
        for text in ["omoi.example", "ftp://a", "https://", "https:///path", "https://u:p@a", "https://a b"] {
            assert_eq!((URL.parse)(text), None, "{text}");
        }
    }
}
