//! [`Hints`]: further addresses of nodes, as they said themselves. They are tried beside the one that is dialled.

use std::{collections::HashMap, future::Future, net::SocketAddr, time::Duration};

use parking_lot::Mutex;
use tokio::{task::JoinSet, time::sleep};

use super::error::ConnectError;
use crate::values::{IndexerAddr, NodeAddrs, NodeId};

/// Nodes whose further addresses are remembered.
const NODES_MAX: usize = 4096;
/// Time that an address has before the next one is tried too (RFC 8305, section 5).
const STAGGER: Duration = Duration::from_millis(250);

/// Further addresses of nodes. Each belongs to the first address that was named with it, so that whoever names others for
/// the same node changes nothing for those that do not.
#[derive(Debug, Default)]
pub(super) struct Hints(Mutex<HashMap<(NodeId, SocketAddr), Vec<Way>>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    To(SocketAddr),
    /// It dials, as this indexer tells it to.
    Via(IndexerAddr),
}

impl Hints {
    pub(super) fn learn(&self, at: &NodeAddrs, via: Option<IndexerAddr>, via_first: bool) {
        let Some(first) = at.addrs().first() else { return };
        let mut known = self.0.lock();
        if at.addrs().len() == 1 && via.is_none() {
            known.remove(&(at.node(), *first));
            return;
        }
        if known.len() >= NODES_MAX && !known.contains_key(&(at.node(), *first)) {
            known.clear(); // so many at once were named by somebody for no good
        }
        let mut ways: Vec<Way> = at.addrs().iter().copied().map(Way::To).collect();
        if let Some(indexer) = via {
            ways.insert(if via_first { 0 } else { ways.len() }, Way::Via(indexer));
        }
        known.insert((at.node(), *first), ways);
    }

    /// `addr` and those that were named with it.
    pub(super) fn of(&self, node: NodeId, addr: SocketAddr) -> Vec<Way> {
        self.0.lock().get(&(node, addr)).cloned().unwrap_or_else(|| vec![Way::To(addr)])
    }
}

/// Runs `dial` for one way after the other, each [`STAGGER`] after the one before or when that failed, until one
/// succeeds. The others go on to their ends: a handshake that is cut off counts as a failure.
///
/// # Errors
/// The first one, unless a later one tells more.
///
/// # Cancel safety
/// Safe: all are cut off.
pub(super) async fn race<W, T, F>(ways: Vec<W>, mut dial: impl FnMut(W) -> F) -> Result<T, ConnectError>
where
    T: Send + 'static,
    F: Future<Output = Result<T, ConnectError>> + Send + 'static,
{
    let (mut waiting, mut dialing, mut failure) = (ways.into_iter(), JoinSet::new(), None);
    loop {
        match waiting.next() {
            Some(way) => drop(dialing.spawn(dial(way))),
            None if dialing.is_empty() => return Err(failure.unwrap_or(ConnectError::NoAddress)),
            None => {}
        }
        let ended = if waiting.len() == 0 {
            dialing.join_next().await
        } else {
            tokio::select! {
                ended = dialing.join_next() => ended,
                () = sleep(STAGGER) => None,
            }
        };
        match ended.map(|ended| ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))) {
            Some(Ok(connection)) => {
                dialing.detach_all();
                return Ok(connection);
            }
            Some(Err(error)) => {
                let known = failure.take().filter(|known: &ConnectError| !known.tells_less_than(&error));
                failure = known.or(Some(error));
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, io};

    use tokio::time::Instant;

    use super::*;
    use crate::identity::Identity;

    fn addr(n: u8) -> SocketAddr {
        ([10, 0, 0, n], 1).into()
    }

    fn refused(n: u8) -> ConnectError {
        ConnectError::Unreachable { addr: addr(n), source: io::ErrorKind::ConnectionRefused.into() }
    }

    #[tokio::test(start_paused = true)]
    async fn mute_addresses_cost_a_quarter_of_a_second_each_and_refusals_nothing() {
        let began = Instant::now();
        let dial = |at: SocketAddr| async move {
            match at {
                _ if at == addr(1) || at == addr(3) => pending().await,
                _ if at == addr(2) => Err(refused(2)),
                _ => Ok(at),
            }
        };
        let found = race([1, 2, 3, 4].map(addr).to_vec(), dial).await.unwrap();
        assert_eq!((found, began.elapsed()), (addr(4), 2 * STAGGER));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_address_is_waited_for_where_the_others_fail() {
        let dial = |at: SocketAddr| async move {
            sleep(if at == addr(1) { 9 * STAGGER } else { STAGGER / 2 }).await;
            if at == addr(1) { Ok(at) } else { Err(refused(2)) }
        };
        assert_eq!(race(vec![addr(1), addr(2)], dial).await.unwrap(), addr(1));
    }

    #[tokio::test(start_paused = true)]
    async fn the_failure_that_tells_most_is_told() {
        let dial = |at: SocketAddr| async move {
            Err::<(), _>(if at == addr(1) { ConnectError::LeftAlone(at) } else { refused(2) })
        };
        let failure = race(vec![addr(1), addr(2)], dial).await.unwrap_err().to_string();
        assert!(failure.contains("10.0.0.2"), "{failure}");
    }

    #[test]
    fn addresses_go_with_the_first_one_and_few_are_remembered() {
        let (hints, node) = (Hints::default(), Identity::from_seed(&[1; 32]).id());
        hints.learn(&NodeAddrs::new(node, [addr(1), addr(2)]), None, false);
        hints.learn(&NodeAddrs::new(node, [addr(3), addr(4)]), None, false);
        assert_eq!(hints.of(node, addr(1)), [1, 2].map(|n| Way::To(addr(n))));
        assert_eq!(hints.of(node, addr(2)), [Way::To(addr(2))]);
        hints.learn(&NodeAddrs::new(node, [addr(1)]), None, false);
        assert_eq!(hints.of(node, addr(1)), [Way::To(addr(1))], "it has no other any more");
        let via = IndexerAddr { addr: addr(9), node };
        let cases = [(true, [Way::Via(via), Way::To(addr(1))]), (false, [Way::To(addr(1)), Way::Via(via)])];
        for (via_first, ways) in cases {
            hints.learn(&NodeAddrs::new(node, [addr(1)]), Some(via), via_first);
            assert_eq!(hints.of(node, addr(1)), ways);
        }
        for port in 0..3 * NODES_MAX {
            let first = SocketAddr::new(addr(5).ip(), u16::try_from(port).unwrap());
            hints.learn(&NodeAddrs::new(node, [first, addr(6)]), None, false);
        }
        assert!(hints.0.lock().len() <= NODES_MAX);
    }
}
