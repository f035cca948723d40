//! [`Patient`]: a request's body that fails when it stops coming.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::{Sleep, sleep};

/// How often a body must have brought [`STEP_BYTES_MIN`] while it is waited for.
const STEP_TIME: Duration = Duration::from_secs(30);
/// What a body must bring in [`STEP_TIME`]: less than any real connection, more than one that only wants to stay.
const STEP_BYTES_MIN: u64 = 16 * 1024;

/// The body of a request.
#[derive(Debug)]
pub(super) struct Patient {
    body: Incoming,
    /// The end of this step, once the body has been waited for.
    until: Option<Pin<Box<Sleep>>>,
    /// What came in this step, in bytes.
    came: u64,
}

/// Why a body ended early.
#[derive(Debug, thiserror::Error)]
pub(super) enum BodyError {
    /// It stopped coming.
    #[error("the body comes too slowly: send at least {} KiB in {} s", STEP_BYTES_MIN / 1024, STEP_TIME.as_secs())]
    Stalled,
    /// The connection failed.
    #[error(transparent)]
    Lost(#[from] hyper::Error),
}

impl Patient {
    pub(super) const fn new(body: Incoming) -> Self {
        Self { body, until: None, came: 0 }
    }
}

impl Body for Patient {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) {
            if let Some(Ok(frame)) = &frame {
                this.came += frame.data_ref().map_or(0, |data| data.len() as u64);
            }
            if this.came >= STEP_BYTES_MIN {
                (this.until, this.came) = (None, 0); // the next step begins when it is waited for again
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(BodyError::from)));
        }
        ready!(this.until.get_or_insert_with(|| Box::pin(sleep(STEP_TIME))).as_mut().poll(cx));
        Poll::Ready(Some(Err(BodyError::Stalled)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
