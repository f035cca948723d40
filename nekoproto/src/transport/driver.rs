//! [`Connection`]: runs one control connection, in one task. What comes in is sorted, requests are served
//! on the spot, answers handed to their calls; what goes out is sent together.

use std::{
    cell::RefCell,
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
    frame::{Envelope, FrameError, answer_of_client, context_of, fault_of, next_frame, put_frame},
    io::Io,
    serving::{Request, Serving, Taken},
};
use crate::{Fault, limits::FRAME_BYTES_MAX};

/// Bytes read at once. One buffer for each thread: a connection without traffic holds none.
const READ_BYTES: usize = 64 * 1024;
/// Reads in a row before other tasks get their turn.
const READS_IN_A_ROW: usize = 4;
/// Bytes to be sent that are worth a write of their own: the other end works on them while more are made.
const OUT_BYTES_WORTH: usize = 32 * 1024;
/// Bytes to be sent beyond which requests are held back and not served: the other end reads too slowly.
const OUT_BYTES_SOFT: usize = 1024 * 1024;
/// Bytes of requests that are held back; further ones are answered `busy`.
const HELD_BYTES_MAX: usize = 1024 * 1024;
/// Bytes to be sent beyond which the connection is closed: the other end does not read at all.
const OUT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Capacity that an idle buffer may keep.
const IDLE_BYTES_MAX: usize = 8 * 1024;
const _: () = assert!(OUT_BYTES_SOFT + FRAME_BYTES_MAX < OUT_BYTES_MAX);

thread_local! {
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into_boxed_slice());
}

/// One control connection: serves `SReq`, calls and gets `CResp`.
pub(super) struct Connection<SReq, CResp, F, S> {
    io: Io,
    calls: Arc<Table<CResp>>,
    serving: Serving<SReq, F, S>,
    /// The begin of a frame whose rest has not come yet.
    partial: BytesMut,
    /// Whole frames to be sent; of the first a part may have been sent already.
    out: BytesMut,
    deadline: Option<(Instant, Pin<Box<Sleep>>)>,
    is_flushed: bool,
}

impl<SReq, CResp, F, S> Drop for Connection<SReq, CResp, F, S> {
    fn drop(&mut self) {
        self.calls.close();
    }
}

