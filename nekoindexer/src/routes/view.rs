//! [`View`]: what the handlers see of the indexer.

use std::{net::SocketAddr, sync::Arc, time::Instant};

use nekoproto::{NetworkName, transport::ConnectionLimiter};
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use tokio::{runtime::Handle, sync::broadcast};

use super::room::Room;
use crate::{daemon::http::exposition::Process, figures::Recent, metrics::Node, shared::Shared};

/// Figures that a reader of events may lag behind, which is as many seconds.
const FIGURES_KEPT: usize = 8;

/// What the handlers see of the indexer.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) shared: Arc<Shared>,
    pub(crate) network: NetworkName,
    pub(crate) listen: SocketAddr,
    pub(crate) arrivals: Arc<ConnectionLimiter>,
    pub(crate) began: Instant,
    pub(crate) registry: Registry,
    pub(crate) recent: Mutex<Recent>,
    /// Each second's [`Figures`] as JSON, made once for all readers.
    pub(crate) figures: broadcast::Sender<Arc<str>>,
    pub(super) queries: Room,
    /// The node's own runtime: what waits for neighbors runs there.
    pub(crate) runtime: Handle,
}

impl View {
    /// Of an indexer that begins now, on the current runtime.
    pub(crate) fn new(
        shared: &Arc<Shared>,
        network: NetworkName,
        listen: SocketAddr,
        arrivals: Arc<ConnectionLimiter>,
    ) -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Process::starts_now()));
        registry.register_collector(Box::new(Node {
            shared: Arc::clone(shared),
            arrivals: Arc::clone(&arrivals),
        }));
        Self {
            shared: Arc::clone(shared),
            network,
            listen,
            arrivals,
            began: Instant::now(),
            registry,
            recent: Mutex::default(),
            figures: broadcast::Sender::new(FIGURES_KEPT),
            queries: Room::default(),
            runtime: Handle::current(),
        }
    }
}
