//! Makes tickets, and connects to the indexers that tickets name.

use nekoproto::{FileName, IndexerAddr, List, NodeId, Remedy, Ticket, Version, limits::TICKET_INDEXERS_MAX};

use super::Wanted;
use crate::{
    api::{Answer, Failure, Reply},
    indexers::via::Via,
    peer::PeerHandle,
    storage::remembered::Home,
};

pub(in crate::api) struct Tickets {
    home: Home,
    private: bool,
    indexers: List<IndexerAddr, TICKET_INDEXERS_MAX>,
}

impl Tickets {
    pub(in crate::api) async fn of(peer: &PeerHandle) -> Self {
        let (home, private) = (peer.indexers.home.clone(), peer.indexers.is_private());
        Self { home, private, indexers: peer.indexers.known().await }
    }

    /// The ticket of a file, or without a version of a folder; `None` while no indexer is connected, so that nobody would find
    /// it.
    pub(in crate::api) fn ticket(
        &self,
        name: &FileName,
        origin: NodeId,
        version: Option<Version>,
    ) -> Option<String> {
        let ticket = Ticket {
            network: self.home.network.clone(),
            insecure: self.home.insecure,
            private: self.private,
            indexers: self.indexers.clone(),
            origin,
            name: name.clone(),
            version,
        };
        (!self.indexers.is_empty()).then(|| ticket.to_string())
    }
}

/// Connects to the indexers that a command names, and says which of them cannot be used.
pub(in crate::api) async fn connect(
    peer: &PeerHandle,
    wanted: &Wanted,
    answer: &Answer,
) -> Result<Via, Failure> {
    if let Some(home) = &wanted.home {
        let own = &peer.indexers.home;
        let conflict = |message: String, remedy| Failure::conflict(message).remedied(remedy);
        if home.network != own.network {
            let (network, own) = (&home.network, &own.network);
            let why = format!("the ticket is for the network {network}, and this peer belongs to {own}");
            return Err(conflict(why, Remedy::DataDir));
        }
        if home.insecure != own.insecure {
            let [theirs, own] = [home.insecure, own.insecure].map(|is| if is { "without" } else { "with" });
            let why = format!("the ticket is for a network {theirs} TLS, and this peer is of one {own} TLS");
            return Err(conflict(why, Remedy::Insecure));
        }
    }
    let via = peer.indexers.connect(&wanted.via).await;
    // Where nobody else can be asked, the failure says it.
    let is_told = via.failed.len() == 1 && via.good.is_empty() && peer.indexers.links().is_empty();
    for (addr, why) in via.failed.iter().filter(|_| !is_told) {
        // A caller that has left is noticed by the next row.
        drop(answer.0.send(Reply::Note(format!("note: indexer {addr} cannot be used: {why}"))).await);
    }
    Ok(via)
}
