//! The head of a request, read with bounds and checked before anything is done about it. Nothing ambiguous passes:
//! what we read must be what whoever is behind us would read.

use std::time::Duration;

use tokio::{io::AsyncReadExt, net::TcpStream};

use super::refusal::Refusal;
use crate::domain::egress::Target;

const HEADERS_MAX: usize = 100;
/// Our name in `Via`, by which a request that comes round again is known.
pub const VIA: &str = "omoi-egress";
const HTTP_PORT: u16 = 80;
const CONNECT: &str = "CONNECT";
/// Methods that are passed on over plain HTTP.
pub const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// A request that names its target and can be passed on.
#[derive(Debug)]
pub struct Request {
    pub method: String,
    pub target: Target,
    pub kind: Kind,
    /// All that was read: the head, and what came with it.
    pub bytes: Vec<u8>,
    pub head_length: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Connect,
    Http,
}

/// What a request names, as far as it is known, for the log.
#[derive(Debug, Default, Clone)]
pub struct Named {
    pub method: String,
    pub host: String,
    pub port: u16,
}

/// A request that cannot be passed on, and why.
#[derive(Debug)]
pub struct Refused {
    pub named: Named,
    pub refusal: Refusal,
}

/// None when the client leaves without a request.
pub async fn read(
    client: &mut TcpStream,
    bytes_max: usize,
    timeout: Duration,
) -> Result<Option<Request>, Box<Refused>> {
    let reading = read_head(client, bytes_max);
    let read = tokio::time::timeout(timeout, reading).await.unwrap_or(Err(Refusal::HeadTooSlow(timeout)));
    match read.map_err(|refusal| Box::new(Refused { named: Named::default(), refusal }))? {
        Some((bytes, head_length)) => parse(bytes, head_length).map(Some),
        None => Ok(None),
    }
}

async fn read_head(client: &mut TcpStream, bytes_max: usize) -> Result<Option<(Vec<u8>, usize)>, Refusal> {
    let mut bytes = Vec::with_capacity(1024);
    let mut seen = 0;
    loop {
        if let Some(end) = find_end(&bytes, seen)? {
            return if end > bytes_max {
                Err(Refusal::HeadTooLarge(bytes_max))
            } else {
                Ok(Some((bytes, end)))
            };
        }
        if bytes.len() > bytes_max {
            return Err(Refusal::HeadTooLarge(bytes_max));
        }
        seen = bytes.len();
        match client.read_buf(&mut bytes).await {
            Ok(0) if bytes.is_empty() => return Ok(None),
            Ok(0) => return Err(Refusal::Malformed("it ends before its head does")),
            Ok(_) => {}
            Err(_) => return Ok(None),
        }
    }
}

/// Where the head ends. Lines end in CR LF: a bare LF is a line to some and none to others.
fn find_end(bytes: &[u8], seen: usize) -> Result<Option<usize>, Refusal> {
    for at in (seen..bytes.len()).filter(|at| bytes[*at] == b'\n') {
        let line = &bytes[..at];
        if !line.ends_with(b"\r") {
            return Err(Refusal::Malformed("a line of its head ends in LF without CR"));
        }
        if line.ends_with(b"\r\n\r") {
            return Ok(Some(at + 1));
        }
    }
    Ok(None)
}

fn parse(bytes: Vec<u8>, head_length: usize) -> Result<Request, Box<Refused>> {
    let mut named = Named::default();
    match check(&bytes[..head_length], &mut named) {
        Ok((target, kind)) => Ok(Request { method: named.method, target, kind, bytes, head_length }),
        Err(refusal) => Err(Box::new(Refused { named, refusal })),
    }
}

fn check(head: &[u8], named: &mut Named) -> Result<(Target, Kind), Refusal> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(head) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => return Err(Refusal::Malformed("its head is empty")),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(Refusal::Malformed("it has more than 100 headers"));
        }
        Err(_) => return Err(Refusal::Malformed("its head is not HTTP/1.1")),
    }
    let (method, uri) = (request.method.unwrap_or_default(), request.path.unwrap_or_default());
    named.method = method.chars().take(32).collect();
    named.host = uri.chars().take(200).collect();
    let is_old = request.version == Some(0);
    check_length(is_old, request.headers)?;
    let target = match method {
        CONNECT => Target::parse(uri, None)?,
        _ => Target::parse(authority(uri)?, Some(HTTP_PORT))?,
    };
    (named.host, named.port) = (target.host.to_string(), target.port);
    let kind = kind(method, &named.method)?;
    if kind == Kind::Http {
        check_http(&target, is_old, request.headers)?;
    }
    Ok((target, kind))
}

