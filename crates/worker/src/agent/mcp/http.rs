//! A server that is an address: each message is a request, whose answer is one message or a stream of them.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use reqwest::{
    Client, NoProxy, Proxy, RequestBuilder, Response, StatusCode, Url,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use serde_json::Value;
use tokio::{runtime::Handle, time::timeout};

use super::{
    error::Error,
    rpc::{self, Fault, Incoming},
};
use crate::agent::{
    http::{builder, chain, quote},
    sse::{Decoder, EVENT_BYTES_MAX},
};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const QUOTED_CHARS_MAX: usize = 200;
/// For what nobody waits for.
const ASIDE: Duration = Duration::from_secs(5);

pub struct Address {
    client: Client,
    url: Url,
    next: AtomicU64,
    /// What was agreed on, to be repeated with each message.
    agreed: Mutex<HeaderMap>,
}

impl Address {
    /// `env` says by which proxy, as it says to programs.
    pub fn new(url: &str, env: &BTreeMap<String, String>) -> Result<Self, Error> {
        let bad = || Error::Address { url: url.to_owned() };
        let parsed = Url::parse(url).map_err(|_| bad())?;
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err(bad());
        }
        let client = through(builder(&parsed), env).and_then(reqwest::ClientBuilder::build);
        let client = client.map_err(unreachable)?;
        Ok(Self { client, url: parsed, next: AtomicU64::new(1), agreed: Mutex::default() })
    }

    /// Waits for the answer. Who drops the future has it cancelled.
    pub async fn request(&self, method: &str, params: &Value) -> Result<Value, Error> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut question = Question { address: self, id, open: method == "tools/call" };
        let result = self.ask(id, method, params).await;
        question.open = false;
        result?.map_err(|fault| fault.of(method))
    }

    pub async fn notify(&self, method: &str, params: &Value) -> Result<(), Error> {
        self.post(&rpc::notification(method, params)).await.map(drop)
    }

    /// What this version of the protocol wants with each message from now on.
    pub fn agree_version(&self, version: &str) {
        self.agree(VERSION, HeaderValue::from_str(version).ok());
    }

    /// Nothing is agreed on any more.
    pub fn forget(&self) {
        self.agreed.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn agree(&self, name: HeaderName, value: Option<HeaderValue>) {
        let mut agreed = self.agreed.lock().unwrap_or_else(PoisonError::into_inner);
        match value {
            Some(value) => drop(agreed.insert(name, value)),
            None => drop(agreed.remove(name)),
        }
    }

    async fn ask(&self, id: u64, method: &str, params: &Value) -> Result<Result<Value, Fault>, Error> {
        let response = self.post(&rpc::request(id, method, params)).await?;
        if method == "initialize" {
            self.agree(SESSION, response.headers().get(SESSION).cloned());
        }
        let nothing =
            || Error::Garbled { method: method.to_owned(), what: "there is no answer in it".to_owned() };
        self.answer(response, id).await?.ok_or_else(nothing)
    }

    async fn post(&self, message: &Value) -> Result<Response, Error> {
        let agreed = self.agreed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let has_session = agreed.contains_key(SESSION);
        let response = self.letter(agreed, message).send().await.map_err(unreachable)?;
        match response.status() {
            status if status.is_success() => Ok(response),
            StatusCode::NOT_FOUND if has_session => Err(Error::SessionEnded),
            status => {
                let body = read(response).await.unwrap_or_default();
                let said = quote(&String::from_utf8_lossy(&body), QUOTED_CHARS_MAX);
                Err(Error::Unreachable(format!("{status}: {said}")))
            }
        }
    }

    fn letter(&self, agreed: HeaderMap, message: &Value) -> RequestBuilder {
        let request = self.client.post(self.url.clone()).headers(agreed);
        let request = request.header(ACCEPT, "application/json, text/event-stream");
        request.header(CONTENT_TYPE, "application/json").body(message.to_string())
    }

    /// The result with this number, out of whatever comes with it.
    async fn answer(&self, mut response: Response, id: u64) -> Result<Option<Result<Value, Fault>>, Error> {
        let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        if !content_type.unwrap_or_default().starts_with("text/event-stream") {
            return self.find(rpc::parse(&read(response).await?), id).await;
        }
        let mut decoder = Decoder::default();
        while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
            let events = decoder.push(&chunk).map_err(|error| Error::Unreachable(error.to_string()))?;
            for event in events {
                if let found @ Some(_) = self.find(rpc::parse(event.as_bytes()), id).await? {
                    return Ok(found);
                }
            }
        }
        Ok(None)
    }

    async fn find(
        &self,
        message: Option<Incoming>,
        asked: u64,
    ) -> Result<Option<Result<Value, Fault>>, Error> {
        match message {
            Some(Incoming::Answer { id, result }) if id == asked => Ok(Some(result)),
            Some(Incoming::Question { reply }) => {
                let _ = timeout(ASIDE, self.post(&reply)).await;
                Ok(None)
            }
            _ => Ok(None),
        }
    }
}

/// One that nobody waits for any more is taken back.
struct Question<'a> {
    address: &'a Address,
    id: u64,
    open: bool,
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        if let (true, Ok(runtime)) = (self.open, Handle::try_current()) {
            let agreed = self.address.agreed.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let letter = self.address.letter(agreed, &rpc::cancelled(self.id));
            runtime.spawn(timeout(ASIDE, letter.send()));
        }
    }
}

/// By the proxy that the environment names for either scheme.
fn through(
    mut builder: reqwest::ClientBuilder,
    env: &BTreeMap<String, String>,
) -> reqwest::Result<reqwest::ClientBuilder> {
    let var =
        |names: [&str; 2]| names.iter().find_map(|name| env.get(*name)).filter(|value| !value.is_empty());
    let direct = var(["NO_PROXY", "no_proxy"]).and_then(|hosts| NoProxy::from_string(hosts));
    if let Some(proxy) = var(["HTTP_PROXY", "http_proxy"]) {
        builder = builder.proxy(Proxy::http(proxy)?.no_proxy(direct.clone()));
    }
    if let Some(proxy) = var(["HTTPS_PROXY", "https_proxy"]) {
        builder = builder.proxy(Proxy::https(proxy)?.no_proxy(direct));
    }
    Ok(builder)
}

async fn read(mut response: Response) -> Result<Vec<u8>, Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
        if body.len() + chunk.len() > EVENT_BYTES_MAX {
            return Err(Error::Unreachable(format!("its answer has more than {EVENT_BYTES_MAX} bytes")));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn unreachable(error: reqwest::Error) -> Error {
    Error::Unreachable(chain(&error.without_url()))
}
