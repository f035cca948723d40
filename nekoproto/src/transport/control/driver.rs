//! [`ConnectionDriver`]: runs one control connection in one task. It serves requests as they arrive, hands
//! responses to their calls, and sends outgoing frames together.

use std::{
    cell::Cell,
    future::Future,
    io,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use bytes::{Buf, BytesMut};
use serde::{Serialize, de::DeserializeOwned};
use tarpc::{ServerError, context};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    task::unconstrained,
    time::{Sleep, sleep_until},
};
use tracing::debug;

use super::{
    calls::Table,
    deadline::context_of,
    frame::{Envelope, fault_of, next_frame, put_frame, result_of},
    serving::{Request, Serving, Taken},
};
use crate::{
    codec,
    limits::FRAME_BYTES_MAX,
    messages::Fault,
    transport::{error::FrameError, io::Io},
};

/// Bytes read at once. The buffer is per thread, so an idle connection holds none.
const READ_BYTES: usize = 64 * 1024;
/// Reads in a row before the task yields.
const READS_IN_A_ROW: usize = 4;
/// Bytes to be sent that are written while requests are still being served: the other end works on them
/// meanwhile.
const OUT_BYTES_WORTH: usize = 32 * 1024;
/// Bytes to be sent beyond which requests are held back: the other end reads too slowly.
const OUT_BYTES_SOFT: usize = 1024 * 1024;
/// Bytes of requests held back; beyond it requests are answered `Busy`.
const HELD_BYTES_MAX: usize = 1024 * 1024;
/// Bytes to be sent beyond which the connection is closed: the other end does not read at all.
const OUT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Bytes of capacity that an empty send buffer may keep.
const IDLE_BYTES_MAX: usize = 1024;
const _: () = assert!(OUT_BYTES_SOFT + FRAME_BYTES_MAX < OUT_BYTES_MAX);

thread_local! {
    /// The read buffer; taken while one is in use, since a handler may drive another connection itself.
    static SCRATCH: Cell<Option<Box<[u8]>>> = const { Cell::new(None) };
}

/// One control connection: serves `SReq`, calls and gets `CResp`.
pub(super) struct ConnectionDriver<SReq, CResp, F, S> {
    io: Io,
    calls: Arc<Table<CResp>>,
    serving: Serving<SReq, F, S>,
    /// The beginning of a frame whose rest has not arrived.
    partial: BytesMut,
    /// Frames to be sent; part of the first may have been sent.
    out: BytesMut,
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
    pub(super) fn new(io: Io, calls: Arc<Table<CResp>>, serve: S) -> Self {
        Self {
            io,
            calls,
            serving: Serving::new(serve),
            partial: BytesMut::new(),
            out: BytesMut::new(),
            deadline: None,
            is_flushed: true,
        }
    }

