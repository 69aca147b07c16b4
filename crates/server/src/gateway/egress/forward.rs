//! Plain HTTP: one request is read, written anew for the host it names, and the answer streamed back. Hyper reads and
//! writes both sides, so no byte of a client's framing reaches the host.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::{
    HeaderMap, Request, Response, StatusCode, Uri, Version,
    body::Incoming,
    client::conn::http1::SendRequest,
    header::{self, HeaderName, HeaderValue},
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{io::AsyncReadExt, net::TcpStream, sync::Mutex};

use super::{
    meter::Meter,
    refusal::Refusal,
    request::{self, VIA},
    upload::{Progress, Upload},
};
use crate::{config, domain::egress::Target};

/// Room for one head on either side, and for what comes with it.
const BUFFER_BYTES: usize = 64 * 1024;
const HEADERS_MAX: usize = 100;

type Body = Either<Incoming, Full<Bytes>>;

/// Headers that speak of one connection alone. `Expect` is among them because we answer it ourselves.
const HOP_BY_HOP: &[&str] = &[
    "connection",
    "expect",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Serves one request; `failed` becomes why it could not be answered.
pub async fn carry(
    client: TcpStream,
    request: &request::Request,
    upstream: TcpStream,
    config: &config::Egress,
    meter: &Arc<Meter>,
    failed: &OnceLock<Refusal>,
) -> Result<(), hyper::Error> {
    let (read, write) = upstream.into_split();
    let upstream = TokioIo::new(tokio::io::join(meter.on(read), meter.on(write)));
    let mut handshake = hyper::client::conn::http1::Builder::new();
    handshake.max_buf_size(BUFFER_BYTES).max_headers(HEADERS_MAX);
    let (sender, connection) = handshake.handshake(upstream).await?;
    let sender = Mutex::new(sender);
    let passing = Passing { target: &request.target, sender, config, meter, failed };

    let (read, write) = client.into_split();
    let client = TokioIo::new(tokio::io::join(request.bytes.as_slice().chain(read), write));
    let mut server = hyper::server::conn::http1::Builder::new();
    server.keep_alive(false).half_close(true).max_headers(HEADERS_MAX);
    server.max_buf_size(config.head_bytes_max.saturating_add(BUFFER_BYTES));
    let served = server.serve_connection(client, service_fn(|request| passing.pass(request)));
    let driven = async {
        // What goes wrong with it shows in the answer.
        let _ = connection.await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        served = served => served,
        () = driven => Ok(()),
    }
}

struct Passing<'a> {
    target: &'a Target,
    sender: Mutex<SendRequest<Upload>>,
    config: &'a config::Egress,
    meter: &'a Meter,
    failed: &'a OnceLock<Refusal>,
}

impl Passing<'_> {
    async fn pass(&self, request: Request<Incoming>) -> Result<Response<Body>, hyper::Error> {
        Ok(self.answer(request).await.unwrap_or_else(|refusal| {
            let answer = refused(&refusal);
            // The answer is still to be carried.
            self.meter.touch();
            let _ = self.failed.set(refusal);
            answer
        }))
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Body>, Refusal> {
        let (request, progress) = self.rewrite(request)?;
        let mut sender = self.sender.lock().await;
        let limit = self.config.idle_timeout;
        let answer = tokio::select! {
            answer = sender.send_request(request) => answer.map_err(|error| self.unanswered(&error, &progress))?,
            () = self.meter.idle(limit) => return Err(self.idle(limit, &progress)),
        };
        if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Err(self.bad_answer("it upgrades a connection that nobody asked to upgrade".to_owned()));
        }
        let (mut parts, body) = answer.into_parts();
        strip(&mut parts.headers);
        parts.version = Version::HTTP_11;
        add_via(&mut parts.headers);
        Ok(Response::from_parts(parts, Either::Left(body)))
    }

    /// Whose fault it is that there is no answer.
    fn unanswered(&self, error: &hyper::Error, progress: &Progress) -> Refusal {
        match progress.broken() {
            Some(cause) => Refusal::BadBody(cause, self.target.clone()),
            None => self.bad_answer(cause(error)),
        }
    }

    /// Who has kept the other side waiting.
    fn idle(&self, limit: Duration, progress: &Progress) -> Refusal {
        match progress.is_awaited() && !progress.is_whole() {
            true => Refusal::BodyTooSlow(limit),
            false => Refusal::Idle { target: self.target.clone(), limit },
        }
    }

    fn bad_answer(&self, cause: String) -> Refusal {
        Refusal::BadAnswer { target: self.target.clone(), cause }
    }

    /// As one sends it to the host itself.
    fn rewrite(&self, request: Request<Incoming>) -> Result<(Request<Upload>, Arc<Progress>), Refusal> {
        let unreadable = || Refusal::Malformed("its URL is not one that can be requested");
        let (mut parts, body) = request.into_parts();
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        parts.uri = path.parse::<Uri>().map_err(|_| unreadable())?;
        parts.version = Version::HTTP_11;
        strip(&mut parts.headers);
        let host = match self.target.port {
            80 => self.target.host.to_string(),
            _ => self.target.to_string(),
        };
        let host = HeaderValue::try_from(host).map_err(|_| unreadable())?;
        parts.headers.insert(header::HOST, host);
        parts.headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        add_via(&mut parts.headers);
        let upload = Upload::new(body);
        let progress = Arc::clone(&upload.progress);
        Ok((Request::from_parts(parts, upload), progress))
    }
}

fn strip(headers: &mut HeaderMap) {
    let listed: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        // These are not one connection's own, whatever somebody lists.
        .filter(|name| *name != header::HOST && *name != header::CONTENT_LENGTH)
        .collect();
    for name in listed {
        headers.remove(name);
    }
    for name in HOP_BY_HOP {
        headers.remove(*name);
    }
}

fn add_via(headers: &mut HeaderMap) {
    if let Ok(via) = HeaderValue::try_from(format!("1.1 {VIA}")) {
        headers.append(header::VIA, via);
    }
}

fn refused(refusal: &Refusal) -> Response<Body> {
    let mut answer = Response::new(Either::Right(Full::new(Bytes::from(refusal.body()))));
    *answer.status_mut() = StatusCode::from_u16(refusal.status().0).unwrap_or(StatusCode::BAD_GATEWAY);
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert("x-omoi-refused", HeaderValue::from_static(refusal.code()));
    answer
}

/// Hyper's errors say what happened in their source.
pub(super) fn cause(error: &hyper::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
