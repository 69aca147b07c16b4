//! The listening socket: how many connections it takes, and how it stops.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    app::{App, soon},
    on_both,
};

/// A connection that is kept open from one request to the next.
struct Kept(TcpStream);

impl Kept {
    async fn open(app: &App) -> Self {
        Self(TcpStream::connect(app.base.trim_start_matches("http://")).await.unwrap())
    }

    async fn ask(&mut self) {
        self.0.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    }

    async fn is_answered(&mut self) {
        let mut bytes = Vec::new();
        while !bytes.ends_with(b"}") {
            assert_ne!(soon(self.0.read_buf(&mut bytes)).await.unwrap(), 0, "it is still open");
        }
        assert!(bytes.starts_with(b"HTTP/1.1 200 OK\r\n"));
    }
}

on_both! {
    |config| config.limits.connections_max = 2 =>

    async fn one_connection_too_many_waits_until_another_has_ended(app: App) {
        let viewer = app.try_watch(&app.token, "").await.unwrap();
        let mut kept = Kept::open(&app).await;
        kept.ask().await;
        kept.is_answered().await;
        let mut waiting = Kept::open(&app).await;
        waiting.ask().await;
        for _ in 0..20 {
            kept.ask().await;
            kept.is_answered().await;
        }
        let unanswered = waiting.0.try_read(&mut [0]).unwrap_err();
        assert_eq!(unanswered.kind(), std::io::ErrorKind::WouldBlock);
        drop(viewer);
        waiting.is_answered().await;
    }
}

on_both! {
    |config| config.server.shutdown_grace = Duration::from_secs(3600) =>

    async fn a_server_that_stops_waits_for_nobody_who_asks_nothing(app: App) {
        let mut app = app;
        let silent = Kept::open(&app).await;
        let mut half = Kept::open(&app).await;
        half.0.write_all(b"GET /health HTTP/1.1\r\nHost:").await.unwrap();
        let mut idle = Kept::open(&app).await;
        idle.ask().await;
        idle.is_answered().await;
        soon(app.restart()).await;
        for mut gone in [silent, half, idle] {
            let _ = soon(gone.0.read_to_end(&mut Vec::new())).await;
        }
    }
}
