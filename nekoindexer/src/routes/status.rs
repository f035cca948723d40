//! `/status`: everything about the indexer at one glance.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use axum::{Json, extract::State};
use nekoproto::clock;
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    neighbors::{Neighbor, millis},
    view::View,
};
use crate::{
    counters::{Histogram, bucket_ends_us},
    daemon::http::{Problem, exposition::resident_bytes},
    figures::SAMPLES,
    metrics::{budget, drops},
};

/// An indexer.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = IndexerStatus)]
pub(super) struct Status {
    /// Its id.
    node: String,
    version: &'static str,
    /// The network it belongs to.
    network: String,
    /// Where it listens for nodes.
    listen: String,
    neighbors: Vec<Neighbor>,
    #[serde(flatten)]
    figures: Figures,
}

/// What changes all the time.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Figures {
    /// Milliseconds since the start.
    uptime_ms: u64,
    /// Names with at least one holder.
    names: usize,
    /// Peers with a connection, or a lease that outlives it.
    holders: usize,
    /// Answers since the start: to queries, and to lookups in this index alone.
    queries: u64,
    /// The same in a second, over the last second.
    queries_per_s: f64,
    /// The same over the last ten.
    queries_per_s_10: f64,
    /// Queries since the start for which neighbors were asked.
    forwarded: u64,
    /// Records that were registered since the start, repeated registrations among them.
    registered: u64,
    /// Messages about newer versions since the start.
    invalidations: u64,
    latency: Latency,
    /// What was not done since the start, or not completely, by reason.
    drops: BTreeMap<&'static str, u64>,
    /// What is used of each limit.
    budget: BTreeMap<&'static str, Used>,
    /// Memory of the process in bytes.
    memory_bytes: Option<u64>,
}

/// What is used of a limit.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(untagged)]
enum Used {
    /// A number.
    Count { used: usize, max: usize },
    /// Memory.
    Bytes { used_bytes: usize, max_bytes: usize },
}

/// How long answers took.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Latency {
    /// Half of the answers of the last ten seconds took at most so many milliseconds; null without answers.
    p50_ms: Option<f64>,
    p90_ms: Option<f64>,
    p99_ms: Option<f64>,
    /// All answers since the start. Those that no neighbor was asked for are a sample, weighted.
    buckets: Vec<Bucket>,
}

/// The answers that took longer than those of the bucket before.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Bucket {
    /// And at most so many milliseconds; null: any time.
    le_ms: Option<f64>,
    count: u64,
}

/// What has to be asked of the system.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    at: Instant,
    memory_bytes: Option<u64>,
}

impl Now {
    pub(super) fn take() -> Self {
        Self { at: Instant::now(), memory_bytes: resident_bytes() }
    }
}

impl Figures {
    pub(super) fn of(view: &View, now: Now) -> Self {
        let shared = &view.shared;
        let counters = &shared.counters;
        let (second, seconds) = {
            let recent = view.recent.lock();
            (recent.last(1), recent.last(SAMPLES))
        };
        let budget = budget(shared, &view.arrivals);
        Self {
            uptime_ms: millis(now.at.saturating_duration_since(view.began)),
            names: shared.state.index.names(),
            holders: shared.state.index.holders(),
            queries: counters.answered(),
            queries_per_s: second.rate(),
            queries_per_s_10: seconds.rate(),
            forwarded: counters.forwards.get(),
            registered: counters.records.get(),
            invalidations: counters.invalidations.get(),
            latency: Latency::of(&counters.answers(), &seconds.answers),
            drops: drops(shared, &view.arrivals).collect(),
            budget: budget.into_iter().map(|(what, used, max)| (what, Used::of(what, used, max))).collect(),
            memory_bytes: now.memory_bytes,
        }
    }
}

impl Latency {
    fn of(all: &Histogram, recent: &Histogram) -> Self {
        let quantile_ms = |share| recent.quantile_us(share).map(|us| us / 1e3);
        let buckets = all.buckets.iter().enumerate();
        Self {
            p50_ms: quantile_ms(0.5),
            p90_ms: quantile_ms(0.9),
            p99_ms: quantile_ms(0.99),
            buckets: buckets.map(|(n, count)| Bucket { le_ms: bucket_ends_ms(n), count: *count }).collect(),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "powers of two")]
fn bucket_ends_ms(n: usize) -> Option<f64> {
    bucket_ends_us(n).map(|us| us as f64 / 1e3)
}

impl Used {
    fn of(what: &str, used: usize, max: usize) -> Self {
        match what {
            "memory" | "summaries" => Self::Bytes { used_bytes: used, max_bytes: max },
            _ => Self::Count { used, max },
        }
    }
}

/// Everything about the indexer at one glance.
#[utoipa::path(
    get,
    path = "/status",
    responses(
        (status = 200, body = Status, description = "The indexer now"),
        (status = "4XX", body = Problem, content_type = "application/problem+json", description = "Not let in"),
    )
)]
pub(super) async fn status(State(view): State<Arc<View>>) -> Json<Status> {
    Json(Status {
        node: view.shared.node.to_string(),
        version: env!("CARGO_PKG_VERSION"),
        network: view.network.to_string(),
        listen: view.listen.to_string(),
        neighbors: Neighbor::all(&view.shared, clock::now()),
        figures: Figures::of(&view, Now::take()),
    })
}
