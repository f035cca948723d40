//! [`View`]: what the handlers see of the indexer.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use nekoproto::{NetworkName, transport::Arrivals};
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use tokio::{
    runtime::Handle,
    sync::{Semaphore, broadcast},
    time::{MissedTickBehavior, interval},
};

use super::status::{Figures, Now};
use crate::{figures::Recent, http::exposition::Process, metrics::Node, shared::Shared};

/// Queries over HTTP that are answered at once; further ones are refused. Peers have their own limits.
const HTTP_QUERIES_MAX: usize = 64;
/// Figures that a reader of events may lag behind, which is as many seconds.
const FIGURES_KEPT: usize = 8;
/// How often figures are sent, and sampled.
const FIGURES_EVERY: Duration = Duration::from_secs(1);

/// What the handlers see of the indexer.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) shared: Arc<Shared>,
    pub(crate) network: NetworkName,
    pub(crate) listen: SocketAddr,
    pub(crate) arrivals: Arc<Arrivals>,
    pub(crate) began: Instant,
    pub(crate) registry: Registry,
    pub(crate) recent: Mutex<Recent>,
    /// Each second's [`Figures`] as JSON, made once for all readers.
    pub(crate) figures: broadcast::Sender<Arc<str>>,
    /// A permit for each query that is being answered over HTTP.
    pub(crate) queries: Semaphore,
    /// The node's own runtime: what waits for neighbors runs there.
    pub(crate) runtime: Handle,
}

impl View {
    /// Of an indexer that begins now, on the current runtime.
    pub(crate) fn new(
        shared: &Arc<Shared>,
        network: NetworkName,
        listen: SocketAddr,
        arrivals: Arc<Arrivals>,
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
            queries: Semaphore::new(HTTP_QUERIES_MAX),
            runtime: Handle::current(),
        }
    }

    /// Samples the counters each second, and sends the figures to whoever reads events. Never ends.
    pub(crate) async fn keep_figures(&self) {
        let mut ticks = interval(FIGURES_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.recent.lock().sample(Instant::now(), self.shared.counters.totals());
            if self.figures.receiver_count() > 0
                && let Ok(json) = serde_json::to_string(&Figures::of(self, Now::take()))
            {
                let _ = self.figures.send(json.into()); // the last reader may have left meanwhile
            }
        }
    }
}
