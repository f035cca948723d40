//! Data streams without a request: a bounded number, of which the oldest are closed.
//!
//! The listener bounds data connections by descriptors, of which there may be many; each has a TLS session too, so that
//! those that are not used are bounded more narrowly.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use nekoproto::NodeId;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// Maximum number of streams of one reader that wait for a request.
const OF_ONE_MAX: usize = 64;
/// Bounds of the number in all, and the part of the descriptors that the system allows this process.
const ALL_MIN: usize = 64;
const ALL_MAX: usize = 1024;
const PART_OF_DESCRIPTORS: u64 = 8;

/// Those that never sent a request come first, then the oldest.
type Worth = (bool, u64);

/// The streams that wait for a request.
#[derive(Debug)]
pub(super) struct IdleStreams {
    max: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    count: u64,
    all: BTreeMap<Worth, (NodeId, CancellationToken)>,
    of_node: HashMap<NodeId, BTreeSet<Worth>>,
}

/// One stream's wait; it has ended when this is dropped.
pub(super) struct Idle {
    streams: Arc<IdleStreams>,
    worth: Worth,
    /// Cancelled if the stream is to be closed.
    pub(super) closed: CancellationToken,
}

impl Default for IdleStreams {
    fn default() -> Self {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let part =
            limit.map_or(ALL_MAX, |limit| usize::try_from(limit / PART_OF_DESCRIPTORS).unwrap_or(ALL_MAX));
        Self::new(part.clamp(ALL_MIN, ALL_MAX))
    }
}

impl IdleStreams {
    fn new(max: usize) -> Self {
        Self { max, inner: Mutex::default() }
    }

    /// A stream of `node` begins to wait. If there are too many, the least worthy is closed.
    pub(super) fn enter(self: &Arc<Self>, node: NodeId, has_asked: bool) -> Idle {
        let closed = CancellationToken::new();
        let mut inner = self.inner.lock();
        inner.count += 1;
        let worth = (has_asked, inner.count);
        inner.all.insert(worth, (node, closed.clone()));
        let own = inner.of_node.entry(node).or_default();
        own.insert(worth);
        let least = if own.len() > OF_ONE_MAX {
            own.first().copied()
        } else if inner.all.len() > self.max {
            inner.all.keys().next().copied()
        } else {
            None
        };
        if let Some(least) = least {
            inner.remove(least);
        }
        drop(inner);
        Idle { streams: Arc::clone(self), worth, closed }
    }
}

impl Inner {
    fn remove(&mut self, worth: Worth) {
        let Some((node, closed)) = self.all.remove(&worth) else { return };
        closed.cancel();
        if let Some(own) = self.of_node.get_mut(&node) {
            own.remove(&worth);
            if own.is_empty() {
                self.of_node.remove(&node);
            }
        }
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        self.streams.inner.lock().remove(self.worth);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(n: u8) -> NodeId {
        NodeId::from_bytes([n; 32])
    }

    fn is_open(idle: &Idle) -> bool {
        !idle.closed.is_cancelled()
    }

    #[test]
    fn the_oldest_that_never_asked_is_closed_first() {
        let streams = Arc::new(IdleStreams::new(3));
        let all = [true, false, false, true, true].map(|has_asked| streams.enter(node(1), has_asked));
        assert_eq!(all.each_ref().map(is_open), [true, false, false, true, true]);
        let more = streams.enter(node(2), true);
        assert!(!is_open(&all[0]) && is_open(&more));
        drop((all, more));
        let inner = streams.inner.lock();
        assert!(inner.all.is_empty() && inner.of_node.is_empty());
    }

    #[test]
    fn one_reader_has_a_bounded_number() {
        let streams = Arc::new(IdleStreams::new(1000));
        let other = streams.enter(node(2), false);
        let all: Vec<Idle> = (0..OF_ONE_MAX + 5).map(|_| streams.enter(node(1), false)).collect();
        assert_eq!(all.iter().filter(|idle| !is_open(idle)).count(), 5);
        assert!(is_open(&other) && !is_open(&all[4]) && is_open(&all[5]));
    }
}
