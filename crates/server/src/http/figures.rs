//! Figures of the requests to each route. Their handles are kept, for to find one by its labels costs more than
//! many a request.

use std::{cell::RefCell, collections::HashMap, time::Duration};

use axum::http::{Method, StatusCode};
use metrics::{Counter, Histogram};

/// What is kept of one route.
struct Route {
    seconds: Histogram,
    answers: Vec<(&'static str, StatusCode, Counter)>,
}

thread_local! {
    /// By path: as many as there are routes.
    static ROUTES: RefCell<HashMap<String, Route>> = RefCell::default();
}

pub fn count(path: &str, method: &Method, status: StatusCode, took: Duration) {
    let method = word(method);
    ROUTES.with_borrow_mut(|routes| {
        if !routes.contains_key(path) {
            let seconds = metrics::histogram!("omoi_http_request_seconds", "path" => path.to_owned());
            routes.insert(path.to_owned(), Route { seconds, answers: Vec::new() });
        }
        let Some(route) = routes.get_mut(path) else { return };
        route.seconds.record(took.as_secs_f64());
        match route.answers.iter().find(|(of, with, _)| *of == method && *with == status) {
            Some((.., counter)) => counter.increment(1),
            None => {
                let counter = metrics::counter!(
                    "omoi_http_requests_total",
                    "method" => method,
                    "path" => path.to_owned(),
                    "status" => status.as_u16().to_string()
                );
                counter.increment(1);
                route.answers.push((method, status, counter));
            }
        }
    });
}

/// Anybody may invent a method, but not a figure.
fn word(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "HEAD" => "HEAD",
        "OPTIONS" => "OPTIONS",
        _ => "OTHER",
    }
}
