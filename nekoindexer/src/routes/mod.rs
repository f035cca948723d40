//! The HTTP door of an indexer: what it answers, each in a file of its own. It changes nothing, so it needs no token.

pub mod dashboard;
mod events;
mod health;
mod metrics;
mod neighbors;
mod query;
mod room;
mod search;
mod status;
mod view;

use std::sync::Arc;

use axum::{Router, response::IntoResponse, routing::get};
use utoipa::OpenApi;
use utoipa_axum::{router::OpenApiRouter, routes};

pub(crate) use self::{events::keep_figures, view::View};
use crate::daemon::http::{Guard, guarded};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "nekop2p indexer",
        description = "What a running indexer knows and does. Errors are `application/problem+json`. \
                       The `Host` header must be an IP address, `localhost`, the name of the machine or one of the configuration.",
    ),
    servers((url = "/"))
)]
struct Described;

/// All routes, behind a guard that lets in requests to `hosts`.
pub(crate) fn router(view: &Arc<View>, hosts: Vec<String>) -> Router {
    let (router, described) = OpenApiRouter::with_openapi(Described::openapi())
        .routes(routes!(status::status))
        .routes(routes!(metrics::metrics))
        .routes(routes!(health::alive))
        .routes(routes!(health::ready))
        .routes(routes!(query::query))
        .routes(routes!(search::search))
        .routes(routes!(neighbors::neighbors))
        .routes(routes!(events::figures))
        .with_state(Arc::clone(view))
        .split_for_parts();
    // Made once: it does not change. A description that cannot be written would be a mistake in these files.
    let described: Arc<str> = described.to_json().unwrap_or_default().into();
    let openapi =
        get(async move || ([("content-type", "application/json")], described.to_string()).into_response());
    let router = router.route("/api/v1/openapi.json", openapi).merge(dashboard::router());
    guarded(router, Guard { hosts, token: None })
}