impl<SReq, SResp, CResp, F, S> Connection<SReq, CResp, F, S>
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
            while let Poll::Ready((id, answer)) = self.serving.poll_done(cx) {
                self.answer(id, answer);
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

    /// Reads and takes in what there is. Ready when the other end has closed.
    fn read(&mut self, cx: &mut Context<'_>) -> Result<Poll<()>, FrameError> {
        SCRATCH.with_borrow_mut(|scratch| {
            for _ in 0..READS_IN_A_ROW {
                let mut buf = ReadBuf::new(scratch);
                match Pin::new(&mut self.io).poll_read(cx, &mut buf) {
                    Poll::Pending => return Ok(Poll::Pending),
                    Poll::Ready(read) => read?,
                }
                if buf.filled().is_empty() {
                    return Ok(Poll::Ready(()));
                }
                self.take_in(buf.filled(), cx)?;
            }
            cx.waker().wake_by_ref(); // there may be more
            Ok(Poll::Pending)
        })
    }

    /// Takes in the frames in `bytes`; the begin of one without its end is kept.
    fn take_in(&mut self, mut bytes: &[u8], cx: &mut Context<'_>) -> Result<(), FrameError> {
        if !self.partial.is_empty() {
            self.partial.extend_from_slice(bytes);
            let mut partial = std::mem::take(&mut self.partial);
            let mut left = &partial[..];
            while let Some(frame) = next_frame(&mut left)? {
                self.take_frame(frame, cx)?;
            }
            let done = partial.len() - left.len();
            partial.advance(done);
            if !partial.is_empty() {
                self.partial = partial;
            }
            return Ok(());
        }
        while let Some(frame) = next_frame(&mut bytes)? {
            self.take_frame(frame, cx)?;
        }
        self.partial.extend_from_slice(bytes);
        Ok(())
    }

    fn take_frame(&mut self, frame: &[u8], cx: &mut Context<'_>) -> Result<(), FrameError> {
        match crate::codec::decode::<Envelope<SReq, CResp>>(frame)? {
            Envelope::Request { id, deadline_ms, call } => {
                let request = Request { id, context: context_of(deadline_ms), call, bytes: frame.len() };
                if self.out.len() <= OUT_BYTES_SOFT {
                    self.serve(request, cx);
                    if self.out.len() >= OUT_BYTES_WORTH {
                        // What is not taken now is sent at the end of the turn, or when there is room.
                        let _: Poll<()> = self.poll_write(cx)?;
                    }
                } else {
                    for id in self.serving.hold(request, HELD_BYTES_MAX) {
                        self.put_answer(id, Err(Fault::Busy));
                    }
                }
            }
            Envelope::Cancel { id } => self.serving.cancel(id),
            Envelope::Response { id, answer } => self.calls.answered(id, answer_of_client(answer)),
        }
        Ok(())
    }

    fn serve(&mut self, request: Request<SReq>, cx: &mut Context<'_>) {
        let id = request.id;
        match self.serving.take(request, cx) {
            Taken::Answered(answer) => self.answer(id, answer),
            Taken::Refused => self.put_answer(id, Err(Fault::Busy)),
            Taken::Waits | Taken::Repeated => {}
        }
    }

    /// Serves requests that were held back; whether there was one.
    fn serve_held(&mut self, cx: &mut Context<'_>) -> bool {
        let mut any = false;
        while self.out.len() <= OUT_BYTES_SOFT
            && let Some(request) = self.serving.next_held(Instant::now())
        {
            match request {
                Ok(request) => self.serve(request, cx),
                Err(id) => self.put_answer(id, Err(Fault::Busy)), // too late to be worth the work
            }
            any = true;
        }
        any
    }

    fn answer(&mut self, id: u64, answer: Result<SResp, ServerError>) {
        self.put_answer(id, answer.map_err(|error| fault_of(&error)));
    }

    fn put_answer(&mut self, id: u64, answer: Result<SResp, Fault>) {
        self.is_flushed = false;
        if let Err(error) = put_frame(&mut self.out, &Envelope::<(), SResp>::Response { id, answer }) {
            debug!(%error, "an answer does not fit a frame");
            let answer = Err(Fault::Internal);
            // A number and a tag fit every limit.
            let _: Result<(), _> = put_frame(&mut self.out, &Envelope::<(), SResp>::Response { id, answer });
        }
    }

    /// Sends what is to be sent. Ready when all of it is.
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
        if self.out.capacity() > IDLE_BYTES_MAX {
            self.out = BytesMut::new();
        }
        Ok(Poll::Ready(()))
    }

    /// Fails calls and drops handlers past their deadlines, and is woken at the next one; whether there
    /// was something past its deadline.
    ///
    /// Most calls end long before their deadline, so a timer that rings too early costs less than one
    /// that is set anew for each call.
    fn poll_deadlines(&mut self, earliest_call: Option<Instant>, cx: &mut Context<'_>) -> bool {
        let Some(earliest) = [earliest_call, self.serving.earliest()].into_iter().flatten().min() else {
            return false; // a timer that is set may stay so: it finds nothing to do then
        };
        let timer = match &mut self.deadline {
            // It was polled when it was set, by this task, and wakes it when it rings.
            Some((at, timer)) if *at <= earliest && !timer.is_elapsed() => return false,
            Some((at, timer)) if *at <= earliest => timer,
            deadline => {
                let timer = Box::pin(sleep_until(earliest.into()));
                &mut deadline.insert((earliest, timer)).1
            }
        };
        // Whatever else this task has done in its turn: a timer that is not polled once never rings.
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
