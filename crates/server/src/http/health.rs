//! Whether the process lives, whether it can serve, and its figures.

use axum::{Json as Answer, extract::State, http::StatusCode};
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    Api,
    auth::{Stranger, Viewer},
    problem::{ApiError, ApiResult},
    route::{Routes, routes},
};
use crate::{store, telemetry};

pub fn routes() -> Routes {
    Routes::new().routes(routes!(health)).routes(routes!(ready)).routes(routes!(metrics))
}

pub fn sandbox_routes() -> Routes {
    Routes::new().routes(routes!(sandbox_health))
}

#[derive(Debug, Serialize, ToSchema)]
struct Health {
    /// `ok`.
    status: &'static str,
    service: &'static str,
    version: &'static str,
    timestamp: Timestamp,
}

/// Tell that the process lives
#[utoipa::path(get, path = "/health", responses((status = 200, body = Health)), tag = "health", security(()))]
async fn health(State(api): State<Api>, _: Stranger) -> Answer<Health> {
    Answer(Health {
        status: "ok",
        service: "omoi",
        version: env!("CARGO_PKG_VERSION"),
        timestamp: api.clock.now(),
    })
}

/// Tell that the sandbox API lives
#[utoipa::path(get, path = "/api/v1/sandboxes/health", responses((status = 200, body = Health)), tag = "sandboxes", security(()))]
async fn sandbox_health(State(api): State<Api>, _: Stranger) -> Answer<Health> {
    let version = env!("CARGO_PKG_VERSION");
    Answer(Health { status: "ok", service: "sandbox-api", version, timestamp: api.clock.now() })
}

#[derive(Debug, Serialize, ToSchema)]
struct Ready {
    /// `ready`, or `degraded` where something was lost that cannot be made again.
    status: &'static str,
    store: String,
    /// What was removed from the data directory since the server started, and what is lost with it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lost: Vec<String>,
}

/// Tell whether requests can be served
///
/// The database answers, its files and the other directories are in place, and the disk has room. Otherwise the problem's
/// code names what is missing: `database_unavailable`, `database_removed`, `directory_removed` or `disk_full`.
#[utoipa::path(get, path = "/ready", responses(
    (status = 200, body = Ready),
    (status = 429, body = omoi_protocol::problem::Problem, content_type = "application/problem+json",
        description = "Too much at once; try again"),
), tag = "health", security(()))]
async fn ready(State(api): State<Api>, _: Stranger) -> ApiResult<Answer<Ready>> {
    if api.stop.is_cancelled() {
        let detail = "the server is stopping";
        return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", detail));
    }
    match api.store.ready().await {
        // Ready is a yes or no; probes know no other status for no.
        Err(store::Error::DiskFull(why)) => {
            return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "disk_full", why));
        }
        answered => answered?,
    }
    if let Err(missing) = api.directories.look() {
        return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "directory_removed", missing.to_string()));
    }
    let lost = api.directories.lost();
    let status = if lost.is_empty() { "ready" } else { "degraded" };
    Ok(Answer(Ready { status, store: api.store.name(), lost }))
}

/// Show the figures in Prometheus' form
#[utoipa::path(get, path = "/metrics", responses((status = 200, body = String, content_type = "text/plain")), tag = "health")]
async fn metrics(_: Viewer) -> ApiResult<String> {
    Ok(telemetry::metrics_handle().render())
}
