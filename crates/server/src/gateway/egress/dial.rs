//! The way out: a name is resolved once, every address it has is judged, and the connection goes to an address that
//! was judged. A name that changes its mind between the two finds nobody to tell.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use tokio::{net::TcpStream, time::Instant};

use super::refusal::Refusal;
use crate::{
    config::Config,
    domain::egress::{Cidr, Host, Target, classify},
    resolve::{Resolver, is_of_this_machine},
};

/// How many addresses of a host are tried.
const ADDRESSES_MAX: usize = 4;

pub struct Dialler {
    resolver: Arc<dyn Resolver>,
    allow_private: Vec<Cidr>,
    own: Own,
    timeout: Duration,
}

impl Dialler {
    pub fn new(config: &Config, listens_on: SocketAddr, resolver: Arc<dyn Resolver>) -> Self {
        Self {
            resolver,
            allow_private: config.egress.allow_private.clone(),
            own: Own::new(config, listens_on),
            timeout: config.egress.connect_timeout,
        }
    }

    /// Refuses a target whose address is written in it, before any list is asked.
    pub fn check_literal(&self, target: &Target) -> Result<(), Refusal> {
        match &target.host {
            Host::Ip(address) => self.check(target, *address),
            Host::Name(name) if self.own.has_name(name) => {
                Err(Refusal::ControlPlane { target: target.clone() })
            }
            Host::Name(_) => Ok(()),
        }
    }

    pub async fn dial(&self, target: &Target) -> Result<(TcpStream, IpAddr), Refusal> {
        let deadline = Instant::now() + self.timeout;
        let too_slow = || Refusal::ConnectTooSlow { target: target.clone(), limit: self.timeout };
        let dialling = async {
            let addresses = self.addresses(target).await?;
            self.connect(target, &addresses, deadline).await
        };
        tokio::time::timeout_at(deadline, dialling).await.unwrap_or_else(|_| Err(too_slow()))
    }

    /// All addresses of the host, each of them judged: one bad one condemns the name.
    async fn addresses(&self, target: &Target) -> Result<Vec<IpAddr>, Refusal> {
        let not_resolved = |cause: String| Refusal::NotResolved { host: target.host.to_string(), cause };
        let addresses = match &target.host {
            Host::Ip(address) => vec![*address],
            Host::Name(name) => {
                self.resolver.resolve(name).await.map_err(|error| not_resolved(error.to_string()))?
            }
        };
        addresses.iter().try_for_each(|address| self.check(target, *address))?;
        if addresses.is_empty() {
            return Err(not_resolved("the name server knows none".to_owned()));
        }
        Ok(addresses)
    }

    fn check(&self, target: &Target, address: IpAddr) -> Result<(), Refusal> {
        if self.own.listens_at(address, target.port) {
            return Err(Refusal::ControlPlane { target: target.clone() });
        }
        if self.allow_private.iter().any(|range| range.contains(address)) {
            return Ok(());
        }
        if let Some(class) = classify(address) {
            return Err(Refusal::Address { target: target.clone(), address, class });
        }
        if is_of_this_machine(address) {
            return Err(Refusal::ControlPlane { target: target.clone() });
        }
        Ok(())
    }

    /// To the first of these addresses that answers. Each gets its share of the time left.
    async fn connect(
        &self,
        target: &Target,
        addresses: &[IpAddr],
        deadline: Instant,
    ) -> Result<(TcpStream, IpAddr), Refusal> {
        let tried = &addresses[..addresses.len().min(ADDRESSES_MAX)];
        let mut failed = Refusal::ConnectTooSlow { target: target.clone(), limit: self.timeout };
        for (n, address) in tried.iter().enumerate() {
            let left = deadline.saturating_duration_since(Instant::now());
            let share = left / u32::try_from(tried.len() - n).unwrap_or(1);
            let connecting = TcpStream::connect(SocketAddr::new(*address, target.port));
            match tokio::time::timeout(share, connecting).await {
                Ok(Ok(stream)) => return Ok((stream, *address)),
                Ok(Err(error)) => {
                    let (target, cause) = (target.clone(), error.to_string());
                    failed = Refusal::NotConnected { target, address: *address, cause };
                }
                Err(_) => {}
            }
        }
        Err(failed)
    }
}

/// Where the control plane itself is to be found.
struct Own {
    listens_on: SocketAddr,
    names: Vec<String>,
}

impl Own {
    fn new(config: &Config, listens_on: SocketAddr) -> Self {
        let server = &config.server;
        let public = server.public_url.as_ref().and_then(|url| url.parse::<hyper::Uri>().ok());
        let public = public.as_ref().and_then(hyper::Uri::host);
        let names = server.allowed_hosts.iter().map(String::as_str).chain(public);
        let names = names.filter_map(|name| Host::parse(name).ok()).map(|host| host.to_string()).collect();
        Self { listens_on, names }
    }

    fn has_name(&self, name: &str) -> bool {
        self.names.iter().any(|own| own == name)
    }

    /// No range that an administrator opens reaches the API: it would be a second way to it, past the first.
    fn listens_at(&self, address: IpAddr, port: u16) -> bool {
        let address = address.to_canonical();
        let is_here = || {
            address == self.listens_on.ip().to_canonical()
                || address.is_loopback()
                || address.is_unspecified()
                || is_of_this_machine(address)
        };
        port == self.listens_on.port() && is_here()
    }
}
