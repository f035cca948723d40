//! [`Calls`], the calling side of a control connection: calls that wait for their responses.
//!
//! The caller encodes a call and stages it; the connection's driver sends what is staged and hands each
//! response to its call. Meanwhile a call is a slot in a table, so that it needs no task, no channel and no
//! timer of its own: the driver has one timer for all deadlines.

use std::{
    fmt,
    future::Future,
    marker::PhantomData,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Instant,
};

use parking_lot::Mutex;
use serde::Serialize;
use slab::Slab;
use tarpc::{RequestName, client::RpcError, client::stub::Stub, context};
use tokio::{
    sync::{Notify, Semaphore, SemaphorePermit, TryAcquireError},
    time::timeout_at,
};

use super::{
    deadline::millis_left,
    frame::{Envelope, put_frame},
    outgoing::Outgoing,
};
use crate::{limits::CALLS_IN_FLIGHT_MAX, transport::error::FrameError};

/// Bits of a call's id that are its slot. The others count calls, so that a late response is not taken for
/// that of the next call in the slot.
const SLOT_BITS: u32 = 10;
const _: () = assert!(CALLS_IN_FLIGHT_MAX <= 1 << SLOT_BITS);
/// Bytes staged beyond which further calls wait: the other end reads too slowly.
const STAGED_BYTES_MAX: usize = 1024 * 1024;

/// Calls the other end of a control connection. Clones call over the same connection.
///
/// Dropping a call before its response cancels it at the other end.
pub struct Calls<Req, Resp> {
    table: Arc<Table<Resp>>,
    requests: PhantomData<fn(Req)>,
}

/// What callers and the driver share.
pub(super) struct Table<Resp> {
    state: Mutex<State<Resp>>,
    permits: Semaphore,
    /// Wakes calls that wait because too much is staged.
    room: Notify,
}

/// What the driver found staged.
pub(super) struct Staged {
    /// A lower bound of the calls' deadlines.
    pub(super) earliest: Option<Instant>,
    /// Whether something is left, and the bytes of memory that it takes.
    pub(super) is_left: bool,
    pub(super) bytes_left: usize,
}

/// Invariants: a slot belongs to one call, from its staging until the call has its response or is dropped;
/// once `closed`, no slot waits for a response.
struct State<Resp> {
    slots: Slab<Slot<Resp>>,
    /// Encoded frames to be sent.
    staged: Vec<u8>,
    /// Whether calls wait until less is staged.
    is_full: bool,
    /// Calls staged so far.
    count: u64,
    /// A lower bound of the deadlines of all calls.
    earliest: Option<Instant>,
    driver: Option<Waker>,
    closed: bool,
}

struct Slot<Resp> {
    id: u64,
    deadline: Instant,
    caller: Option<Waker>,
    response: Option<Result<Resp, RpcError>>,
}

impl<Req, Resp> Clone for Calls<Req, Resp> {
    fn clone(&self) -> Self {
        Self { table: Arc::clone(&self.table), requests: PhantomData }
    }
}

impl<Req, Resp> fmt::Debug for Calls<Req, Resp> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls").finish_non_exhaustive()
    }
}

impl<Req: Serialize, Resp> Calls<Req, Resp> {
    /// The calling side of a connection, and the table that its driver works on.
    pub(super) fn new() -> (Self, Arc<Table<Resp>>) {
        let state = State {
            slots: Slab::new(),
            staged: Vec::new(),
            is_full: false,
            count: 0,
            earliest: None,
            driver: None,
            closed: false,
        };
        let permits = Semaphore::new(CALLS_IN_FLIGHT_MAX);
        let table = Arc::new(Table { state: Mutex::new(state), permits, room: Notify::new() });
        (Self { table: Arc::clone(&table), requests: PhantomData }, table)
    }
}

impl<Req: Serialize + RequestName, Resp> Stub for Calls<Req, Resp> {
    type Req = Req;
    type Resp = Resp;

