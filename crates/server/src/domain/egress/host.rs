//! Hosts as requests name them, brought into one spelling before any rule sees them. What could mean one thing here
//! and another to whoever resolves it (`127.1`, `0x7f000001`, `fe80::1%eth0`) is refused.

use std::{fmt, net::IpAddr};

/// The longest name that DNS takes, and the longest part of one.
const NAME_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;

/// A name in lower case, in ASCII and without the last dot, or an address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    Name(String),
    Ip(IpAddr),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    #[error("{0:?} is not a host name; write it as example.com")]
    NotAName(String),
    #[error("{0:?} is an address in an unusual notation; write it as 192.0.2.1 or [2001:db8::1]")]
    OddAddress(String),
    #[error("{0:?} carries a user or password; leave them out")]
    UserInfo(String),
    #[error("{0:?} has no port from 1 to 65535; write it as example.com:443")]
    NoPort(String),
}

impl Host {
    pub fn parse(text: &str) -> Result<Self, HostError> {
        if let Some(inner) = text.strip_prefix('[') {
            let v6 = inner.strip_suffix(']').and_then(|inner| inner.parse::<std::net::Ipv6Addr>().ok());
            let v6 = v6.ok_or_else(|| HostError::OddAddress(text.to_owned()))?;
            return Ok(Self::Ip(IpAddr::V6(v6).to_canonical()));
        }
        let not_a_name = || HostError::NotAName(text.to_owned());
        if text.contains(':') {
            return Err(HostError::OddAddress(text.to_owned()));
        }
        let name =
            idna::domain_to_ascii_cow(text.as_bytes(), idna::AsciiDenyList::URL).map_err(|_| not_a_name())?;
        let name = name.strip_suffix('.').unwrap_or(&name);
        if ends_in_number(name) {
            // The library takes four decimal numbers without leading zeros and nothing else.
            let v4 = name.parse::<std::net::Ipv4Addr>();
            return v4.map(|v4| Self::Ip(v4.into())).map_err(|_| HostError::OddAddress(text.to_owned()));
        }
        let fits = name.len() <= NAME_BYTES_MAX && name.split('.').all(is_label);
        if fits { Ok(Self::Name(name.to_owned())) } else { Err(not_a_name()) }
    }
}

/// As browsers tell: such a host is meant as an IPv4 address, and some resolvers take it for one.
fn ends_in_number(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    let hex = last.strip_prefix("0x").is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
    hex || (!last.is_empty() && last.bytes().all(|b| b.is_ascii_digit()))
}

fn is_label(label: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_');
    (1..=LABEL_BYTES_MAX).contains(&label.len()) && label.bytes().all(plain)
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Ip(IpAddr::V4(v4)) => v4.fmt(f),
            Self::Ip(IpAddr::V6(v6)) => write!(f, "[{v6}]"),
        }
    }
}

/// Where a request wants to go.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    pub host: Host,
    pub port: u16,
}

impl Target {
    /// From `host:port`; without a port the default is taken, where there is one.
    pub fn parse(authority: &str, default_port: Option<u16>) -> Result<Self, HostError> {
        if authority.contains('@') {
            return Err(HostError::UserInfo(authority.to_owned()));
        }
        let (host, port) = split_port(authority);
        let host = Host::parse(host)?;
        let port = port.map_or(default_port, parse_port);
        let port = port.ok_or_else(|| HostError::NoPort(authority.to_owned()))?;
        Ok(Self { host, port })
    }
}

/// The port's text, if there is a colon outside of brackets.
pub(super) fn split_port(authority: &str) -> (&str, Option<&str>) {
    let after_brackets = authority.rfind(']').map_or(0, |at| at + 1);
    match authority[after_brackets..].rfind(':') {
        Some(at) => {
            let (host, port) = authority.split_at(after_brackets + at);
            (host, Some(&port[1..]))
        }
        None => (authority, None),
    }
}

