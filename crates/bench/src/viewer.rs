//! A viewer of the live stream: a WebSocket client that reads frame headers and, of each event, its position.
//! A thousand of them run beside what they measure.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    sync::watch,
    time::Instant,
};

use crate::wire::end_of_head;

const BUFFER_BYTES: usize = 16 * 1024;
/// A frame longer than this is not one of ours.
const FRAME_BYTES_MAX: usize = 1024 * 1024;

const TEXT: u8 = 1;
const CLOSE: u8 = 8;
const PING: u8 = 9;

pub struct Viewer {
    stream: TcpStream,
    buffer: Vec<u8>,
    filled: usize,
    sight: Sight,
}

/// What one viewer saw.
#[derive(Default)]
pub struct Sight {
    /// Position, and microseconds after the epoch.
    pub arrivals: Vec<(i64, u32)>,
    /// Why the server ended it.
    pub closed: Option<u16>,
}

impl Viewer {
    /// `receive_bytes` makes the socket's buffer small, for one that means to stall.
    pub async fn open(
        at: SocketAddr,
        token: &str,
        query: &str,
        receive_bytes: Option<u32>,
    ) -> anyhow::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        if let Some(bytes) = receive_bytes {
            socket.set_recv_buffer_size(bytes)?;
        }
        let stream = socket.connect(at).await?;
        stream.set_nodelay(true)?;
        let mut viewer = Self { stream, buffer: vec![0; BUFFER_BYTES], filled: 0, sight: Sight::default() };
        viewer.shake_hands(at, token, query).await?;
        Ok(viewer)
    }

    async fn shake_hands(&mut self, at: SocketAddr, token: &str, query: &str) -> anyhow::Result<()> {
        let hello = format!(
            "GET /api/v1/ws/events?{query} HTTP/1.1\r\nhost: {at}\r\nauthorization: Bearer {token}\r\n\
             connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
             sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        self.stream.write_all(hello.as_bytes()).await?;
        loop {
            self.fill().await?;
            if let Some(head) = end_of_head(&self.buffer[..self.filled]) {
                let answer = String::from_utf8_lossy(&self.buffer[..self.filled]).into_owned();
                ensure!(answer.starts_with("HTTP/1.1 101"), "the live stream answered {answer}");
                self.consume(head);
                return Ok(());
            }
        }
    }

    /// Reads until told to stop or cut off. `seen` counts the arrivals of everybody.
    pub async fn watch(
        mut self,
        epoch: Instant,
        seen: Arc<AtomicU64>,
        mut stop: watch::Receiver<bool>,
    ) -> anyhow::Result<Sight> {
        loop {
            let arrived = self.parse(epoch)?;
            seen.fetch_add(arrived, Relaxed);
            if self.sight.closed.is_some() {
                break;
            }
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => break,
                read = self.fill() => if read.is_err() { break },
            }
        }
        Ok(self.sight)
    }

    /// Waits for the next event and takes it whole.
    pub async fn next(&mut self) -> anyhow::Result<Value> {
        loop {
            while let Some(frame) = Frame::parse(&self.buffer[..self.filled])? {
                let (opcode, bytes, event) = (frame.opcode, frame.bytes, frame.payload.to_vec());
                self.consume(bytes);
                match opcode {
                    TEXT if position(&event).is_some() => return Ok(serde_json::from_slice(&event)?),
                    CLOSE => bail!("the server has ended the live stream"),
                    PING => self.pong(),
                    _ => {}
                }
            }
            self.fill().await?;
        }
    }

    /// Takes all whole frames out of the buffer.
    fn parse(&mut self, epoch: Instant) -> anyhow::Result<u64> {
        let now = u32::try_from(epoch.elapsed().as_micros())?;
        let (mut at, mut arrived) = (0, 0);
        while let Some(frame) = Frame::parse(&self.buffer[at..self.filled])? {
            match frame.opcode {
                TEXT => {
                    if let Some(position) = position(frame.payload) {
                        self.sight.arrivals.push((position, now));
                        arrived += 1;
                    }
                }
                CLOSE => {
                    let code = frame.payload.first_chunk().map_or(1005, |code| u16::from_be_bytes(*code));
                    self.sight.closed = Some(code);
                }
                PING => self.pong(),
                _ => {}
            }
            at += frame.bytes;
        }
        self.consume(at);
        Ok(arrived)
    }

    /// Empty, masked with zeros; dropped when the socket is full, as the next will do.
    fn pong(&self) {
        let _ = self.stream.try_write(&[0x8a, 0x80, 0, 0, 0, 0]);
    }

    fn consume(&mut self, bytes: usize) {
        self.buffer.copy_within(bytes..self.filled, 0);
        self.filled -= bytes;
    }

    async fn fill(&mut self) -> anyhow::Result<()> {
        if self.filled == self.buffer.len() {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        let n = self.stream.read(&mut self.buffer[self.filled..]).await?;
        ensure!(n > 0, "the live stream has ended");
        self.filled += n;
        Ok(())
    }
}

