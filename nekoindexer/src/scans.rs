//! [`Scans`]: how many searches look through all names at once, and for how long. They take turns, so that a short one
//! waits for a slice of each long one and not for its end; those of one caller follow each other.

use std::{
    cell::{Cell, RefCell},
    sync::{Arc, LazyLock},
    thread,
    time::{Duration, Instant},
};

use nekoproto::Refusal;
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout_at,
};

use crate::state::{caller::Caller, find::WHOLE};

/// Scans of all names at once: more would take the processor from lookups and from each other. One core is left to them.
pub(crate) static SCANS_MAX: LazyLock<usize> =
    LazyLock::new(|| thread::available_parallelism().map_or(1, |cores| (cores.get() - 1).clamp(1, 2)));
/// Scans that wait for their turn; further ones are refused as `Busy`.
const SCANS_WAITING_MAX: usize = 64;
/// How long one scan runs at most, without what it waits. A million names take a tenth of it; what takes longer is a
/// pattern that is made to.
const SCAN_TIME_MAX: Duration = Duration::from_secs(1);
/// How long it runs before another has its turn.
const SLICE: Duration = Duration::from_millis(20);
/// A scan that has run for this long rests after each slice as long as it ran: lookups need the processor more.
const HEAVY_FROM: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct Scans {
    running: Arc<Semaphore>,
    /// A permit for each that runs or waits.
    taken: Arc<Semaphore>,
}

/// The place of one scan, until dropped. It belongs to the thread that scans: a scan whose caller has gone runs on, and
/// its place is taken as long.
#[derive(Debug)]
pub(crate) struct Turn {
    _permits: [OwnedSemaphorePermit; 3],
    /// A permit to run; given to others between slices.
    running: RefCell<Option<OwnedSemaphorePermit>>,
    turns: Arc<Semaphore>,
    runtime: Handle,
    began: Instant,
    slice_began: Cell<Instant>,
    worked: Cell<Duration>,
    until: Instant,
}

impl Turn {
    /// How much of its time the scan has used, in parts of [`WHOLE`], with which it must end. Blocking: between two slices others have their turn.
    pub(crate) fn spent(&self) -> u32 {
        let now = Instant::now();
        let slice = now.saturating_duration_since(self.slice_began.get());
        if slice < SLICE {
            let passed = part(now.saturating_duration_since(self.began), self.until - self.began);
            return passed.max(part(self.worked.get() + slice, SCAN_TIME_MAX));
        }
        self.worked.set(self.worked.get() + slice);
        if self.worked.get() >= HEAVY_FROM {
            thread::sleep(SLICE);
        }
        drop(self.running.take());
        let turn = timeout_at(self.until.into(), Arc::clone(&self.turns).acquire_owned());
        let turn = self.runtime.block_on(turn).ok().and_then(Result::ok);
        self.slice_began.set(Instant::now());
        let has_turn = turn.is_some();
        self.running.replace(turn);
        if has_turn { part(self.worked.get(), SCAN_TIME_MAX) } else { WHOLE }
    }
}

/// `time` in parts of `all`.
fn part(time: Duration, all: Duration) -> u32 {
    let parts = time.as_micros() * u128::from(WHOLE) / all.as_micros().max(1);
    u32::try_from(parts).unwrap_or(WHOLE).min(WHOLE)
}

impl Default for Scans {
    fn default() -> Self {
        Self {
            running: Arc::new(Semaphore::new(*SCANS_MAX)),
            taken: Arc::new(Semaphore::new(scans_taken_max())),
        }
    }
}

impl Scans {
    /// A turn for a scan of `caller`, who waits `until` then; `None` if others took all the time.
    pub(crate) async fn turn(&self, caller: &Caller, until: Instant) -> Result<Option<Turn>, Refusal> {
        let place = Arc::clone(&caller.scans).try_acquire_owned().map_err(|_| Refusal::Busy)?;
        let own = timeout_at(until.into(), Arc::clone(&caller.scan).acquire_owned()).await;
        let Ok(Ok(own)) = own else { return Ok(None) };
        let taken = Arc::clone(&self.taken).try_acquire_owned().map_err(|_| Refusal::Busy)?;
        let running = timeout_at(until.into(), Arc::clone(&self.running).acquire_owned()).await;
        let Ok(Ok(running)) = running else { return Ok(None) };
        Ok(Some(Turn {
            _permits: [place, own, taken],
            running: RefCell::new(Some(running)),
            turns: Arc::clone(&self.running),
            runtime: Handle::current(),
            began: Instant::now(),
            slice_began: Cell::new(Instant::now()),
            worked: Cell::default(),
            until,
        }))
    }

    /// How many run or wait, of different callers.
    pub(crate) fn taken(&self) -> usize {
        scans_taken_max() - self.taken.available_permits()
    }
}

/// Scans that run or wait.
pub(crate) fn scans_taken_max() -> usize {
    *SCANS_MAX + SCANS_WAITING_MAX
}
