//! How the whole is doing.

use axum::{Json as Answer, extract::State};
use omoi_protocol::{
    AnomalyId, MetricRange,
    monitor::{Anomaly, Dashboard, MetricSeries},
    page::Page,
};
use serde::Deserialize;
use utoipa::IntoParams;

use super::{
    Api,
    auth::{Operator, Viewer},
    extract::{Path, Query},
    page::{self, Paging},
    problem::ApiResult,
    route::{Routes, routes},
};

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(series))
        .routes(routes!(dashboard))
        .routes(routes!(anomalies))
        .routes(routes!(acknowledge))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Range {
    /// How far back; an hour where it is not said.
    #[param(inline)]
    range: Option<MetricRange>,
}

/// Show the figures over time
///
/// Points of 30 seconds for an hour, 5 minutes for a day, 30 minutes for a week. Counts and money are sums over the point,
/// the age of heartbeats is the worst, everything else a mean.
#[utoipa::path(get, path = "/api/v1/monitor/metrics", params(Range), responses((status = 200, body = MetricSeries)), tag = "monitor")]
async fn series(
    State(api): State<Api>,
    _: Viewer,
    Query(asked): Query<Range>,
) -> ApiResult<Answer<MetricSeries>> {
    Ok(Answer(api.store.monitor_series(asked.range.unwrap_or(MetricRange::Hour)).await?))
}

/// Show all of it at a glance
#[utoipa::path(get, path = "/api/v1/monitor/dashboard", responses((status = 200, body = Dashboard)), tag = "monitor")]
async fn dashboard(State(api): State<Api>, _: Viewer) -> ApiResult<Answer<Dashboard>> {
    Ok(Answer(api.store.monitor_dashboard().await?))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Filter {
    /// Only those that nobody has acknowledged, or only those that somebody has.
    open: Option<bool>,
}

/// List what was unusual, newest first
#[utoipa::path(get, path = "/api/v1/monitor/anomalies", params(Filter, Paging), responses((status = 200, body = Page<Anomaly>)), tag = "monitor")]
async fn anomalies(
    State(api): State<Api>,
    _: Viewer,
    Query(filter): Query<Filter>,
    Query(paging): Query<Paging>,
) -> ApiResult<Answer<Page<Anomaly>>> {
    let limit = paging.limit()?;
    let rows = api.store.anomaly_list(filter.open, paging.cursor()?, limit + 1).await?;
    Ok(page::cut(rows, limit, |anomaly| anomaly.id.to_string()))
}

/// Say that somebody has seen it
#[utoipa::path(post, path = "/api/v1/monitor/anomalies/{id}/acknowledge", params(("id" = AnomalyId, Path)),
    responses((status = 200, body = Anomaly)), tag = "monitor")]
async fn acknowledge(
    State(api): State<Api>,
    who: Operator,
    Path(id): Path<AnomalyId>,
) -> ApiResult<Answer<Anomaly>> {
    Ok(Answer(api.store.anomaly_acknowledge(who.name(), &id).await?))
}
