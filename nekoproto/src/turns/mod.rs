//! [`Turns`]: connections of a node take turns on its threads, so that none of them delays the others for long.
//!
//! Whoever works looks at its [`Slice`] and stops when that is over. While all of them together take less than a round,
//! nobody waits. Beyond it the runtime first looks for new arrivals, and then those go on that had the least so far
//! ([`order`]). Nothing is held while a connection waits for another node.

mod order;

use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{runtime::Handle, task::yield_now};

pub(crate) use self::order::Flow;
use self::order::{Order, Place};

/// The longest that one connection works in a row.
const SLICE: Duration = Duration::from_micros(400);
/// Pieces of work before the clock is looked at: most connections have fewer at a time.
const UNTIMED: u32 = 3;

/// Whether those that have more to do wait for their turns. A debug build takes ten times as long for each message: where
/// many nodes share one thread, as in tests, waiting would use up the time limits of calls. It goes in the order of the
/// runtime, slice by slice.
const IN_ORDER: bool = !cfg!(debug_assertions);

/// The turns of one node. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Turns(Arc<Mutex<Order<Waker>>>);

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
    began: Instant,
    looks: u32,
    is_over: bool,
}

impl Slice {
    /// One that begins now.
    pub(crate) fn new() -> Self {
        Self { began: Instant::now(), looks: 0, is_over: false }
    }

    /// Whether it is over. Asked for where there is more to do: that is then left, and done in the next slice.
    pub(crate) fn is_over(&mut self) -> bool {
        self.looks += 1;
        self.is_over |= self.looks > UNTIMED && self.began.elapsed() >= SLICE;
        self.is_over
    }
}

impl Turns {
    /// Those of a node on this runtime.
    pub(crate) fn new() -> Self {
        let threads = Handle::try_current().map_or(1, |runtime| runtime.metrics().num_workers());
        Self(Arc::new(Mutex::new(Order::new(threads.max(1)))))
    }

    /// A task whose work is that of `flow`.
    pub(crate) fn worker(&self, flow: Flow) -> Worker {
        Worker { turns: self.clone(), flow, waits: None }
    }

    /// Lets the next go on; at the end of a round only when the runtime has looked for new arrivals.
    fn go_on(&self, mut order: parking_lot::MutexGuard<'_, Order<Waker>>) {
        let is_over = order.begins_to_renew();
        let next = order.next();
        drop(order);
        if let Some(next) = next {
            next.wake();
        }
        let Some(renewal) = is_over.then(|| Renewal(self.clone())) else { return };
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                yield_now().await; // all that is ready is polled, then the sockets are looked at
                drop(renewal);
            });
        }
    }
}

/// Begins the next round when it is dropped, also where the runtime ends.
struct Renewal(Turns);

impl Drop for Renewal {
    fn drop(&mut self) {
        let mut order = self.0.0.lock();
        order.renew();
        let next: Vec<_> = std::iter::from_fn(|| order.next()).collect();
        drop(order);
        next.into_iter().for_each(Waker::wake);
    }
}

impl Worker {
    /// Does a slice of `work` when it is this task's turn. Where the slice was over, the task is woken for the next.
    pub(crate) fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        work: impl FnOnce(&mut Context<'_>, &mut Slice) -> Poll<T>,
    ) -> Poll<T> {
        let place = {
            let mut order = self.turns.0.lock();
            let keep = |known: &mut Waker| known.clone_from(cx.waker());
            match self.waits {
                Some(place) if order.still_waits(place, keep) => return Poll::Pending,
                None if IN_ORDER && !order.is_free() => {
                    self.waits = Some(order.wait(&self.flow, cx.waker().clone()));
                    return Poll::Pending;
                }
                place => place,
            }
        };
        let mut worked = Worked { worker: self, place, slice: Slice::new(), wakes: None };
        let polled = work(cx, &mut worked.slice);
        if polled.is_pending() && worked.slice.is_over {
            worked.wakes = Some(cx.waker().clone());
        }
        polled
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let Some(place) = self.waits else { return };
        let mut order = self.turns.0.lock();
        order.leave(place);
        self.turns.go_on(order);
    }
}

/// A slice that is under way; a panic ends it too.
struct Worked<'a> {
    worker: &'a mut Worker,
    place: Option<Place>,
    slice: Slice,
    /// The task, if it has more to do.
    wakes: Option<Waker>,
}

impl Drop for Worked<'_> {
    fn drop(&mut self) {
        let Self { worker: Worker { turns, flow, waits }, place, slice, wakes } = self;
        let ns = u64::try_from(slice.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut order = turns.0.lock();
        order.worked(flow, *place, ns);
        if !IN_ORDER {
            drop(order);
            wakes.take().into_iter().for_each(Waker::wake);
            return;
        }
        *waits = wakes.take().map(|wakes| order.wait(flow, wakes));
        turns.go_on(order);
    }
}
