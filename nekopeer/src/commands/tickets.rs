//! Makes tickets, and connects to the indexers that tickets name.

use nekoproto::{FileName, IndexerAddr, List, NodeId, Ticket, Version, limits::TICKET_INDEXERS_MAX};

use super::{Answer, Done, FailedRow, Failure, Reply, TicketRow, Wanted, carry_out::parted};
use crate::{indexers::via::Via, peer::PeerHandle, storage::remembered::Home};

/// Makes tickets of one command.
pub(super) struct Tickets {
    home: Home,
    indexers: List<IndexerAddr, TICKET_INDEXERS_MAX>,
}

impl Tickets {
    pub(super) async fn of(peer: &PeerHandle) -> Self {
        Self { home: peer.indexers.home.clone(), indexers: peer.indexers.known().await }
    }

    /// The ticket of all files of `origin` in a folder.
    pub(super) fn of_folder(&self, folder: &FileName, origin: NodeId) -> Option<String> {
        self.made(folder, origin, None)
    }

    /// The ticket of a file; `None` while no indexer is connected, so that nobody would find it.
    pub(super) fn ticket(&self, name: &FileName, origin: NodeId, version: Version) -> Option<String> {
        self.made(name, origin, Some(version))
    }

    fn made(&self, name: &FileName, origin: NodeId, version: Option<Version>) -> Option<String> {
        let ticket = Ticket {
            network: self.home.network.clone(),
            insecure: self.home.insecure,
            indexers: self.indexers.clone(),
            origin,
            name: name.clone(),
            version,
        };
        (!self.indexers.is_empty()).then(|| ticket.to_string())
    }
}

/// Makes tickets of what is published or held here.
pub(super) async fn make(peer: &PeerHandle, names: Vec<FileName>, answer: &Answer) -> Result<Done, Failure> {
    peer.indexers_tried().await;
    let tickets = Tickets::of(peer).await;
    let (mut is_any, mut failed) = (false, Vec::new());
    for name in names {
        let outcome = match peer.held_record(&name) {
            None => Err(Failure::missing(format!("{name} is neither published nor held here"))),
            Some(held) => tickets.ticket(&name, held.origin, held.version).ok_or_else(|| {
                Failure::new(format!("{name}: no indexer is connected that a ticket could name"))
            }),
        };
        match outcome {
            Ok(ticket) => {
                is_any = true;
                answer.row(&TicketRow { name, ticket }).await?;
            }
            Err(failure) => failed.push(FailedRow::of(&name, failure)),
        }
    }
    parted(is_any, failed)
}

/// Connects to the indexers that a command names, and says which of them cannot be used.
pub(super) async fn connect(peer: &PeerHandle, wanted: &Wanted, answer: &Answer) -> Result<Via, Failure> {
    if let Some(home) = &wanted.home {
        let own = &peer.indexers.home;
        if home.network != own.network {
            return Err(Failure::new(format!(
                "the ticket is for the network {}, and this peer belongs to {}: use another --data-dir for it",
                home.network, own.network
            )));
        }
        match (home.insecure, own.insecure) {
            (true, false) => {
                return Err(Failure::new("the ticket is for a network without TLS: give --insecure"));
            }
            (false, true) => {
                return Err(Failure::new("the ticket is for a network with TLS: leave out --insecure"));
            }
            _ => {}
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
