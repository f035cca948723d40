//! [`Lobby`]: connections that have sent nothing yet. As many as descriptors allow are held; then the one that has been
//! silent for the longest gives way, so that nobody waits for those who do not speak.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// Those who are silent, by the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Lobby {
    silent: Mutex<BTreeMap<u64, CancellationToken>>,
    came: AtomicU64,
    replaced: AtomicU64,
}

/// A silent connection, until dropped.
#[derive(Debug)]
pub(super) struct Seat {
    lobby: Arc<Lobby>,
    number: u64,
    ended: CancellationToken,
}

impl Lobby {
    /// Takes one more in; `max` stay.
    pub(super) fn enter(self: &Arc<Self>, max: usize) -> Seat {
        self.keep(max.max(1) - 1);
        let (number, ended) = (self.came.fetch_add(1, Relaxed), CancellationToken::new());
        self.silent.lock().insert(number, ended.clone());
        Seat { lobby: Arc::clone(self), number, ended }
    }

    /// `max` of them stay.
    pub(super) fn keep(&self, max: usize) {
        let mut silent = self.silent.lock();
        while silent.len() > max
            && let Some((_, oldest)) = silent.pop_first()
        {
            oldest.cancel();
            self.replaced.fetch_add(1, Relaxed);
        }
    }

    /// How many are silent.
    pub(super) fn taken(&self) -> usize {
        self.silent.lock().len()
    }

    /// Connections that gave way.
    pub(super) fn replaced(&self) -> u64 {
        self.replaced.load(Relaxed)
    }
}

impl Seat {
    /// Cancelled when the connection has to give way.
    pub(super) const fn ended(&self) -> &CancellationToken {
        &self.ended
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.lobby.silent.lock().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_silent_for_the_longest_gives_way_and_seats_come_back() {
        let lobby = Arc::new(Lobby::default());
        let seats: Vec<Seat> = (0..5).map(|_| lobby.enter(3)).collect();
        let ended: Vec<bool> = seats.iter().map(|seat| seat.ended().is_cancelled()).collect();
        assert_eq!(ended, [true, true, false, false, false]);
        assert_eq!((lobby.taken(), lobby.replaced()), (3, 2));
        let fewer = lobby.enter(1);
        assert!(seats[4].ended().is_cancelled() && !fewer.ended().is_cancelled());
        drop((seats, fewer));
        assert_eq!(lobby.taken(), 0);
    }
}
