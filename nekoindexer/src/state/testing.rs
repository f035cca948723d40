//! Small made-up values for the tests of this room.

use std::{
    hash::BuildHasher,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

use nekoproto::{
    FindRequest, Holder, IndexerAddr, ListedRecord, MsgId, NodeAddrs, NodeId, NodeTag, Position, Record,
    Search, SignedRecord, Term, Terms, Via,
    budget::{Account, Budget},
};
pub(crate) use testkit::values::{file, identity, name, signed};

use super::{
    holders::{Listed, Sender},
    index::{Index, Session},
};

/// The made-up holders; making their keys takes longer than most tests.
static NODES: LazyLock<Vec<NodeAddrs>> = LazyLock::new(|| {
    let addr = |n: u8| SocketAddr::from(([127, 0, 0, 1], 1000 + u16::from(n)));
    (0..=u8::MAX).map(|n| NodeAddrs::new(identity(n.into()).id(), [addr(n)])).collect()
});

pub(crate) fn holder(n: u8) -> Holder {
    let at = &NODES[usize::from(n)];
    Holder::new(at.node(), at.addrs()[0])
}

/// An indexer of this machine that names holders.
pub(crate) const SENDER: Sender = Sender {
    at: IndexerAddr {
        addr: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1),
        node: NodeId::from_bytes([9; 32]),
    },
    is_local: true,
};

/// A made-up holder as the own index lists it.
pub(crate) fn listed(n: u8) -> Listed {
    Listed::here(NODES[usize::from(n)].clone(), Via::Nobody, false, false)
}

pub(crate) fn session<S: BuildHasher>(
    index: &Index<S>,
    n: u8,
    lease: Duration,
    now: Instant,
) -> Arc<Session> {
    index.open_session(NODES[usize::from(n)].clone(), lease, now)
}

/// The tag of the n-th made-up node.
pub(crate) fn tag(n: usize) -> NodeTag {
    identity(u16::try_from(n).unwrap()).id().tag()
}

/// What is kept for a made-up node of this machine.
pub(crate) fn account(budget: &Arc<Budget>, n: u16) -> Account {
    budget.account([127, 0, 0, 1].into(), identity(n).id())
}

/// A version of a file of a made-up origin, of as many bytes as its number.
pub(crate) fn record(origin: u8, text: &str, version: u64) -> ListedRecord {
    let origin = origin.into();
    signed(origin, Record { size: version, ..file(origin, name(text), version) })
}

/// A record in the words of its origin, with the signature of another one: it takes no time to sign.
pub(crate) fn said(record: Record, signed: &ListedRecord) -> ListedRecord {
    let origin = record.origin;
    SignedRecord::new(record, *signed.signed().signature()).said_by(&origin).unwrap()
}

/// A file called `text`, said by the origin of `signed` as above.
pub(crate) fn named(text: &str, signed: &ListedRecord) -> ListedRecord {
    said(Record { name: name(text), ..Record::clone(signed) }, signed)
}

pub(crate) fn search(term: &str) -> Search {
    Search { terms: Terms::first_of([Term::new(term).unwrap()]), ..Search::default() }
}

pub(crate) fn find(term: &str, after: Option<Position>, limit: u16) -> FindRequest {
    let msg_id = MsgId::from_u128(1);
    FindRequest { msg_id, after, limit, ..FindRequest::new(search(term), 1) }
}
