//! The signals that mean "go". They are caught before the worker says that it is there; one that comes early is remembered.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

pub struct Signals {
    streams: [Signal; 3],
    /// One came while the worker could not leave yet.
    noted: bool,
}

impl Signals {
    /// The handlers are in place when this returns.
    pub fn catch() -> io::Result<Self> {
        let on = |kind| signal(kind);
        let streams = [on(SignalKind::terminate())?, on(SignalKind::interrupt())?, on(SignalKind::hangup())?];
        Ok(Self { streams, noted: false })
    }

    pub async fn recv(&mut self) {
        if !std::mem::take(&mut self.noted) {
            self.arrived().await;
        }
    }

    /// Does something that should not be cut off. `None` when a second signal cut it off.
    pub async fn through<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = Box::pin(work);
        loop {
            tokio::select! {
                done = &mut work => return Some(done),
                () = self.arrived() => {
                    if std::mem::replace(&mut self.noted, true) {
                        return None;
                    }
                }
            }
        }
    }

    async fn arrived(&mut self) {
        let [terminate, interrupt, hangup] = &mut self.streams;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
