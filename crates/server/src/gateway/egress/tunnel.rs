//! CONNECT: bytes both ways, unread but for the first ones, which may name a host in a TLS handshake.

use std::{io, sync::OnceLock};

use omoi_protocol::EgressTls;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
};

use super::{
    meter::Meter,
    refusal::Refusal,
    sni::{self, Hello},
};
use crate::domain::egress::{Host, Policy, Target};

const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// How a tunnel ended before both sides were done.
#[derive(Debug)]
pub enum End {
    Refused(Refusal),
    /// One side broke the connection off.
    Broken(io::Error),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

/// Carries until both sides have ended. `early` is what the client sent along with its request, `seen` becomes what
/// the first bytes were.
pub async fn carry(
    client: TcpStream,
    early: &[u8],
    upstream: TcpStream,
    target: &Target,
    policy: &Policy,
    meter: &std::sync::Arc<Meter>,
    seen: &OnceLock<EgressTls>,
) -> Result<(), End> {
    let (client_read, mut client_write) = client.into_split();
    let (upstream_read, upstream_write) = upstream.into_split();
    client_write.write_all(ESTABLISHED).await?;
    let guard = Guard { target, policy, seen };
    let up = guard.up(early.chain(client_read), meter.on(upstream_write));
    let down = copy(meter.on(upstream_read), &mut client_write);
    // One side may end long before the other: each direction ends by itself, and an error ends both.
    let carried = tokio::try_join!(up, async { down.await.map_err(End::from) }).map(|_| ());
    if let Err(End::Refused(Refusal::TlsName { .. } | Refusal::TlsUnreadable(_))) = &carried {
        let _ = client_write.write_all(&sni::ALERT_UNRECOGNIZED_NAME).await;
        let _ = client_write.shutdown().await;
    }
    carried
}

async fn copy(mut from: impl AsyncRead + Unpin, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    tokio::io::copy(&mut from, to).await?;
    to.shutdown().await
}

struct Guard<'a> {
    target: &'a Target,
    policy: &'a Policy,
    seen: &'a OnceLock<EgressTls>,
}

impl Guard<'_> {
    /// The client's direction, held back until its first bytes are known for what they are.
    async fn up(
        &self,
        mut client: impl AsyncRead + Unpin,
        mut upstream: impl AsyncWrite + Unpin,
    ) -> Result<(), End> {
        let mut first = Vec::new();
        let hello = sni::read(&mut client, &mut first).await?;
        self.judge(hello).map_err(End::Refused)?;
        upstream.write_all(&first).await?;
        Ok(copy(client, &mut upstream).await?)
    }

    fn judge(&self, hello: Hello) -> Result<(), Refusal> {
        let seen = match hello {
            Hello::NotTls => EgressTls::NotTls,
            Hello::Unnamed => EgressTls::Unnamed,
            Hello::Unreadable => return Err(Refusal::TlsUnreadable(self.target.clone())),
            Hello::Named(name) => {
                let _ = self.seen.set(EgressTls::Named);
                let named = Host::parse(&name).map(|host| Target { host, port: self.target.port });
                let allowed = named.is_ok_and(|named| self.policy.check(&named).is_ok());
                return match allowed {
                    true => Ok(()),
                    false => Err(Refusal::TlsName { target: self.target.clone(), name }),
                };
            }
        };
        let _ = self.seen.set(seen);
        Ok(())
    }
}
