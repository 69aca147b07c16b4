//! A listening socket, of the server itself or of a sandbox's door: takes connections, as many at once as it may, and
//! serves them until it is stopped.

use std::{
    io,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    http::{Extensions, Request},
};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower_service::Service;

/// How long the head of a request may take. The time between two requests counts too, so it is longer than the half minute
/// that workers and pages let pass: whoever calls that often should not find the connection just closed.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(45);
/// When sockets of this process run out, waiting is all there is to do.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

pub struct Listen {
    pub socket: TcpListener,
    /// Connections that are open together; more wait until one has ended.
    pub connections_max: usize,
    /// See [`HEAD_TIMEOUT`].
    pub head_timeout: Duration,
    pub app: Router,
    pub ending: Ending,
    pub tracker: TaskTracker,
    pub stop: CancellationToken,
}

/// What becomes of open connections when it is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Answers that are under way are sent to their end.
    Finish,
    CutOff,
}

impl Listen {
    /// `mark` notes on each request where it comes from.
    pub async fn serve(self, mark: impl Fn(&mut Extensions, SocketAddr) + Clone + Send + 'static) {
        let places = Arc::new(Semaphore::new(self.connections_max));
        while let Some((socket, peer)) = self.next(&places).await {
            let (app, mark) = (self.app.clone(), mark.clone());
            let was_asked = Arc::new(AtomicBool::new(false));
            let asked = was_asked.clone();
            let service = service_fn(move |mut request: Request<Incoming>| {
                asked.store(true, Ordering::Relaxed);
                mark(request.extensions_mut(), peer);
                app.clone().call(request.map(Body::new))
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(self.head_timeout)
                .serve_connection(TokioIo::new(socket), service)
                .with_upgrades();
            let (stop, ending) = (self.stop.clone(), self.ending);
            self.tracker.spawn(async move {
                let mut connection = pin!(connection);
                let served = tokio::select! {
                    served = connection.as_mut() => served,
                    () = stop.cancelled() => {
                        // One that has asked nothing yet would be waited for until it does.
                        if ending == Ending::CutOff || !was_asked.load(Ordering::Relaxed) {
                            return;
                        }
                        connection.as_mut().graceful_shutdown();
                        connection.await
                    }
                };
                if let Err(error) = served {
                    tracing::debug!(%error, "a connection ended");
                }
            });
        }
    }

    /// The next connection, once there is a place for it; none when it is stopped.
    async fn next(&self, places: &Arc<Semaphore>) -> Option<(Seated, SocketAddr)> {
        let taking = async {
            let place = places.clone().acquire_owned().await.ok()?;
            loop {
                match self.socket.accept().await {
                    Ok((socket, peer)) => {
                        // Small answers must not wait for more to send.
                        if let Err(error) = socket.set_nodelay(true) {
                            tracing::debug!(%error, "a connection keeps its delay");
                        }
                        return Some((Seated { socket, _place: place }, peer));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "a connection cannot be taken; trying again");
                        tokio::time::sleep(ACCEPT_AGAIN).await;
                    }
                }
            }
        };
        self.stop.run_until_cancelled(taking).await.flatten()
    }
}

/// A connection and its place, which is free again when the connection has ended, be it a WebSocket by then.
struct Seated {
    socket: TcpStream,
    _place: OwnedSemaphorePermit,
}

impl Seated {
    fn socket(self: Pin<&mut Self>) -> Pin<&mut TcpStream> {
        Pin::new(&mut self.get_mut().socket)
    }
}

impl AsyncRead for Seated {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.socket().poll_read(cx, into)
    }
}

impl AsyncWrite for Seated {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.socket().poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket().poll_shutdown(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.socket().poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn whoever_never_ends_the_head_of_a_request_is_cut_off() {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let (tracker, stop) = (TaskTracker::new(), CancellationToken::new());
        let listen = Listen {
            socket,
            connections_max: 1,
            head_timeout: Duration::from_millis(20),
            app: Router::new(),
            ending: Ending::Finish,
            tracker: tracker.clone(),
            stop: stop.clone(),
        };
        tracker.spawn(listen.serve(|_, _| {}));
        // The second has its place only when the first is gone.
        for begun in ["", "GET / HTTP/1.1\r\nHost:"] {
            let mut slow = TcpStream::connect(address).await.unwrap();
            slow.write_all(begun.as_bytes()).await.unwrap();
            slow.read_to_end(&mut Vec::new()).await.unwrap();
        }
        stop.cancel();
        tracker.close();
        tracker.wait().await;
    }
}
