//! Where a repository is fetched from: an address that was parsed, and the one transport that it takes.

use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// As it was written.
    pub address: String,
    pub source: Source,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A directory of the server's machine.
    Directory(PathBuf),
    /// A host; with brackets where it was written with them.
    Host { transport: Transport, host: String, port: Option<String> },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    Https,
    Http,
    Ssh,
    Git,
}

impl Transport {
    pub fn default_port(self) -> u16 {
        match self {
            Self::Https => 443,
            Self::Http => 80,
            Self::Ssh => 22,
            Self::Git => 9418,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the repository address {address:?} {problem}")]
pub struct NotAnAddress {
    /// Without user and password.
    pub address: String,
    pub problem: &'static str,
}

impl Remote {
    pub fn parse(text: &str) -> Result<Self, NotAnAddress> {
        let text = text.trim();
        source(text)
            .map(|source| Self { address: text.to_owned(), source })
            .map_err(|problem| NotAnAddress { address: without_user(text), problem })
    }

    /// Git's word for the transport.
    pub fn protocol(&self) -> &'static str {
        match &self.source {
            Source::Directory(_) => "file",
            Source::Host { transport: Transport::Https, .. } => "https",
            Source::Host { transport: Transport::Http, .. } => "http",
            Source::Host { transport: Transport::Ssh, .. } => "ssh",
            Source::Host { transport: Transport::Git, .. } => "git",
        }
    }

    /// The host that a token may be sent to, in lower case.
    pub fn https_host(&self) -> Option<String> {
        match &self.source {
            Source::Host { transport: Transport::Https, host, .. } => {
                Some(host.trim_matches(['[', ']']).to_ascii_lowercase())
            }
            _ => None,
        }
    }
}

/// Whatever stands before the last `@` may hold a secret, also where it is not written as it should be.
fn without_user(text: &str) -> String {
    let Some((_, host)) = text.rsplit_once('@') else { return text.to_owned() };
    match text.split_once("://") {
        Some((scheme, _)) => format!("{scheme}://***@{host}"),
        None => format!("***@{host}"),
    }
}

const PASSWORD: &str = "holds a user name or password; take it out, and set git.token where one is needed";
const FORMS: &str = "is none that can be fetched from; write https://HOST/PATH, ssh://USER@HOST/PATH, \
                     USER@HOST:PATH, git://HOST/PATH, or an absolute path of this machine";

fn source(text: &str) -> Result<Source, &'static str> {
    if text.is_empty() || text.contains(|c: char| c.is_control() || c.is_whitespace()) {
        return Err("is empty or holds white space");
    }
    // Git would take `-x` for an option and `name::address` for the name of a program to run.
    if text.starts_with('-') || text.contains("::") && !text.contains("://[") {
        return Err(FORMS);
    }
    if text.starts_with('/') {
        return Ok(Source::Directory(text.into()));
    }
    let Some((scheme, rest)) = text.split_once("://") else { return scp_like(text) };
    if scheme == "file" && Path::new(rest).is_absolute() {
        return Ok(Source::Directory(rest.into()));
    }
    let transport = match scheme {
        "https" => Transport::Https,
        "http" => Transport::Http,
        "ssh" => Transport::Ssh,
        "git" => Transport::Git,
        _ => return Err(FORMS),
    };
    let authority = rest.split('/').next().unwrap_or_default();
    let (user, host_port) = authority.rsplit_once('@').unwrap_or(("", authority));
    let name = host_name(host_port);
    if name.is_empty() || name.starts_with('-') || user.starts_with('-') {
        return Err("names no host");
    }
    if !host_ends_well(host_port) {
        // A slash in a password ends what stands for the host, and the password is where a port would be.
        return Err(if rest.contains('@') { PASSWORD } else { "names a port that is no number" });
    }
    match transport {
        Transport::Ssh if user.contains(':') => {
            return Err("holds a password; take it out and use a key of SSH");
        }
        Transport::Https | Transport::Http | Transport::Git if !user.is_empty() => return Err(PASSWORD),
        _ => {}
    }
    let (host, port) = host_port.split_at(host_port.rfind(']').map_or(0, |at| at + 1));
    let (more, port) = port.split_once(':').map_or((port, None), |(more, port)| (more, Some(port)));
    let port = port.filter(|port| !port.is_empty()).map(str::to_owned);
    Ok(Source::Host { transport, host: format!("{host}{more}"), port })
}

/// `user@host:path`, as people write for SSH.
fn scp_like(text: &str) -> Result<Source, &'static str> {
    let (authority, path) = text.split_once(':').ok_or(FORMS)?;
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    if path.split('/').next().is_some_and(|first| first.contains('@')) {
        return Err(PASSWORD);
    }
    let plain = |text: &str| !text.is_empty() && !text.starts_with('-') && !text.contains('/');
    if plain(authority) && plain(host) && !path.is_empty() && !path.starts_with('-') {
        Ok(Source::Host { transport: Transport::Ssh, host: host.to_owned(), port: None })
    } else {
        Err(FORMS)
    }
}

