//! Splits one control connection into the two transports that tarpc wants: one on which this
//! node serves, one on which it calls. So a single connection carries calls both ways, which
//! lets an indexer call a peer that nobody could connect to.
//!
//! Both halves must be polled by the same task; then a message read by one half for the other
//! waits in a queue until the other is polled, which its waker brings about. A half that is gone
//! gets nothing any more: what came for it would fill its queue and stop the other half.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
};

use futures::{Sink, Stream, StreamExt};
use serde::{Serialize, de::DeserializeOwned};
use tarpc::{ClientMessage, Response};
use tokio_util::codec::Framed;
use tracing::debug;

use super::{
    frame::{Envelope, FrameCodec, FrameError, Sorted},
    io::Io,
};

/// Messages read for one half while the other was polled. Past it, reading pauses.
const QUEUE_MAX: usize = 128;

/// What travels in: their calls and their answers.
type In<SReq, CResp> = Envelope<SReq, CResp>;
/// What travels out: our calls and our answers.
type Out<CReq, SResp> = Envelope<CReq, SResp>;

/// The connection, cut into envelopes.
type Frames<SReq, SResp, CReq, CResp> = Framed<Io, FrameCodec<In<SReq, CResp>, Out<CReq, SResp>>>;
/// Both ends of one connection, for tarpc.
type Halves<SReq, SResp, CReq, CResp> =
    (ServerHalf<SReq, SResp, CReq, CResp>, ClientHalf<SReq, SResp, CReq, CResp>);

struct Shared<SReq, SResp, CReq, CResp> {
    framed: Frames<SReq, SResp, CReq, CResp>,
    for_server: VecDeque<ClientMessage<SReq>>,
    for_client: VecDeque<Response<CResp>>,
    server: Option<Waker>,
    client: Option<Waker>,
    client_gone: bool,
    ended: Arc<AtomicBool>,
}

/// The half on which this node serves: `SReq` in, `SResp` out.
pub(super) struct ServerHalf<SReq, SResp, CReq, CResp>(Arc<Mutex<Shared<SReq, SResp, CReq, CResp>>>);
/// The half on which this node calls: `CReq` out, `CResp` in.
pub struct ClientHalf<SReq, SResp, CReq, CResp>(Arc<Mutex<Shared<SReq, SResp, CReq, CResp>>>);

/// Both halves of `io`. `ended` is set when there is no more to read; every message that came
/// before waits in its half's queue then.
pub(super) fn split<SReq, SResp, CReq, CResp>(
    io: Io,
    ended: Arc<AtomicBool>,
) -> Halves<SReq, SResp, CReq, CResp>
where
    SReq: DeserializeOwned,
    CResp: DeserializeOwned,
{
    let shared = Arc::new(Mutex::new(Shared {
        framed: Framed::new(io, FrameCodec::default()),
        for_server: VecDeque::new(),
        for_client: VecDeque::new(),
        server: None,
        client: None,
        client_gone: false,
        ended,
    }));
    (ServerHalf(Arc::clone(&shared)), ClientHalf(shared))
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}

impl<SReq, SResp, CReq, CResp> Shared<SReq, SResp, CReq, CResp>
where
    SReq: DeserializeOwned,
    CResp: DeserializeOwned,
{
    /// Reads the next message and puts it into the queue of the half it concerns.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<(), FrameError>>> {
        if self.ended.load(Ordering::Relaxed) {
            return Poll::Ready(None);
        }
        match self.framed.poll_next_unpin(cx) {
            Poll::Ready(Some(Ok(envelope))) => {
                match envelope.sort() {
                    Sorted::ForServer(message) => {
                        self.for_server.push_back(message);
                        wake(&mut self.server);
                    }
                    Sorted::ForClient(_) if self.client_gone => {} // cancelled, or never asked
                    Sorted::ForClient(message) => {
                        self.for_client.push_back(message);
                        wake(&mut self.client);
                    }
                }
                Poll::Ready(Some(Ok(())))
            }
            Poll::Ready(end) => {
                self.ended.store(true, Ordering::Relaxed);
                wake(&mut self.server);
                wake(&mut self.client);
                Poll::Ready(match end {
                    // A node that goes away seldom says goodbye: that is an end as any other.
                    Some(Err(FrameError::Io(error))) => {
                        debug!(%error, "control connection broke");
                        None
                    }
                    end => end.map(|result| result.map(drop)),
                })
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<SReq: DeserializeOwned, SResp, CReq, CResp: DeserializeOwned> Stream
    for ServerHalf<SReq, SResp, CReq, CResp>
{
    type Item = Result<ClientMessage<SReq>, FrameError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut shared = lock(&self.0);
        loop {
            if let Some(message) = shared.for_server.pop_front() {
                return Poll::Ready(Some(Ok(message)));
            }
            shared.server = Some(cx.waker().clone());
            if shared.for_client.len() >= QUEUE_MAX {
                wake(&mut shared.client);
                return Poll::Pending;
            }
            match shared.poll_read(cx) {
                Poll::Ready(Some(Ok(()))) => {}
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl<SReq: DeserializeOwned, SResp, CReq, CResp: DeserializeOwned> Stream
    for ClientHalf<SReq, SResp, CReq, CResp>
{
    type Item = Result<Response<CResp>, FrameError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut shared = lock(&self.0);
        loop {
            if let Some(message) = shared.for_client.pop_front() {
                return Poll::Ready(Some(Ok(message)));
            }
            shared.client = Some(cx.waker().clone());
            if shared.for_server.len() >= QUEUE_MAX {
                wake(&mut shared.server);
                return Poll::Pending;
            }
            match shared.poll_read(cx) {
                Poll::Ready(Some(Ok(()))) => {}
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl<SReq, SResp, CReq, CResp> Drop for ClientHalf<SReq, SResp, CReq, CResp> {
    fn drop(&mut self) {
        let mut shared = lock(&self.0);
        shared.client_gone = true;
        shared.for_client.clear();
        wake(&mut shared.server);
    }
}

/// Writes one kind of message into the shared connection.
macro_rules! sink_into_shared {
    ($half:ident, $message:ty, $wrap:expr) => {
        impl<SReq, SResp, CReq, CResp> Sink<$message> for $half<SReq, SResp, CReq, CResp>
        where
            SReq: DeserializeOwned,
            CResp: DeserializeOwned,
            CReq: Serialize,
            SResp: Serialize,
        {
            type Error = FrameError;

            fn poll_ready(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), FrameError>> {
                Pin::new(&mut lock(&self.0).framed).poll_ready(cx)
            }

            fn start_send(self: Pin<&mut Self>, message: $message) -> Result<(), FrameError> {
                match $wrap(message) {
                    Some(envelope) => Pin::new(&mut lock(&self.0).framed).start_send(envelope),
                    None => Ok(()),
                }
            }

            fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), FrameError>> {
                Pin::new(&mut lock(&self.0).framed).poll_flush(cx)
            }

            /// The other half may still be in use, so closing only flushes; the connection
            /// closes when both halves are dropped.
            fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), FrameError>> {
                self.poll_flush(cx)
            }
        }
    };
}

sink_into_shared!(ServerHalf, Response<SResp>, |message| Some(Out::<CReq, SResp>::from_server(message)));
sink_into_shared!(ClientHalf, ClientMessage<CReq>, Out::<CReq, SResp>::from_client);
