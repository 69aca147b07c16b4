//! Paths that belong to programs: what is not there is answered with 404 and a problem, and never with a page.

use reqwest::Method;

use crate::app::{App, On};

const METHODS: [Method; 7] =
    [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn below_a_reserved_prefix_nothing_is_answered_with_a_page() {
    let app = App::start(On::Sqlite).await;
    for path in [
        "/api",
        "/api/v2/tasks",
        "/git",
        "/git/",
        "/git/nothing",
        "/git/p.git/objects/info/packs",
        "/model",
        "/model/",
        "/model/mistral/v1/models",
        "/models/../model/x",
        "/health/",
        "/ready/now",
        "/metrics/",
        "/ws",
        "/ws/events",
        "/.well-known/oauth-authorization-server",
        // Spelt in other ways.
        "/GIT/nothing",
        "/Model/x",
        "//git/nothing",
        "/git//nothing",
        "/git%2Fnothing",
        "/%67it/nothing",
        "/%6Dodel",
        "/tasks/%2e%2e/git/x",
        "/git/nothing?x=/tasks",
        "/%5Cgit/x",
    ] {
        for method in METHODS {
            let response =
                app.http.request(method.clone(), format!("{}{path}", app.base)).send().await.unwrap();
            let kind = response.headers().get("content-type").map(|kind| kind.to_str().unwrap().to_owned());
            assert_eq!(
                (response.status().as_u16(), kind.as_deref()),
                (404, Some("application/problem+json")),
                "{method} {path}"
            );
            if method != Method::HEAD {
                let problem: serde_json::Value = response.json().await.unwrap();
                assert_eq!(problem["code"], "no_such_path", "{method} {path}");
            }
        }
    }
}

/// Below the addresses of a vendor its own libraries ask, so what is not offered there is said in their shape.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_vendor_is_asked_for_is_not_found_in_the_vendor_s_shape() {
    let app = App::start(On::Sqlite).await;
    for method in [Method::GET, Method::POST, Method::DELETE] {
        for vendor in ["anthropic", "openai"] {
            for path in ["v1/files", "v1/messages/batches", "v1//messages", "V1/messages"] {
                let url = format!("{}/model/{vendor}/{path}", app.base);
                let response = app.http.request(method.clone(), url).send().await.unwrap();
                assert_eq!(response.status(), 404, "{method} {vendor}/{path}");
                let error: serde_json::Value = response.json().await.unwrap();
                assert_eq!(error["error"]["type"], "not_found_error", "{method} {vendor}/{path}");
            }
        }
    }
}
