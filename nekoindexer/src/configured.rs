//! The links to the configured neighbors, which may be configured anew while the indexer runs.

use std::{collections::HashMap, net::SocketAddr, sync::Arc};

use nekoproto::transport::{Endpoint, HostAddr};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::{connections::connect_neighbor, shared::Shared};

/// The configured neighbors, and what ends the link to each.
#[derive(Debug)]
pub(crate) struct ConfiguredNeighbors {
    endpoint: Arc<Endpoint>,
    links: Mutex<HashMap<SocketAddr, (HostAddr, CancellationToken)>>,
}

impl ConfiguredNeighbors {
    pub(crate) fn new(endpoint: Arc<Endpoint>) -> Self {
        Self { endpoint, links: Mutex::default() }
    }

    /// Connects to those of `wanted` that are new, and ends the links to all others. Returns who came and who went. A link to
    /// a host finds by itself where that is now.
    pub(crate) fn set(
        &self,
        shared: &Arc<Shared>,
        wanted: &[HostAddr],
    ) -> (Vec<SocketAddr>, Vec<SocketAddr>) {
        let mut links = self.links.lock();
        let known = |at: &HostAddr| {
            links.values().find(|(known, _)| known.is_same(at)).map(|(known, _)| known.clone())
        };
        let wanted: Vec<HostAddr> = wanted.iter().map(|at| known(at).unwrap_or_else(|| at.clone())).collect();
        let gone: Vec<_> =
            links.keys().copied().filter(|addr| wanted.iter().all(|at| at.addr != *addr)).collect();
        let mut new: Vec<SocketAddr> = Vec::new();
        for addr in &gone {
            if let Some((_, stop)) = links.remove(addr) {
                stop.cancel();
            }
            shared.neighbors.links.configure(*addr, false);
        }
        for at in wanted {
            let addr = at.addr;
            if links.contains_key(&addr) {
                continue;
            }
            let stop = shared.stop.child_token();
            new.push(addr);
            links.insert(addr, (at.clone(), stop.clone()));
            shared.neighbors.links.configure(addr, true);
            connect_neighbor(shared, &self.endpoint, at, stop);
        }
        (new, gone)
    }
}
