//! `/metrics`: figures for Prometheus.

use std::sync::Arc;

use axum::{extract::State, http::HeaderMap, response::Response};

use super::view::View;
use crate::daemon::http::{Problem, exposition::exposed};

/// All figures in the text format of OpenMetrics; in that of Prometheus for who accepts `text/plain` alone.
#[utoipa::path(
    get,
    path = "/metrics",
    responses(
        (status = 200, body = String, description = "All figures", content_type = "application/openmetrics-text"),
        (status = "4XX", body = Problem, content_type = "application/problem+json", description = "Not let in"),
    )
)]
pub(super) async fn metrics(State(view): State<Arc<View>>, headers: HeaderMap) -> Response {
    exposed(&view.registry, &headers)
}
