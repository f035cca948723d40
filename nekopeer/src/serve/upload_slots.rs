//! Upload slots: the turns of [`UploadTurns`], waited for by tasks.

use std::{collections::HashMap, sync::Arc, time::Duration};

use nekoproto::transport::slots::SlotOwner;
use parking_lot::Mutex;
use tokio::{sync::Notify, time::timeout};

use crate::state::upload_turns::{Limits, Phase, TurnId, UploadTurns};

/// Limits of the turns. One that sends takes a thread and part of a file; one that is blocked takes a descriptor, and
/// under TLS a few hundred KiB.
const LIMITS: Limits = Limits { sending: 32, all: 288, each: SLOTS_OF_ONE_MAX };
/// Maximum number of requests of one reader that are answered or wait for it; further ones are refused as busy.
pub(crate) const SLOTS_OF_ONE_MAX: usize = 8;
/// Maximum time that a request waits for its first slot; much less than the time after which a reader gives up.
const WAIT_MAX: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct UploadSlots(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    turns: UploadTurns,
    /// Notified when the phase of a turn was changed by others.
    changed: HashMap<TurnId, Arc<Notify>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SlotCounts {
    /// Requests that are being answered, also while their readers take no bytes.
    pub(crate) active: usize,
    pub(crate) waiting: usize,
}

/// One request's turn, ended when dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    slots: Arc<UploadSlots>,
    id: TurnId,
    changed: Arc<Notify>,
}

impl Default for UploadSlots {
    fn default() -> Self {
        Self(Mutex::new(Inner { turns: UploadTurns::new(LIMITS), changed: HashMap::new() }))
    }
}

impl UploadSlots {
    /// A turn for `reader`, which waits for a slot; `None` if it or all readers have too many.
    pub(crate) fn ask(self: &Arc<Self>, reader: SlotOwner) -> Option<Turn> {
        let mut inner = self.0.lock();
        let id = inner.turns.ask(reader)?;
        let changed = Arc::new(Notify::new());
        inner.changed.insert(id, Arc::clone(&changed));
        inner.wake();
        drop(inner);
        Some(Turn { slots: Arc::clone(self), id, changed })
    }

    pub(crate) fn now(&self) -> SlotCounts {
        let inner = self.0.lock();
        let waiting = inner.turns.count(Phase::Waiting);
        SlotCounts { active: inner.turns.len() - waiting, waiting }
    }
}

impl Inner {
    /// Lets those send that may, and wakes those that gave way.
    fn wake(&mut self) {
        while let Some(id) = self.turns.next() {
            self.changed.get(&id).into_iter().for_each(|changed| changed.notify_one());
        }
        if self.changed.len() > self.turns.len() {
            self.changed.retain(|id, changed| {
                let is_there = self.turns.phase(*id).is_some();
                if !is_there {
                    changed.notify_one();
                }
                is_there
            });
        }
    }
}

impl Turn {
    /// Waits for the first slot; false if it had to give way, or after a time limit.
    pub(crate) async fn begins(&self) -> bool {
        timeout(WAIT_MAX, self.goes_on()).await.unwrap_or(false)
    }

    /// Waits for a slot; false if it had to give way.
    pub(crate) async fn goes_on(&self) -> bool {
        loop {
            let phase = self.slots.0.lock().turns.phase(self.id);
            match phase {
                None => return false,
                Some(Phase::Sending) => return true,
                Some(_) => self.changed.notified().await,
            }
        }
    }

    pub(crate) async fn gives_way(&self) {
        while self.slots.0.lock().turns.phase(self.id).is_some() {
            self.changed.notified().await;
        }
    }

    /// Gives the slot back: waits for another, or is blocked, as the reader takes no bytes now.
    pub(crate) fn becomes(&self, phase: Phase) {
        let mut inner = self.slots.0.lock();
        inner.turns.becomes(self.id, phase);
        inner.wake();
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut inner = self.slots.0.lock();
        inner.turns.end(self.id);
        inner.changed.remove(&self.id);
        inner.wake();
    }
}

#[cfg(test)]
mod tests {
    use nekoproto::Identity;

    use super::*;

    fn reader(n: u8) -> SlotOwner {
        SlotOwner::at([127, 0, 0, 1].into(), Some(Identity::from_seed(&[n; 32]).id()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_slot_comes_when_another_ends_or_is_blocked_and_is_not_waited_for_for_ever() {
        let slots = Arc::new(UploadSlots::default());
        let node = |n: usize| reader(u8::try_from(n / SLOTS_OF_ONE_MAX).unwrap());
        let mut held: Vec<_> = (0..LIMITS.sending).map(|n| slots.ask(node(n)).unwrap()).collect();
        assert!(!slots.ask(reader(99)).unwrap().begins().await, "after its time");
        for ends in [true, false] {
            let waiting = slots.ask(reader(99)).unwrap();
            let waiting = tokio::spawn(async move { waiting.begins().await });
            tokio::task::yield_now().await;
            if ends {
                held.pop();
            } else {
                held[0].becomes(Phase::Blocked);
            }
            assert!(waiting.await.unwrap());
        }
        assert_eq!(slots.now(), SlotCounts { active: LIMITS.sending - 1, waiting: 0 });
        drop(held);
        assert!(slots.0.lock().changed.is_empty(), "nobody is left");
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_blocked_notices_that_it_has_to_give_way() {
        let slots = Arc::new(UploadSlots::default());
        let node = |n: usize| reader(u8::try_from(n / SLOTS_OF_ONE_MAX).unwrap());
        let held: Vec<_> = (0..LIMITS.all).map(|n| slots.ask(node(n)).unwrap()).collect();
        let first = slots.ask(reader(99));
        assert!(first.is_some(), "others have more");
        held[3].becomes(Phase::Blocked);
        let _newcomer = slots.ask(reader(98)).unwrap();
        held[3].gives_way().await;
        assert!(!held[3].goes_on().await);
    }
}
