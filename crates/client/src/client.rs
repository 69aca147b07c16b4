//! The client: where the server is, who asks, and how long anything may take.

use std::{fmt, sync::Once, time::Duration};

use omoi_protocol::{Role, SandboxId};
use reqwest::{
    Method, Url,
    header::{AUTHORIZATION, HeaderMap, HeaderValue},
    redirect::Policy,
};
use serde::{Deserialize, Serialize};

use crate::{Error, Retry, call::Call};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection costs the server buffers, and a worker that waits needs one, not two. Let go here, it is never used while
/// the other side closes it.
const IDLE: Duration = Duration::from_secs(2);
/// Longer than the server's own limit on a request, so that its answer comes first.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(35);

/// Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct Client {
    pub(crate) http: reqwest::Client,
    /// Without a slash at the end.
    base: String,
    pub(crate) retry: Retry,
    pub(crate) timeout: Duration,
}

/// Whom the server takes the token's bearer for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Whoami {
    /// `operator` or `sandbox`.
    pub kind: String,
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<SandboxId>,
}

impl Client {
    pub fn new(base_url: &str, token: &str) -> Result<Self, Error> {
        install_crypto();
        let url = parse(base_url)?;
        let mut bearer = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| Error::Token)?;
        bearer.set_sensitive(true);
        let mut http = reqwest::Client::builder()
            .user_agent(concat!("omoi/", env!("CARGO_PKG_VERSION")))
            .default_headers(HeaderMap::from_iter([(AUTHORIZATION, bearer)]))
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(IDLE)
            // A redirected POST would arrive as a GET; better that somebody sets the right address.
            .redirect(Policy::none());
        if is_loopback(&url) {
            http = http.no_proxy();
        }
        if url.scheme() == "http" {
            // No certificate is ever looked at, and where there are none the others could not be loaded.
            http = http.tls_certs_only([]);
        }
        let http = http.build().map_err(|source| Error::Setup { source: source.without_url() })?;
        let base = url.as_str().trim_end_matches('/').to_owned();
        Ok(Self { http, base, retry: Retry::default(), timeout: REQUEST_TIMEOUT })
    }

    #[must_use]
    pub fn with_retry(self, retry: Retry) -> Self {
        Self { retry, ..self }
    }

    /// How long one attempt at a request may take, its answer included.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Where the server is.
    pub fn url(&self) -> &str {
        &self.base
    }

    pub async fn whoami(&self) -> Result<Whoami, Error> {
        self.get("/api/v1/whoami").json().await
    }

    pub(crate) fn get(&self, path: &str) -> Call<'_> {
        self.call(Method::GET, path).repeatable()
    }

    pub(crate) fn post(&self, path: &str) -> Call<'_> {
        self.call(Method::POST, path)
    }

    pub(crate) fn put(&self, path: &str) -> Call<'_> {
        self.call(Method::PUT, path).repeatable()
    }

    pub(crate) fn patch(&self, path: &str) -> Call<'_> {
        self.call(Method::PATCH, path).repeatable()
    }

    pub(crate) fn delete(&self, path: &str) -> Call<'_> {
        self.call(Method::DELETE, path).repeatable()
    }

    fn call(&self, method: Method, path: &str) -> Call<'_> {
        Call::new(self, self.http.request(method, format!("{}{path}", self.base)))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("base", &self.base).finish_non_exhaustive()
    }
}

fn parse(base_url: &str) -> Result<Url, Error> {
    let bad = || Error::Address { url: base_url.to_owned() };
    let url = Url::parse(base_url.trim()).map_err(|_| bad())?;
    let plain = matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    if plain { Ok(url) } else { Err(bad()) }
}

/// A proxy would take the address for its own machine.
fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// The HTTP library panics in a process without a provider of cryptography.
pub fn install_crypto() {
    static ONCE: Once = Once::new();
    // Whoever comes second is told that there is one, which is all that is wanted.
    ONCE.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_http_and_nothing_but_a_place() {
        for (given, base) in [
            ("http://127.0.0.1:18000", "http://127.0.0.1:18000"),
            ("https://omoi.example/", "https://omoi.example"),
            (" https://example.org/omoi/ ", "https://example.org/omoi"),
        ] {
            assert_eq!(Client::new(given, "t").unwrap().url(), base);
        }
        for bad in ["", "127.0.0.1:18000", "localhost", "ftp://host", "http://u:p@host", "http://host/?a=b"] {
            assert!(matches!(Client::new(bad, "t"), Err(Error::Address { .. })), "{bad}");
        }
        assert!(matches!(Client::new("http://host", "a\nb"), Err(Error::Token)));
    }

    #[test]
    fn debug_output_hides_the_token() {
        let client = Client::new("http://host", "omoi_op_hidden").unwrap();
        assert!(!format!("{client:?} {:?}", client.http).contains("hidden"));
    }

    #[test]
    fn only_this_machine_is_loopback() {
        for (url, loopback) in [
            ("http://127.0.0.1:1", true),
            ("http://[::1]:1", true),
            ("http://localhost", true),
            ("http://10.0.0.1", false),
            ("http://localhost.example", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(url).unwrap()), loopback, "{url}");
        }
    }
}
