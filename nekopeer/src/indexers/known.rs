//! Where others reach the indexers of this peer: what its tickets name.

use std::{net::SocketAddr, time::Duration};

use futures::future::join_all;
use nekoproto::{IndexerAddr, List, Purpose, limits::TICKET_INDEXERS_MAX, transport::interfaces};
use tokio::time::timeout;

use super::Indexers;

/// Time limit for connecting to this machine.
const ANSWERS_WITHIN: Duration = Duration::from_millis(500);

impl Indexers {
    pub(crate) fn is_private(&self) -> bool {
        self.endpoint.is_private()
    }

    /// The connected indexers, at addresses where others reach them. One that this peer reaches at a loopback address
    /// is tried at the other addresses of this machine; where it does not answer there, others on this machine alone
    /// can use it, and it comes last.
    pub(crate) async fn known(&self) -> List<IndexerAddr, TICKET_INDEXERS_MAX> {
        let connected = self.sessions().filter_map(|session| Some(session.sender()?.at));
        let (near, mut known): (Vec<_>, Vec<_>) = connected.partition(|at| at.addr.ip().is_loopback());
        if !near.is_empty() {
            let others = interfaces::addresses();
            let tried = near.iter().flat_map(|at| {
                let addr = |ip| SocketAddr::new(ip, at.addr.port());
                others.iter().map(move |ip| IndexerAddr { addr: addr(*ip), ..*at })
            });
            known.extend(join_all(tried.map(|at| self.answers(at))).await.into_iter().flatten());
        }
        known.extend(near);
        List::first_of(known)
    }

    async fn answers(&self, at: IndexerAddr) -> Option<IndexerAddr> {
        let dialing = self.endpoint.dial(at.addr, Purpose::Control, Some(at.node));
        timeout(ANSWERS_WITHIN, dialing).await.is_ok_and(|dialed| dialed.is_ok()).then_some(at)
    }
}
