//! `/healthz` and `/readyz`: for whoever starts and stops programs.

use std::sync::Arc;

use axum::extract::State;

use super::view::View;
use crate::daemon::http::Problem;

/// The process answers.
#[utoipa::path(get, path = "/healthz", responses(
        (status = 200, body = String, content_type = "text/plain", description = "It answers"),
        (status = "4XX", body = Problem, content_type = "application/problem+json", description = "Not let in"),
    ))]
pub(super) async fn alive() -> &'static str {
    "ok\n"
}

/// The indexer listens and has tried to connect to each configured neighbor, so that its answers are as complete as
/// they can be.
#[utoipa::path(
    get,
    path = "/readyz",
    responses(
        (status = 200, body = String, content_type = "text/plain", description = "It is ready"),
        (status = "4XX", body = Problem, content_type = "application/problem+json", description = "Not let in"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "Not yet"),
    )
)]
pub(super) async fn ready(State(view): State<Arc<View>>) -> Result<&'static str, Problem> {
    match view.shared.neighbors.links.are_tried() {
        true => Ok("ready\n"),
        false => Err(Problem::unavailable("some neighbors have not been tried yet; ask again in a second")),
    }
}
