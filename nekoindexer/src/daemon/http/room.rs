//! How many HTTP connections there may be at once. When all slots are taken, a connection that has brought no request
//! gives way to a newcomer, the oldest first; one that has brought a request only to an address with fewer.

use std::net::IpAddr;

use nekoproto::transport::{
    file_limit,
    slots::{Presence, Slot, Slots, Tenant},
};

/// HTTP connections at once.
pub(super) const HTTP_CONNECTIONS_MAX: usize = 2048;
/// They get one of this many parts of the limit of open files.
const FILES_PARTS: usize = 8;

/// Slots for as many connections as this process may have.
pub(super) fn slots() -> Slots {
    Slots::new((file_limit() / FILES_PARTS).min(HTTP_CONNECTIONS_MAX))
}

/// A slot for a connection from `from`, if there is one.
pub(super) fn enter(slots: &Slots, from: IpAddr) -> Option<Slot> {
    slots.enter(Tenant::at(from, None), Presence::default())
}

/// The connection brought a request: it gives way no longer to who has as many.
pub(super) fn brought_request(presence: &Presence) {
    presence.set_busy(true);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_for_nothing_gives_way_and_one_address_to_another() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let (slots, greedy) = (Slots::new(8), ip("127.0.0.1"));
        let enter = |from| enter(&slots, from);
        let mut open: Vec<Slot> = (0..8).map(|_| enter(greedy).unwrap()).collect();
        open[1..].iter().for_each(|slot| brought_request(slot.presence()));
        let own = enter(greedy).unwrap();
        assert!(open[0].presence().ended().is_cancelled(), "the only one without a request");
        brought_request(own.presence());
        assert!(enter(greedy).is_none(), "all of them bring requests");
        let other = enter(ip("192.0.2.1"));
        assert!(other.is_some() && open[1].presence().ended().is_cancelled());
        open.clear();
        drop((own, other));
        assert_eq!(slots.taken(), 0);
    }
}
