//! `/metrics`: figures for Prometheus, read from the peer's own counters at each scrape.

use std::{fmt, sync::Arc};

use axum::{extract::State, http::HeaderMap, response::Response};
use nekoindexer::daemon::http::exposition::{Exposition, exposed};
use prometheus_client::{
    collector::Collector,
    encoding::DescriptorEncoder,
    metrics::{counter::ConstCounter, info::Info},
    registry::Registry,
};

use super::census;
use crate::{
    api::rest::{Inside, described::Refused},
    api::{COMMANDS_MAX, Host},
    library::census::{AGES_S, Census},
};

#[derive(Debug)]
struct Node {
    host: Arc<Host>,
    /// Its files, counted before.
    census: Option<Census>,
}

/// All figures in the text format of OpenMetrics; in that of Prometheus for who accepts `text/plain` alone.
#[utoipa::path(
    get,
    path = "/metrics",
    responses(
        (status = 200, body = String, content_type = "application/openmetrics-text", description = "All figures"),
        Refused,
    )
)]
pub(super) async fn metrics(State(inside): State<Arc<Inside>>, headers: HeaderMap) -> Response {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(inside.host.peer.figures.process));
    let census = census(&inside).await;
    registry.register_collector(Box::new(Node { host: Arc::clone(&inside.host), census }));
    exposed(&registry, &headers)
}

impl Collector for Node {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Exposition::from(encoder);
        let node = self.host.peer.node().to_string();
        let build = Info::new([("version", env!("CARGO_PKG_VERSION")), ("node", node.as_str())]);
        page.one("nekop2p_peer_build", "The program and who it is", &build)?;
        self.counted(&mut page)?;
        self.now(&mut page)?;
        self.census.as_ref().map_or(Ok(()), |census| files(&mut page, census))
    }
}

impl Node {
    fn counted(&self, page: &mut Exposition<'_>) -> fmt::Result {
        let counters = &self.host.peer.library.counters;
        let bytes = [("up", counters.bytes_up.clone()), ("down", counters.bytes_down.clone())];
        page.each(
            "nekop2p_peer_file_bytes",
            "Bytes of files from other peers; and to them, with lists of chunks",
            "direction",
            bytes,
        )?;
        let requests =
            [("answered", counters.requests.clone()), ("refused", counters.requests_refused.clone())];
        page.each("nekop2p_peer_requests", "Requests of other peers for bytes", "outcome", requests)?;
        let one = [
            ("nekop2p_peer_downloads", "Files downloaded", &counters.downloads),
            (
                "nekop2p_peer_invalidations",
                "Newer versions of copies that were told of",
                &counters.invalidations,
            ),
            ("nekop2p_peer_refetches", "Copies replaced by their newest version", &counters.refetches),
            (
                "nekop2p_peer_origins_away",
                "Times that an origin turned out to be away",
                &counters.origins_away,
            ),
            ("nekop2p_peer_failures", "Background operations that failed", &counters.failures),
            ("nekop2p_peer_leases", "Leases of readers that were given or renewed", &counters.leases),
            (
                "nekop2p_peer_acknowledgements",
                "Times that a reader acknowledged a newer version that it was told of",
                &counters.acknowledged,
            ),
            (
                "nekop2p_peer_refused_versions",
                "Versions that the command of a follower refused",
                &counters.refused,
            ),
            (
                "nekop2p_peer_rollbacks",
                "Times that a user went back to an earlier version",
                &counters.rollbacks,
            ),
        ];
        one.iter().try_for_each(|(name, help, counter)| page.one(name, help, *counter))
    }

    fn now(&self, page: &mut Exposition<'_>) -> fmt::Result {
        let peer = &self.host.peer;
        let figures = &peer.figures;
        let slots = figures.slots();
        let uploads = [("active", slots.active as u64), ("waiting", slots.waiting as u64)];
        page.gauges("nekop2p_peer_uploads", "Requests of readers now", "state", uploads)?;
        page.gauge(
            "nekop2p_peer_files_writing",
            "Files that are being written",
            peer.library.writing().len(),
        )?;
        let links = peer.indexers.links();
        let up = links.iter().filter(|link| link.is_connected).count();
        let links = [("connected", up as u64), ("away", (links.len() - up) as u64)];
        page.gauges("nekop2p_peer_indexers", "Indexers by state", "state", links)?;
        let commands = COMMANDS_MAX - self.host.commands.available_permits();
        page.gauge("nekop2p_peer_commands", "Commands of other programs that are carried out", commands)?;
        page.gauge("nekop2p_peer_commands_max", "How many may be at once", COMMANDS_MAX)?;
        let budget = &figures.budget;
        let kept = [("used", budget.used() as u64), ("max", budget.max() as u64)];
        page.gauges("nekop2p_peer_kept_bytes", "Bytes that are kept for other nodes", "which", kept)?;
        let kept = [("evicted", budget.evicted()), ("refused", budget.refused())];
        let kept = kept.map(|(what, many)| (what, ConstCounter::new(many)));
        page.each("nekop2p_peer_kept_drops", "Nodes that wanted more kept", "what", kept)?;
        let Some(arrivals) = figures.arrivals() else { return Ok(()) };
        page.gauge("nekop2p_peer_connections", "Connections of other nodes", arrivals.open())?;
        let dropped = [
            ("connection_refused", arrivals.refused()),
            ("connection_replaced", arrivals.replaced()),
            ("handshake_failed", arrivals.failed()),
        ];
        let dropped = dropped.map(|(why, many)| (why, ConstCounter::new(many)));
        page.each("nekop2p_peer_drops", "Connections that came to nothing", "reason", dropped)
    }
}

#[expect(clippy::cast_precision_loss, reason = "seconds")]
fn files(page: &mut Exposition<'_>, census: &Census) -> fmt::Result {
    let files = [("own", census.own), ("copy", census.copies)];
    page.gauges("nekop2p_peer_files", "Files shared and held, counted some seconds ago", "role", files)?;
    page.gauge("nekop2p_peer_files_size_bytes", "Bytes of these files", census.bytes)?;
    page.gauge("nekop2p_peer_sets", "Those of these files that are sets", census.sets)?;
    let readers = [("all", census.readers), ("behind", census.behind)];
    page.gauges(
        "nekop2p_peer_readers",
        "Leases on news of own files; those whose reader has not acknowledged the newest version",
        "which",
        readers,
    )?;
    let conditions = [
        ("fresh", census.fresh),
        ("unverified", census.unverified),
        ("stale", census.stale),
        ("changed", census.changed),
    ];
    page.gauges(
        "nekop2p_peer_file_conditions",
        "Copies by freshness; any file that changed on disk",
        "condition",
        conditions,
    )?;
    let within = AGES_S.iter().zip(census.confirmed_within).map(|(age, count)| (age.to_string(), count));
    page.gauges(
        "nekop2p_peer_copies_confirmed_within",
        "Copies confirmed at most so long ago",
        "seconds",
        within,
    )?;
    let oldest = census.oldest_ms as f64 / 1000.0;
    page.gauge(
        "nekop2p_peer_oldest_confirmation_seconds",
        "The longest time since a copy was confirmed",
        oldest,
    )
}
