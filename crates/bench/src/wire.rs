//! HTTP/1.1 by hand over a kept connection: requests are bytes made once and patched, of an answer only what is
//! needed is read. A generator that shares its cores with what it measures must be cheap.

use std::{io, net::SocketAddr, ops::Range, time::Duration};

use anyhow::{Context, bail};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Longest wait for one answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
const BUFFER_BYTES: usize = 16 * 1024;

/// A request whose numbers can be changed in place.
#[derive(Clone)]
pub struct Request {
    bytes: Vec<u8>,
    slots: Vec<Range<usize>>,
}

impl Request {
    pub fn get(at: SocketAddr, path: &str, token: &str) -> Self {
        Self::new("GET", at, path, token, &[])
    }

    pub fn post(at: SocketAddr, path: &str, token: &str, body: &[u8]) -> Self {
        Self::new("POST", at, path, token, body)
    }

    fn new(method: &str, at: SocketAddr, path: &str, token: &str, body: &[u8]) -> Self {
        let mut bytes = format!(
            "{method} {path} HTTP/1.1\r\nhost: {at}\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        bytes.extend_from_slice(body);
        Self { bytes, slots: Vec::new() }
    }

    /// Says where in the body numbers stand.
    #[must_use]
    pub fn with_slots(mut self, body_bytes: usize, slots: &[Range<usize>]) -> Self {
        let head = self.bytes.len() - body_bytes;
        self.slots = slots.iter().map(|slot| slot.start + head..slot.end + head).collect();
        self
    }

    /// Writes consecutive numbers into the slots, with spaces before them, which JSON allows.
    pub fn number_from(&mut self, first: u64) {
        for (mut n, slot) in (first..).zip(&self.slots) {
            for byte in self.bytes[slot.clone()].iter_mut().rev() {
                *byte = if n > 0 { b'0' + u8::try_from(n % 10).unwrap_or(0) } else { b' ' };
                n /= 10;
            }
        }
    }

    /// How many numbers it carries.
    pub fn numbers(&self) -> u64 {
        self.slots.len() as u64
    }
}

pub struct Conn {
    stream: TcpStream,
    buffer: Vec<u8>,
    filled: usize,
}

pub struct Answer<'a> {
    pub status: u16,
    head: &'a [u8],
    pub body: &'a [u8],
}

impl Answer<'_> {
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        header(self.head, name)
    }

    /// Status and body, for people.
    pub fn text(&self) -> String {
        format!("{} {}", self.status, String::from_utf8_lossy(&self.body[..self.body.len().min(300)]))
    }
}

impl Conn {
    pub async fn open(at: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(at).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: vec![0; BUFFER_BYTES], filled: 0 })
    }

    /// Sends a request and waits for its answer; after an error the connection is of no use.
    pub async fn exchange(&mut self, request: &Request) -> io::Result<Answer<'_>> {
        self.stream.write_all(&request.bytes).await?;
        self.filled = 0;
        let (head, status, length) = loop {
            self.fill().await?;
            if let Some(head) = end_of_head(&self.buffer[..self.filled]) {
                let (status, length) = parse_head(&self.buffer[..head])?;
                break (head, status, length);
            }
        };
        if self.buffer.len() < head + length {
            self.buffer.resize(head + length, 0);
        }
        while self.filled < head + length {
            self.fill().await?;
        }
        let (head, body) = self.buffer[..head + length].split_at(head);
        Ok(Answer { status, head, body })
    }

    /// `exchange` with a limit; costs a timer, so not for the inner loops.
    pub async fn ask(&mut self, request: &Request) -> io::Result<Answer<'_>> {
        tokio::time::timeout(ANSWER_TIMEOUT, self.exchange(request)).await?
    }

    /// Asks for JSON and takes nothing but success.
    pub async fn ask_json(&mut self, request: &Request) -> anyhow::Result<Value> {
        let answer = self.ask(request).await?;
        if !answer.is_success() {
            let line =
                String::from_utf8_lossy(request.bytes.split(|b| *b == b'\r').next().unwrap_or_default());
            bail!("{line} answered {}", answer.text());
        }
        serde_json::from_slice(answer.body).context("the answer is not JSON")
    }

    async fn fill(&mut self) -> io::Result<()> {
        if self.filled == self.buffer.len() {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        match self.stream.read(&mut self.buffer[self.filled..]).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            n => {
                self.filled += n;
                Ok(())
            }
        }
    }
}

/// What follows a marker, up to its closing quote: enough to pick one text out of an answer.
pub fn text_after<'a>(body: &'a [u8], marker: &str) -> Option<&'a str> {
    let at = body.windows(marker.len()).position(|window| window == marker.as_bytes())?;
    let rest = &body[at + marker.len()..];
    let end = rest.iter().position(|b| *b == b'"')?;
    std::str::from_utf8(&rest[..end]).ok()
}

pub fn end_of_head(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4)
}

fn parse_head(head: &[u8]) -> io::Result<(u16, usize)> {
    let broken = || io::Error::new(io::ErrorKind::InvalidData, "an answer that cannot be read");
    let status =
        head.get(9..12).and_then(|b| std::str::from_utf8(b).ok()?.parse().ok()).ok_or_else(broken)?;
    let length = match header(head, "content-length") {
        Some(length) => length.parse().map_err(|_| broken())?,
        None if status == 204 => 0,
        None => return Err(broken()),
    };
    Ok((status, length))
}

fn header<'a>(head: &'a [u8], name: &str) -> Option<&'a str> {
    head.split(|b| *b == b'\n').skip(1).find_map(|line| {
        let (key, rest) = line.split_at_checked(name.len())?;
        let value = rest.strip_prefix(b":").filter(|_| key.eq_ignore_ascii_case(name.as_bytes()))?;
        Some(std::str::from_utf8(value).ok()?.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_tells_its_status_and_length() {
        let head = b"HTTP/1.1 201 Created\r\nDate: x\r\nContent-Length: 12\r\n\r\n";
        assert_eq!(parse_head(head).unwrap(), (201, 12));
        assert_eq!(end_of_head(head), Some(head.len()));
        assert_eq!(parse_head(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap(), (204, 0));
        assert!(parse_head(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }

    #[test]
    fn numbers_are_written_into_their_slots() {
        let at = "127.0.0.1:1".parse().unwrap();
        let body = b"[....,....]";
        let mut request = Request::post(at, "/", "t", body).with_slots(body.len(), &[1..5, 6..10]);
        request.number_from(99);
        assert!(request.bytes.ends_with(b"[  99, 100]"));
        request.number_from(7);
        assert!(request.bytes.ends_with(b"[   7,   8]"));
    }

    #[test]
    fn a_text_is_found_by_what_stands_before_it() {
        assert_eq!(text_after(br#"{"a":1,"event_id":"evt-12","b":2}"#, "\"event_id\":\"evt-"), Some("12"));
        assert_eq!(text_after(b"{}", "\"id\":\""), None);
    }
}
