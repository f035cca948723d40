//! [`HttpSlots`]: how many HTTP connections there may be at once, and which one a newcomer evicts.
//!
//! A newcomer evicts a connection without a request, or one whose answer is not read: of the address that has most of
//! these, the one that has read nothing for the longest time. A connection whose request is being answered is evicted only
//! by an address that has fewer. Event streams never end, so they have slots of their own.

use std::net::IpAddr;

use nekoproto::transport::{
    file_limit,
    slots::{Activity, Slot, SlotOwner, Slots},
};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// HTTP connections at once, besides event streams.
const HTTP_CONNECTIONS_MAX: usize = 2048;
/// They get one of this many parts of the limit of open files.
const FILES_PARTS: usize = 8;
/// Event streams at once, and where few files may be open half of the connections. An address gives one up for another
/// that has fewer.
pub(super) const EVENT_STREAMS_MAX: usize = HTTP_CONNECTIONS_MAX / 2;

/// The slots of one door. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct HttpSlots {
    connections: Slots,
    streams: Slots,
}

/// What one connection takes, until dropped.
#[derive(Debug)]
pub(super) struct HttpSlot {
    all: HttpSlots,
    owner: SlotOwner,
    activity: Activity,
    /// Among short requests, then perhaps among the streams.
    slot: Mutex<Slot>,
}

impl HttpSlots {
    /// Slots for as many connections as this process may have.
    pub(super) fn new() -> Self {
        Self::of((file_limit() / FILES_PARTS).min(HTTP_CONNECTIONS_MAX))
    }

    fn of(connections_max: usize) -> Self {
        Self { connections: Slots::new(connections_max), streams: Slots::new(connections_max / 2) }
    }

    /// A slot for a connection from `from`, if there is one. All programs of this host are one address.
    pub(super) fn enter(&self, from: IpAddr) -> Option<HttpSlot> {
        let (owner, activity) = (SlotOwner::at(from, None), Activity::new(CancellationToken::new()));
        let slot = self.connections.enter(owner, activity.clone())?;
        Some(HttpSlot { all: self.clone(), owner, activity, slot: Mutex::new(slot) })
    }
}

impl HttpSlot {
    /// Cancelled when the connection has to end.
    pub(super) fn ended(&self) -> &CancellationToken {
        self.activity.ended()
    }

    pub(super) fn activity(&self) -> &Activity {
        &self.activity
    }

    /// Takes a slot among the event streams in exchange for its own; false if there is none.
    pub(super) fn becomes_stream(&self) -> bool {
        let activity = Activity::new(self.ended().clone());
        activity.set_busy(true); // only an address with fewer evicts it
        let Some(slot) = self.all.streams.enter(self.owner, activity) else { return false };
        *self.slot.lock() = slot;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn is_ended(slot: &HttpSlot) -> bool {
        slot.ended().is_cancelled()
    }

    #[test]
    fn who_asks_for_nothing_gives_way_and_one_address_to_another() {
        let (slots, greedy) = (HttpSlots::of(8), ip("127.0.0.1"));
        let enter = |from| slots.enter(from);
        let mut open: Vec<HttpSlot> = (0..8).map(|_| enter(greedy).unwrap()).collect();
        open[1..].iter().for_each(|slot| slot.activity().set_busy(true));
        let own = enter(greedy).unwrap();
        assert!(is_ended(&open[0]), "the only one without a request");
        own.activity().set_busy(true);
        assert!(enter(greedy).is_none(), "all of them bring requests");
        let other = enter(ip("192.0.2.1"));
        assert!(other.is_some() && is_ended(&open[1]));
        open.clear();
        drop((own, other));
        assert_eq!(slots.connections.taken(), 0);
    }

    #[test]
    fn streams_of_one_address_leave_places_to_others_and_to_short_requests() {
        let (slots, greedy) = (HttpSlots::of(16), ip("127.0.0.1"));
        let stream = |from| slots.enter(from).filter(HttpSlot::becomes_stream);
        let all: Vec<HttpSlot> = (0..9).filter_map(|_| stream(greedy)).collect();
        assert_eq!((all.len(), slots.connections.taken()), (8, 0), "none of the other places");
        let other = stream(ip("192.0.2.1"));
        assert!(other.is_some(), "one of the address with more gives way");
        assert_eq!(all.iter().filter(|slot| is_ended(slot)).count(), 1);
        drop((all, other));
        assert_eq!(slots.streams.taken(), 0);
    }
}
