//! The far side of a mirror: the address is judged by who has set it, and Git is pinned to what was judged. A name is
//! resolved once, here; Git resolves nothing, so a name server that answers differently the second time is not asked.
//! Redirects are not followed: they would lead to hosts that were not judged.

use std::{net::IpAddr, path::Path, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use omoi_protocol::{RepositoryReach, project::Project};
use secrecy::ExposeSecret;

use super::{Error, Mirrors, command::SSH, fault::Fault, file::blocking, local, mirror::FAR};
use crate::{
    domain::{
        egress::{Host, Target},
        repository::{Remote, Route, Transport, judge, judge_address},
    },
    resolve::is_of_this_machine,
};

/// How long finding a host may take.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(20);
/// Addresses of a host that Git may try.
const ADDRESSES_MAX: usize = 8;

/// What Git is told besides the address.
#[derive(Debug, Default)]
struct Pinned {
    url: String,
    settings: Vec<String>,
    args: Vec<&'static str>,
    env: Vec<(&'static str, String)>,
}

impl Mirrors {
    /// Whether an address may be set by a caller with this reach. Names are not resolved: that happens at each fetch.
    pub async fn admit(&self, address: &str, reach: RepositoryReach) -> Result<(), Error> {
        let remote = Remote::parse(address)?;
        if let Route::Directory(path) = judge(&remote, reach, &self.opened)? {
            let opened = self.opened.clone();
            blocking(move || Ok(local::git_dir(&path, &opened)?)).await?;
        }
        Ok(())
    }

    /// Brings the far branches and tags into the repository at `path`.
    pub(super) async fn fetch(&self, path: &Path, project: &Project, remote: &Remote) -> Result<(), Error> {
        let pinned = self.pin(remote, project.repository_reach).await?;
        let mut call = self.git().call(path, "fetch").protocol(remote.protocol());
        call = call.config("http.followRedirects=false");
        for setting in pinned.settings {
            call = call.config(setting);
        }
        for (name, value) in pinned.env {
            call = call.env(name, value);
        }
        if let Some(host) = remote.https_host()
            && let Some(token) =
                self.settings.token.as_ref().filter(|_| self.settings.token_hosts.contains(&host))
        {
            let login = STANDARD.encode(format!("x-access-token:{}", token.expose_secret()));
            call = call.secret_config("http.extraHeader", format!("Authorization: Basic {login}").into());
        }
        let quiet = ["--quiet", "--prune", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules"];
        let refs = [format!("+refs/heads/*:{FAR}*"), "+refs/tags/*:refs/tags/*".to_owned()];
        let fetched = call.args(quiet).args(pinned.args).arg("--").arg(pinned.url).args(refs).run().await;
        fetched.map(|_| ()).map_err(|failure| {
            tracing::info!(project.id = %project.id, %failure, "project {} cannot be fetched", project.id);
            Error::Fetch { address: remote.address.clone(), fault: Fault::of(&failure), failure }
        })
    }

    async fn pin(&self, remote: &Remote, reach: RepositoryReach) -> Result<Pinned, Error> {
        match judge(remote, reach, &self.opened)? {
            Route::Free => Ok(Pinned { url: remote.address.clone(), ..Pinned::default() }),
            Route::Directory(path) => {
                let opened = self.opened.clone();
                let found = blocking(move || Ok(local::git_dir(&path, &opened)?)).await?;
                // Without it Git would look for another repository around the one that was judged.
                let args = vec!["--upload-pack=git-upload-pack --strict"];
                Ok(Pinned { url: found.display().to_string(), args, ..Pinned::default() })
            }
            Route::Host { transport, target } => {
                let addresses = self.addresses(&target).await?;
                Ok(pinned(remote, transport, &target, &addresses))
            }
        }
    }

    /// All addresses of a host, each of them judged: one bad one condemns the name.
    async fn addresses(&self, target: &Target) -> Result<Vec<IpAddr>, Error> {
        let mut addresses = match &target.host {
            Host::Ip(address) => vec![*address],
            Host::Name(name) => {
                let found = tokio::time::timeout(RESOLVE_TIMEOUT, self.resolver.resolve(name)).await;
                found.ok().and_then(Result::ok).unwrap_or_default()
            }
        };
        for address in &addresses {
            judge_address(&target.host, *address, &self.opened, is_of_this_machine(*address))?;
        }
        if addresses.is_empty() {
            return Err(Error::Unresolved { host: target.host.to_string() });
        }
        addresses.truncate(ADDRESSES_MAX);
        Ok(addresses)
    }
}

/// How each transport is held to the addresses that were judged.
fn pinned(remote: &Remote, transport: Transport, target: &Target, addresses: &[IpAddr]) -> Pinned {
    let Target { host, port } = target;
    let bracketed = |address: &IpAddr| Host::Ip(*address).to_string();
    // The path keeps its spelling; host and port are spelt as they were judged.
    let path = remote
        .address
        .split_once("://")
        .map_or("", |(_, rest)| &rest[rest.find('/').unwrap_or(rest.len())..]);
    match transport {
        Transport::Https | Transport::Http => {
            let all: Vec<String> = addresses.iter().map(bracketed).collect();
            let resolve = match host {
                Host::Name(name) => vec![format!("http.curloptResolve={name}:{port}:{}", all.join(","))],
                Host::Ip(_) => Vec::new(),
            };
            let url = format!("{}://{host}:{port}{path}", remote.protocol());
            Pinned { url, settings: resolve, ..Pinned::default() }
        }
        Transport::Ssh => {
            let (address, name) = (&addresses[0], host.to_string());
            let known_as = if *port == transport.default_port() { name } else { format!("[{name}]:{port}") };
            let ssh = format!(
                "{SSH} -o HostName={address} -o 'HostKeyAlias={known_as}' -o Port={port} -o CanonicalizeHostname=no \
                 -o ProxyCommand=none -o ProxyJump=none -o ForwardAgent=no -o PermitLocalCommand=no"
            );
            Pinned { url: remote.address.clone(), env: vec![("GIT_SSH_COMMAND", ssh)], ..Pinned::default() }
        }
        Transport::Git => {
            let url = format!("git://{}:{port}{path}", bracketed(&addresses[0]));
            let env = vec![("GIT_OVERRIDE_VIRTUAL_HOST", target.to_string())];
            Pinned { url, env, ..Pinned::default() }
        }
    }
}

#[cfg(test)]
mod tests {
    use omoi_protocol::RepositoryReach;

    use super::*;
    use crate::domain::repository::Opened;

    fn pinned_to(url: &str, addresses: &[&str]) -> Pinned {
        let remote = Remote::parse(url).unwrap();
        let addresses: Vec<IpAddr> = addresses.iter().map(|address| address.parse().unwrap()).collect();
        match judge(&remote, RepositoryReach::Public, &Opened::default()).unwrap() {
            Route::Host { transport, target } => pinned(&remote, transport, &target, &addresses),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_transport_is_held_to_the_addresses_that_were_judged() {
        let https = pinned_to("https://Forge.Example/a.git", &["93.184.216.34", "2606:4700::1111"]);
        assert_eq!(https.url, "https://forge.example:443/a.git");
        let resolve = "http.curloptResolve=forge.example:443:93.184.216.34,[2606:4700::1111]";
        assert_eq!(https.settings, [resolve]);

        let ssh = pinned_to("git@forge.example:a/b.git", &["93.184.216.34", "93.184.216.35"]);
        assert_eq!(ssh.url, "git@forge.example:a/b.git");
        let (name, command) = &ssh.env[0];
        assert_eq!(*name, "GIT_SSH_COMMAND");
        for option in [
            "HostName=93.184.216.34 ",
            "'HostKeyAlias=forge.example'",
            "Port=22 ",
            "ProxyCommand=none",
            "ProxyJump=none",
        ] {
            assert!(command.contains(option), "{command}");
        }
        let ssh = pinned_to("ssh://git@forge.example:2222/a", &["2606:4700::1111"]);
        let command = &ssh.env[0].1;
        assert!(
            command.contains("HostName=2606:4700::1111 ")
                && command.contains("'HostKeyAlias=[forge.example]:2222'")
        );

        let git = pinned_to("git://forge.example/a", &["2606:4700::1111"]);
        assert_eq!(git.url, "git://[2606:4700::1111]:9418/a");
        assert_eq!(git.env, [("GIT_OVERRIDE_VIRTUAL_HOST", "forge.example:9418".to_owned())]);
    }
}
