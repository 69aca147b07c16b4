//! The way to the vendors: where each is, the key that is added, and which headers pass in either direction.

use std::{sync::Once, time::Duration};

use axum::{
    body::Bytes,
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
};
use omoi_protocol::Vendor;
use reqwest::redirect::Policy;

use super::{redact::Redactor, refusal::Refusal};
use crate::config;

/// What a sandbox may say to a vendor. All else stays here, its token above all.
const SENT: [&str; 6] =
    ["accept", "content-type", "user-agent", "anthropic-version", "anthropic-beta", "openai-beta"];
/// What a vendor may say to a sandbox.
const RETURNED: [&str; 7] = [
    "content-type",
    "content-encoding",
    "request-id",
    "retry-after",
    "retry-after-ms",
    "x-should-retry",
    "openai-processing-ms",
];
const RETURNED_PREFIXES: [&str; 2] = ["anthropic-ratelimit-", "x-ratelimit-"];
const IDLE: Duration = Duration::from_secs(90);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the client for model calls cannot be set up: {0}")]
    Setup(reqwest::Error),
    #[error("{0} holds characters that no header may have")]
    Key(&'static str),
}

pub struct Upstreams {
    anthropic: Upstream,
    openai: Upstream,
}

pub struct Upstream {
    http: reqwest::Client,
    base: String,
    key: Option<(HeaderName, HeaderValue, String)>,
    /// The key of the configuration that sets it.
    key_name: &'static str,
    base_name: &'static str,
}

/// What is to be sent.
#[derive(Debug)]
pub struct Letter {
    pub method: Method,
    /// Behind the base address, its query included.
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Upstreams {
    pub fn new(config: &config::Model) -> Result<Self, Error> {
        let anthropic = config.anthropic_api_key.expose();
        let openai = config.openai_api_key.expose();
        Ok(Self {
            anthropic: Upstream {
                http: client(&config.anthropic_base_url, config.connect_timeout)?,
                base: config.anthropic_base_url.clone(),
                key: key(anthropic, HeaderName::from_static("x-api-key"), "", "model.anthropic_api_key")?,
                key_name: "model.anthropic_api_key (ANTHROPIC_API_KEY)",
                base_name: "model.anthropic_base_url",
            },
            openai: Upstream {
                http: client(&config.openai_base_url, config.connect_timeout)?,
                base: config.openai_base_url.clone(),
                key: key(openai, header::AUTHORIZATION, "Bearer ", "model.openai_api_key")?,
                key_name: "model.openai_api_key (OPENAI_API_KEY)",
                base_name: "model.openai_base_url",
            },
        })
    }

    pub fn of(&self, vendor: Vendor) -> &Upstream {
        match vendor {
            Vendor::Anthropic => &self.anthropic,
            Vendor::Openai => &self.openai,
        }
    }
}

impl Upstream {
    /// Refused where no key is configured: nothing is sent without one.
    pub fn request(&self, letter: Letter) -> Result<reqwest::RequestBuilder, Refusal> {
        let (name, value, _) = self.key.as_ref().ok_or_else(|| {
            let message =
                format!("no key for this model API is configured; set {} and restart", self.key_name);
            Refusal::new(StatusCode::FORBIDDEN, "model_key_missing", message)
        })?;
        let mut headers: HeaderMap = SENT
            .into_iter()
            .filter_map(|name| Some((HeaderName::from_static(name), letter.headers.get(name)?.clone())))
            .collect();
        headers.insert(name.clone(), value.clone());
        let url = format!("{}{}", self.base, letter.path);
        Ok(self.http.request(letter.method, url).headers(headers).body(letter.body))
    }

    pub fn redactor(&self) -> Redactor {
        Redactor::new(self.key.as_ref().map_or("", |(_, _, key)| key))
    }

    /// Following it would carry the key to wherever it points.
    pub fn redirected(&self) -> Refusal {
        let message = format!("the model API redirects elsewhere; set {} to where it is", self.base_name);
        Refusal::bad_gateway(message)
    }

    /// Without the address, which is nobody's business inside a sandbox.
    pub fn unreachable(&self, sent: bool) -> Refusal {
        let what = if sent { "broke off before it answered" } else { "cannot be reached" };
        Refusal::bad_gateway(format!("the model API {what}; its address is {}", self.base_name))
    }
}

/// The headers of an answer that may go to a sandbox.
pub fn returned(headers: &HeaderMap, redactor: &Redactor) -> HeaderMap {
    let passes = |name: &HeaderName| {
        let name = name.as_str();
        RETURNED.contains(&name) || RETURNED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    };
    let clean = |value: &HeaderValue| HeaderValue::from_bytes(&redactor.whole(value.as_bytes())).ok();
    headers
        .iter()
        .filter(|(name, _)| passes(name))
        .filter_map(|(name, value)| Some((name.clone(), clean(value)?)))
        .collect()
}

type Key = (HeaderName, HeaderValue, String);

fn key(secret: Option<&str>, name: HeaderName, scheme: &str, of: &'static str) -> Result<Option<Key>, Error> {
    let Some(secret) = secret else { return Ok(None) };
    let mut value = HeaderValue::from_str(&format!("{scheme}{secret}")).map_err(|_| Error::Key(of))?;
    value.set_sensitive(true);
    Ok(Some((name, value, secret.to_owned())))
}

fn client(base: &str, connect_timeout: Duration) -> Result<reqwest::Client, Error> {
    install_crypto();
    let mut http = reqwest::Client::builder()
        .connect_timeout(connect_timeout)
        .pool_idle_timeout(IDLE)
        .redirect(Policy::none());
    if is_loopback(base) {
        http = http.no_proxy();
    }
    http.build().map_err(Error::Setup)
}

/// A proxy would take the address for its own machine.
fn is_loopback(base: &str) -> bool {
    let url = reqwest::Url::parse(base).ok();
    let host = url.as_ref().and_then(reqwest::Url::host_str).unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// The HTTP library panics in a process without a provider of cryptography.
fn install_crypto() {
    static ONCE: Once = Once::new();
    // Whoever comes second is told that there is one, which is all that is wanted.
    ONCE.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
}
