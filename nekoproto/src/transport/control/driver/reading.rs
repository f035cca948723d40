//! What arrives at a [`ConnectionDriver`]: frames, whole or in parts, until its slice is over.

use std::{
    cell::Cell,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Instant,
};

use serde::{Serialize, de::DeserializeOwned};
use tarpc::{ServerError, context};
use tokio::io::{AsyncRead, ReadBuf};

use super::{ConnectionDriver, HELD_BYTES_MAX, OUT_BYTES_SOFT, OUT_BYTES_WORTH};
use crate::{
    codec,
    limits::FRAME_WITHIN,
    messages::Fault,
    transport::{
        control::{
            deadline::context_of,
            frame::{Envelope, PREFIX_BYTES, next_frame, result_of, whole_bytes},
            serving::{Held, Request, Taken},
            slice::Slice,
        },
        error::FrameError,
    },
};

/// Bytes read at once. The buffer is per thread, so an idle connection holds none.
const READ_BYTES: usize = 16 * 1024;

thread_local! {
    /// The read buffer; taken while one is in use, since a handler may drive another connection itself.
    static SCRATCH: Cell<Option<Box<[u8]>>> = const { Cell::new(None) };
}

impl<SReq, SResp, CResp, F, S> ConnectionDriver<SReq, CResp, F, S>
where
    SReq: DeserializeOwned,
    SResp: Serialize,
    CResp: DeserializeOwned,
    F: Future<Output = Result<SResp, ServerError>>,
    S: Fn(context::Context, SReq) -> F,
{
    /// Reads and handles what has arrived, until `slice` is over. Ready when the other end has closed.
    pub(super) fn read(&mut self, cx: &mut Context<'_>, slice: &mut Slice) -> Result<Poll<()>, FrameError> {
        if !self.unhandled.is_empty() {
            let unhandled = std::mem::take(&mut self.unhandled);
            self.handle_bytes(&unhandled, cx, slice)?;
        }
        let mut scratch = SCRATCH.take().unwrap_or_else(|| vec![0; READ_BYTES].into_boxed_slice());
        let read = self.read_into(&mut scratch, cx, slice);
        SCRATCH.set(Some(scratch));
        read
    }

    fn read_into(
        &mut self,
        scratch: &mut [u8],
        cx: &mut Context<'_>,
        slice: &mut Slice,
    ) -> Result<Poll<()>, FrameError> {
        if let Some(pending) = &mut self.pending {
            match pending.poll_read(cx, &mut self.io) {
                Poll::Pending => return Ok(Poll::Pending),
                Poll::Ready(read) => read?,
            }
            self.pending = None;
        }
        while self.unhandled.is_empty() && !slice.is_over() {
            let mut buf = ReadBuf::new(scratch);
            match Pin::new(&mut self.io).poll_read(cx, &mut buf) {
                Poll::Pending => return Ok(Poll::Pending),
                Poll::Ready(read) => read?,
            }
            if buf.filled().is_empty() {
                return Ok(Poll::Ready(()));
            }
            self.activity.used();
            self.handle_bytes(buf.filled(), cx, slice)?;
        }
        Ok(Poll::Pending) // there may be more: it is polled again
    }

    /// Handles the frames in `bytes`, until `slice` is over; what is left is kept.
    fn handle_bytes(
        &mut self,
        mut bytes: &[u8],
        cx: &mut Context<'_>,
        slice: &mut Slice,
    ) -> Result<(), FrameError> {
        if !self.partial.is_empty() {
            if !self.complete_partial(&mut bytes)? {
                return Ok(());
            }
            let whole = std::mem::take(&mut self.partial);
            self.partial_due = None;
            self.handle_frame(&whole[PREFIX_BYTES..], cx, slice)?;
        }
        while !bytes.is_empty() {
            if slice.is_over() {
                self.unhandled = bytes.to_vec();
                return Ok(());
            }
            let Some(frame) = next_frame(&mut bytes)? else { break };
            self.handle_frame(frame, cx, slice)?;
        }
        if !bytes.is_empty() {
            self.partial_due = Some(Instant::now() + FRAME_WITHIN);
            self.complete_partial(&mut bytes)?;
        }
        Ok(())
    }

    /// Moves from `bytes` to the partial frame what it lacks; returns whether it is complete.
    fn complete_partial(&mut self, bytes: &mut &[u8]) -> Result<bool, FrameError> {
        loop {
            let whole = whole_bytes(&self.partial)?;
            let missing = whole.unwrap_or(PREFIX_BYTES) - self.partial.len();
            let (more, rest) = bytes.split_at(bytes.len().min(missing));
            let len = self.partial.len() + more.len();
            if len > self.partial.capacity() {
                // No more than the frame, and no more than twice what came of it.
                let room = whole.map_or(len, |whole| whole.min(2 * len));
                self.reservation.set(self.bytes() - self.partial.capacity() + room)?;
                self.partial.reserve_exact(room - self.partial.len());
            }
            self.partial.extend_from_slice(more);
            *bytes = rest;
            if whole == Some(self.partial.len()) {
                return Ok(true);
            }
            if bytes.is_empty() {
                // The prefix of a frame that is too long is refused at once.
                return Ok(whole_bytes(&self.partial)? == Some(self.partial.len()));
            }
        }
    }

    fn handle_frame(
        &mut self,
        frame: &[u8],
        cx: &mut Context<'_>,
        slice: &mut Slice,
    ) -> Result<(), FrameError> {
        match codec::decode::<Envelope<SReq, CResp>>(frame)? {
            Envelope::Request { id, deadline_ms, call } => {
                let context = context_of(deadline_ms);
                if self.out.len() <= OUT_BYTES_SOFT {
                    self.serve(Request { id, context, call, bytes: frame.len() }, cx);
                    if self.out.len() >= OUT_BYTES_WORTH {
                        // What is left is written at the end of this poll, or when the socket has room.
                        let _: Poll<()> = self.poll_write(cx, slice)?;
                    }
                } else {
                    self.hold(Held { id, context, frame: frame.into() });
                }
            }
            Envelope::Cancel { id } => self.serving.cancel(id),
            Envelope::Response { id, answer } => self.calls.respond(id, result_of(answer)),
        }
        Ok(())
    }

    pub(super) fn serve(&mut self, request: Request<SReq>, cx: &mut Context<'_>) {
        let id = request.id;
        match self.serving.take(request, cx) {
            Taken::Finished(response) => self.respond(id, response),
            Taken::Refused => self.put_response(id, Err(Fault::Busy)),
            Taken::Waits => {
                if self.reservation.set(self.bytes()).is_err() {
                    self.serving.cancel(id);
                    self.put_response(id, Err(Fault::Busy));
                }
            }
            Taken::Repeated => {}
        }
    }

    /// Holds a request back; answers `Busy` to those for which there is no room.
    fn hold(&mut self, request: Held) {
        let id = request.id;
        for id in self.serving.hold(request, HELD_BYTES_MAX) {
            self.refused += 1;
            self.put_response(id, Err(Fault::Busy));
        }
        if self.reservation.set(self.bytes()).is_err() {
            self.refused += 1;
            self.serving.cancel(id);
            self.put_response(id, Err(Fault::Busy));
        }
    }
}
