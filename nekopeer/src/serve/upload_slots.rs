//! Upload slots: a bounded number, granted in the order of the requests, with a bound per reader.

use std::{collections::HashMap, sync::Arc, time::Duration};

use nekoproto::NodeId;
use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

/// Number of slots. Each uses a thread and part of a file.
const SLOTS_MAX: usize = 32;
/// Maximum number of slots that one reader has or waits for; further requests are refused as busy.
pub(crate) const SLOTS_OF_ONE_MAX: usize = 8;
/// Maximum number of requests that wait for a slot; further ones are refused at once.
const WAITING_MAX: usize = 256;
/// Maximum number of refusals sent concurrently.
const REFUSALS_MAX: usize = 8;
/// Maximum time that a request waits for a slot; much less than the time after which a reader gives up.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// The slots.
#[derive(Debug)]
pub(crate) struct UploadSlots {
    free: Arc<Semaphore>,
    /// For each reader, the number of slots that it has or waits for.
    asking: Arc<Mutex<HashMap<NodeId, usize>>>,
    /// Permits to send a refusal.
    refusals: Semaphore,
}

/// The slots at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slots {
    /// Requests that have one.
    pub(crate) active: usize,
    /// Requests that wait for one.
    pub(crate) waiting: usize,
}

/// An upload slot, released when dropped.
#[derive(Debug)]
pub(crate) struct UploadSlot {
    _permit: OwnedSemaphorePermit,
    _asking: Asking,
}

/// Counts a request in `asking` until dropped.
#[derive(Debug)]
struct Asking {
    asking: Arc<Mutex<HashMap<NodeId, usize>>>,
    node: NodeId,
}

impl Default for UploadSlots {
    fn default() -> Self {
        Self {
            free: Arc::new(Semaphore::new(SLOTS_MAX)),
            asking: Arc::default(),
            refusals: Semaphore::new(REFUSALS_MAX),
        }
    }
}

impl UploadSlots {
    /// Waits for a slot for `node`; `None` if it or all readers have too many requests, or after a time limit.
    ///
    /// # Cancel safety
    /// Safe: the request leaves the queue.
    pub(crate) async fn acquire(&self, node: NodeId) -> Option<UploadSlot> {
        let asking = self.ask(node)?;
        let permit = timeout(WAIT_MAX, Arc::clone(&self.free).acquire_owned()).await.ok()?.ok()?;
        Some(UploadSlot { _permit: permit, _asking: asking })
    }

    /// How many are used and waited for.
    pub(crate) fn now(&self) -> Slots {
        let active = SLOTS_MAX - self.free.available_permits();
        let asking: usize = self.asking.lock().values().sum();
        Slots { active, waiting: asking.saturating_sub(active) }
    }

    /// Permits to send a refusal, which takes a thread for a moment.
    pub(crate) const fn refusals(&self) -> &Semaphore {
        &self.refusals
    }

    fn ask(&self, node: NodeId) -> Option<Asking> {
        let mut asking = self.asking.lock();
        let all: usize = asking.values().sum();
        let of_node = asking.entry(node).or_default();
        if *of_node >= SLOTS_OF_ONE_MAX || all >= SLOTS_MAX + WAITING_MAX {
            if *of_node == 0 {
                asking.remove(&node);
            }
            return None;
        }
        *of_node += 1;
        Some(Asking { asking: Arc::clone(&self.asking), node })
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        let mut asking = self.asking.lock();
        if let Some(count) = asking.get_mut(&self.node) {
            *count -= 1;
            if *count == 0 {
                asking.remove(&self.node);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use nekoproto::Identity;

    use super::*;

    fn node(n: u8) -> NodeId {
        Identity::from_seed(&[n; 32]).id()
    }

    #[tokio::test(start_paused = true)]
    async fn one_reader_does_not_take_all_slots() {
        let slots = UploadSlots::default();
        let mut held = Vec::new();
        for _ in 0..SLOTS_OF_ONE_MAX {
            held.push(slots.acquire(node(1)).await.unwrap());
        }
        assert!(slots.acquire(node(1)).await.is_none());
        assert!(slots.acquire(node(2)).await.is_some());
        held.pop();
        assert!(slots.acquire(node(1)).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_slot_comes_when_another_ends_and_is_not_waited_for_for_ever() {
        let slots = Arc::new(UploadSlots::default());
        let mut held = Vec::new();
        for n in 0..SLOTS_MAX {
            held.push(slots.acquire(node(u8::try_from(n / SLOTS_OF_ONE_MAX).unwrap())).await.unwrap());
        }
        assert!(slots.acquire(node(99)).await.is_none(), "after its time");
        let waiting = tokio::spawn({
            let slots = Arc::clone(&slots);
            async move { slots.acquire(node(99)).await.is_some() }
        });
        tokio::task::yield_now().await;
        held.pop();
        assert!(waiting.await.unwrap());
        drop(held);
        assert!(slots.asking.lock().is_empty(), "nobody is left");
    }
}
