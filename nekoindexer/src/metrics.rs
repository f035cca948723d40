//! [`Node`]: what an indexer tells Prometheus, read from its own counters at each scrape.

use std::{fmt, sync::Arc, time::Instant};

use nekoproto::{budget::Budget, clock, transport::Arrivals};
use prometheus_client::{collector::Collector, encoding::DescriptorEncoder};

use crate::{
    counters::{BUCKETS, Drop, Histogram, Totals, Work, bucket_ends_us},
    http::exposition::Exposition,
    scans::scans_taken_max,
    shared::{FORWARDS_MAX, Shared},
    state::caller::ID_BYTES,
};

/// The indexer, as a collector.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) shared: Arc<Shared>,
    pub(crate) arrivals: Arc<Arrivals>,
}

impl Collector for Node {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Exposition::from(encoder);
        let totals = self.shared.counters.totals();
        let labels = [("version", env!("CARGO_PKG_VERSION")), ("node", &self.shared.node.to_string())];
        page.info("nekop2p_indexer_build", "The program and who it is", &labels)?;
        work(&mut page, &totals)?;
        latency(&mut page, &totals)?;
        let dropped = drops(&totals, &self.shared.budget, &self.arrivals);
        page.counters("nekop2p_indexer_drops", "What was not done, or not completely", "reason", dropped)?;
        self.index(&mut page)?;
        self.links(&mut page)?;
        self.budget(&mut page)
    }
}

/// What was not done, or not completely, by reason.
pub(crate) fn drops(
    totals: &Totals,
    budget: &Budget,
    arrivals: &Arrivals,
) -> impl Iterator<Item = (&'static str, u64)> {
    let drops = Drop::ALL.iter().map(|(why, name)| (*name, totals.drops(*why)));
    drops.chain([
        ("connection_refused", arrivals.refused()),
        ("connection_replaced", arrivals.replaced()),
        ("handshake_failed", arrivals.failed()),
        ("evicted", budget.evicted()),
        ("no_room", budget.refused()),
    ])
}

/// What is used of each limit, and the limit.
pub(crate) fn budget(shared: &Shared, arrivals: &Arrivals) -> [(&'static str, usize, usize); 6] {
    let (summaries, summaries_max) = shared.neighbors.summaries.taken();
    [
        ("connections", arrivals.open(), arrivals.max()),
        ("forwards", FORWARDS_MAX - shared.forwards.available_permits(), FORWARDS_MAX),
        ("scans", shared.scans.taken(), scans_taken_max()),
        ("seen_messages", shared.state.seen.remembered(), shared.budget.max() / ID_BYTES),
        ("summaries", summaries, summaries_max),
        ("memory", shared.budget.used(), shared.budget.max()),
    ]
}

fn work(page: &mut Exposition<'_>, totals: &Totals) -> fmt::Result {
    let requests = [
        ("search", Work::Search),
        ("query", Work::Query),
        ("find", Work::Find),
        ("register", Work::Registration),
        ("deregister", Work::Deregistration),
        ("invalidate", Work::Invalidation),
        ("probe", Work::Probe),
    ];
    let requests = requests.map(|(name, what)| (name, totals.work(what)));
    page.counters("nekop2p_indexer_requests", "Requests of nodes, names of a search each", "kind", requests)?;
    let one = [
        ("nekop2p_indexer_records", "Records registered, repeated ones too", Work::Record),
        ("nekop2p_indexer_forwards", "Queries for which neighbors were asked", Work::Forward),
        ("nekop2p_indexer_neighbor_queries", "Calls to neighbors for these queries", Work::Asked),
        ("nekop2p_indexer_probe_forwards", "Route probes that were passed on", Work::ProbeForward),
        ("nekop2p_indexer_probe_circles", "Route probes that had been here before", Work::Circle),
    ];
    for (name, help, what) in one {
        page.counter(name, help, totals.work(what))?;
    }
    let told = [("holder", totals.work(Work::HolderTold)), ("neighbor", totals.work(Work::NeighborTold))];
    page.counters("nekop2p_indexer_invalidations_sent", "Calls that told of newer versions", "to", told)
}

#[expect(clippy::cast_precision_loss, reason = "seconds")]
fn latency(page: &mut Exposition<'_>, totals: &Totals) -> fmt::Result {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let end = |n| bucket_ends_us(n).map_or(f64::INFINITY, |us| us as f64 / 1e6);
    let buckets =
        |times: &Histogram| -> [(f64, u64); BUCKETS] { std::array::from_fn(|n| (end(n), times.buckets[n])) };
    let (alone, together) = (buckets(&totals.alone), buckets(&totals.together));
    page.histograms(
        "nekop2p_indexer_answer_seconds",
        "Time of an answer; of those that no neighbor was asked for one in 16",
        "from",
        [
            ("own_index", seconds(totals.alone.sum_ns), alone.as_slice()),
            ("neighbors", seconds(totals.together.sum_ns), together.as_slice()),
        ],
    )
}

impl Node {
    fn index(&self, page: &mut Exposition<'_>) -> fmt::Result {
        let index = &self.shared.state.index;
        page.gauge("nekop2p_indexer_names", "Names with at least one holder", index.names() as u64)?;
        page.gauge(
            "nekop2p_indexer_holders",
            "Peers that are connected, or whose lease runs",
            index.holders() as u64,
        )
    }

    fn links(&self, page: &mut Exposition<'_>) -> fmt::Result {
        let (all, asked) = (self.shared.neighbors.links.reports(), self.shared.neighbors.links.current());
        let (now, clock) = (Instant::now(), clock::now());
        let up = all.iter().filter(|one| one.connected.is_some());
        let trusted = up
            .clone()
            .filter(|one| one.connected.as_ref().is_some_and(|open| open.channel.is_trusted(clock)));
        let late = asked.reachable.iter().filter(|one| one.load.is_stuck(now));
        let in_flight = asked.reachable.iter().map(|one| one.load.in_flight()).sum::<usize>();
        let states = [
            ("connected", up.clone().count()),
            ("away", all.len() - up.clone().count()),
            ("late", late.count()),
            ("guest", up.clone().filter(|one| one.standing.is_guest()).count()),
            ("unasked", up.count().saturating_sub(asked.reachable.len())),
            ("summary_trusted", trusted.count()),
        ];
        let states = states.map(|(state, count)| (state, count as u64));
        page.gauges(
            "nekop2p_indexer_neighbors",
            "Neighbors in each state; one may be in several",
            "state",
            states,
        )?;
        page.gauge(
            "nekop2p_indexer_neighbor_queries_in_flight",
            "Queries that neighbors have to answer",
            in_flight as u64,
        )
    }

    fn budget(&self, page: &mut Exposition<'_>) -> fmt::Result {
        let budget = budget(&self.shared, &self.arrivals);
        let used = budget.iter().map(|(what, used, _)| (*what, *used as u64));
        page.gauges("nekop2p_indexer_budget_used", "What is used of each limit", "budget", used)?;
        let max = budget.iter().map(|(what, _, max)| (*what, *max as u64));
        page.gauges("nekop2p_indexer_budget_max", "The limit", "budget", max)
    }
}
