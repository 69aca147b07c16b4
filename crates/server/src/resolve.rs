//! Names to addresses, and which addresses are this machine's. Name servers are behind a trait, since what they answer is
//! not ours.

use std::{
    io,
    net::{IpAddr, ToSocketAddrs, UdpSocket},
    pin::Pin,
    sync::Arc,
};

use tokio::sync::Semaphore;

/// Lookups that may run at once. The system's resolver blocks a thread for as long as a name server likes.
const LOOKUPS_MAX: usize = 64;

pub type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

pub trait Resolver: Send + Sync + 'static {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a>;
}

/// The machine's own resolver.
pub struct System {
    lookups: Arc<Semaphore>,
}

impl Default for System {
    fn default() -> Self {
        Self { lookups: Arc::new(Semaphore::new(LOOKUPS_MAX)) }
    }
}

impl Resolver for System {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
        Box::pin(async move {
            let permit = Arc::clone(&self.lookups).acquire_owned().await.map_err(io::Error::other)?;
            let name = name.to_owned();
            // The permit is kept until the thread is free, also when nobody waits for the answer any more.
            let looked_up = tokio::task::spawn_blocking(move || {
                let _permit = permit;
                (name.as_str(), 0).to_socket_addrs().map(|found| found.map(|address| address.ip()).collect())
            });
            looked_up.await.map_err(io::Error::other)?
        })
    }
}

/// An address that a socket can be bound to is this machine's. It is asked each time, since machines get and lose
/// addresses.
pub fn is_of_this_machine(address: IpAddr) -> bool {
    let binds = |address: IpAddr| UdpSocket::bind((address, 0)).is_ok();
    // Where the kernel binds to anything (ip_nonlocal_bind), binding tells nothing: this address is nobody's.
    let nobody: IpAddr = match address {
        IpAddr::V4(_) => [192, 0, 2, 1].into(),
        IpAddr::V6(_) => [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into(),
    };
    binds(address) && !binds(nobody)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_machine_knows_itself_and_nobody_under_a_name_that_cannot_be() {
        let found = System::default().resolve("localhost").await.unwrap();
        assert!(!found.is_empty() && found.iter().all(IpAddr::is_loopback), "{found:?}");
        assert!(System::default().resolve("no.such.name.invalid").await.is_err());
    }

    #[test]
    fn addresses_of_this_machine_are_known() {
        for address in ["127.0.0.1", "127.1.2.3"] {
            assert!(is_of_this_machine(address.parse().unwrap()), "{address}");
        }
        for address in ["192.0.2.7", "198.51.100.1", "2001:db8::7"] {
            assert!(!is_of_this_machine(address.parse().unwrap()), "{address}");
        }
    }
}
