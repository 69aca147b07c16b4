//! The wire between a server and PostgreSQL, which a test can cut or make hang.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::{JoinHandle, JoinSet},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Whole,
    /// Connections end, and new ones end at once.
    Cut,
    /// Connections stay and carry nothing, as when a cable is pulled.
    Hung,
    /// Connections go on, and new ones end at once, as when the database takes no more.
    Full,
}

impl State {
    fn carries(self) -> bool {
        matches!(self, Self::Whole | Self::Full)
    }
}

pub struct Wire {
    pub address: SocketAddr,
    state: watch::Sender<State>,
    running: JoinHandle<()>,
}

impl Wire {
    pub async fn to(database: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (state, seen) = watch::channel(State::Whole);
        Self { address, state, running: tokio::spawn(run(listener, database, seen)) }
    }

    pub fn cut(&self) {
        self.state.send_replace(State::Cut);
    }

    pub fn hang(&self) {
        self.state.send_replace(State::Hung);
    }

    pub fn fill(&self) {
        self.state.send_replace(State::Full);
    }

    pub fn mend(&self) {
        self.state.send_replace(State::Whole);
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.running.abort();
    }
}

async fn run(listener: TcpListener, database: SocketAddr, state: watch::Receiver<State>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((inner, _)) = listener.accept().await else { return };
        if !matches!(*state.borrow(), State::Cut | State::Full) {
            connections.spawn(connect(inner, database, state.clone()));
        }
    }
}

async fn connect(inner: TcpStream, database: SocketAddr, mut state: watch::Receiver<State>) {
    let mut cut = state.clone();
    let carried = async {
        let _ = state.wait_for(|state| state.carries()).await;
        let Ok(outer) = TcpStream::connect(database).await else { return };
        let ((inner_read, inner_write), (outer_read, outer_write)) = (inner.into_split(), outer.into_split());
        tokio::select! {
            () = carry(inner_read, outer_write, state.clone()) => {}
            () = carry(outer_read, inner_write, state.clone()) => {}
        }
    };
    tokio::select! {
        () = carried => {}
        _ = cut.wait_for(|state| *state == State::Cut) => {}
    }
}

async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut state: watch::Receiver<State>) {
    let mut bytes = vec![0; 16 * 1024];
    while let Ok(read @ 1..) = from.read(&mut bytes).await {
        let carries = state.wait_for(|state| state.carries()).await.is_ok();
        if !carries || to.write_all(&bytes[..read]).await.is_err() {
            return;
        }
    }
}