pub(super) fn parse_port(digits: &str) -> Option<u16> {
    // `u16` alone would take a sign.
    let port = digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?;
    port.filter(|port| *port != 0)
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_host_has_one_spelling() {
        for (text, host) in [
            ("example.com", "example.com"),
            ("EXAMPLE.Com.", "example.com"),
            ("localhost.", "localhost"),
            ("_dmarc.example.com", "_dmarc.example.com"),
            ("bücher.example", "xn--bcher-kva.example"),
            ("XN--BCHER-KVA.example", "xn--bcher-kva.example"),
            ("example。com", "example.com"),
            ("127.0.0.1", "127.0.0.1"),
            ("127.0.0.1.", "127.0.0.1"),
            ("１２７.0.0.1", "127.0.0.1"),
            ("[::1]", "[::1]"),
            ("[0:0:0:0:0:0:0:1]", "[::1]"),
            ("[::ffff:127.0.0.1]", "127.0.0.1"),
            ("1.2.3.4.example", "1.2.3.4.example"),
        ] {
            assert_eq!(Host::parse(text).map(|host| host.to_string()), Ok(host.to_owned()), "{text}");
        }
    }

    #[test]
    fn odd_notations_of_addresses_are_refused() {
        for text in [
            "127.1",
            "2130706433",
            "0x7f000001",
            "0x7f.1",
            "017700000001",
            "0177.0.0.1",
            "127.0.0.01",
            "1.2.3.4.5",
            "256.0.0.1",
            "0x",
            "0x7f.0.0.0x1",
            "example.0x1",
            "::1",
            "[::1",
            "[::1%lo]",
            "[fe80::1%25eth0]",
            "[]",
            "[127.0.0.1]",
            "[::1].",
            "127.0.0.0x1",
            "１２７.1",
        ] {
            assert!(
                matches!(Host::parse(text), Err(HostError::OddAddress(_))),
                "{text}: {:?}",
                Host::parse(text)
            );
        }
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let long = format!("{}.example", "a".repeat(64));
        let longer = vec!["abcdefgh"; 40].join(".");
        for text in [
            "",
            ".",
            "..",
            "a..b",
            ".a",
            "a b",
            "a/b",
            "a\\b",
            "a%2eb",
            "a\0b",
            "a@b",
            "*.example.com",
            "a,b",
            "xn--a",
            "a#b",
            "a?b",
            "exa<mple",
            long.as_str(),
            longer.as_str(),
        ] {
            assert!(
                matches!(Host::parse(text), Err(HostError::NotAName(_))),
                "{text}: {:?}",
                Host::parse(text)
            );
        }
    }

    #[test]
    fn a_target_has_a_port() {
        let target = |text, default| Target::parse(text, default).map(|target| target.to_string());
        assert_eq!(target("Example.com:443", None).unwrap(), "example.com:443");
        assert_eq!(target("example.com", Some(80)).unwrap(), "example.com:80");
        assert_eq!(target("[::1]:8080", Some(80)).unwrap(), "[::1]:8080");
        assert_eq!(target("[2606:4700::1111]", Some(80)).unwrap(), "[2606:4700::1111]:80");
        for text in ["example.com", "example.com:", "example.com:0", "a:65536", "a:+80", "a:8 0", "[::1]"] {
            assert!(matches!(target(text, None), Err(HostError::NoPort(_))), "{text}");
        }
        // A port that cannot be read is not left out.
        assert!(target("example.com:99999", Some(80)).is_err());
        assert!(matches!(target("user@example.com:80", None), Err(HostError::UserInfo(_))));
        assert!(target("a:80:443", None).is_err());
    }

    proptest! {
        #[test]
        fn a_host_that_was_read_is_read_the_same_again(text in "\\PC{0,40}") {
            if let Ok(host) = Host::parse(&text) {
                prop_assert_eq!(Host::parse(&host.to_string()), Ok(host));
            }
        }

        #[test]
        fn a_host_of_digits_and_dots_is_an_address_or_refused(text in "[0-9a-fx.]{1,20}") {
            let number = ends_in_number(text.strip_suffix('.').unwrap_or(&text));
            prop_assert!(!number || !matches!(Host::parse(&text), Ok(Host::Name(_))), "{}", text);
        }
    }
}
