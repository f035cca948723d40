//! [`ConnectionDriver`]: runs one control connection in one task. It serves requests as they arrive, hands
//! responses to their calls, and sends outgoing frames together. What arrives is read in [`reading`].

mod reading;

use std::{
    future::Future,
    io,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use serde::{Serialize, de::DeserializeOwned};
use tarpc::{ServerError, context};
use tokio::{
    io::AsyncWrite,
    task::unconstrained,
    time::{Sleep, sleep_until},
};
use tracing::debug;

use super::{
    calls::Table,
    frame::{Envelope, fault_of, put_frame},
    outgoing::Outgoing,
    serving::{Held, Request, Serving},
    slice::Slice,
};
use crate::{
    budget::Reservation,
    codec,
    limits::FRAME_BYTES_MAX,
    messages::Fault,
    transport::{error::FrameError, io::Io, node_io::NodeIo, pending::PendingHello, slots::Activity},
};

/// Bytes to be sent that are written while requests are still being served: the other end works on them
/// meanwhile.
const OUT_BYTES_WORTH: usize = 32 * 1024;
/// Bytes to be sent beyond which requests are held back, and own calls wait: the other end reads too slowly.
const OUT_BYTES_SOFT: usize = 1024 * 1024;
/// Bytes of requests held back; beyond it requests are answered `Busy`.
const HELD_BYTES_MAX: usize = 1024 * 1024;
/// Bytes to be sent beyond which even requests in flight are answered `Busy`.
const OUT_BYTES_HARD: usize = 3 * 1024 * 1024;
/// Bytes to be sent beyond which the connection is closed: the other end does not read at all.
const OUT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Requests answered `Busy` in a row, since the other end does not read, beyond which the connection is closed.
const REFUSED_MAX: usize = 16 * 1024;
const _: () = assert!(OUT_BYTES_SOFT + FRAME_BYTES_MAX < OUT_BYTES_HARD);
const _: () = assert!(OUT_BYTES_HARD + FRAME_BYTES_MAX < OUT_BYTES_MAX);

/// One control connection: serves `SReq`, calls and gets `CResp`.
pub(super) struct ConnectionDriver<SReq, CResp, F, S> {
    io: Io,
    /// The other end's hello, which comes before all else.
    pending: Option<Box<PendingHello>>,
    calls: Arc<Table<CResp>>,
    serving: Serving<SReq, F, S>,
    /// What was read when the slice was over: whole frames, and the beginning of one. Empty if `partial` is not.
    unhandled: Vec<u8>,
    /// The beginning of a frame whose rest has not arrived, and when that must be there.
    partial: Vec<u8>,
    partial_due: Option<Instant>,
    out: Outgoing,
    /// Bytes of calls that are staged and not moved to `out`.
    staged_bytes: usize,
    /// Requests answered `Busy` while the other end does not read.
    refused: usize,
    /// What it takes beyond an allowance.
    reservation: Reservation,
    activity: Activity,
    is_busy: bool,
    deadline: Option<(Instant, Pin<Box<Sleep>>)>,
    is_flushed: bool,
}

impl<SReq, CResp, F, S> Drop for ConnectionDriver<SReq, CResp, F, S> {
    fn drop(&mut self) {
        self.calls.close();
    }
}

impl<SReq, SResp, CResp, F, S> ConnectionDriver<SReq, CResp, F, S>
where
    SReq: DeserializeOwned,
    SResp: Serialize,
    CResp: DeserializeOwned,
    F: Future<Output = Result<SResp, ServerError>>,
    S: Fn(context::Context, SReq) -> F,
{
    pub(super) fn new(io: NodeIo, calls: Arc<Table<CResp>>, serve: S) -> Self {
        let NodeIo { io, account, activity, pending } = io;
        Self {
            io,
            pending,
            calls,
            serving: Serving::new(serve),
            unhandled: Vec::new(),
            partial: Vec::new(),
            partial_due: None,
            out: Outgoing::default(),
            staged_bytes: 0,
            refused: 0,
            reservation: Reservation::of(Some(account)),
            activity,
            is_busy: false,
            deadline: None,
            is_flushed: true,
        }
    }

    /// Runs the connection until it ends. Where `slice` is over, there is more to do, and it has to be polled again.
    pub(super) fn poll_run(&mut self, cx: &mut Context<'_>, slice: &mut Slice) -> Poll<()> {
        match self.poll_io(cx, slice) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(())) => Poll::Ready(()),
            Poll::Ready(Err(error)) => {
                if let Some(pending) = &mut self.pending {
                    drop(pending.poll_read(cx, &mut self.io)); // it may have broken because it was refused
                }
                debug!(%error, "control connection broke");
                Poll::Ready(())
            }
        }
    }

    fn poll_io(&mut self, cx: &mut Context<'_>, slice: &mut Slice) -> Poll<Result<(), FrameError>> {
        let is_over = self.read(cx, slice)?.is_ready();
        loop {
            while let Poll::Ready((id, response)) = self.serving.poll_done(cx) {
                self.respond(id, response);
                if self.out.len() > OUT_BYTES_SOFT {
                    let _: Poll<()> = self.poll_write(cx, slice)?; // what is left stays
                }
                if slice.is_over() {
                    break;
                }
            }
            let staged = self.calls.take_staged(&mut self.out, OUT_BYTES_SOFT, cx.waker());
            self.staged_bytes = staged.bytes_left;
            let is_written = self.poll_write(cx, slice)?.is_ready();
            let any_expired = self.poll_deadlines(staged.earliest, cx)?;
            let any_served = is_written && (self.serve_held(cx, slice)? || staged.is_left);
            if !any_expired && !any_served || slice.is_over() {
                break;
            }
        }
        if self.out.len() <= OUT_BYTES_SOFT {
            self.refused = 0;
        } else if self.out.len() > OUT_BYTES_MAX || self.refused > REFUSED_MAX {
            return Poll::Ready(Err(FrameError::NotRead(self.out.len())));
        }
        self.serving.rest();
        self.reservation.set(self.bytes())?;
        let is_busy = self.serving.in_flight() > 0;
        if is_busy != self.is_busy {
            self.is_busy = is_busy;
            self.activity.set_busy(is_busy);
        }
        if is_over { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    /// Bytes of memory that the connection takes for the other end.
    const fn bytes(&self) -> usize {
        self.unhandled.capacity()
            + self.partial.capacity()
            + self.out.room()
            + self.staged_bytes
            + self.serving.bytes()
    }

    /// Serves requests that were held back; returns whether there was one.
    fn serve_held(&mut self, cx: &mut Context<'_>, slice: &mut Slice) -> Result<bool, FrameError> {
        let mut any = false;
        while self.out.len() <= OUT_BYTES_SOFT
            && !(any && slice.is_over())
            && let Some(held) = self.serving.next_held(Instant::now())
        {
            any = true;
            match held {
                Ok(Held { id, context, frame }) => {
                    let Envelope::Request { call, .. } = codec::decode::<Envelope<SReq, CResp>>(&frame)?
                    else {
                        continue; // it was a request before
                    };
                    self.serve(Request { id, context, call, bytes: frame.len() }, cx);
                }
                Err(id) => self.put_response(id, Err(Fault::Busy)), // past its deadline
            }
        }
        Ok(any)
    }

    fn respond(&mut self, id: u64, response: Result<SResp, ServerError>) {
        let answer = match self.out.len() > OUT_BYTES_HARD {
            true => Err(Fault::Busy), // the other end does not read: it has more answers than it takes
            false => response.map_err(|error| fault_of(&error)),
        };
        self.put_response(id, answer);
    }

    fn put_response(&mut self, id: u64, answer: Result<SResp, Fault>) {
        self.is_flushed = false;
        let (before, room) = (self.out.end().len(), self.out.room());
        let put = put_frame(self.out.end(), &Envelope::<(), SResp>::Response { id, answer });
        let fault = match put {
            Err(error) => {
                debug!(%error, "a response does not fit a frame");
                Fault::Internal
            }
            Ok(()) if self.out.room() > room && self.reservation.set(self.bytes()).is_err() => {
                self.out.end().truncate(before);
                self.out.end().shrink_to(room);
                Fault::Busy
            }
            Ok(()) => return,
        };
        // Cannot fail: an id and a tag fit every frame.
        let _: Result<(), _> =
            put_frame(self.out.end(), &Envelope::<(), SResp>::Response { id, answer: Err(fault) });
    }

    /// Writes what is to be sent: something, also where reading has used up `slice`. Ready when all of it is written and flushed.
    fn poll_write(&mut self, cx: &mut Context<'_>, slice: &mut Slice) -> Result<Poll<()>, FrameError> {
        while !self.out.is_empty() {
            self.is_flushed = false;
            match Pin::new(&mut self.io).poll_write(cx, self.out.unsent()) {
                Poll::Pending => return Ok(Poll::Pending),
                Poll::Ready(Ok(0)) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                Poll::Ready(written) => self.out.advance(written?),
            }
            if !self.out.is_empty() && slice.is_over() {
                return Ok(Poll::Pending);
            }
        }
        if !self.is_flushed {
            match Pin::new(&mut self.io).poll_flush(cx) {
                Poll::Pending => return Ok(Poll::Pending),
                Poll::Ready(flushed) => flushed?,
            }
            self.is_flushed = true;
        }
        Ok(Poll::Ready(()))
    }

    /// Fails calls and drops handlers past their deadlines, and sets the timer for the next one. Returns whether
    /// a deadline had passed. A frame past its own ends the connection.
    ///
    /// Most calls end long before their deadline, so a timer that fires too early costs less than one that is
    /// reset for each call.
    fn poll_deadlines(
        &mut self,
        earliest_call: Option<Instant>,
        cx: &mut Context<'_>,
    ) -> Result<bool, FrameError> {
        let all = [earliest_call, self.serving.earliest(), self.partial_due];
        let Some(earliest) = all.into_iter().flatten().min() else {
            return Ok(false); // a timer that is still set does no harm: it will find nothing to do
        };
        let (at, timer) = match &mut self.deadline {
            // This task polled it when it was set, and will be woken by it.
            Some((at, timer)) if *at <= earliest && !timer.is_elapsed() => return Ok(false),
            Some((at, timer)) if *at <= earliest => (*at, timer),
            deadline => {
                let timer = Box::pin(sleep_until(earliest.into()));
                (earliest, &mut deadline.insert((earliest, timer)).1)
            }
        };
        // Unconstrained: with the task's budget used up the timer would not register its waker.
        if pin!(unconstrained(timer.as_mut())).poll(cx).is_pending() {
            return Ok(false);
        }
        self.deadline = None;
        // No later than the timer says: it may be that of a deadline that was met.
        let now = Instant::now().max(at);
        self.calls.expire(now);
        self.serving.expire(now);
        if self.partial_due.is_some_and(|due| due <= now) {
            return Err(FrameError::TooSlow);
        }
        Ok(true)
    }
}
