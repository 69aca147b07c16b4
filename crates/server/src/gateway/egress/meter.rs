//! How much went each way over a connection, and when it last did.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Instant,
};

#[derive(Debug)]
pub struct Meter {
    began: Instant,
    up: AtomicU64,
    down: AtomicU64,
    /// Milliseconds from the beginning to the last byte.
    last_ms: AtomicU64,
}

impl Meter {
    pub fn start() -> Arc<Self> {
        let zero = || AtomicU64::new(0);
        Arc::new(Self { began: Instant::now(), up: zero(), down: zero(), last_ms: zero() })
    }

    pub fn up(&self) -> u64 {
        self.up.load(Ordering::Relaxed)
    }

    pub fn down(&self) -> u64 {
        self.down.load(Ordering::Relaxed)
    }

    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Counts as if a byte had gone over it now.
    pub fn touch(&self) {
        self.last_ms.store(millis(self.began.elapsed()), Ordering::Relaxed);
    }

    /// Ready when nothing has gone either way for so long.
    pub async fn idle(&self, limit: Duration) {
        loop {
            let last = self.began + Duration::from_millis(self.last_ms.load(Ordering::Relaxed));
            if last.elapsed() >= limit {
                return;
            }
            tokio::time::sleep_until(last + limit).await;
        }
    }

    /// Counts what is read from `inner` as down and what is written to it as up.
    pub fn on<T>(self: &Arc<Self>, inner: T) -> Metered<T> {
        Metered { inner, meter: Arc::clone(self) }
    }
}

pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// One side of a connection to the outside.
#[derive(Debug)]
pub struct Metered<T> {
    inner: T,
    meter: Arc<Meter>,
}

impl<T: AsyncRead + Unpin> AsyncRead for Metered<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(cx, buf);
        let bytes = buf.filled().len() - before;
        if bytes > 0 {
            self.meter.down.fetch_add(bytes as u64, Ordering::Relaxed);
            self.meter.touch();
        }
        read
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Metered<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, buf);
        if let Poll::Ready(Ok(bytes)) = written {
            self.meter.up.fetch_add(bytes as u64, Ordering::Relaxed);
            self.meter.touch();
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn it_is_idle_only_after_nothing_has_moved_for_so_long() {
        let limit = Duration::from_millis(40);
        let meter = Meter::start();
        let (near, mut far) = tokio::io::duplex(64);
        let mut near = meter.on(near);
        meter.idle(limit).await;
        near.write_all(b"up").await.unwrap();
        far.write_all(b"down").await.unwrap();
        near.read_exact(&mut [0; 4]).await.unwrap();
        let moved = Instant::now();
        meter.idle(limit).await;
        // It keeps whole milliseconds.
        assert!(moved.elapsed() >= limit - Duration::from_millis(1));
        assert_eq!((meter.up(), meter.down()), (2, 4));
    }
}
