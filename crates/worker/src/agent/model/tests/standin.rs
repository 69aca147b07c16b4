//! A stand-in for a model API. It answers each request on a connection of its own with the next reply, and goes on with
//! the last one.

use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Notify,
    task::JoinHandle,
};

#[derive(Debug, Clone)]
pub struct Reply {
    head: String,
    pieces: Vec<Vec<u8>>,
    then: Then,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Close,
    /// Silence until the other side goes.
    Hang,
}

#[derive(Debug, Clone)]
pub struct Request {
    /// In lower case, with the request line.
    pub head: String,
    pub body: Value,
}

pub struct Standin {
    pub url: String,
    requests: Arc<Mutex<Vec<Request>>>,
    /// Somebody hung up on a reply that hangs.
    pub left: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Reply {
    pub fn new(status: &str, headers: &str, body: &str) -> Self {
        let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\n{headers}\r\n");
        Self { head, pieces: vec![body.as_bytes().to_vec()], then: Then::Close }
    }

    /// Ends with the connection.
    pub fn stream(body: &str) -> Self {
        Self::new("200 OK", "content-type: text/event-stream; charset=utf-8\r\n", body)
    }

    pub fn json(status: &str, headers: &str, body: &Value) -> Self {
        Self::new(status, &format!("content-type: application/json\r\n{headers}"), &body.to_string())
    }

    /// Bytes that are no text.
    pub fn then_bytes(mut self, bytes: &[u8]) -> Self {
        self.pieces.push(bytes.to_vec());
        self
    }

    /// Byte by byte.
    pub fn in_pieces(mut self) -> Self {
        self.pieces = self.pieces.concat().into_iter().map(|byte| vec![byte]).collect();
        self
    }

    /// Promises more than it has, so that the end is no end.
    pub fn cut(mut self) -> Self {
        let head = self.head.trim_end_matches("\r\n");
        self.head = format!("{head}\r\ncontent-length: 99999999\r\n\r\n");
        self
    }

    pub fn then_hang(self) -> Self {
        Self { then: Then::Hang, ..self }
    }

    /// Not even a status.
    pub fn silence() -> Self {
        Self { head: String::new(), pieces: Vec::new(), then: Then::Hang }
    }

    /// Closes without a word.
    pub fn nothing() -> Self {
        Self { head: String::new(), pieces: Vec::new(), then: Then::Close }
    }
}

impl Standin {
    pub async fn start(replies: Vec<Reply>) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").await.unwrap(), replies)
    }

    pub fn on(listener: TcpListener, replies: Vec<Reply>) -> Self {
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (requests, left) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Notify::new()));
        let task = tokio::spawn(serve(listener, replies, requests.clone(), left.clone()));
        Self { url, requests, left, task }
    }

    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

impl Drop for Standin {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    listener: TcpListener,
    replies: Vec<Reply>,
    requests: Arc<Mutex<Vec<Request>>>,
    left: Arc<Notify>,
) {
    for at in 0.. {
        let (mut socket, _) = listener.accept().await.unwrap();
        socket.set_nodelay(true).unwrap();
        let reply = replies[at.min(replies.len() - 1)].clone();
        let Some(request) = request(&mut socket).await else { continue };
        requests.lock().unwrap().push(request);
        let left = left.clone();
        // The other side may go before it has read everything.
        tokio::spawn(async move { play(socket, reply, &left).await.ok() });
    }
}

async fn play(mut socket: TcpStream, reply: Reply, left: &Notify) -> io::Result<()> {
    socket.write_all(reply.head.as_bytes()).await?;
    for piece in reply.pieces {
        socket.write_all(&piece).await?;
        tokio::task::yield_now().await;
    }
    if reply.then == Then::Hang {
        let gone = socket.read(&mut [0]).await;
        left.notify_one();
        gone?;
    }
    socket.shutdown().await?;
    // Closing with something unread would reset the connection and take from the other side what it was sent.
    let _ = tokio::time::timeout(Duration::from_secs(5), socket.read(&mut [0])).await;
    Ok(())
}

async fn request(socket: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    loop {
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let length =
            head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        let body = &bytes[end + 4..];
        if body.len() >= length.unwrap_or(0) {
            return Some(Request { head, body: serde_json::from_slice(body).unwrap() });
        }
    }
}