struct Frame<'a> {
    opcode: u8,
    payload: &'a [u8],
    /// With its header.
    bytes: usize,
}

impl<'a> Frame<'a> {
    /// None while a part of it is missing. A server sends whole messages, unmasked.
    fn parse(bytes: &'a [u8]) -> anyhow::Result<Option<Self>> {
        let [first, second, rest @ ..] = bytes else { return Ok(None) };
        if first & 0x80 == 0 || second & 0x80 != 0 {
            bail!("a frame that is masked or a fragment");
        }
        let (length, header) = match second {
            126 => match rest.first_chunk() {
                Some(length) => (usize::from(u16::from_be_bytes(*length)), 4),
                None => return Ok(None),
            },
            127 => match rest.first_chunk() {
                Some(length) => (usize::try_from(u64::from_be_bytes(*length))?, 10),
                None => return Ok(None),
            },
            length => (usize::from(*length), 2),
        };
        ensure!(length <= FRAME_BYTES_MAX, "a frame of {length} bytes");
        let payload = bytes.get(header..header + length);
        Ok(payload.map(|payload| Self { opcode: first & 0x0f, payload, bytes: header + length }))
    }
}

/// It is the first field; a text without it is no event.
fn position(event: &[u8]) -> Option<i64> {
    let digits = event.strip_prefix(b"{\"position\":")?;
    let end = digits.iter().position(|b| !b.is_ascii_digit())?;
    std::str::from_utf8(&digits[..end]).ok()?.parse().ok()
}

/// Counts what a viewer should have seen and did not, and what it saw twice or in the wrong order.
#[derive(Debug, Clone, Copy, Default, serde::Serialize)]
pub struct Faults {
    pub lost: u64,
    pub repeated: u64,
    pub out_of_order: u64,
}

impl Faults {
    pub fn any(self) -> bool {
        self.lost + self.repeated + self.out_of_order > 0
    }

    /// `expected` is sorted.
    pub fn add(&mut self, sight: &Sight, expected: &[i64]) -> anyhow::Result<()> {
        let mut positions: Vec<i64> = sight.arrivals.iter().map(|(position, _)| *position).collect();
        self.out_of_order += positions.windows(2).filter(|pair| pair[1] < pair[0]).count() as u64;
        positions.sort_unstable();
        let total = positions.len();
        positions.dedup();
        self.repeated += (total - positions.len()) as u64;
        let missing = expected.iter().filter(|position| positions.binary_search(position).is_err());
        self.lost += missing.count() as u64;
        let strange = positions.iter().find(|position| expected.binary_search(position).is_err());
        match strange {
            Some(position) => {
                Err(anyhow::anyhow!("position {position}")).context("a viewer saw what nobody sent")
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_when_they_are_whole() {
        let mut bytes = vec![0x81, 126, 0, 200];
        bytes.extend([b'x'; 200]);
        assert!(Frame::parse(&bytes[..3]).unwrap().is_none());
        assert!(Frame::parse(&bytes[..203]).unwrap().is_none());
        let frame = Frame::parse(&bytes).unwrap().unwrap();
        assert_eq!((frame.opcode, frame.payload.len(), frame.bytes), (TEXT, 200, 204));
        assert!(Frame::parse(&[0x01, 0]).is_err());
    }

    #[test]
    fn the_position_leads_an_event() {
        assert_eq!(position(br#"{"position":42,"event_type":"x"}"#), Some(42));
        assert_eq!(position(br#"{"type":"ping"}"#), None);
    }

    #[test]
    fn faults_are_counted() {
        let sight = Sight { arrivals: vec![(1, 0), (3, 0), (2, 0), (3, 0)], closed: None };
        let mut faults = Faults::default();
        faults.add(&sight, &[1, 2, 3, 4]).unwrap();
        assert_eq!((faults.lost, faults.repeated, faults.out_of_order), (1, 1, 1));
        assert!(faults.add(&sight, &[1, 2]).is_err());
    }
}