/// What a method asks of a proxy. Only listed methods pass: TRACE and its kin have the host send the request back with
/// all its headers, and what an unknown method does to a host, the administrator who listed that host does not know.
fn kind(method: &str, named: &str) -> Result<Kind, Refusal> {
    match method {
        CONNECT => Ok(Kind::Connect),
        method if METHODS.contains(&method) => Ok(Kind::Http),
        "TRACE" | "TRACK" => Err(Refusal::MethodNotAllowed(named.to_owned())),
        _ => Err(Refusal::MethodUnknown(named.to_owned())),
    }
}

/// The host and port of an absolute `http` URL.
fn authority(uri: &str) -> Result<&str, Refusal> {
    let is_absolute = uri.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http://"));
    if !is_absolute {
        return Err(Refusal::NotAProxy(uri.chars().take(200).collect()));
    }
    if uri.contains('#') || uri.parse::<hyper::Uri>().is_err() {
        return Err(Refusal::Malformed("its URL is not one that can be requested"));
    }
    let rest = &uri[7..];
    Ok(&rest[..rest.find(['/', '?']).unwrap_or(rest.len())])
}

fn check_length(is_old: bool, headers: &[httparse::Header<'_>]) -> Result<(), Refusal> {
    let lengths: Vec<&[u8]> = values(headers, "content-length").collect();
    let codings: Vec<&[u8]> = values(headers, "transfer-encoding").collect();
    if !lengths.is_empty() && !codings.is_empty() {
        return Err(Refusal::AmbiguousLength("it has Content-Length and Transfer-Encoding"));
    }
    if lengths.len() > 1 || !lengths.iter().all(|length| is_number(length)) {
        return Err(Refusal::AmbiguousLength("its Content-Length is not one number"));
    }
    if codings.len() > 1 || codings.iter().any(|coding| !coding.eq_ignore_ascii_case(b"chunked")) {
        return Err(Refusal::AmbiguousLength("its Transfer-Encoding is not chunked alone"));
    }
    if is_old && !codings.is_empty() {
        return Err(Refusal::AmbiguousLength("it has Transfer-Encoding, which HTTP/1.0 does not know"));
    }
    Ok(())
}

/// Digits alone, and no more of them than a length has.
fn is_number(text: &[u8]) -> bool {
    let digits = text.iter().all(u8::is_ascii_digit);
    digits && std::str::from_utf8(text).is_ok_and(|text| text.parse::<u64>().is_ok())
}

fn check_http(target: &Target, is_old: bool, headers: &[httparse::Header<'_>]) -> Result<(), Refusal> {
    let hosts: Vec<&[u8]> = values(headers, "host").collect();
    match hosts[..] {
        [] if is_old => {}
        [] => return Err(Refusal::Malformed("it has no Host header")),
        [host] => {
            let header = String::from_utf8_lossy(host).into_owned();
            let same = Target::parse(&header, Some(HTTP_PORT)).is_ok_and(|host| host == *target);
            if !same {
                return Err(Refusal::HostMismatch { header, target: target.clone() });
            }
        }
        _ => return Err(Refusal::Malformed("it has more than one Host header")),
    }
    if values(headers, "upgrade").next().is_some() {
        return Err(Refusal::Upgrade(target.clone()));
    }
    if values(headers, "via").any(|via| via.windows(VIA.len()).any(|part| part == VIA.as_bytes())) {
        return Err(Refusal::Loop(target.clone()));
    }
    Ok(())
}

fn values<'a>(headers: &'a [httparse::Header<'_>], name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name)).map(|header| header.value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn verdict(head: &str) -> String {
        let bytes = head.replace('\n', "\r\n").into_bytes();
        let length = bytes.len();
        match parse(bytes, length) {
            Ok(request) => format!("{} {}", request.method, request.target),
            Err(refused) => refused.refusal.code().to_owned(),
        }
    }

    #[test]
    fn a_request_is_passed_on_or_refused_by_its_head_alone() {
        for (head, expected) in [
            ("CONNECT Example.com:443 HTTP/1.1\nHost: example.com:443\n\n", "CONNECT example.com:443"),
            ("CONNECT example.com:443 HTTP/1.0\n\n", "CONNECT example.com:443"),
            ("CONNECT example.com HTTP/1.1\n\n", "bad_host"),
            ("CONNECT a@example.com:443 HTTP/1.1\n\n", "bad_host"),
            ("CONNECT 0x7f000001:443 HTTP/1.1\n\n", "bad_host"),
            ("GET http://example.com/a?b HTTP/1.1\nHost: example.com\n\n", "GET example.com:80"),
            ("GET HTTP://Example.com. HTTP/1.1\nHost: EXAMPLE.com:80\n\n", "GET example.com:80"),
            ("GET http://example.com:8080?q HTTP/1.1\nHost: example.com:8080\n\n", "GET example.com:8080"),
            ("GET http://example.com/ HTTP/1.0\n\n", "GET example.com:80"),
            ("GET http://example.com/ HTTP/1.1\n\n", "malformed"),
            ("GET http://example.com/ HTTP/1.1\nHost: other.example\n\n", "host_mismatch"),
            ("GET http://example.com:99999/ HTTP/1.1\nHost: example.com\n\n", "bad_host"),
            ("GET http://a:b@example.com/ HTTP/1.1\nHost: example.com\n\n", "bad_host"),
            ("GET http://example.com/ HTTP/1.1\nHost: example.com\nHost: example.com\n\n", "malformed"),
            ("GET http://example.com/#x HTTP/1.1\nHost: example.com\n\n", "malformed"),
            ("GET /path HTTP/1.1\nHost: example.com\n\n", "not_a_proxy"),
            ("OPTIONS * HTTP/1.1\nHost: example.com\n\n", "not_a_proxy"),
            ("GET https://example.com/ HTTP/1.1\nHost: example.com\n\n", "not_a_proxy"),
            ("GET ftp://example.com/ HTTP/1.1\nHost: example.com\n\n", "not_a_proxy"),
            ("GET http:/example.com/ HTTP/1.1\nHost: example.com\n\n", "not_a_proxy"),
            ("GET http:///path HTTP/1.1\nHost: example.com\n\n", "malformed"),
            (
                "GET http://example.com/ HTTP/1.1\nHost: example.com\nUpgrade: websocket\n\n",
                "upgrade_refused",
            ),
            ("GET http://example.com/ HTTP/1.1\nHost: example.com\nVia: 1.1 omoi-egress\n\n", "loop"),
            ("GET http://example.com/ HTTP/2.0\nHost: example.com\n\n", "malformed"),
            ("PRI * HTTP/2.0\n\n", "malformed"),
            ("nonsense\n\n", "malformed"),
            ("OPTIONS http://example.com/ HTTP/1.1\nHost: example.com\n\n", "OPTIONS example.com:80"),
            ("TRACE http://example.com/ HTTP/1.1\nHost: example.com\n\n", "method_not_allowed"),
            ("TRACK http://example.com/ HTTP/1.1\nHost: example.com\n\n", "method_not_allowed"),
            ("trace http://example.com/ HTTP/1.1\nHost: example.com\n\n", "method_unknown"),
            ("get http://example.com/ HTTP/1.1\nHost: example.com\n\n", "method_unknown"),
            ("BREW http://example.com/ HTTP/1.1\nHost: example.com\n\n", "method_unknown"),
            ("connect example.com:443 HTTP/1.1\nHost: example.com\n\n", "not_a_proxy"),
            ("CONNECT http://example.com/ HTTP/1.1\nHost: example.com\n\n", "bad_host"),
        ] {
            assert_eq!(verdict(head), expected, "{head}");
        }
    }

    #[test]
    fn a_body_whose_length_can_be_read_in_two_ways_is_refused() {
        for (headers, expected) in [
            ("Content-Length: 5", "POST example.com:80"),
            ("Transfer-Encoding: Chunked", "POST example.com:80"),
            ("Content-Length: 5\nTransfer-Encoding: chunked", "ambiguous_length"),
            ("Transfer-Encoding: chunked\nContent-Length: 5", "ambiguous_length"),
            ("Content-Length: 5\nContent-Length: 5", "ambiguous_length"),
            ("Content-Length: 5, 5", "ambiguous_length"),
            ("Content-Length: +5", "ambiguous_length"),
            ("Content-Length: ", "ambiguous_length"),
            ("Content-Length: 18446744073709551616", "ambiguous_length"),
            ("Transfer-Encoding: gzip, chunked", "ambiguous_length"),
            ("Transfer-Encoding: identity", "ambiguous_length"),
            ("Transfer-Encoding: chunked\nTransfer-Encoding: chunked", "ambiguous_length"),
            ("Transfer-Encoding : chunked", "malformed"),
            ("X: a\n folded", "malformed"),
        ] {
            let head = format!("POST http://example.com/ HTTP/1.1\nHost: example.com\n{headers}\n\n");
            assert_eq!(verdict(&head), expected, "{headers}");
        }
    }

    #[test]
    fn the_head_ends_at_its_empty_line_and_a_bare_line_feed_ends_nothing() {
        let end = |bytes: &[u8], seen| find_end(bytes, seen);
        assert_eq!(end(b"a\r\nb\r\n\r\nrest", 0).unwrap(), Some(8));
        assert_eq!(end(b"a\r\nb\r\n\r", 0).unwrap(), None);
        assert_eq!(end(b"a\r\nb\r\n\r\n", 7).unwrap(), Some(8));
        assert!(end(b"a\nb", 0).is_err());
        assert!(end(b"a\r\n\n", 0).is_err());
    }

    proptest! {
        #[test]
        fn no_head_is_too_much(bytes: Vec<u8>) {
            let length = bytes.len();
            let _ = find_end(&bytes, 0);
            let _ = parse(bytes, length);
        }
    }
}
