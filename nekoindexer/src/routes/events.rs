//! `/api/v1/events`: the figures of each second.

use std::sync::Arc;

use axum::{
    extract::State,
    response::{IntoResponse, sse::Event},
};

use super::view::View;
use crate::http::{Problem, events::follow};

/// An `event: figures` each second, whose data is what `/status` says beside the neighbors and what never changes; and
/// `event: missed` where a reader was too slow for some.
#[utoipa::path(
    get,
    path = "/api/v1/events",
    responses(
        (status = 200, body = String, description = "A stream of events without an end", content_type = "text/event-stream"),
        (status = "4XX", body = Problem, content_type = "application/problem+json", description = "Not let in"),
    )
)]
pub(super) async fn figures(State(view): State<Arc<View>>) -> impl IntoResponse {
    follow(view.figures.subscribe(), |json: Arc<str>| Some(Event::default().event("figures").data(json)))
}
