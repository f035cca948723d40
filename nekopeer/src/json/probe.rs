//! The way of a route probe.

use nekoproto::probe::{ProbeEnd, ProbeReply};
use serde::Serialize;
use utoipa::ToSchema;

use crate::indexers::Probed;

/// The way of a route probe from each own indexer on. Nothing in it is signed: each indexer says what it wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Probe)]
pub(crate) struct ProbeJson {
    /// The own indexers.
    indexers: Vec<WayJson>,
}

/// The way from one indexer on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = ProbeWay)]
struct WayJson {
    addr: String,
    /// Why the last stop did not pass it on; null if the indexer did not answer.
    end: Option<EndJson>,
    /// The same for people, or why the indexer did not answer.
    reason: String,
    /// Where it came to, in this order.
    stops: Vec<StopJson>,
    /// Microseconds until the indexer answered, or was given up.
    waited_us: u32,
}

/// An indexer that had the probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = ProbeStop)]
struct StopJson {
    /// Where the stop before it knows it.
    addr: Option<String>,
    /// It had the probe before: a circle ends here.
    again: bool,
    /// Microseconds to the next and back, without the time that those behind it took; null for the last.
    link_us: Option<u32>,
    /// The first digits of its id.
    node: String,
    /// Nanoseconds that it took itself.
    own_ns: u32,
}

/// Why a probe was not passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = ProbeEnd)]
#[serde(rename_all = "snake_case")]
enum EndJson {
    Hops,
    Nowhere,
    Lost,
}

impl ProbeJson {
    /// Of probes through each of the own indexers.
    pub(crate) fn of<'a>(probed: impl IntoIterator<Item = &'a Probed>) -> Self {
        Self { indexers: probed.into_iter().map(way).collect() }
    }
}

fn way(probed: &Probed) -> WayJson {
    let (end, reason, stops) = match &probed.way {
        Ok(way) => (Some(way.end.into()), way.end.to_string(), stops(probed, way)),
        Err(why) => (None, why.to_string(), Vec::new()),
    };
    WayJson { addr: probed.addr.to_string(), end, reason, stops, waited_us: probed.waited_us }
}

fn stops(probed: &Probed, way: &ProbeReply) -> Vec<StopJson> {
    let addrs = std::iter::once(Some(probed.addr)).chain(way.stops.iter().map(|stop| stop.next));
    let stop = |(place, addr): (usize, Option<std::net::SocketAddr>)| {
        let stop = way.stops.get(place)?;
        Some(StopJson {
            addr: addr.map(|addr| addr.to_string()),
            again: stop.again,
            link_us: way.link_us(place),
            node: stop.node.to_string(),
            own_ns: stop.own_ns,
        })
    };
    addrs.enumerate().filter_map(stop).collect()
}

impl From<ProbeEnd> for EndJson {
    fn from(end: ProbeEnd) -> Self {
        match end {
            ProbeEnd::Hops => Self::Hops,
            ProbeEnd::Nowhere => Self::Nowhere,
            ProbeEnd::Lost(_) => Self::Lost,
        }
    }
}
