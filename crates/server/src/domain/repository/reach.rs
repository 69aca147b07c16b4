//! Which repository addresses a person may set. An administrator may name any. What anybody else names is fetched by
//! the server's user and from the server's network, so it has to be a host of the public internet, or one that an
//! administrator has opened (`git.allow_private`, `git.allow_paths`).
//!
//! The rule has two halves. `judge` looks at the address as it is written. What that leaves open is decided when the
//! repository is fetched: `judge_address` for each address that a name resolves to, `judge_path` for a directory once
//! its symbolic links are resolved.

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
};

use omoi_protocol::RepositoryReach;

use super::remote::{Remote, Source, Transport};
use crate::domain::egress::{Cidr, Class, Host, HostError, Target, classify};

/// What an administrator has opened to everybody who may set a repository.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Opened {
    /// `git.allow_private`.
    pub private: Vec<Cidr>,
    /// `git.allow_paths`.
    pub paths: Vec<PathBuf>,
}

/// How an address that passed is to be fetched from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// As it is written.
    Free,
    /// From a directory, if `judge_path` passes it.
    Directory(PathBuf),
    /// From this host, at an address that `judge_address` passes.
    Host { transport: Transport, target: Target },
}

const NEXT: &str = "ask an administrator to set this repository_url";

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error(
        "repository_url names the directory {0} of the server's machine, which is not inside git.allow_paths; {NEXT} or \
         to add the directory to git.allow_paths"
    )]
    Directory(String),
    #[error(
        "repository_url names {host}, which is at {address}, {kind}; {NEXT} or to add the address to git.allow_private"
    )]
    Address { host: Host, address: IpAddr, kind: Kind },
    #[error("repository_url names {0}, which is the server's own machine; {NEXT}")]
    OwnName(Host),
    #[error("repository_url names a host that is not allowed: {0}")]
    Host(#[from] HostError),
}

/// What an address is that was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Class(Class),
    /// A public address of the machine that the server runs on.
    Own,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Class(class) => write!(f, "a {class} address"),
            Self::Own => f.write_str("an address of the server's own machine"),
        }
    }
}

/// Judges an address as it is written. Addresses in it are judged; names and directories are left for the fetch.
pub fn judge(remote: &Remote, reach: RepositoryReach, opened: &Opened) -> Result<Route, Refusal> {
    if reach == RepositoryReach::Any {
        return Ok(Route::Free);
    }
    match &remote.source {
        Source::Directory(path) if opened.paths.is_empty() => Err(directory(path)),
        Source::Directory(path) => Ok(Route::Directory(path.clone())),
        Source::Host { transport, host, port } => {
            let authority = match port {
                Some(port) => format!("{host}:{port}"),
                None => host.clone(),
            };
            let target = Target::parse(&authority, Some(transport.default_port()))?;
            match &target.host {
                Host::Ip(address) => judge_address(&target.host, *address, opened, false)?,
                Host::Name(name) if is_local_name(name) && !opens_loopback(opened) => {
                    return Err(Refusal::OwnName(target.host));
                }
                Host::Name(_) => {}
            }
            Ok(Route::Host { transport: *transport, target })
        }
    }
}

/// Judges one address of a host. `is_own` says whether it belongs to the machine that the server runs on.
pub fn judge_address(host: &Host, address: IpAddr, opened: &Opened, is_own: bool) -> Result<(), Refusal> {
    if opened.private.iter().any(|range| range.contains(address)) {
        return Ok(());
    }
    let kind = match classify(address) {
        Some(class) => Kind::Class(class),
        None if is_own => Kind::Own,
        None => return Ok(()),
    };
    Err(Refusal::Address { host: host.clone(), address, kind })
}

/// Judges a directory or file. `real` is its path without symbolic links, none where it cannot be found; whether it is
/// there is not told to somebody who may not read it. `roots` are the paths of `git.allow_paths` without links.
pub fn judge_path(named: &Path, real: Option<&Path>, roots: &[PathBuf]) -> Result<(), Refusal> {
    let inside = real.is_some_and(|real| roots.iter().any(|root| real.starts_with(root)));
    if inside { Ok(()) } else { Err(directory(named)) }
}

fn directory(path: &Path) -> Refusal {
    Refusal::Directory(path.display().to_string())
}

/// Names that mean this machine, whatever a name server says.
fn is_local_name(name: &str) -> bool {
    name == "localhost" || name.ends_with(".localhost")
}