/// With a port in digits, or without one.
fn host_ends_well(host: &str) -> bool {
    let behind = match host.strip_prefix('[') {
        Some(v6) => v6.split_once(']').map_or("", |(_, behind)| behind),
        None => host,
    };
    behind.split_once(':').is_none_or(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Without the port.
fn host_name(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_of_address_takes_its_own_transport() {
        for (text, protocol) in [
            ("https://github.com/a/b.git", "https"),
            ("https://Git.Example:8443/a/b", "https"),
            ("http://[::1]:80/a", "http"),
            ("ssh://git@github.com:22/a/b.git", "ssh"),
            ("git@github.com:a/b.git", "ssh"),
            ("github.com:a/b.git", "ssh"),
            ("git://host/a", "git"),
            ("/srv/git/a.git", "file"),
            ("file:///srv/git/a.git", "file"),
        ] {
            assert_eq!(Remote::parse(text).unwrap().protocol(), protocol, "{text}");
        }
        let host = |text| Remote::parse(text).unwrap().https_host();
        assert_eq!(host("https://Git.Example:8443/a").as_deref(), Some("git.example"));
        assert_eq!(host("http://git.example/a"), None);
        for (text, wanted) in [
            ("ssh://[::1]:22/a", ("[::1]", Some("22"))),
            ("ssh://git@host:22/a", ("host", Some("22"))),
            ("https://host/a", ("host", None)),
            ("http://host:/a", ("host", None)),
            ("git@host:a", ("host", None)),
        ] {
            let Source::Host { host, port, .. } = Remote::parse(text).unwrap().source else {
                panic!("{text}")
            };
            assert_eq!((host.as_str(), port.as_deref()), wanted, "{text}");
        }
    }

    #[test]
    fn what_would_run_a_program_or_hold_a_secret_is_refused_with_what_to_write() {
        for text in [
            "",
            "relative/path",
            "-oProxyCommand=x",
            "ext::sh -c x",
            "ext::sh",
            "ftp://host/a",
            "file://host/a",
            "file://a",
            "https://",
            "https:///a",
            "https://host:port/a",
            "ssh://-oProxyCommand=x/a",
            "ssh://-x@host/a",
            "-x@host:a",
            "host:-x",
            "https://host/a b",
            "https://host/a\n",
            "fd::17",
        ] {
            let trimmed_is_fine = text.ends_with('\n');
            assert_eq!(Remote::parse(text).is_ok(), trimmed_is_fine, "{text:?}");
        }
        for text in [
            "https://me:hidden@host/a",
            "https://hidden@host/a",
            "ssh://me:hidden@host/a",
            "https://me:hidden/hidden@host/a",
            "https://me:hid/hidden@host/a",
            "me:hidden@host/a",
            "me:hidden@host:a",
        ] {
            let refusal = Remote::parse(text).unwrap_err().to_string();
            assert!(!refusal.contains("hidden") && refusal.contains("take it out"), "{refusal}");
        }
    }
}
