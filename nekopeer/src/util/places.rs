//! [`Places`]: who reads what takes room until it is read, and who of them makes room for others.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// How long a reader may let the next piece wait before it makes room for another, if all places are taken.
pub(crate) const SLOW_AFTER: Duration = Duration::from_secs(2);

/// The places of readers, and the MiB that are kept for them.
#[derive(Debug)]
pub(crate) struct Places {
    count_max: usize,
    mib_max: u32,
    next: AtomicU64,
    readers: Mutex<BTreeMap<u64, Reader>>,
}

#[derive(Debug)]
struct Reader {
    mib: u32,
    /// Since when the next piece waits for it to be taken; `None` if it waits for the piece.
    slow_since: Option<Instant>,
    ended: CancellationToken,
}

/// The place of one reader, until dropped or given to another one.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    id: u64,
    ended: CancellationToken,
}

impl Places {
    pub(crate) fn new(count_max: usize, mib_max: u32) -> Arc<Self> {
        Arc::new(Self { count_max, mib_max, next: AtomicU64::new(0), readers: Mutex::default() })
    }

    /// A place for a reader that comes `now`: a free one, or that of whoever lets a piece wait for the longest time.
    pub(crate) fn take(self: &Arc<Self>, now: Instant) -> Option<Place> {
        let mut readers = self.readers.lock();
        if readers.len() >= self.count_max {
            let slowest = slowest(&readers, now, u64::MAX)?;
            end(&mut readers, slowest);
        }
        let id = self.next.fetch_add(1, Relaxed);
        let ended = CancellationToken::new();
        readers.insert(id, Reader { mib: 0, slow_since: None, ended: ended.clone() });
        Some(Place { places: Arc::clone(self), id, ended })
    }

    /// MiB that are kept for all readers.
    pub(crate) fn mib(&self) -> u64 {
        self.readers.lock().values().map(|reader| u64::from(reader.mib)).sum()
    }
}

impl Place {
    /// Takes room for `mib`, at the cost of slow readers if there is too little; false if even that is not enough.
    pub(crate) fn takes(&self, mib: u32, now: Instant) -> bool {
        let mut readers = self.places.readers.lock();
        loop {
            let taken: u32 = readers.values().map(|reader| reader.mib).sum();
            if taken.saturating_add(mib) <= self.places.mib_max {
                break;
            }
            let Some(slowest) = slowest(&readers, now, self.id) else { return false };
            end(&mut readers, slowest);
        }
        let reader = readers.get_mut(&self.id);
        reader.map(|reader| reader.mib += mib).is_some()
    }

    /// Notes since when its reader lets a piece wait, if it does.
    pub(crate) fn is_slow(&self, since: Option<Instant>) {
        if let Some(reader) = self.places.readers.lock().get_mut(&self.id) {
            reader.slow_since = since;
        }
    }

    /// Cancelled when it was given to another reader.
    pub(crate) const fn ended(&self) -> &CancellationToken {
        &self.ended
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.readers.lock().remove(&self.id);
    }
}

/// Who lets a piece wait for the longest time, and for [`SLOW_AFTER`] at least; not `but`.
fn slowest(readers: &BTreeMap<u64, Reader>, now: Instant, but: u64) -> Option<u64> {
    let slow = readers.iter().filter_map(|(id, reader)| Some((reader.slow_since?, *id)));
    let (since, id) = slow.filter(|(_, id)| *id != but).min()?;
    (now.saturating_duration_since(since) >= SLOW_AFTER).then_some(id)
}

fn end(readers: &mut BTreeMap<u64, Reader>, id: u64) {
    if let Some(reader) = readers.remove(&id) {
        reader.ended.cancel();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slowest_reader_makes_room_once_it_was_slow_for_long() {
        let (places, now) = (Places::new(3, 100), Instant::now());
        let take = |at| places.take(at);
        let [first, second, third] = [(); 3].map(|()| take(now).unwrap());
        assert!(take(now).is_none(), "nobody is slow");
        second.is_slow(Some(now));
        third.is_slow(Some(now + Duration::from_secs(1)));
        assert!(take(now + SLOW_AFTER - Duration::from_millis(1)).is_none(), "not for long");
        let later = now + 2 * SLOW_AFTER;
        let fourth = take(later).unwrap();
        assert!(second.ended().is_cancelled() && !third.ended().is_cancelled());
        third.is_slow(None);
        drop(second);
        assert!(take(later).is_none(), "what was given away is not given back again");
        drop((first, fourth));
        assert!([take(later), take(later)].iter().all(Option::is_some));
    }

    #[test]
    fn room_is_taken_from_slow_readers_only() {
        let (places, now) = (Places::new(9, 100), Instant::now());
        let [first, second, third] = [(); 3].map(|()| places.take(now).unwrap());
        assert!(first.takes(60, now) && second.takes(40, now) && !third.takes(1, now));
        first.is_slow(Some(now));
        assert!(third.takes(50, now + SLOW_AFTER));
        assert!(first.ended().is_cancelled() && !second.ended().is_cancelled());
        assert_eq!(places.mib(), 90);
        drop((second, third));
        assert_eq!(places.mib(), 0);
    }
}
