//! Where a repository is fetched from: an address that was checked, and the one transport that it takes.

use std::path::Path;

use super::Error;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    pub address: String,
    pub transport: Transport,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    Https {
        host: String,
    },
    Http,
    Ssh,
    Git,
    /// A directory of this machine.
    Local,
}

impl Transport {
    /// Git's word for it.
    pub fn protocol(&self) -> &'static str {
        match self {
            Self::Https { .. } => "https",
            Self::Http => "http",
            Self::Ssh => "ssh",
            Self::Git => "git",
            Self::Local => "file",
        }
    }
}

impl Remote {
    pub fn parse(text: &str) -> Result<Self, Error> {
        let text = text.trim();
        transport(text)
            .map(|transport| Self { address: text.to_owned(), transport })
            .map_err(|problem| Error::Address { address: without_user(text), problem })
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

fn transport(text: &str) -> Result<Transport, &'static str> {
    if text.is_empty() || text.contains(|c: char| c.is_control() || c.is_whitespace()) {
        return Err("is empty or holds white space");
    }
    // Git would take `-x` for an option and `name::address` for the name of a program to run.
    if text.starts_with('-') || text.contains("::") && !text.contains("://[") {
        return Err(FORMS);
    }
    if text.starts_with('/') {
        return Ok(Transport::Local);
    }
    let Some((scheme, rest)) = text.split_once("://") else { return scp_like(text) };
    let authority = rest.split('/').next().unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').map_or(("", authority), |(user, host)| (user, host));
    let name = host_name(host);
    match scheme {
        "file" if Path::new(rest).is_absolute() => Ok(Transport::Local),
        "https" | "http" | "ssh" | "git"
            if name.is_empty() || name.starts_with('-') || user.starts_with('-') =>
        {
            Err("names no host")
        }
        // A slash in a password ends what stands for the host, and the password is where a port would be.
        "https" | "http" | "ssh" | "git" if !host_ends_well(host) && rest.contains('@') => Err(PASSWORD),
        "https" | "http" | "ssh" | "git" if !host_ends_well(host) => Err("names a port that is no number"),
        "https" | "http" | "git" if !user.is_empty() => Err(PASSWORD),
        "ssh" if user.contains(':') => Err("holds a password; take it out and use a key of SSH"),
        "https" => Ok(Transport::Https { host: name.to_ascii_lowercase() }),
        "http" => Ok(Transport::Http),
        "ssh" => Ok(Transport::Ssh),
        "git" => Ok(Transport::Git),
        _ => Err(FORMS),
    }
}

/// `user@host:path`, as people write for SSH.
fn scp_like(text: &str) -> Result<Transport, &'static str> {
    let (authority, path) = text.split_once(':').ok_or(FORMS)?;
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    if path.split('/').next().is_some_and(|first| first.contains('@')) {
        return Err(PASSWORD);
    }
    let plain = |text: &str| !text.is_empty() && !text.starts_with('-') && !text.contains('/');
    if plain(authority) && plain(host) && !path.is_empty() && !path.starts_with('-') {
        Ok(Transport::Ssh)
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
            assert_eq!(Remote::parse(text).unwrap().transport.protocol(), protocol, "{text}");
        }
        let host = Remote::parse("https://Git.Example:8443/a").unwrap().transport;
        assert_eq!(host, Transport::Https { host: "git.example".to_owned() });
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
