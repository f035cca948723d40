//! The serving side of a control connection: requests, their handlers, and what is answered.
//!
//! A handler is polled at once, on the task of its connection: most answer from memory and are done
//! then, without an allocation. Those that wait for somebody are kept until they are done, cancelled,
//! or past their deadline.

use std::{
    collections::{HashMap, VecDeque},
    future::Future,
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

/// A request as it came.
pub(super) struct Request<Req> {
    pub(super) id: u64,
    pub(super) context: context::Context,
    pub(super) call: Req,
    /// How long its frame was.
    pub(super) bytes: usize,
}

/// What becomes of a request.
pub(super) enum Taken<Resp> {
    /// It is answered with this.
    Answered(Resp),
    /// Its handler waits for something; the answer comes from [`Serving::poll_done`].
    Waits,
    /// There are too many already.
    Refused,
    /// One with this id is already under way: it is ignored, as its answer could not be told apart.
    Repeated,
}

/// A handler, in a place that can be used again when it is done.
type Place<F> = Pin<Box<Option<F>>>;

/// The handlers of one connection.
///
/// Invariants: each waiting handler is in `waiting` and, by its id, in `known`; at most
/// [`REQUESTS_IN_FLIGHT_MAX`] requests are waiting or held.
pub(super) struct Serving<Req, F, S> {
    serve: S,
    spare: Option<Place<F>>,
    waiting: FuturesUnordered<Abortable<Waiting<F>>>,
    known: HashMap<u64, (AbortHandle, Instant)>,
    /// No waiting handler's deadline is earlier.
    earliest: Option<Instant>,
    /// Requests that nobody has looked at yet.
    held: VecDeque<Request<Req>>,
    held_bytes: usize,
}

struct Waiting<F> {
    id: u64,
    place: Place<F>,
}

impl<F: Future> Future for Waiting<F> {
    type Output = (u64, F::Output, Place<F>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(handler) = self.place.as_mut().as_pin_mut() else { return Poll::Pending }; // it is over
        match handler.poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(answer) => {
                self.place.set(None);
                let place = std::mem::replace(&mut self.place, Box::pin(None));
                Poll::Ready((self.id, answer, place))
            }
        }
    }
}

impl<Req, F: Future, S: Fn(context::Context, Req) -> F> Serving<Req, F, S> {
    /// Nothing to do yet; `serve` makes handlers.
    pub(super) fn new(serve: S) -> Self {
        Self {
            serve,
            spare: None,
            waiting: FuturesUnordered::new(),
            known: HashMap::new(),
            earliest: None,
            held: VecDeque::new(),
            held_bytes: 0,
        }
    }

    /// When the earliest deadline of a waiting handler is.
    pub(super) const fn earliest(&self) -> Option<Instant> {
        self.earliest
    }

    fn under_way(&self) -> usize {
        self.known.len() + self.held.len()
    }

    /// Begins to serve `request`.
    pub(super) fn take(&mut self, request: Request<Req>, cx: &mut Context<'_>) -> Taken<F::Output> {
        let Request { id, context, call, .. } = request;
        if self.known.contains_key(&id) {
            return Taken::Repeated;
        }
        if self.under_way() >= REQUESTS_IN_FLIGHT_MAX {
            return Taken::Refused;
        }
        let mut place = self.spare.take().unwrap_or_else(|| Box::pin(None));
        place.set(Some((self.serve)(context, call)));
        let polled = place.as_mut().as_pin_mut().map(|handler| handler.poll(cx));
        if let Some(Poll::Ready(answer)) = polled {
            place.set(None);
            self.spare = Some(place);
            return Taken::Answered(answer);
        }
        // It is polled again in there, and then wakes this task when it should be.
        let (handle, registration) = AbortHandle::new_pair();
        self.waiting.push(Abortable::new(Waiting { id, place }, registration));
        self.known.insert(id, (handle, context.deadline));
        self.earliest = Some(self.earliest.map_or(context.deadline, |known| known.min(context.deadline)));
        Taken::Waits
    }

