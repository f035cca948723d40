//! [`Room`]: how many HTTP connections there may be at once, and how many of one address.

use std::{
    collections::{HashMap, hash_map::Entry},
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
};

use parking_lot::Mutex;

/// HTTP connections at once. Further ones are closed at once.
pub(super) const HTTP_CONNECTIONS_MAX: usize = 2048;
/// Those of one address. All programs of this host have one address, and a thousand may read events; the rest is
/// for everybody else.
pub(super) const HTTP_CONNECTIONS_OF_ONE_MAX: usize = 1536;
const _: () = assert!(HTTP_CONNECTIONS_OF_ONE_MAX < HTTP_CONNECTIONS_MAX);

/// The connections that are open.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// How many each address has, none of them 0.
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    all: usize,
    of: HashMap<IpAddr, usize>,
}

/// One connection's place, until dropped.
#[derive(Debug)]
pub(super) struct Place {
    room: Arc<Room>,
    from: IpAddr,
}

impl Room {
    /// A place for a connection from `from`, if there is one.
    pub(super) fn enter(self: &Arc<Self>, from: IpAddr) -> Option<Place> {
        let from = payer(from);
        let mut open = self.open.lock();
        let of_one = open.of.get(&from).copied().unwrap_or(0);
        if open.all == HTTP_CONNECTIONS_MAX || of_one == HTTP_CONNECTIONS_OF_ONE_MAX {
            return None;
        }
        open.all += 1;
        open.of.insert(from, of_one + 1);
        Some(Place { room: Arc::clone(self), from })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.room.open.lock();
        open.all -= 1;
        if let Entry::Occupied(mut of_one) = open.of.entry(self.from) {
            *of_one.get_mut() -= 1;
            if *of_one.get() == 0 {
                of_one.remove();
            }
        }
    }
}

/// The address on whose account a connection goes: one client has all of a /64, and all of 127.0.0.0/8.
fn payer(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        v4 @ IpAddr::V4(_) if v4.is_loopback() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        IpAddr::V6(v6) if !v6.is_loopback() => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn one_address_leaves_room_for_others_and_gives_it_back() {
        let room = Arc::new(Room::default());
        let greedy: Vec<_> = (0..).map_while(|_| room.enter(ip("192.0.2.1"))).collect();
        assert_eq!(greedy.len(), HTTP_CONNECTIONS_OF_ONE_MAX);
        let others: Vec<_> = (0..).map_while(|_| room.enter(ip("192.0.2.2"))).collect();
        assert_eq!(others.len(), HTTP_CONNECTIONS_MAX - HTTP_CONNECTIONS_OF_ONE_MAX);
        drop(greedy);
        assert!(room.enter(ip("192.0.2.3")).is_some());
        drop(others);
        let open = room.open.lock();
        assert_eq!((open.all, open.of.len()), (0, 0));
    }

    #[test]
    fn one_client_has_one_account() {
        assert_eq!(payer(ip("127.0.0.9")), payer(ip("::1")));
        assert_eq!(payer(ip("::ffff:192.0.2.1")), ip("192.0.2.1"));
        assert_eq!(payer(ip("2001:db8::1")), payer(ip("2001:db8::ffff:1")));
        assert_ne!(payer(ip("2001:db8:0:1::1")), payer(ip("2001:db8::1")));
    }
}