fn opens_loopback(opened: &Opened) -> bool {
    opened.private.iter().any(|range| range.contains([127, 0, 0, 1].into()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn asked(text: &str, reach: RepositoryReach, opened: &Opened) -> Result<Route, Refusal> {
        judge(&Remote::parse(text).unwrap(), reach, opened)
    }

    #[test]
    fn each_form_of_address_by_who_sets_it_and_what_is_opened() {
        let shut = Opened::default();
        let open = Opened {
            private: vec!["10.0.0.0/8".parse().unwrap(), "127.0.0.0/8".parse().unwrap()],
            paths: vec!["/srv/git".into()],
        };
        // The address, whether others than administrators may set it, and whether they may once it is opened.
        for (text, always, opened) in [
            ("https://github.com/a/b.git", true, true),
            ("http://forge.example/a/b", true, true),
            ("https://1.1.1.1/a", true, true),
            ("ssh://git@github.com:2222/a/b.git", true, true),
            ("git@github.com:a/b.git", true, true),
            ("git://forge.example/a", true, true),
            ("/root/secret", false, true),
            ("file:///root/secret", false, true),
            ("http://127.0.0.1:9200/a", false, true),
            ("https://localhost/a", false, true),
            ("https://LOCALHOST./a", false, true),
            ("https://x.localhost/a", false, true),
            ("git@localhost:a", false, true),
            ("ssh://git@10.1.2.3/a", false, true),
            ("git://10.1.2.3:9418/a", false, true),
            ("git@10.1.2.3:a", false, true),
            ("http://[::1]/a", false, false),
            ("http://[::ffff:127.0.0.1]/a", false, true),
            ("http://169.254.169.254/latest", false, false),
            ("http://192.168.1.1/a", false, false),
            ("http://[fe80::1]/a", false, false),
            ("http://[fd00::1]/a", false, false),
            ("http://0.0.0.0/a", false, false),
            ("http://2130706433/a", false, false),
            ("http://0x7f.1/a", false, false),
            ("http://127.1/a", false, false),
            ("http://１２７.0.0.1/a", false, true),
            ("https://public.example\\@127.0.0.1/a", false, false),
            ("https://public.example?@127.0.0.1/a", false, false),
            ("https://public.example#x/a", false, false),
            ("https://public%2eexample/a", false, false),
            ("git@[127.0.0.1:22]:a", false, false),
            ("https://host:0/a", false, false),
        ] {
            let remote = Remote::parse(text);
            let passes = |opened| {
                remote.as_ref().is_ok_and(|remote| judge(remote, RepositoryReach::Public, opened).is_ok())
            };
            assert_eq!((passes(&shut), passes(&open)), (always, opened), "{text}: {remote:?}");
            if let Ok(remote) = &remote {
                assert_eq!(judge(remote, RepositoryReach::Any, &shut), Ok(Route::Free), "{text}");
            }
        }
    }

    #[test]
    fn a_directory_is_judged_by_where_it_really_is() {
        let roots = ["/srv/git".into()];
        for (real, fine) in [
            (Some("/srv/git/shop"), true),
            (Some("/srv/git"), true),
            (Some("/srv/github"), false),
            (Some("/root/secret"), false),
            (None, false),
        ] {
            let named = Path::new("/srv/git/shop");
            assert_eq!(judge_path(named, real.map(Path::new), &roots).is_ok(), fine, "{real:?}");
        }
        let refused = judge_path(Path::new("/srv/git/x"), None, &roots).unwrap_err().to_string();
        assert!(refused.contains("/srv/git/x") && refused.contains("git.allow_paths"), "{refused}");
    }

    #[test]
    fn a_host_that_was_judged_is_the_one_that_is_reached() {
        for (text, target) in [
            ("https://BÜCHER.example:8443/a", "xn--bcher-kva.example:8443"),
            ("https://Forge.Example./a", "forge.example:443"),
            ("git@forge.example:a", "forge.example:22"),
        ] {
            let route = asked(text, RepositoryReach::Public, &Opened::default()).unwrap();
            let Route::Host { target: found, .. } = route else { panic!("{text}: {route:?}") };
            assert_eq!(found.to_string(), target);
        }
    }

    proptest! {
        /// No spelling of an address that is not public passes, whatever the transport.
        #[test]
        fn only_public_addresses_pass(bits: u32, scheme in "https|http|ssh|git") {
            let address = std::net::Ipv4Addr::from(bits);
            for host in [address.to_string(), format!("[{}]", address.to_ipv6_mapped())] {
                let judged = asked(&format!("{scheme}://{host}/a"), RepositoryReach::Public, &Opened::default());
                prop_assert_eq!(judged.is_ok(), classify(address.into()).is_none(), "{}", host);
            }
        }
    }
}
