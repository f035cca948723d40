//! [`Turns`]: connections of a node take turns on its threads, so that none of them delays the others for long.
//!
//! Whoever works looks at its [`Slice`] and stops when that is over. While all of them together take less than a round,
//! nobody waits, and of their work a sample is measured. Beyond it the runtime first looks for new arrivals, and then those
//! go on that had the least so far ([`order`]). Nothing is held while a connection waits for another node.

mod order;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};
use tokio::{runtime::Handle, task::yield_now};

pub(crate) use self::order::Flow;
use self::order::{Order, Place, SCALE};

/// The longest that one connection works in a row.
const SLICE: Duration = Duration::from_micros(400 * SCALE);
/// Pieces of work before the clock is looked at: most connections have fewer at a time.
const UNTIMED: u32 = 4;
/// While nobody waits, one of this many that do few pieces is measured, and counts for all of them. Which one is left to
/// chance, so that nobody works much in between.
const SAMPLED: u32 = 4;

/// The turns of one node. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Turns(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    order: Mutex<Order<Waker>>,
    /// Whether somebody may have to wait. Otherwise the order is not looked at.
    is_crowded: AtomicBool,
}

/// One task that takes turns.
#[derive(Debug)]
pub(crate) struct Worker {
    turns: Turns,
    flow: Flow,
    waits: Option<Place>,
}

/// The time that a task may work now.
#[derive(Debug)]
pub(crate) struct Slice {
    began: Option<Instant>,
    looks: u32,
    is_sample: bool,
    is_over: bool,
}

impl Slice {
    /// One that begins now, whose work is measured: all of it, or a sample.
    fn new(is_measured: bool) -> Self {
        let is_sample = !is_measured && rand::random_ratio(1, SAMPLED);
        let began = (is_measured || is_sample).then(Instant::now);
        Self { began, looks: 0, is_sample, is_over: false }
    }

    /// Whether it is over. Asked for where there is more to do: that is then left, and done in the next slice.
    pub(crate) fn is_over(&mut self) -> bool {
        self.looks += 1;
        if self.looks > UNTIMED && !self.is_over {
            self.is_sample = false;
            self.is_over = self.began.get_or_insert_with(Instant::now).elapsed() >= SLICE;
        }
        self.is_over
    }

    /// For how many its work counts.
    const fn times(&self) -> u32 {
        if self.is_sample { SAMPLED } else { 1 }
    }
}

impl Turns {
    /// Those of a node on this runtime.
    pub(crate) fn new() -> Self {
        let threads = Handle::try_current().map_or(1, |runtime| runtime.metrics().num_workers());
        let order = Mutex::new(Order::new(threads.max(1), Instant::now()));
        Self(Arc::new(Shared { order, is_crowded: AtomicBool::new(false) }))
    }

    /// A task whose work is that of `flow`.
    pub(crate) fn worker(&self, flow: Flow) -> Worker {
        Worker { turns: self.clone(), flow, waits: None }
    }

    /// Gives back `order`. Where somebody waits, those go on when the runtime has looked for new arrivals.
    fn leave(&self, mut order: MutexGuard<'_, Order<Waker>>) {
        let begins = order.begins_to_renew();
        self.0.is_crowded.store(order.is_crowded(), Relaxed);
        drop(order);
        if begins {
            self.renew_later();
        }
    }

    fn renew_later(&self) {
        let renewal = Renewal(Some(self.clone()));
        let Ok(runtime) = Handle::try_current() else { return };
        runtime.spawn(async move {
            yield_now().await; // all that is ready is polled, then the sockets are looked at
            renewal.run();
        });
    }
}

/// Lets those go on who wait; all of them if the runtime ends.
struct Renewal(Option<Turns>);

impl Renewal {
    fn run(mut self) {
        let Some(turns) = self.0.take() else { return };
        let mut order = turns.0.order.lock();
        let next = order.renew(Instant::now());
        turns.0.is_crowded.store(order.is_crowded(), Relaxed);
        let is_left = order.is_renewing();
        drop(order);
        next.into_iter().for_each(Waker::wake);
        if is_left {
            turns.renew_later();
        }
    }
}

impl Drop for Renewal {
    fn drop(&mut self) {
        let Some(turns) = self.0.take() else { return };
        let all = turns.0.order.lock().end();
        all.into_iter().for_each(Waker::wake);
    }
}

impl Worker {
    /// Does a slice of `work` when it is this task's turn. Where the slice was over, the task is woken for the next.
    pub(crate) fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        work: impl FnOnce(&mut Context<'_>, &mut Slice) -> Poll<T>,
    ) -> Poll<T> {
        let is_crowded = self.waits.is_some() || self.turns.0.is_crowded.load(Relaxed);
        if is_crowded && !self.enters(cx) {
            return Poll::Pending;
        }
        let mut worked = Worked { worker: self, slice: Slice::new(is_crowded) };
        let polled = work(cx, &mut worked.slice);
        if polled.is_pending() && worked.slice.is_over {
            cx.waker().wake_by_ref(); // behind all that are ready
        }
        polled
    }

    /// Whether it may work now; otherwise its task is woken when it is its turn.
    fn enters(&mut self, cx: &Context<'_>) -> bool {
        let mut order = self.turns.0.order.lock();
        let waits = order.enter(&self.flow, self.waits, cx.waker(), Instant::now());
        let enters = waits.is_none();
        if !enters {
            self.waits = waits;
        }
        self.turns.leave(order);
        enters
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(place) = self.waits {
            self.turns.0.order.lock().leave(&self.flow, place);
        }
    }
}

/// A slice that is under way; a panic ends it too.
struct Worked<'a> {
    worker: &'a mut Worker,
    slice: Slice,
}

impl Drop for Worked<'_> {
    fn drop(&mut self) {
        let Some(began) = self.slice.began else { return };
        let Worker { turns, flow, waits } = &mut *self.worker;
        let now = Instant::now();
        let mut order = turns.0.order.lock();
        order.worked(flow, waits.take(), (now - began, self.slice.times()), now);
        turns.leave(order);
    }
}
