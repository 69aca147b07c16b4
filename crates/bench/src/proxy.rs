//! A way to the database that can be cut: while it is, open connections are dropped and new ones refused.

use std::{net::SocketAddr, time::Duration};

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{JoinHandle, JoinSet},
};

/// The port is ours again as soon as nobody else holds it.
const BIND_PERIOD: Duration = Duration::from_millis(5);

pub struct Proxy {
    pub at: SocketAddr,
    open: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Proxy {
    pub async fn start(to: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let at = listener.local_addr()?;
        let (open, gate) = watch::channel(true);
        Ok(Self { at, open, task: tokio::spawn(run(listener, at, to, gate)) })
    }

    pub fn cut(&self) {
        self.open.send_replace(false);
    }

    pub fn mend(&self) {
        self.open.send_replace(true);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run(mut listener: TcpListener, at: SocketAddr, to: SocketAddr, mut gate: watch::Receiver<bool>) {
    loop {
        carry(listener, to, &mut gate).await;
        if gate.wait_for(|open| *open).await.is_err() {
            return;
        }
        listener = loop {
            match TcpListener::bind(at).await {
                Ok(listener) => break listener,
                Err(_) => tokio::time::sleep(BIND_PERIOD).await,
            }
        };
    }
}

/// Until the way is cut; then the listener and all connections end with this.
async fn carry(listener: TcpListener, to: SocketAddr, gate: &mut watch::Receiver<bool>) {
    let mut pairs = JoinSet::new();
    loop {
        tokio::select! {
            _ = gate.wait_for(|open| !*open) => return,
            Ok((inner, _)) = listener.accept() => {
                pairs.spawn(pass(inner, to));
            }
            Some(_) = pairs.join_next() => {}
        }
    }
}

async fn pass(mut inner: TcpStream, to: SocketAddr) -> std::io::Result<()> {
    let mut outer = TcpStream::connect(to).await?;
    inner.set_nodelay(true)?;
    outer.set_nodelay(true)?;
    copy_bidirectional(&mut inner, &mut outer).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn echo(at: SocketAddr) -> std::io::Result<()> {
        let mut stream = TcpStream::connect(at).await?;
        stream.write_all(b"x").await?;
        stream.read_exact(&mut [0]).await?;
        Ok(())
    }

    #[tokio::test]
    async fn a_cut_way_drops_and_refuses_until_it_is_mended() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let to = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut read, mut write) = stream.split();
                    tokio::io::copy(&mut read, &mut write).await
                });
            }
        });
        let proxy = Proxy::start(to).await.unwrap();
        echo(proxy.at).await.unwrap();
        let mut held = TcpStream::connect(proxy.at).await.unwrap();
        held.write_all(b"x").await.unwrap();
        held.read_exact(&mut [0]).await.unwrap();
        proxy.cut();
        assert!(matches!(held.read(&mut [0]).await, Ok(0) | Err(_)));
        assert!(echo(proxy.at).await.is_err());
        proxy.mend();
        while echo(proxy.at).await.is_err() {
            tokio::task::yield_now().await;
        }
    }
}
