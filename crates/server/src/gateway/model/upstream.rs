//! The way to the vendors: where each is, the key that is added, and which headers pass in either direction.

use std::{sync::Once, time::Duration};

use axum::{
    body::Bytes,
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, header::InvalidHeaderValue},
};
use omoi_protocol::Vendor;
use omoi_redact::Secrets;
use reqwest::redirect::Policy;

use super::refusal::Refusal;
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
    #[error("the client for model calls cannot be set up")]
    Setup(#[source] reqwest::Error),
    #[error("a model key holds characters that no header may have")]
    Key(#[from] InvalidHeaderValue),
}

pub struct Upstreams {
    anthropic: Upstream,
    openai: Upstream,
}

pub struct Upstream {
    base: String,
    /// None without a key: then there is nothing to send and no client is needed.
    way: Option<Way>,
    /// The keys of the configuration that set them.
    key_name: &'static str,
    base_name: &'static str,
}

struct Way {
    http: reqwest::Client,
    header: (HeaderName, HeaderValue),
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
        let (base, key) = (&config.anthropic_base_url, config.anthropic_api_key.expose());
        let header = HeaderName::from_static("x-api-key");
        let anthropic = Upstream {
            way: key.map(|key| Way::new(base, config, header, "", key)).transpose()?,
            base: base.clone(),
            key_name: "model.anthropic_api_key (ANTHROPIC_API_KEY)",
            base_name: "model.anthropic_base_url",
        };
        let (base, key) = (&config.openai_base_url, config.openai_api_key.expose());
        let openai = Upstream {
            way: key.map(|key| Way::new(base, config, header::AUTHORIZATION, "Bearer ", key)).transpose()?,
            base: base.clone(),
            key_name: "model.openai_api_key (OPENAI_API_KEY)",
            base_name: "model.openai_base_url",
        };
        Ok(Self { anthropic, openai })
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
        let way = self.way.as_ref().ok_or_else(|| {
            let message =
                format!("no key for this model API is configured; set {} and restart", self.key_name);
            Refusal::new(StatusCode::FORBIDDEN, "model_key_missing", message)
        })?;
        let mut headers: HeaderMap = SENT
            .into_iter()
            .filter_map(|name| Some((HeaderName::from_static(name), letter.headers.get(name)?.clone())))
            .collect();
        let (name, value) = way.header.clone();
        headers.insert(name, value);
        let url = format!("{}{}", self.base, letter.path);
        Ok(way.http.request(letter.method, url).headers(headers).body(letter.body))
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
pub fn returned(headers: &HeaderMap, secrets: &Secrets) -> HeaderMap {
    let passes = |name: &HeaderName| {
        let name = name.as_str();
        RETURNED.contains(&name) || RETURNED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    };
    let clean = |value: &HeaderValue| HeaderValue::from_bytes(&secrets.bytes(value.as_bytes())).ok();
    headers
        .iter()
        .filter(|(name, _)| passes(name))
        .filter_map(|(name, value)| Some((name.clone(), clean(value)?)))
        .collect()
}

impl Way {
    fn new(
        base: &str,
        config: &config::Model,
        name: HeaderName,
        scheme: &str,
        key: &str,
    ) -> Result<Self, Error> {
        install_crypto();
        let mut value = HeaderValue::from_str(&format!("{scheme}{key}"))?;
        value.set_sensitive(true);
        let mut http = reqwest::Client::builder()
            .connect_timeout(config.connect_timeout)
            .pool_idle_timeout(IDLE)
            .redirect(Policy::none());
        if is_loopback(base) {
            http = http.no_proxy();
        }
        let http = http.build().map_err(Error::Setup)?;
        Ok(Self { http, header: (name, value) })
    }
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
