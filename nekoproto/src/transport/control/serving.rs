//! [`Serving`], the serving side of a control connection: requests and their handlers.
//!
//! A handler is polled at once, on the task of its connection: most answer from memory and finish without an
//! allocation. The others are kept until they finish, are cancelled, or pass their deadline.

use std::{
    collections::{HashMap, VecDeque},
    future::Future,
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll},
    time::Instant,
};

use futures::{
    StreamExt,
    future::{AbortHandle, Abortable},
    stream::FuturesUnordered,
};
use tarpc::context;

use crate::limits::REQUESTS_IN_FLIGHT_MAX;

/// Bytes that a waiting handler counts, in addition to its request.
const WAITING_BYTES: usize = 512;
/// A decoded request takes at most about this many times its frame.
const DECODED_FACTOR: usize = 2;

pub(super) struct Request<Req> {
    pub(super) id: u64,
    pub(super) context: context::Context,
    pub(super) call: Req,
    /// Length of its frame.
    pub(super) bytes: usize,
}

/// A request held back: its frame, since that is smaller than what it says.
pub(super) struct Held {
    pub(super) id: u64,
    pub(super) context: context::Context,
    pub(super) frame: Box<[u8]>,
}

/// What became of a request.
pub(super) enum Taken<Resp> {
    Finished(Resp),
    /// Its handler waits; the response comes from [`Serving::poll_done`].
    Waits,
    /// Too many requests are in flight.
    Refused,
    /// A request with this id is in flight: it is ignored, as the responses could not be told apart.
    Repeated,
}

/// A handler in an allocation that is reused for the next one of the same [`Slice`](super::slice::Slice) when it is done.
type PinnedHandler<F> = Pin<Box<Option<F>>>;

/// The handlers of one connection.
///
/// Invariants: each waiting handler is in `waiting` and, by its id, in `known`; at most
/// [`REQUESTS_IN_FLIGHT_MAX`] requests are waiting or held.
pub(super) struct Serving<Req, F, S> {
    serve: S,
    requests: PhantomData<fn(Req)>,
    spare: Option<PinnedHandler<F>>,
    waiting: FuturesUnordered<Abortable<Waiting<F>>>,
    known: HashMap<u64, Known>,
    waiting_bytes: usize,
    /// A lower bound of the deadlines of waiting handlers.
    earliest: Option<Instant>,
    /// Requests held back, not served yet, in the order of arrival.
    held: VecDeque<Held>,
    held_bytes: usize,
}

/// A waiting handler.
struct Known {
    handle: AbortHandle,
    deadline: Instant,
    bytes: usize,
}

struct Waiting<F> {
    id: u64,
    handler: PinnedHandler<F>,
}

impl<F: Future> Future for Waiting<F> {
    type Output = (u64, F::Output, PinnedHandler<F>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(handler) = self.handler.as_mut().as_pin_mut() else { return Poll::Pending }; // it is done
        match handler.poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(response) => {
                self.handler.set(None);
                let spare = std::mem::replace(&mut self.handler, Box::pin(None));
                Poll::Ready((self.id, response, spare))
            }
        }
    }
}

impl<Req, F: Future, S: Fn(context::Context, Req) -> F> Serving<Req, F, S> {
    /// Without requests yet; `serve` makes their handlers.
    pub(super) fn new(serve: S) -> Self {
        Self {
            serve,
            requests: PhantomData,
            spare: None,
            waiting: FuturesUnordered::new(),
            known: HashMap::new(),
            waiting_bytes: 0,
            earliest: None,
            held: VecDeque::new(),
            held_bytes: 0,
        }
    }

    /// A lower bound of the deadlines of waiting handlers.
    pub(super) const fn earliest(&self) -> Option<Instant> {
        self.earliest
    }

    /// Requests that are waiting or held.
    pub(super) fn in_flight(&self) -> usize {
        self.known.len() + self.held.len()
    }

    /// Gives back what is kept for the next handler: none may come for long.
    pub(super) fn rest(&mut self) {
        self.spare = None;
    }

    /// Bytes of memory that they take, about.
    pub(super) const fn bytes(&self) -> usize {
        self.held_bytes + self.waiting_bytes
    }

    /// Starts to serve `request`.
    pub(super) fn take(&mut self, request: Request<Req>, cx: &mut Context<'_>) -> Taken<F::Output> {
        let Request { id, context, call, bytes } = request;
        if self.known.contains_key(&id) {
            return Taken::Repeated;
        }
        if self.in_flight() >= REQUESTS_IN_FLIGHT_MAX {
            return Taken::Refused;
        }
        let mut handler = self.spare.take().unwrap_or_else(|| Box::pin(None));
        handler.set(Some((self.serve)(context, call)));
        let polled = handler.as_mut().as_pin_mut().map(|handler| handler.poll(cx));
        if let Some(Poll::Ready(response)) = polled {
            handler.set(None);
            self.spare = Some(handler);
            return Taken::Finished(response);
        }
        // The set polls it again, which registers the waker of this task.
        let (handle, registration) = AbortHandle::new_pair();
        self.waiting.push(Abortable::new(Waiting { id, handler }, registration));
        let bytes = WAITING_BYTES + DECODED_FACTOR * bytes;
        self.waiting_bytes += bytes;
        self.known.insert(id, Known { handle, deadline: context.deadline, bytes });
        self.earliest = Some(self.earliest.map_or(context.deadline, |known| known.min(context.deadline)));
        Taken::Waits
    }