    /// The next handler that is done.
    pub(super) fn poll_done(&mut self, cx: &mut Context<'_>) -> Poll<(u64, F::Output)> {
        if self.waiting.is_empty() {
            return Poll::Pending; // mostly so, and asking the set costs more than this
        }
        loop {
            match self.waiting.poll_next_unpin(cx) {
                Poll::Ready(Some(Ok((id, answer, place)))) => {
                    self.known.remove(&id);
                    self.spare = Some(place);
                    return Poll::Ready((id, answer));
                }
                Poll::Ready(Some(Err(_aborted))) => {}
                Poll::Ready(None) | Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Nobody waits for request `id` any more: its handler is dropped.
    pub(super) fn cancel(&mut self, id: u64) {
        if let Some((handle, _)) = self.known.remove(&id) {
            handle.abort(); // wakes it, and then it is dropped where it waits
        }
        self.held.retain(|request| request.id != id);
        self.held_bytes = self.held.iter().map(|request| request.bytes).sum();
    }

    /// Handlers past their deadline are dropped: nobody waits for them any more.
    pub(super) fn expire(&mut self, now: Instant) {
        self.known.retain(|_, (handle, deadline)| {
            let is_over = *deadline <= now;
            if is_over {
                handle.abort();
            }
            !is_over
        });
        self.earliest = self.known.values().map(|(_, deadline)| *deadline).min();
    }

    /// Keeps `request` for later. Where there are too many, or they are too long together, those go whose
    /// deadline is next: they would miss it first. Returns the ids of those that went.
    pub(super) fn hold(&mut self, request: Request<Req>, bytes_max: usize) -> Vec<u64> {
        let mut gone = Vec::new();
        self.held_bytes += request.bytes;
        self.held.push_back(request);
        while self.under_way() > REQUESTS_IN_FLIGHT_MAX || self.held_bytes > bytes_max {
            let deadlines = self.held.iter().map(|request| request.context.deadline).enumerate();
            let next = deadlines.min_by_key(|(_, deadline)| *deadline).map(|(place, _)| place);
            let Some(request) = next.and_then(|place| self.held.remove(place)) else { break };
            self.held_bytes -= request.bytes;
            gone.push(request.id);
        }
        gone
    }

    /// The request that was kept first, if its deadline has not passed; else its id.
    pub(super) fn next_held(&mut self, now: Instant) -> Option<Result<Request<Req>, u64>> {
        let request = self.held.pop_front()?;
        self.held_bytes -= request.bytes;
        Some(if request.context.deadline > now { Ok(request) } else { Err(request.id) })
    }
}

#[cfg(test)]
mod tests {
    use std::{future::Ready, time::Duration};

    use super::*;
    use crate::transport::call_until;

    #[test]
    fn the_request_that_would_miss_its_deadline_first_makes_room() {
        let now = Instant::now();
        let mut serving = Serving::new(|_, request: u8| -> Ready<u8> { std::future::ready(request) });
        let request = |id: u64, secs: u64| Request {
            id,
            context: call_until(now + Duration::from_secs(secs)),
            call: 0,
            bytes: 10,
        };
        assert!(
            [(1, 5), (2, 1), (3, 9)]
                .iter()
                .all(|(id, secs)| serving.hold(request(*id, *secs), 30).is_empty())
        );
        assert_eq!(serving.hold(request(4, 7), 30), [2]);
        assert_eq!(serving.hold(request(5, 2), 30), [5], "it is the next to be late itself");
        assert_eq!(
            serving.hold(Request { bytes: 25, ..request(6, 8) }, 30),
            [1, 4, 6],
            "two places are not enough"
        );
        assert!(
            matches!(serving.next_held(now + Duration::from_secs(9)), Some(Err(3))),
            "it is too late for it"
        );
        assert!(serving.next_held(now).is_none());
        assert_eq!(serving.held_bytes, 0);
        for id in 0..REQUESTS_IN_FLIGHT_MAX as u64 {
            assert!(serving.hold(request(id, 10 + id), usize::MAX).is_empty());
        }
        assert_eq!(serving.hold(request(9999, 11), usize::MAX), [0]);
        assert!(matches!(serving.next_held(now), Some(Ok(Request { id: 1, .. }))), "the rest in their order");
    }
}
