//! One line of an allow-list: `example.com`, `*.example.com`, an address, each with a port or without.

use std::{fmt, str::FromStr};

use super::host::{Host, HostError, Target, parse_port, split_port};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    hosts: Hosts,
    /// Without one, the ports that the configuration allows.
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Hosts {
    One(Host),
    /// Those that end in a dot and this name, not the name itself.
    Below(String),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    #[error("{0:?} is a URL; name the host alone, as in example.com")]
    Url(String),
    #[error("{0:?} is too wide; a * stands in front of a name with a dot in it, as in *.example.com")]
    TooWide(String),
    #[error(transparent)]
    Host(#[from] HostError),
}

impl Pattern {
    pub fn matches(&self, target: &Target, ports: &[u16]) -> bool {
        self.covers(&target.host) && self.has_port(target.port, ports)
    }

    /// Whether it names the host, with whatever port.
    pub fn covers(&self, host: &Host) -> bool {
        match (&self.hosts, host) {
            (Hosts::One(one), host) => one == host,
            (Hosts::Below(parent), Host::Name(name)) => {
                name.strip_suffix(parent.as_str()).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
            }
            (Hosts::Below(_), Host::Ip(_)) => false,
        }
    }

    fn has_port(&self, port: u16, ports: &[u16]) -> bool {
        match self.port {
            Some(own) => own == port,
            None => ports.contains(&port),
        }
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        if text.contains('/') {
            return Err(PatternError::Url(text.to_owned()));
        }
        let (host, port) = split_port(text);
        let no_port = || HostError::NoPort(text.to_owned());
        let port = port.map(|digits| parse_port(digits).ok_or_else(no_port)).transpose()?;
        let hosts = match host.strip_prefix("*.") {
            Some(parent) => match Host::parse(parent)? {
                Host::Name(name) if name.contains('.') => Hosts::Below(name),
                _ => return Err(PatternError::TooWide(text.to_owned())),
            },
            None if host.contains('*') => return Err(PatternError::TooWide(text.to_owned())),
            None => Hosts::One(Host::parse(host)?),
        };
        Ok(Self { hosts, port })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hosts {
            Hosts::One(host) => host.fmt(f)?,
            Hosts::Below(parent) => write!(f, "*.{parent}")?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, target: &str) -> bool {
        let target = Target::parse(target, None).unwrap();
        pattern.parse::<Pattern>().unwrap().matches(&target, &[80, 443])
    }

    #[test]
    fn a_pattern_matches_what_it_names_and_nothing_near_it() {
        for (pattern, target, expected) in [
            ("crates.io", "crates.io:443", true),
            ("crates.io", "crates.io:80", true),
            ("crates.io", "CRATES.IO.:443", true),
            ("Crates.IO.", "crates.io:443", true),
            ("crates.io", "crates.io:22", false),
            ("crates.io", "static.crates.io:443", false),
            ("crates.io", "crates.io.evil.example:443", false),
            ("crates.io", "evilcrates.io:443", false),
            ("*.example.com", "a.example.com:443", true),
            ("*.example.com", "a.b.example.com:443", true),
            ("*.example.com", "example.com:443", false),
            ("*.example.com", "evilexample.com:443", false),
            ("*.example.com", "example.com.evil.net:443", false),
            ("*.Bücher.example", "www.xn--bcher-kva.example:443", true),
            ("bücher.example", "xn--bcher-kva.example:443", true),
            ("git.example:22", "git.example:22", true),
            ("git.example:22", "git.example:443", false),
            ("*.example.com:8443", "a.example.com:8443", true),
            ("*.example.com:8443", "a.example.com:443", false),
            ("93.184.216.34", "93.184.216.34:443", true),
            ("93.184.216.34", "[::ffff:93.184.216.34]:443", true),
            ("[2606:4700::1111]:853", "[2606:4700:0::1111]:853", true),
            ("[2606:4700::1111]", "[2606:4700::1112]:443", false),
        ] {
            assert_eq!(matches(pattern, target), expected, "{pattern} {target}");
        }
    }

    #[test]
    fn a_pattern_that_means_too_much_or_nothing_is_refused() {
        for text in ["*", "*.com", "*.*.example.com", "a*.example.com", "a.*.com", "*.1.2.3.4", "*.", "*:443"]
        {
            assert!(text.parse::<Pattern>().is_err(), "{text}");
        }
        for text in
            ["", "https://example.com", "example.com/path", "a b", "example.com:", "example.com:0", "127.1"]
        {
            assert!(text.parse::<Pattern>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_pattern_is_shown_as_it_is_compared() {
        for (text, shown) in [
            ("Example.COM.", "example.com"),
            ("*.Example.com:8443", "*.example.com:8443"),
            ("[::FFFF:1.2.3.4]:80", "1.2.3.4:80"),
        ] {
            assert_eq!(text.parse::<Pattern>().unwrap().to_string(), shown);
        }
    }
}
