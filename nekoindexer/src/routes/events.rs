//! `/api/v1/events`: the figures of each second.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    extract::State,
    response::{IntoResponse, sse::Event},
};

use tokio::time::{MissedTickBehavior, interval};

use super::{
    status::{Figures, Now},
    view::View,
};
use crate::daemon::http::{Problem, events::follow};

/// How often figures are sent, and sampled.
const FIGURES_EVERY: Duration = Duration::from_secs(1);

/// Samples the counters each second, and sends the figures to whoever reads events. Never ends.
pub(crate) async fn keep_figures(view: &View) {
    let mut ticks = interval(FIGURES_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        view.recent.lock().sample(Instant::now(), &view.shared.counters);
        if view.figures.receiver_count() > 0
            && let Ok(json) = serde_json::to_string(&Figures::of(view, Now::take()))
        {
            drop(view.figures.send(json.into())); // the last reader may have left meanwhile
        }
    }
}

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
