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
const RETURNED: [&str; 6] =
    ["content-type", "request-id", "retry-after", "retry-after-ms", "x-should-retry", "openai-processing-ms"];
const RETURNED_PREFIXES: [&str; 2] = ["anthropic-ratelimit-", "x-ratelimit-"];
/// Headers of an answer that are passed on at most; those beyond it, and longer ones, are left out.
const RETURNED_MAX: usize = 64;
const RETURNED_BYTES_MAX: usize = 4096;
/// Charsets in which the key's characters are single bytes, as they are in the key.
const CHARSETS: [&str; 6] = ["utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1", "windows-1252"];
const ENCODING_CHARS_MAX: usize = 60;
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
    vendor: Vendor,
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
            vendor: Vendor::Anthropic,
        };
        let (base, key) = (&config.openai_base_url, config.openai_api_key.expose());
        let openai = Upstream {
            way: key.map(|key| Way::new(base, config, header::AUTHORIZATION, "Bearer ", key)).transpose()?,
            base: base.clone(),
            vendor: Vendor::Openai,
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
            let message = format!(
                "no key for the {} is set; set {} and restart the server",
                self.vendor.api(),
                self.vendor.key_setting()
            );
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
        let message = format!(
            "the model API answered with a redirect, which the server does not follow; set {} to the API's final address",
            self.vendor.base_setting()
        );
        Refusal::bad_gateway(message)
    }

    /// An answer that is encoded, though it was asked for as it is: the key could not be found in it.
    pub fn encoded(&self, encoding: &str) -> Refusal {
        let message = format!(
            "the model API answered in {encoding} without being asked, so the server cannot mask its key in it; set {} to an \
             endpoint that sends plain answers",
            self.vendor.base_setting()
        );
        Refusal::for_good(StatusCode::BAD_GATEWAY, "answer_encoded", message)
    }

    /// Without the address, which is nobody's business inside a sandbox.
    pub fn unreachable(&self, sent: bool) -> Refusal {
        let what = if sent { "broke off before it answered" } else { "cannot be reached" };
        Refusal::bad_gateway(format!("the model API {what}; its address is {}", self.vendor.base_setting()))
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
        .filter(|(name, value)| passes(name) && value.len() <= RETURNED_BYTES_MAX)
        .take(RETURNED_MAX)
        .filter_map(|(name, value)| Some((name.clone(), clean(value)?)))
        .collect()
}

/// How an answer is encoded, where it is: its content, its transfer or its text.
pub fn encoding(headers: &HeaderMap) -> Option<String> {
    let first = |name: HeaderName, plain: &[&str]| {
        let values = headers.get_all(name).iter();
        let mut words =
            values.flat_map(|value| value.to_str().unwrap_or("unreadable").split(',').map(str::trim));
        words.find(|word| !word.is_empty() && !plain.iter().any(|plain| word.eq_ignore_ascii_case(plain)))
    };
    let coding = first(header::CONTENT_ENCODING, &["identity"]).map(|word| ("content encoding", word));
    let transfer =
        || first(header::TRANSFER_ENCODING, &["chunked", "identity"]).map(|word| ("transfer encoding", word));
    let charset = || charset(headers).map(|word| ("charset", word));
    let (what, word) = coding.or_else(transfer).or_else(charset)?;
    Some(format!("the {what} {:?}", word.chars().take(ENCODING_CHARS_MAX).collect::<String>()))
}

/// The charset of an answer, where it is one in which a key looks different.
fn charset(headers: &HeaderMap) -> Option<&str> {
    let kind = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    let parameters = kind.split(';').skip(1).filter_map(|parameter| parameter.split_once('='));
    let mut charsets = parameters.filter(|(name, _)| name.trim().eq_ignore_ascii_case("charset"));
    charsets.find_map(|(_, value)| {
        let value = value.trim().trim_matches('"');
        (!CHARSETS.iter().any(|plain| value.eq_ignore_ascii_case(plain))).then_some(value)
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_not_plain_is_known_by_its_headers() {
        for (name, values, expected) in [
            ("content-encoding", &[][..], None),
            ("content-encoding", &["identity"], None),
            ("content-encoding", &["Identity, identity"], None),
            ("content-encoding", &[""], None),
            ("content-encoding", &["gzip"], Some("the content encoding \"gzip\"")),
            ("content-encoding", &["GZIP"], Some("the content encoding \"GZIP\"")),
            ("content-encoding", &["identity, br"], Some("the content encoding \"br\"")),
            ("content-encoding", &["identity", "zstd"], Some("the content encoding \"zstd\"")),
            ("content-encoding", &["x-unheard-of"], Some("the content encoding \"x-unheard-of\"")),
            ("transfer-encoding", &["chunked"], None),
            ("transfer-encoding", &["Chunked"], None),
            ("transfer-encoding", &["gzip, chunked"], Some("the transfer encoding \"gzip\"")),
            ("transfer-encoding", &["deflate", "chunked"], Some("the transfer encoding \"deflate\"")),
            ("content-type", &["application/json"], None),
            ("content-type", &["text/event-stream; charset=utf-8"], None),
            ("content-type", &["text/html; Charset=\"ISO-8859-1\""], None),
            ("content-type", &["application/json; charset=utf-16"], Some("the charset \"utf-16\"")),
            ("content-type", &["application/json; a=b; CHARSET=\"UTF-7\""], Some("the charset \"UTF-7\"")),
        ] {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
            }
            assert_eq!(encoding(&headers).as_deref(), expected, "{name} {values:?}");
        }
    }

    #[test]
    fn only_so_many_headers_of_only_so_many_bytes_come_back() {
        let mut headers = HeaderMap::new();
        for n in 0..200 {
            let name = HeaderName::from_bytes(format!("x-ratelimit-{n}").as_bytes()).unwrap();
            headers.insert(name, HeaderValue::from_static("1"));
        }
        headers.insert("retry-after", HeaderValue::from_str(&"7".repeat(5000)).unwrap());
        let returned = returned(&headers, &Secrets::new(["key"]));
        assert_eq!((returned.len(), returned.get("retry-after")), (RETURNED_MAX, None));
    }
}
