//! `/metrics`: figures for Prometheus.

use std::sync::Arc;

use axum::{extract::State, response::Response};

use super::view::View;
use crate::http::{Problem, exposition::exposed};

/// All figures in the text format of OpenMetrics.
#[utoipa::path(
    get,
    path = "/metrics",
    responses(
        (status = 200, body = String, description = "All figures", content_type = "application/openmetrics-text"),
        (status = "4XX", body = Problem, content_type = "application/problem+json", description = "Not let in"),
    )
)]
pub(super) async fn metrics(State(view): State<Arc<View>>) -> Response {
    exposed(&view.registry)
}
