//! Small made-up values for the tests of this room.

use std::{
    hash::BuildHasher,
    net::SocketAddr,
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

use nekoproto::{
    Covered, FindRequest, Holder, ListedRecord, MsgId, NodeTag, Position, Record, Search, SignedRecord, Term,
    Terms, VerifiedReach,
    budget::{Account, Budget},
};
pub(crate) use testkit::values::{file, identity, name, signed};

use super::{
    holders::Listed,
    index::{Index, Session},
};

/// What the n-th made-up holder says; signing takes longer than most tests.
static REACHES: LazyLock<Vec<VerifiedReach>> = LazyLock::new(|| {
    let addr = |n: u8| SocketAddr::from(([127, 0, 0, 1], 1000 + u16::from(n)));
    (0..=u8::MAX).map(|n| identity(n.into()).fresh_reach([addr(n)])).collect()
});

/// A made-up holder.
pub(crate) fn holder(n: u8) -> Holder {
    let reach = &REACHES[usize::from(n)];
    Holder::new(reach.node, reach.addrs[0])
}

/// A made-up holder as the own index lists it.
pub(crate) fn listed(n: u8) -> Listed {
    Listed::here(REACHES[usize::from(n)].clone(), 1, false)
}

/// A session of a made-up holder.
pub(crate) fn session<S: BuildHasher>(
    index: &Index<S>,
    n: u8,
    lease: Duration,
    now: Instant,
) -> Arc<Session> {
    let reach = REACHES[usize::from(n)].clone();
    let session = index.open_session(reach.node, lease, now);
    session.introduce(reach, 1);
    session
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

/// What is looked for.
pub(crate) fn search(term: &str) -> Search {
    Search { terms: Terms::first_of([Term::new(term).unwrap()]), ..Search::default() }
}

/// A request for a page of it.
pub(crate) fn find(term: &str, after: Option<Position>, limit: u16) -> FindRequest {
    let msg_id = MsgId::from_u128(1);
    FindRequest { msg_id, search: search(term), after, limit, ttl_hops: 1, covered: Covered::new() }
}