    /// Calls at once; with [`CALLS_IN_FLIGHT_MAX`] calls in flight, or with many bytes that the other end has yet to read,
    /// it first waits. The deadline of `context` covers the wait.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the call.
    fn call(&self, context: context::Context, request: Req) -> impl Future<Output = Result<Resp, RpcError>> {
        let table = &*self.table;
        let begun = table.begin(context.deadline, &request);
        // What seldom waits does so in a box, so that a call takes little room.
        let later = matches!(begun, Ok(None)).then(|| Box::pin(table.begin_later(context.deadline, request)));
        async move {
            let begun = match later {
                Some(later) => later.await?,
                None => begun?.ok_or(RpcError::Shutdown)?,
            };
            begun.await
        }
    }
}

impl<Resp> Table<Resp> {
    /// Stages a call; `None` while too many are in flight, or too much is staged.
    fn begin<Req: Serialize>(
        &self,
        deadline: Instant,
        request: &Req,
    ) -> Result<Option<PendingResponse<'_, Resp>>, RpcError> {
        let permit = match self.permits.try_acquire() {
            Ok(permit) => permit,
            Err(TryAcquireError::NoPermits) => return Ok(None),
            Err(TryAcquireError::Closed) => return Err(RpcError::Shutdown),
        };
        let slot = self.stage(deadline, request)?;
        Ok(slot.map(|slot| PendingResponse { table: self, slot, is_over: false, _permit: permit }))
    }

    /// The same, once there is room; until `deadline`.
    async fn begin_later<Req: Serialize>(
        &self,
        deadline: Instant,
        request: Req,
    ) -> Result<PendingResponse<'_, Resp>, RpcError> {
        let begin = async {
            let permit = self.permits.acquire().await.map_err(|_| RpcError::Shutdown)?;
            let slot = self.stage_later(deadline, &request).await?;
            Ok(PendingResponse { table: self, slot, is_over: false, _permit: permit })
        };
        timeout_at(deadline.into(), begin).await.map_err(|_| RpcError::DeadlineExceeded)?
    }

    /// Encodes a request for the driver to send; returns its slot, or `None` while too much is staged.
    fn stage<Req: Serialize>(&self, deadline: Instant, call: &Req) -> Result<Option<usize>, RpcError> {
        let deadline_ms = millis_left(deadline);
        let mut state = self.state.lock();
        let state = &mut *state;
        if state.closed {
            return Err(RpcError::Shutdown);
        }
        if state.staged.len() > STAGED_BYTES_MAX {
            state.is_full = true;
            return Ok(None);
        }
        let entry = state.slots.vacant_entry();
        let slot = entry.key();
        let id = state.count << SLOT_BITS | slot as u64;
        put_frame(&mut state.staged, &Envelope::<&Req, ()>::Request { id, deadline_ms, call })
            .map_err(|error| RpcError::Send(Box::new(error)))?;
        state.count += 1;
        entry.insert(Slot { id, deadline, caller: None, response: None });
        state.earliest = Some(state.earliest.map_or(deadline, |earliest| earliest.min(deadline)));
        wake(&mut state.driver);
        Ok(Some(slot))
    }

    /// The same, once less is staged.
    async fn stage_later<Req: Serialize>(&self, deadline: Instant, call: &Req) -> Result<usize, RpcError> {
        loop {
            let mut room = pin!(self.room.notified());
            room.as_mut().enable(); // before the look, so that room made after it is noticed
            if let Some(slot) = self.stage(deadline, call)? {
                return Ok(slot);
            }
            room.await;
        }
    }

    /// For the driver: moves what is staged to the end of `out`, unless more than `out_max` bytes wait there, and
    /// registers the driver to be woken when there is more.
    pub(super) fn take_staged(&self, out: &mut Outgoing, out_max: usize, driver: &Waker) -> Staged {
        let mut state = self.state.lock();
        if !state.staged.is_empty() && out.len() <= out_max {
            out.append(&mut state.staged);
            if std::mem::take(&mut state.is_full) {
                self.room.notify_waiters();
            }
        }
        if !state.driver.as_ref().is_some_and(|known| known.will_wake(driver)) {
            state.driver = Some(driver.clone());
        }
        Staged {
            earliest: state.earliest,
            is_left: !state.staged.is_empty(),
            bytes_left: state.staged.capacity(),
        }
    }

    /// For the driver: takes a response that arrived. If its call is gone, it is dropped.
    pub(super) fn respond(&self, id: u64, response: Result<Resp, RpcError>) {
        let caller = {
            let mut state = self.state.lock();
            let slot = usize::try_from(id & ((1 << SLOT_BITS) - 1)).unwrap_or(usize::MAX);
            match state.slots.get_mut(slot) {
                Some(slot) if slot.id == id && slot.response.is_none() => {
                    slot.response = Some(response);
                    slot.caller.take()
                }
                _ => None,
            }
        };
        if let Some(caller) = caller {
            caller.wake();
        }
    }

    /// For the driver: fails calls whose deadline has passed, and cancels them at the other end.
    pub(super) fn expire(&self, now: Instant) {
        let mut callers = Vec::new();
        let mut state = self.state.lock();
        let State { slots, staged, earliest, .. } = &mut *state;
        *earliest = None;
        for (_, slot) in slots.iter_mut().filter(|(_, slot)| slot.response.is_none()) {
            if slot.deadline <= now {
                slot.response = Some(Err(RpcError::DeadlineExceeded));
                callers.extend(slot.caller.take());
                cancel(staged, slot.id);
            } else {
                *earliest = Some(earliest.map_or(slot.deadline, |known| known.min(slot.deadline)));
            }
        }
        drop(state);
        callers.into_iter().for_each(Waker::wake);
    }

    /// For the driver: the connection has ended; fails all calls, present and future.
    pub(super) fn close(&self) {
        let mut callers = Vec::new();
        let mut state = self.state.lock();
        state.closed = true;
        state.driver = None;
        state.staged = Vec::new();
        for (_, slot) in state.slots.iter_mut().filter(|(_, slot)| slot.response.is_none()) {
            slot.response = Some(Err(RpcError::Shutdown));
            callers.extend(slot.caller.take());
        }
        drop(state);
        self.permits.close();
        self.room.notify_waiters();
        callers.into_iter().for_each(Waker::wake);
    }
}

