//! Connections to where a node is said to be: few, until it has proven its key there.
//!
//! Whoever names holders may name addresses of others. So that no crowd of readers is sent to somebody who has nothing to
//! do with it, an address that does not prove the key that is expected there is left alone for a while.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::sleep,
};

use super::error::ConnectError;
use crate::values::NodeId;

/// Connections to one address, open or failed, before the expected key is proven there.
const UNPROVEN_MAX: usize = 2;
/// Pause after a reset there.
const RESET_PAUSE: Duration = Duration::from_millis(200);
/// How long an address is left alone after that many.
const LEFT_ALONE_FOR: Duration = Duration::from_secs(30);
/// Addresses that are remembered.
const ADDRESSES_MAX: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Unproven(Mutex<HashMap<SocketAddr, Arc<Address>>>);

#[derive(Debug)]
struct Address {
    /// A place for each connection before the key is proven, open or failed; others wait.
    places: Semaphore,
    seen: Mutex<Seen>,
}

#[derive(Debug)]
struct Seen {
    /// Who was found there last.
    node: Option<NodeId>,
    /// Connections on which nobody proved the key that was expected.
    failed: usize,
    last: Instant,
}

impl Unproven {
    /// Whether `node` was found at `addr` last.
    pub(super) fn has_proven(&self, addr: SocketAddr, node: NodeId) -> bool {
        self.0.lock().get(&addr).is_some_and(|address| address.is_of(node))
    }

    fn address(&self, addr: SocketAddr, now: Instant) -> Arc<Address> {
        let mut known = self.0.lock();
        if known.len() >= ADDRESSES_MAX && !known.contains_key(&addr) {
            known.retain(|_, address| Arc::strong_count(address) > 1 || address.is_left_alone(now));
            if known.len() >= ADDRESSES_MAX {
                known.clear(); // so many at once were named by somebody for no good
            }
        }
        let seen = Mutex::new(Seen { node: None, failed: 0, last: now });
        let fresh = || Arc::new(Address { places: Semaphore::new(UNPROVEN_MAX), seen });
        Arc::clone(known.entry(addr).or_insert_with(fresh))
    }
}

impl Address {
    fn failed(&self, now: Instant) -> usize {
        let mut seen = self.seen.lock();
        if now.saturating_duration_since(seen.last) >= LEFT_ALONE_FOR {
            seen.failed = 0;
        }
        seen.failed
    }

    fn is_left_alone(&self, now: Instant) -> bool {
        self.failed(now) >= UNPROVEN_MAX
    }

    /// Room for one more connection, once those that are open and those that failed leave it; none if it is left alone.
    async fn place(&self) -> Option<SemaphorePermit<'_>> {
        loop {
            let failed = self.failed(Instant::now());
            if failed >= UNPROVEN_MAX {
                return None;
            }
            let places = u32::try_from(1 + failed).unwrap_or(u32::MAX);
            let place = self.places.acquire_many(places).await.ok()?; // it is never closed
            if self.failed(Instant::now()) <= failed {
                return Some(place);
            }
        }
    }

    fn is_of(&self, node: NodeId) -> bool {
        self.seen.lock().node == Some(node)
    }

    fn note(&self, found: Option<NodeId>, failed: bool) {
        let mut seen = self.seen.lock();
        seen.node = found.or(seen.node);
        seen.failed += usize::from(failed);
        seen.last = Instant::now();
    }
}

/// Notes a failure when it is dropped before the end.
struct Failing<'a>(Option<&'a Address>);

impl Drop for Failing<'_> {
    fn drop(&mut self) {
        if let Some(address) = self.0 {
            address.note(None, true);
        }
    }
}

impl Unproven {
    /// Runs `dial`, which connects to `node` at `addr`, unless that address is left alone. It is told whether it may
    /// connect again and again; otherwise it is run again after a reset, which counts as a failure.
    pub(super) async fn guard<T, F: Future<Output = Result<T, ConnectError>>>(
        &self,
        addr: SocketAddr,
        node: NodeId,
        dial: impl Fn(bool) -> F,
    ) -> Result<T, ConnectError> {
        let address = self.address(addr, Instant::now());
        let mut reset = None;
        loop {
            let place = match address.is_of(node) {
                true => None,
                false => address.place().await,
            };
            if address.is_of(node) {
                drop(place);
                return dial(true).await;
            }
            if place.is_none() {
                return Err(reset.unwrap_or(ConnectError::LeftAlone(addr)));
            }
            let mut failing = Failing(Some(&address));
            let dialed = dial(false).await;
            failing.0 = None;
            match &dialed {
                Ok(_) => address.note(Some(node), false),
                Err(ConnectError::Unreachable { .. }) => {} // nobody was bothered
                Err(ConnectError::OtherNode { found, .. }) => address.note(Some(*found), true),
                Err(_) => address.note(None, true),
            }
            drop(place);
            match dialed {
                Err(error) if error.is_reset() => reset = Some(error),
                dialed => return dialed,
            }
            sleep(RESET_PAUSE).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;
    use crate::identity::Identity;

    /// Goal: a connection that was reset is not made again while another is open whose end is not known.
    #[tokio::test(start_paused = true)]
    async fn a_reset_connection_counts_beside_one_that_is_open() {
        let (unproven, dialed) = (Unproven::default(), AtomicUsize::new(0));
        let (addr, node) = ("127.0.0.1:7".parse().unwrap(), Identity::from_seed(&[1; 32]).id());
        let dial = async |for_ms| {
            let failing = |_| async {
                dialed.fetch_add(1, Relaxed);
                sleep(Duration::from_millis(for_ms)).await;
                Err::<(), _>(ConnectError::Handshake(std::io::ErrorKind::ConnectionReset.into()))
            };
            unproven.guard(addr, node, failing).await.unwrap_err()
        };
        let (slow, quick) = tokio::join!(dial(5_000), dial(1));
        assert!(slow.is_reset() && quick.is_reset(), "{slow}; {quick}");
        assert_eq!(dialed.load(Relaxed), UNPROVEN_MAX);
    }
}
