//! [`Caller`]: one node that asks, and what it takes of the tables that all who ask have in common.

use std::sync::Arc;

use nekoproto::{
    MsgId, NodeId, NodeTag,
    budget::{Account, Reservation},
    limits::{FRAME_BYTES_MAX, SEEN_OF_NEIGHBOR_MAX, SEEN_OF_PEER_MAX},
};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Bytes of one message id in the table of those seen, at most: 138 mostly, more when a map has just grown.
pub const ID_BYTES: usize = 224;
/// Bytes of a query while neighbors are asked: its calls, and what they answer.
const FORWARD_BYTES: usize = 4 * 1024;
/// The same if the trace is asked for, whose hops fill a frame at most.
const TRACE_BYTES: usize = FRAME_BYTES_MAX;
/// One with a trace takes as many places as so many others.
const TRACE_PLACES: u32 = 8;
/// Queries of one peer that are forwarded at once; further ones wait for a place. Others that ask wait for no more
/// than these, and some peers together do not use up what is in flight to one neighbor.
pub const FORWARDS_OF_PEER_MAX: usize = 112;
/// The same of one neighbor, behind which there are many peers; further ones are refused as `Busy`.
pub const FORWARDS_OF_NEIGHBOR_MAX: usize = 1024;
/// One of this many parts of its account is what a peer may use for message ids, where the budget is small: a neighbor, to
/// which they go on from here with those of others, has to remember them all on one account.
const PEER_ID_PARTS: usize = 2;
/// Lists of names of one caller, over all its connections, that are answered at once: others that ask wait for no more
/// work than that, and no more answers are kept until their list is whole.
const LISTS_AT_ONCE: usize = 1;
/// Parts of its route probes that are passed on at the moment; further ones are refused as `Busy`. Those that come by
/// neighbors are bounded where they begin, and in all.
const PROBE_PARTS_OF_PEER_MAX: usize = 4 * 1024;
const PROBE_PARTS_OF_NEIGHBOR_MAX: usize = 8 * 1024;
/// Scans of one peer that run or wait; further ones are refused as `Busy`.
const SCANS_OF_PEER_MAX: usize = 16;
const SCANS_OF_NEIGHBOR_MAX: usize = 32;
/// Holders that it has connect to it, or over this node, at the moment; further ones are refused as `Busy`.
const CALL_BACKS_MAX: usize = 16;
/// Announcements of newer versions that holders and neighbors are being told because of it; further ones are refused.
const ANNOUNCEMENTS_OF_PEER_MAX: usize = 64;
const ANNOUNCEMENTS_OF_NEIGHBOR_MAX: usize = 1024;

/// What a node is to this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallerRole {
    /// A peer.
    Peer,
    /// An indexer that may be anybody.
    Guest,
    /// An indexer that is trusted.
    Trusted,
}

/// One node that asks, over whatever connections, and what it takes of what there is for all.
#[derive(Debug)]
pub struct Caller {
    node: NodeId,
    /// Who it is, if it is an indexer.
    pub neighbor: Option<NodeTag>,
    ids_max: usize,
    ids: Arc<Mutex<Reservation>>,
    /// Places for its queries that are forwarded.
    pub(crate) forwards: Semaphore,
    forwards_reserved: Mutex<Reservation>,
    /// Its lists of names that are answered at the moment; further ones wait for their turn.
    pub(crate) lists: Semaphore,
    /// Its share of route probes, in parts.
    pub(crate) probes: Semaphore,
    /// Its share of holders that connect to it.
    pub(crate) call_backs: Arc<Semaphore>,
    /// Its share of scans, and its turn among them: one follows the other.
    pub(crate) scans: Arc<Semaphore>,
    pub(crate) scan: Arc<Semaphore>,
    pub(crate) announcements: Arc<Semaphore>,
}

/// A message id of a caller that is remembered, until dropped.
#[derive(Debug)]
pub(super) struct Remembered(Arc<Mutex<Reservation>>);

/// A query that is being forwarded, until dropped.
#[derive(Debug)]
pub struct Forwarding<'a> {
    caller: &'a Caller,
    bytes: usize,
    _place: SemaphorePermit<'a>,
}

impl Caller {
    /// `node` in that role. Without an `account` only the numbers of things are bounded. So they are for an indexer that is
    /// trusted, whose account is then left to its connection and its summary: its messages come from others, who could use
    /// up that account.
    #[must_use]
    pub fn new((node, role): (NodeId, CallerRole), account: Option<Account>) -> Self {
        let account = account.filter(|_| role != CallerRole::Trusted);
        let share = account.as_ref().map_or(usize::MAX, |account| account.share() / ID_BYTES);
        let is_peer = role == CallerRole::Peer;
        let either = |of_peer, of_neighbor| if is_peer { of_peer } else { of_neighbor };
        let ids_of_peer = SEEN_OF_PEER_MAX.min(share / PEER_ID_PARTS);
        Self {
            node,
            neighbor: (!is_peer).then(|| node.tag()),
            ids_max: either(ids_of_peer, SEEN_OF_NEIGHBOR_MAX),
            ids: Arc::new(Mutex::new(Reservation::of_table(account.clone()))),
            forwards: Semaphore::new(either(FORWARDS_OF_PEER_MAX, FORWARDS_OF_NEIGHBOR_MAX)),
            forwards_reserved: Mutex::new(Reservation::of(account)),
            lists: Semaphore::new(LISTS_AT_ONCE),
            probes: Semaphore::new(either(PROBE_PARTS_OF_PEER_MAX, PROBE_PARTS_OF_NEIGHBOR_MAX)),
            call_backs: Arc::new(Semaphore::new(CALL_BACKS_MAX)),
            scans: Arc::new(Semaphore::new(either(SCANS_OF_PEER_MAX, SCANS_OF_NEIGHBOR_MAX))),
            scan: Arc::new(Semaphore::new(1)),
            announcements: Arc::new(Semaphore::new(either(
                ANNOUNCEMENTS_OF_PEER_MAX,
                ANNOUNCEMENTS_OF_NEIGHBOR_MAX,
            ))),
        }
    }