    /// The id and response of the next handler that finishes.
    pub(super) fn poll_done(&mut self, cx: &mut Context<'_>) -> Poll<(u64, F::Output)> {
        if self.waiting.is_empty() {
            return Poll::Pending; // the usual case, cheaper than polling the set
        }
        loop {
            match self.waiting.poll_next_unpin(cx) {
                Poll::Ready(Some(Ok((id, response, spare)))) => {
                    if let Some(known) = self.known.remove(&id) {
                        self.waiting_bytes -= known.bytes;
                    }
                    self.spare = Some(spare);
                    return Poll::Ready((id, response));
                }
                Poll::Ready(Some(Err(_aborted))) => {}
                Poll::Ready(None) | Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Drops the handler of request `id`, or the request if it is held back.
    pub(super) fn cancel(&mut self, id: u64) {
        if let Some(known) = self.known.remove(&id) {
            known.handle.abort(); // wakes it; the set drops it when it is polled next
            self.waiting_bytes -= known.bytes;
        }
        if self.held.is_empty() {
            return;
        }
        self.held.retain(|request| request.id != id);
        self.held_bytes = self.held.iter().map(|request| request.frame.len()).sum();
    }

    /// Drops handlers past their deadline: their callers no longer wait.
    pub(super) fn expire(&mut self, now: Instant) {
        self.known.retain(|_, known| {
            let is_over = known.deadline <= now;
            if is_over {
                known.handle.abort();
                self.waiting_bytes -= known.bytes;
            }
            !is_over
        });
        self.earliest = self.known.values().map(|known| known.deadline).min();
    }

    /// Holds `request` back. While there are too many requests, or more than `bytes_max` held back, the one
    /// with the earliest deadline is dropped: it would miss it first. Returns the ids of dropped requests.
    pub(super) fn hold(&mut self, request: Held, bytes_max: usize) -> Vec<u64> {
        let mut dropped = Vec::new();
        self.held_bytes += request.frame.len();
        self.held.push_back(request);
        while self.in_flight() > REQUESTS_IN_FLIGHT_MAX || self.held_bytes > bytes_max {
            let deadlines = self.held.iter().map(|request| request.context.deadline).enumerate();
            let next = deadlines.min_by_key(|(_, deadline)| *deadline).map(|(index, _)| index);
            let Some(request) = next.and_then(|index| self.held.remove(index)) else { break };
            self.held_bytes -= request.frame.len();
            dropped.push(request.id);
        }
        dropped
    }

    /// The request held back first, or only its id if its deadline has passed.
    pub(super) fn next_held(&mut self, now: Instant) -> Option<Result<Held, u64>> {
        let request = self.held.pop_front()?;
        self.held_bytes -= request.frame.len();
        Some(if request.context.deadline > now { Ok(request) } else { Err(request.id) })
    }
}

#[cfg(test)]
mod tests {
    use std::{future::Ready, time::Duration};

    use super::*;
    use crate::transport::control::deadline::call_until;

    #[test]
    fn the_request_that_would_miss_its_deadline_first_makes_room() {
        let now = Instant::now();
        let mut serving = Serving::new(|_, request: u8| -> Ready<u8> { std::future::ready(request) });
        let request = |id: u64, secs: u64| Held {
            id,
            context: call_until(now + Duration::from_secs(secs)),
            frame: [0; 10].into(),
        };
        for (id, secs) in [(1, 5), (2, 1), (3, 9)] {
            assert!(serving.hold(request(id, secs), 30).is_empty());
        }
        assert_eq!(serving.hold(request(4, 7), 30), [2]);
        assert_eq!(serving.hold(request(5, 2), 30), [5], "it is the next to be late itself");
        let large = Held { frame: [0; 25].into(), ..request(6, 8) };
        assert_eq!(serving.hold(large, 30), [1, 4, 6], "two places are not enough");
        let next = serving.next_held(now + Duration::from_secs(9));
        assert!(matches!(next, Some(Err(3))), "it is too late for it");
        assert!(serving.next_held(now).is_none());
        assert_eq!(serving.held_bytes, 0);
        for id in 0..REQUESTS_IN_FLIGHT_MAX as u64 {
            assert!(serving.hold(request(id, 10 + id), usize::MAX).is_empty());
        }
        assert_eq!(serving.hold(request(9999, 11), usize::MAX), [0]);
        assert!(matches!(serving.next_held(now), Some(Ok(Held { id: 1, .. }))), "the rest in their order");
    }
}