    /// Runs the connection until it ends.
    pub(super) fn poll_run(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.poll_io(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(())) => Poll::Ready(()),
            Poll::Ready(Err(error)) => {
                debug!(%error, "control connection broke");
                Poll::Ready(())
            }
        }
    }

    fn poll_io(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), FrameError>> {
        let is_over = self.read(cx)?.is_ready();
        loop {
            while let Poll::Ready((id, response)) = self.serving.poll_done(cx) {
                self.respond(id, response);
            }
            let earliest_call = self.calls.take_staged(&mut self.out, cx.waker());
            let is_written = self.poll_write(cx)?.is_ready();
            let any_expired = self.poll_deadlines(earliest_call, cx);
            let any_served = is_written && self.serve_held(cx);
            if !any_expired && !any_served {
                break;
            }
        }
        if self.out.len() > OUT_BYTES_MAX {
            return Poll::Ready(Err(FrameError::NotRead(self.out.len())));
        }
        if is_over { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    /// Reads and handles what has arrived. Ready when the other end has closed.
    fn read(&mut self, cx: &mut Context<'_>) -> Result<Poll<()>, FrameError> {
        let mut scratch = SCRATCH.take().unwrap_or_else(|| vec![0; READ_BYTES].into_boxed_slice());
        let read = self.read_into(&mut scratch, cx);
        SCRATCH.set(Some(scratch));
        read
    }

    fn read_into(&mut self, scratch: &mut [u8], cx: &mut Context<'_>) -> Result<Poll<()>, FrameError> {
        for _ in 0..READS_IN_A_ROW {
            let mut buf = ReadBuf::new(scratch);
            match Pin::new(&mut self.io).poll_read(cx, &mut buf) {
                Poll::Pending => return Ok(Poll::Pending),
                Poll::Ready(read) => read?,
            }
            if buf.filled().is_empty() {
                return Ok(Poll::Ready(()));
            }
            self.handle_bytes(buf.filled(), cx)?;
        }
        cx.waker().wake_by_ref(); // there may be more
        Ok(Poll::Pending)
    }

    /// Handles the frames in `bytes`; an incomplete one is kept.
    fn handle_bytes(&mut self, mut bytes: &[u8], cx: &mut Context<'_>) -> Result<(), FrameError> {
        if !self.partial.is_empty() {
            self.partial.extend_from_slice(bytes);
            let mut partial = std::mem::take(&mut self.partial);
            let mut left = &partial[..];
            while let Some(frame) = next_frame(&mut left)? {
                self.handle_frame(frame, cx)?;
            }
            let done = partial.len() - left.len();
            partial.advance(done);
            if !partial.is_empty() {
                self.partial = partial;
            }
            return Ok(());
        }
        while let Some(frame) = next_frame(&mut bytes)? {
            self.handle_frame(frame, cx)?;
        }
        self.partial.extend_from_slice(bytes);
        Ok(())
    }

    fn handle_frame(&mut self, frame: &[u8], cx: &mut Context<'_>) -> Result<(), FrameError> {
        match codec::decode::<Envelope<SReq, CResp>>(frame)? {
            Envelope::Request { id, deadline_ms, call } => {
                let request = Request { id, context: context_of(deadline_ms), call, bytes: frame.len() };
                if self.out.len() <= OUT_BYTES_SOFT {
                    self.serve(request, cx);
                    if self.out.len() >= OUT_BYTES_WORTH {
                        // What is left is written at the end of this poll, or when the socket has room.
                        let _: Poll<()> = self.poll_write(cx)?;
                    }
                } else {
                    for id in self.serving.hold(request, HELD_BYTES_MAX) {
                        self.put_response(id, Err(Fault::Busy));
                    }
                }
            }
            Envelope::Cancel { id } => self.serving.cancel(id),
            Envelope::Response { id, answer } => self.calls.respond(id, result_of(answer)),
        }
        Ok(())
    }

    fn serve(&mut self, request: Request<SReq>, cx: &mut Context<'_>) {
        let id = request.id;
        match self.serving.take(request, cx) {
            Taken::Finished(response) => self.respond(id, response),
            Taken::Refused => self.put_response(id, Err(Fault::Busy)),
            Taken::Waits | Taken::Repeated => {}
        }
    }

    /// Serves requests that were held back; returns whether there was one.
    fn serve_held(&mut self, cx: &mut Context<'_>) -> bool {
        let mut any = false;
        while self.out.len() <= OUT_BYTES_SOFT
            && let Some(request) = self.serving.next_held(Instant::now())
        {
            match request {
                Ok(request) => self.serve(request, cx),
                Err(id) => self.put_response(id, Err(Fault::Busy)), // past its deadline
            }
            any = true;
        }
        any
    }

    fn respond(&mut self, id: u64, response: Result<SResp, ServerError>) {
        self.put_response(id, response.map_err(|error| fault_of(&error)));
    }

    fn put_response(&mut self, id: u64, answer: Result<SResp, Fault>) {
        self.is_flushed = false;
        if let Err(error) = put_frame(&mut self.out, &Envelope::<(), SResp>::Response { id, answer }) {
            debug!(%error, "a response does not fit a frame");
            let answer = Err(Fault::Internal);
            // Cannot fail: an id and a tag fit every frame.
            let _: Result<(), _> = put_frame(&mut self.out, &Envelope::<(), SResp>::Response { id, answer });
        }
    }

    /// Writes what is to be sent. Ready when all of it is written and flushed.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Result<Poll<()>, FrameError> {
        while !self.out.is_empty() {
            self.is_flushed = false;
            match Pin::new(&mut self.io).poll_write(cx, &self.out) {
                Poll::Pending => return Ok(Poll::Pending),
                Poll::Ready(Ok(0)) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                Poll::Ready(written) => self.out.advance(written?),
            }
        }
        if !self.is_flushed {
            match Pin::new(&mut self.io).poll_flush(cx) {
                Poll::Pending => return Ok(Poll::Pending),
                Poll::Ready(flushed) => flushed?,
            }
            self.is_flushed = true;
        }
        if self.out.try_reclaim(IDLE_BYTES_MAX + 1) {
            self.out = BytesMut::new();
        }
        Ok(Poll::Ready(()))
    }

    /// Fails calls and drops handlers past their deadlines, and sets the timer for the next one. Returns whether
    /// a deadline had passed.
    ///
    /// Most calls end long before their deadline, so a timer that fires too early costs less than one that is
    /// reset for each call.
    fn poll_deadlines(&mut self, earliest_call: Option<Instant>, cx: &mut Context<'_>) -> bool {
        let Some(earliest) = [earliest_call, self.serving.earliest()].into_iter().flatten().min() else {
            return false; // a timer that is still set does no harm: it will find nothing to do
        };
        let timer = match &mut self.deadline {
            // This task polled it when it was set, and will be woken by it.
            Some((at, timer)) if *at <= earliest && !timer.is_elapsed() => return false,
            Some((at, timer)) if *at <= earliest => timer,
            deadline => {
                let timer = Box::pin(sleep_until(earliest.into()));
                &mut deadline.insert((earliest, timer)).1
            }
        };
        // Unconstrained: with the task's budget used up the timer would not register its waker.
        if pin!(unconstrained(timer.as_mut())).poll(cx).is_pending() {
            return false;
        }
        self.deadline = None;
        let now = Instant::now().max(earliest);
        self.calls.expire(now);
        self.serving.expire(now);
        true
    }
}
