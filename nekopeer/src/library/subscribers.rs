//! Subscribers: peers that confirmed a copy, and are told of new versions directly for one lease.

use std::{
    collections::HashMap,
    net::SocketAddr,
    time::{Duration, Instant},
};

use nekoproto::{FileName, Holder, NodeId};
use parking_lot::Mutex;

/// Maximum number of subscribers of one name. Further peers learn of new versions from their indexers or by
/// asking.
pub(crate) const SUBSCRIBERS_MAX: usize = 1024;

/// The subscriptions at this origin. Expired ones are removed when their name is used.
#[derive(Debug, Default)]
pub(crate) struct Subscribers(Mutex<HashMap<FileName, HashMap<NodeId, Subscription>>>);

#[derive(Debug)]
struct Subscription {
    addr: SocketAddr,
    until: Instant,
}

impl Subscribers {
    /// Subscribes `holder` to `name` until `now + lease`.
    pub(crate) fn subscribe(&self, name: &FileName, holder: Holder, lease: Duration, now: Instant) {
        let mut names = self.0.lock();
        let known = names.entry(name.clone()).or_default();
        known.retain(|_, subscription| subscription.until > now);
        if known.len() < SUBSCRIBERS_MAX || known.contains_key(&holder.node) {
            known.insert(holder.node, Subscription { addr: holder.addr, until: now + lease });
        }
    }

    /// The subscribers of `name`.
    pub(crate) fn of(&self, name: &FileName, now: Instant) -> Vec<Holder> {
        let names = self.0.lock();
        let known = names.get(name).into_iter().flatten();
        known
            .filter(|(_, subscription)| subscription.until > now)
            .map(|(node, subscription)| Holder::new(*node, subscription.addr))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use nekoproto::Identity;

    use super::*;

    fn holder(n: u16) -> Holder {
        let mut seed = [0; 32];
        seed[..2].copy_from_slice(&n.to_le_bytes());
        Holder::new(Identity::from_seed(&seed).id(), SocketAddr::from(([127, 0, 0, 1], n + 1)))
    }

    #[test]
    fn a_subscription_ends_with_its_lease_and_is_renewed_by_asking() {
        let (subscribers, name, now) = (Subscribers::default(), FileName::new("a").unwrap(), Instant::now());
        let lease = Duration::from_secs(5);
        subscribers.subscribe(&name, holder(1), lease, now);
        subscribers.subscribe(&name, holder(2), lease, now);
        subscribers.subscribe(&name, holder(1), lease, now + lease / 2);
        assert_eq!(subscribers.of(&name, now).len(), 2);
        assert_eq!(subscribers.of(&name, now + lease), [holder(1)]);
        assert!(subscribers.of(&name, now + 2 * lease).is_empty());
    }

    #[test]
    fn subscribers_are_bounded_and_ended_ones_make_room() {
        let (subscribers, name, now) = (Subscribers::default(), FileName::new("a").unwrap(), Instant::now());
        let lease = Duration::from_secs(5);
        for n in 0..=u16::try_from(SUBSCRIBERS_MAX).unwrap() {
            subscribers.subscribe(&name, holder(n), lease, now);
        }
        assert_eq!(subscribers.of(&name, now).len(), SUBSCRIBERS_MAX);
        subscribers.subscribe(&name, holder(5000), lease, now + lease);
        assert_eq!(subscribers.of(&name, now + lease), [holder(5000)]);
    }
}
