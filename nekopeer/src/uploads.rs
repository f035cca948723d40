//! Who may be served now: so many turns at once, in the order of asking, no reader taking all.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use nekoproto::NodeId;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

/// Turns at once. Each takes a thread and a piece of a file.
const UPLOADS_MAX: usize = 32;
/// Turns that one reader may have or wait for; further ones are told that this peer is busy.
pub(crate) const UPLOADS_OF_ONE_MAX: usize = 8;
/// Readers' turns that wait; further ones are told so at once.
const WAITING_MAX: usize = 256;
/// Readers that are told at once that they get no turn.
const REFUSALS_MAX: usize = 8;
/// How long a turn is waited for, well below the time after which a silent holder is given up.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// The turns.
#[derive(Debug)]
pub(crate) struct Uploads {
    turns: Arc<Semaphore>,
    asking: Arc<Mutex<HashMap<NodeId, usize>>>,
    /// Threads that say no.
    refusals: Semaphore,
}

/// One turn, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    _permit: OwnedSemaphorePermit,
    _place: Place,
}

/// A reader's place among those served and waiting.
#[derive(Debug)]
struct Place {
    asking: Arc<Mutex<HashMap<NodeId, usize>>>,
    node: NodeId,
}

impl Default for Uploads {
    fn default() -> Self {
        Self {
            turns: Arc::new(Semaphore::new(UPLOADS_MAX)),
            asking: Arc::default(),
            refusals: Semaphore::new(REFUSALS_MAX),
        }
    }
}

impl Uploads {
    /// A turn for `node` once it comes; `None` if there are too many before it.
    ///
    /// # Cancel safety
    /// Safe: the place is given up.
    pub(crate) async fn turn(&self, node: NodeId) -> Option<Turn> {
        let place = self.place(node)?;
        let permit = timeout(WAIT_MAX, Arc::clone(&self.turns).acquire_owned()).await.ok()?.ok()?;
        Some(Turn { _permit: permit, _place: place })
    }

    /// Who says no to those who get no turn; each takes a thread for a moment.
    pub(crate) const fn refusals(&self) -> &Semaphore {
        &self.refusals
    }

    fn place(&self, node: NodeId) -> Option<Place> {
        let mut asking = lock(&self.asking);
        let all: usize = asking.values().sum();
        let of_node = asking.entry(node).or_default();
        if *of_node >= UPLOADS_OF_ONE_MAX || all >= UPLOADS_MAX + WAITING_MAX {
            if *of_node == 0 {
                asking.remove(&node);
            }
            return None;
        }
        *of_node += 1;
        Some(Place { asking: Arc::clone(&self.asking), node })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut asking = lock(&self.asking);
        if let Some(count) = asking.get_mut(&self.node) {
            *count -= 1;
            if *count == 0 {
                asking.remove(&self.node);
            }
        }
    }
}

fn lock(asking: &Mutex<HashMap<NodeId, usize>>) -> MutexGuard<'_, HashMap<NodeId, usize>> {
    asking.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use nekoproto::Identity;

    use super::*;

    fn node(n: u8) -> NodeId {
        Identity::from_seed(&[n; 32]).id()
    }

    #[tokio::test(start_paused = true)]
    async fn one_reader_does_not_take_all_turns() {
        let uploads = Uploads::default();
        let mut turns = Vec::new();
        for _ in 0..UPLOADS_OF_ONE_MAX {
            turns.push(uploads.turn(node(1)).await.unwrap());
        }
        assert!(uploads.turn(node(1)).await.is_none());
        assert!(uploads.turn(node(2)).await.is_some());
        turns.pop();
        assert!(uploads.turn(node(1)).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_comes_when_another_ends_and_is_not_waited_for_for_ever() {
        let uploads = Arc::new(Uploads::default());
        let mut turns = Vec::new();
        for n in 0..UPLOADS_MAX {
            turns.push(uploads.turn(node(u8::try_from(n / UPLOADS_OF_ONE_MAX).unwrap())).await.unwrap());
        }
        assert!(uploads.turn(node(99)).await.is_none(), "after its time");
        let waiting = tokio::spawn({
            let uploads = Arc::clone(&uploads);
            async move { uploads.turn(node(99)).await.is_some() }
        });
        tokio::task::yield_now().await;
        turns.pop();
        assert!(waiting.await.unwrap());
        drop(turns);
        assert!(lock(&uploads.asking).is_empty(), "nobody is left");
    }
}
