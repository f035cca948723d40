//! [`Node`]: what an indexer tells Prometheus, read from its own counters at each scrape.

use std::{fmt, sync::Arc, time::Instant};

use nekoproto::{clock, transport::ConnectionLimiter};
use prometheus_client::{
    collector::Collector,
    encoding::DescriptorEncoder,
    metrics::{counter::ConstCounter, info::Info},
};

use crate::{
    counters::{Counters, Drop},
    daemon::http::exposition::Exposition,
    scans::scans_taken_max,
    shared::{FORWARDS_MAX, Shared},
    state::caller::ID_BYTES,
};

/// The indexer, as a collector.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) shared: Arc<Shared>,
    pub(crate) arrivals: Arc<ConnectionLimiter>,
}

impl Collector for Node {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Exposition::from(encoder);
        let node = self.shared.node.to_string();
        let build = Info::new([("version", env!("CARGO_PKG_VERSION")), ("node", &node)]);
        page.one("nekop2p_indexer_build", "The program and who it is", &build)?;
        counted(&mut page, &self.shared.counters)?;
        let dropped = drops(&self.shared, &self.arrivals).map(|(why, many)| (why, ConstCounter::new(many)));
        page.each("nekop2p_indexer_drops", "What was not done, or not completely", "reason", dropped)?;
        self.index(&mut page)?;
        self.links(&mut page)?;
        self.budget(&mut page)
    }
}

pub(crate) fn drops(
    shared: &Shared,
    arrivals: &ConnectionLimiter,
) -> impl Iterator<Item = (&'static str, u64)> {
    let drops = Drop::ALL.iter().map(|(why, name)| (*name, shared.counters.drops(*why).get()));
    drops.chain([
        ("connection_refused", arrivals.refused()),
        ("connection_replaced", arrivals.replaced()),
        ("handshake_failed", arrivals.failed()),
        ("evicted", shared.budget.evicted()),
        ("no_room", shared.budget.refused()),
    ])
}

/// What is used of each limit, and the limit.
pub(crate) fn budget(shared: &Shared, arrivals: &ConnectionLimiter) -> [(&'static str, usize, usize); 6] {
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

fn counted(page: &mut Exposition<'_>, counters: &Counters) -> fmt::Result {
    let requests = [
        ("search", counters.searches.clone()),
        ("query", counters.queries.clone()),
        ("find", counters.finds.clone()),
        ("register", counters.registrations.clone()),
        ("deregister", counters.deregistrations.clone()),
        ("invalidate", counters.invalidations.clone()),
        ("probe", counters.probes.clone()),
    ];
    page.each("nekop2p_indexer_requests", "Requests of nodes, names of a search each", "kind", requests)?;
    let one = [
        ("nekop2p_indexer_records", "Records registered, repeated ones too", &counters.records),
        ("nekop2p_indexer_forwards", "Queries for which neighbors were asked", &counters.forwards),
        ("nekop2p_indexer_neighbor_queries", "Calls to neighbors for these queries", &counters.asked),
        ("nekop2p_indexer_probe_forwards", "Route probes that were passed on", &counters.probe_forwards),
        ("nekop2p_indexer_probe_circles", "Route probes that had been here before", &counters.circles),
    ];
    one.into_iter().try_for_each(|(name, help, counter)| page.one(name, help, counter))?;
    let told = [("holder", counters.holders_told.clone()), ("neighbor", counters.neighbors_told.clone())];
    page.each("nekop2p_indexer_invalidations_sent", "Calls that told of newer versions", "to", told)?;
    page.each(
        "nekop2p_indexer_answer_seconds",
        "Time of an answer; of those that no neighbor was asked for one in 16",
        "from",
        [("own_index", counters.alone.now()), ("neighbors", counters.together.now())],
    )
}

impl Node {
    fn index(&self, page: &mut Exposition<'_>) -> fmt::Result {
        let index = &self.shared.state.index;
        page.gauge("nekop2p_indexer_names", "Names with at least one holder", index.names())?;
        page.gauge(
            "nekop2p_indexer_holders",
            "Peers that are connected, or whose lease runs",
            index.holders(),
        )
    }

    fn links(&self, page: &mut Exposition<'_>) -> fmt::Result {
        let (all, asked) = (self.shared.neighbors.links.reports(), self.shared.neighbors.links.current());
        let (now, clock) = (Instant::now(), clock::now());
        let up = all.iter().filter(|one| one.connected.is_some());
        let trusted = up
            .clone()
            .filter(|one| one.connected.as_ref().is_some_and(|open| open.channel.is_current(clock)));
        let asked = asked.trusted.iter().chain(&asked.guests);
        let late = asked.clone().filter(|one| one.load.is_stuck(now));
        let in_flight = asked.clone().map(|one| one.load.in_flight()).sum::<usize>();
        let states = [
            ("connected", up.clone().count()),
            ("away", all.len() - up.clone().count()),
            ("late", late.count()),
            ("guest", up.clone().filter(|one| one.trust.is_guest()).count()),
            ("unasked", up.count().saturating_sub(asked.count())),
            ("summary_current", trusted.count()),
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
            in_flight,
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
