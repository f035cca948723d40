//! `/api/v1/neighbors`: how each neighbor stands with the indexer.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{Json, extract::State};
use nekoproto::{WhyUnasked, clock};
use serde::Serialize;
use utoipa::ToSchema;

use super::view::View;
use crate::{daemon::http::Problem, neighbors::links::Report, shared::Shared};

/// All neighbors.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Neighbors {
    neighbors: Vec<Neighbor>,
}

/// One neighbor.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Neighbor {
    /// Where it listens, or where it connected from last.
    addr: String,
    /// Its id; null if it was never connected.
    node: Option<String>,
    connected: bool,
    /// Why it is a neighbor: `configured`; `member` of this private network that connected to this indexer; or `guest`:
    /// it connected, and may be anybody.
    standing: &'static str,
    /// Whether queries go to it.
    asked: bool,
    /// Queries that it has not answered yet.
    load: usize,
    /// It answers too few of many queries, and is not asked.
    late: bool,
    /// Whether what it advertises of its names counts.
    summary_current: bool,
    /// Milliseconds since its last message about names; null without any.
    silent_ms: Option<u64>,
    /// Why it is not connected, or not asked.
    why: Option<String>,
}

impl Neighbor {
    /// All neighbors of an indexer, the configured ones first. `now` is by the clock that runs on in suspend.
    pub(super) fn all(shared: &Shared, now: Instant) -> Vec<Self> {
        let one = |report: Report| {
            let load = &report.load;
            let channel = report.connected.as_ref().map(|connected| &connected.channel);
            let summary_current = channel.is_some_and(|channel| channel.is_current(now));
            let is_guest = report.trust.is_guest();
            let asked = channel.is_some() && !report.is_silent && (summary_current || !is_guest);
            let silent = channel.and_then(|channel| channel.silent_for(now));
            Self {
                addr: report.addr.to_string(),
                node: report.node.map(|node| node.to_string()),
                connected: report.connected.is_some(),
                standing: report.trust.name(),
                asked,
                load: load.as_ref().map_or(0, |load| load.in_flight()),
                late: load.as_ref().is_some_and(|load| load.is_stuck(Instant::now())),
                summary_current,
                silent_ms: silent.map(millis),
                why: report.why.or_else(|| {
                    let why = if is_guest { WhyUnasked::Guest } else { WhyUnasked::Silent };
                    (report.connected.is_some() && !asked).then(|| why.to_string())
                }),
            }
        };
        shared.neighbors.links.reports().into_iter().map(one).collect()
    }
}

pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// How each neighbor stands with the indexer.
#[utoipa::path(
    get,
    path = "/api/v1/neighbors",
    responses(
        (status = 200, body = Neighbors, description = "All neighbors"),
        (status = "4XX", body = Problem, content_type = "application/problem+json", description = "Not let in"),
    )
)]
pub(super) async fn neighbors(State(view): State<Arc<View>>) -> Json<Neighbors> {
    Json(Neighbors { neighbors: Neighbor::all(&view.shared, clock::now()) })
}