    /// The id under which a message of it that is called `id` is known among indexers. A peer chooses its ids: they are kept
    /// apart from those of all others, so that it cannot send another's ahead.
    #[must_use]
    pub fn id_of(&self, id: MsgId) -> MsgId {
        if self.neighbor.is_some() { id } else { id.sent_by(&self.node) }
    }

    /// How many of [`forwards`](Self::forwards) a query takes.
    pub(crate) const fn places_of(has_trace: bool) -> u32 {
        if has_trace { TRACE_PLACES } else { 1 }
    }

    /// A query of it is forwarded that has this `place`; `None` if its account has no room.
    pub fn forward<'a>(&'a self, place: SemaphorePermit<'a>, has_trace: bool) -> Option<Forwarding<'a>> {
        let bytes = if has_trace { TRACE_BYTES } else { FORWARD_BYTES };
        let mut forwards = self.forwards_reserved.lock();
        let used = forwards.used() + bytes;
        let has_room = forwards.set(used).is_ok();
        // One that is dropped here would wait for the lock.
        has_room.then(|| Forwarding { caller: self, bytes, _place: place })
    }

    /// Room for one more message id, unless it has too many, or its account has no room or was evicted.
    pub(super) fn remember(&self) -> Option<Remembered> {
        let mut ids = self.ids.lock();
        let bytes = ids.used() + ID_BYTES;
        let has_room = bytes / ID_BYTES <= self.ids_max && !ids.is_evicted() && ids.set(bytes).is_ok();
        has_room.then(|| Remembered(Arc::clone(&self.ids)))
    }

    pub(super) fn remembered(&self) -> usize {
        self.ids.lock().used() / ID_BYTES
    }

    /// Whether the account had to give back all it has.
    pub(super) fn is_evicted(&self) -> bool {
        self.ids.lock().is_evicted()
    }
}

impl Remembered {
    pub(super) fn is_evicted(&self) -> bool {
        self.0.lock().is_evicted()
    }
}

impl Drop for Remembered {
    fn drop(&mut self) {
        let mut ids = self.0.lock();
        let left = ids.used() - ID_BYTES;
        let _ = ids.set(left); // less than before
    }
}

impl Drop for Forwarding<'_> {
    fn drop(&mut self) {
        let mut forwards = self.caller.forwards_reserved.lock();
        let left = forwards.used() - self.bytes;
        let _ = forwards.set(left); // less than before
    }
}

#[cfg(test)]
mod tests {
    use nekoproto::{Identity, budget::Budget};

    use super::*;

    #[test]
    fn one_caller_forwards_no_more_than_its_share() {
        let budget = Budget::new(1 << 30);
        let caller = |budget: &Arc<Budget>, n: u8| {
            let node = Identity::from_seed(&[n; 32]).id();
            Caller::new((node, CallerRole::Peer), Some(budget.account([127, 0, 0, 1].into(), node)))
        };
        let (greedy, other) = (caller(&budget, 1), caller(&budget, 2));
        fn forward(caller: &Caller, has_trace: bool) -> Option<Forwarding<'_>> {
            let places = Caller::places_of(has_trace);
            caller.forward(caller.forwards.try_acquire_many(places).ok()?, has_trace)
        }
        let forwards: Vec<_> = std::iter::from_fn(|| forward(&greedy, false)).collect();
        assert_eq!(forwards.len(), FORWARDS_OF_PEER_MAX);
        assert!(budget.used() > FORWARDS_OF_PEER_MAX * FORWARD_BYTES / 2, "they are on its account");
        assert!(forward(&other, false).is_some() && forward(&greedy, false).is_none());
        drop(forwards);
        assert!(forward(&greedy, false).is_some());
        assert!(budget.used() < 1 << 20);

        let small = Budget::new(1 << 25);
        let tracing = caller(&small, 1);
        let traces: Vec<_> = std::iter::from_fn(|| forward(&tracing, true)).collect();
        assert_eq!(traces.len(), FORWARDS_OF_PEER_MAX / TRACE_PLACES as usize);
        assert!(small.used() >= (traces.len() - 1) * TRACE_BYTES, "they are on its account");
        drop(traces);
        assert!(forward(&tracing, true).is_some() && small.used() < 1 << 20);
    }
}
