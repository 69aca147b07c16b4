//! What all HTTP clients of the agent have in common.

use std::time::Duration;

use omoi_client::install_crypto;
use reqwest::{ClientBuilder, Url, redirect::Policy};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A client for one address, without a proxy: which one there is, is for the launch to say and not for the environment
/// that this process happens to have.
pub fn builder(url: &Url) -> ClientBuilder {
    install_crypto();
    let builder = reqwest::Client::builder()
        .user_agent(concat!("omoi/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .no_proxy()
        // It would carry whatever is sent to wherever it points.
        .redirect(Policy::none());
    if url.scheme() == "http" {
        // No certificate is ever looked at, and where there are none the others could not be loaded.
        builder.tls_certs_only([])
    } else {
        builder
    }
}

/// An error with all that lies behind it: the outermost one often says nothing.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let inner = error.to_string();
        if !text.ends_with(&inner) {
            text = format!("{text}: {inner}");
        }
        next = error.source();
    }
    text
}

/// Somebody else's words, made fit for a line of a log.
pub fn quote(text: &str, chars_max: usize) -> String {
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    let mut chars = text.trim().chars();
    let mut quoted: String = chars.by_ref().take(chars_max).map(clean).collect();
    if chars.next().is_some() {
        quoted.push('…');
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quotation_is_one_line_of_bounded_length() {
        assert_eq!(quote(" a\nb\u{1b}[31mc ", 100), "a b [31mc");
        assert_eq!(quote("ööööö", 3), "ööö…");
        assert_eq!(quote("ööö", 3), "ööö");
    }
}
