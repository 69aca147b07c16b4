//! The web pages, from within the program: the files as they were built, and `index.html` for every address that is
//! the client's own. Paths that belong to programs have no pages: what no route answers there is a problem with 404.
//! Nothing is compressed here; the build leaves a brotli copy beside each file that shrinks.

use axum::{
    http::{HeaderMap, Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};

use super::problem::ApiError;

/// First segments of paths that programs ask: those of all routes, and those under which programs look for what this
/// server does not have. A page in answer would be taken for success.
const RESERVED: [&str; 8] = ["api", "git", "model", "health", "ready", "metrics", "ws", ".well-known"];

/// What no route answers: a page, or the news that there is nothing.
pub(crate) async fn page(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let path = uri.path();
    if is_reserved(path) {
        return nothing(path);
    }
    if method != Method::GET && method != Method::HEAD {
        return (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "GET, HEAD")]).into_response();
    }
    built::page(path, &headers)
}

/// Whether a path begins with a reserved segment, however it is spelt: with letters of either case, percent-encoded, or
/// behind empty and dot segments.
fn is_reserved(path: &str) -> bool {
    let path = decoded(path);
    let mut segments = Vec::new();
    for segment in path.split(['/', '\\']) {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    segments.first().is_some_and(|first| RESERVED.iter().any(|reserved| first.eq_ignore_ascii_case(reserved)))
}

/// A path with its percent-encoded bytes as text.
fn decoded(path: &str) -> String {
    let hex = |byte: Option<&u8>| char::from(*byte?).to_digit(16);
    let (bytes, mut out, mut at) = (path.as_bytes(), Vec::with_capacity(path.len()), 0);
    while let Some(byte) = bytes.get(at) {
        match (byte, hex(bytes.get(at + 1)), hex(bytes.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 3;
            }
            _ => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn nothing(path: &str) -> Response {
    let detail = format!("there is nothing at {path}");
    ApiError::new(StatusCode::NOT_FOUND, "no_such_path", detail).into_response()
}

/// What a program without pages says in their place.
fn unbuilt(path: &str) -> Response {
    if path != "/" {
        return nothing(path);
    }
    let text = "This server was built without its pages. The API is under /api/v1, described in /api/v1/openapi.json.\n\
                To have the pages, build and start it with: make run\n";
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
}

#[cfg(not(feature = "ui"))]
mod built {
    use axum::{http::HeaderMap, response::Response};

    pub(super) fn page(path: &str, _headers: &HeaderMap) -> Response {
        super::unbuilt(path)
    }
}

#[cfg(feature = "ui")]
mod built {
    use std::borrow::Cow;

    use axum::{
        body::Bytes,
        http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
        response::{IntoResponse, Response},
    };
    use rust_embed::{EmbeddedFile, RustEmbed};

    use super::{nothing, unbuilt};

    /// A debug build reads a file when it is asked for, so that the pages can change without it.
    #[derive(RustEmbed)]
    #[folder = "../../web/dist"]
    #[allow_missing = true]
    struct Dist;

    const INDEX: &str = "index.html";
    /// The names of the files in it change with their content.
    const HASHED: &str = "assets/";
    const POLICY: &str = "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                          connect-src 'self'; object-src 'none'; form-action 'self'; frame-ancestors 'none'; \
                          base-uri 'none'";

    pub(super) fn page(path: &str, asked: &HeaderMap) -> Response {
        let name = path.trim_start_matches('/');
        let name = match name {
            name if is_file(name) => name,
            // The page in place of an asset would break a tab that was open before an upgrade.
            name if name.starts_with(HASHED) => return nothing(path),
            _ => INDEX,
        };
        let copy = accepts_brotli(asked).then(|| Dist::get(&format!("{name}.br"))).flatten();
        let is_brotli = copy.is_some();
        match copy.or_else(|| Dist::get(name)) {
            Some(file) => answer(name, is_brotli, file, asked),
            None => unbuilt(path),
        }
    }

    /// A brotli copy is a form of its file, not one to ask for.
    fn is_file(name: &str) -> bool {
        !name.is_empty() && !name.ends_with(".br") && Dist::get(name).is_some()
    }

    fn answer(name: &str, is_brotli: bool, file: EmbeddedFile, asked: &HeaderMap) -> Response {
        let etag = format!("\"{}\"", crate::store::hex(&file.metadata.sha256_hash()[..16]));
        let is_known = matches_etag(asked, &etag);
        let mut response = match file.data {
            _ if is_known => StatusCode::NOT_MODIFIED.into_response(),
            Cow::Borrowed(bytes) => Bytes::from_static(bytes).into_response(),
            Cow::Owned(bytes) => Bytes::from(bytes).into_response(),
        };
        let headers = response.headers_mut();
        let mut say =
            |name: HeaderName, value: &'static str| headers.insert(name, HeaderValue::from_static(value));
        say(header::CONTENT_TYPE, content_type(name));
        say(header::CONTENT_SECURITY_POLICY, POLICY);
        say(header::VARY, "accept-encoding");
        let is_hashed = name.starts_with(HASHED);
        let keep = if is_hashed { "public, max-age=31536000, immutable" } else { "no-cache" };
        say(header::CACHE_CONTROL, keep);
        if is_brotli {
            say(header::CONTENT_ENCODING, "br");
        }
        if let Ok(etag) = HeaderValue::from_str(&etag) {
            headers.insert(header::ETAG, etag);
        }
        response
    }

    fn accepts_brotli(asked: &HeaderMap) -> bool {
        listed(asked, header::ACCEPT_ENCODING).any(|item| {
            let (coding, quality) = item.split_once(';').unwrap_or((item, ""));
            let refused = quality.trim().strip_prefix("q=").is_some_and(|q| q.parse() == Ok(0.0));
            coding.trim() == "br" && !refused
        })
    }

    fn matches_etag(asked: &HeaderMap, etag: &str) -> bool {
        listed(asked, header::IF_NONE_MATCH)
            .any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == etag)
    }

    fn listed(asked: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
        let values = asked.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',').map(str::trim))
    }

    fn content_type(name: &str) -> &'static str {
        match name.rsplit_once('.').map_or("", |(_, ending)| ending) {
            "html" => "text/html; charset=utf-8",
            "js" => "text/javascript; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            "svg" => "image/svg+xml",
            "woff2" => "font/woff2",
            "json" => "application/json",
            "txt" => "text/plain; charset=utf-8",
            _ => "application/octet-stream",
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        fn asking(name: HeaderName, value: &'static str) -> HeaderMap {
            HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
        }

        #[test]
        fn brotli_is_sent_to_those_who_take_it() {
            let takes = |value| accepts_brotli(&asking(header::ACCEPT_ENCODING, value));
            assert!(takes("gzip, deflate, br, zstd") && takes("br") && takes("br;q=0.5"));
            assert!(!takes("gzip") && !takes("br;q=0") && !takes("br; q=0.0, gzip") && !takes("brotli"));
        }

        #[test]
        fn a_known_file_is_not_sent_again() {
            let known = |value| matches_etag(&asking(header::IF_NONE_MATCH, value), "\"a\"");
            assert!(known("\"a\"") && known("W/\"a\"") && known("\"b\", \"a\"") && known("*"));
            assert!(!known("\"b\"") && !known("a"));
        }

        #[test]
        fn a_missing_asset_is_missing_and_no_file_leads_out_of_the_folder() {
            let status = |path| page(path, &HeaderMap::new()).status();
            assert_eq!(status("/assets/index-gone.js"), StatusCode::NOT_FOUND);
            for outside in ["../../../Cargo.toml", "..%2f..%2fCargo.toml", "/etc/passwd", "index.html.br"] {
                assert!(!is_file(outside), "{outside}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_segment_of_every_route_is_reserved() {
        let document: serde_json::Value = serde_json::from_str(&super::super::openapi_json()).unwrap();
        let paths = document["paths"].as_object().unwrap();
        assert!(paths.len() > 100);
        for path in
            paths.keys().map(String::as_str).chain(["/git/p.git/info/refs", "/model/openai/v1/models"])
        {
            assert!(is_reserved(path), "{path}");
        }
    }

    #[tokio::test]
    async fn an_unknown_path_of_the_api_is_a_problem_and_not_a_page() {
        for path in ["/api", "/api/", "/api/v1/nothing"] {
            let response = page(Method::POST, Uri::from_static(path), HeaderMap::new()).await;
            assert_eq!(response.status(), StatusCode::NOT_FOUND);
            assert_eq!(response.headers()[header::CONTENT_TYPE], omoi_protocol::problem::CONTENT_TYPE);
        }
        for path in
            ["/tasks/git", "/gitx", "/git.html", "/models", "/x/../tasks", "/", "/%", "/%g", "/assets/api"]
        {
            assert!(!is_reserved(path), "{path}");
        }
        let response = page(Method::DELETE, Uri::from_static("/tasks"), HeaderMap::new()).await;
        assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
    }
}
