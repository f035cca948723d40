//! What a running peer tells of itself over HTTP: `/status`, `/metrics`, `/healthz`, `/readyz`.

mod metrics;
mod status;

use std::{sync::Arc, time::Duration};

use axum::extract::State;
use nekoindexer::daemon::http::Problem;
use tokio::time::timeout;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::api::rest::{Inside, described::Refused};
use crate::library::census::Census;

/// How long an answer waits for the files to be counted, before it goes without.
const COUNTED_WITHIN: Duration = Duration::from_secs(5);

pub(super) fn routes() -> OpenApiRouter<Arc<Inside>> {
    OpenApiRouter::new().routes(routes!(status::state)).routes(routes!(metrics::metrics))
}

/// Those that tell no more than whether it answers and is ready, with their description: everyone may ask.
pub(super) fn health_routes() -> OpenApiRouter<Arc<Inside>> {
    OpenApiRouter::new().routes(routes!(alive)).routes(routes!(ready))
}

/// The files, counted on the runtime of the peer; `None` if that takes too long now.
async fn census(inside: &Inside) -> Option<Census> {
    let figures = Arc::clone(&inside.host.peer.figures);
    let counting = inside.host.node.spawn(async move { figures.census().await });
    timeout(COUNTED_WITHIN, counting).await.ok()?.ok()
}

/// The process answers.
#[utoipa::path(
    get,
    path = "/healthz",
    responses(
        (status = 200, body = String, content_type = "text/plain", description = "It answers"),
        Refused,
    )
)]
async fn alive() -> &'static str {
    "ok\n"
}

/// An indexer is connected, or none is configured: what is shared can be found.
#[utoipa::path(
    get,
    path = "/readyz",
    responses(
        (status = 200, body = String, content_type = "text/plain", description = "It is ready"),
        Refused,
    )
)]
async fn ready(State(inside): State<Arc<Inside>>) -> Result<&'static str, Problem> {
    let links = inside.host.peer.indexers.links();
    if links.is_empty() || links.iter().any(|link| link.is_connected) {
        return Ok("ready\n");
    }
    Err(Problem::unavailable("no indexer is connected; /status says why, and connecting is retried"))
}