fn wake(driver: &mut Option<Waker>) {
    if let Some(driver) = driver.take() {
        driver.wake();
    }
}

/// Tells the other end that call `id` is no longer awaited.
fn cancel(staged: &mut Vec<u8>, id: u64) {
    // Cannot fail: an id and a tag fit every frame.
    let _: Result<(), FrameError> = put_frame(staged, &Envelope::<(), ()>::Cancel { id });
}

/// The response to a staged call, or its failure.
struct PendingResponse<'a, Resp> {
    table: &'a Table<Resp>,
    slot: usize,
    is_over: bool,
    /// Given back when the response was taken, or is not waited for.
    _permit: SemaphorePermit<'a>,
}

impl<Resp> Future for PendingResponse<'_, Resp> {
    type Output = Result<Resp, RpcError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.table.state.lock();
        let Some(slot) = state.slots.get_mut(self.slot) else {
            return Poll::Ready(Err(RpcError::Shutdown)); // polled again after it was ready
        };
        let Some(response) = slot.response.take() else {
            if !slot.caller.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
                slot.caller = Some(cx.waker().clone());
            }
            return Poll::Pending;
        };
        state.slots.remove(self.slot);
        drop(state);
        self.is_over = true;
        Poll::Ready(response)
    }
}

impl<Resp> Drop for PendingResponse<'_, Resp> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut state = self.table.state.lock();
        let state = &mut *state;
        if let Some(slot) = state.slots.try_remove(self.slot)
            && slot.response.is_none()
            && !state.closed
        {
            cancel(&mut state.staged, slot.id);
            wake(&mut state.driver);
        }
    }
}
