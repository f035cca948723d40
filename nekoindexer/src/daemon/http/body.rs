//! [`Patient`]: a request's body that fails when it stops coming.

use std::{
    error::Error,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{Sleep, sleep};

/// How often a body must have brought [`STEP_BYTES_MIN`] while it is waited for.
const STEP_TIME: Duration = Duration::from_secs(30);
/// What a body must bring in [`STEP_TIME`]: less than any real connection, more than one that only wants to stay.
const STEP_BYTES_MIN: u64 = 16 * 1024;

/// The body of a request.
#[derive(Debug)]
pub(super) struct Patient<B> {
    body: B,
    /// The end of this step, once the body has been waited for.
    until: Option<Pin<Box<Sleep>>>,
    /// What came in this step, in bytes.
    came: u64,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum BodyError<E> {
    #[error("the body comes too slowly: send at least {} KiB in {} s", STEP_BYTES_MIN / 1024, STEP_TIME.as_secs())]
    Stalled,
    #[error(transparent)]
    Lost(E),
}

/// Whether a body of this door ended with `error` because it came too slowly.
#[must_use]
pub fn is_stalled(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if matches!(error.downcast_ref::<BodyError<hyper::Error>>(), Some(BodyError::Stalled)) {
            return true;
        }
        next = error.source();
    }
    false
}

impl<B> Patient<B> {
    pub(super) const fn new(body: B) -> Self {
        Self { body, until: None, came: 0 }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Patient<B> {
    type Data = Bytes;
    type Error = BodyError<B::Error>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) {
            if let Some(Ok(frame)) = &frame {
                this.came += frame.data_ref().map_or(0, |data| data.len() as u64);
            }
            if this.came >= STEP_BYTES_MIN {
                (this.until, this.came) = (None, 0); // the next step begins when it is waited for again
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(BodyError::Lost)));
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

#[cfg(test)]
mod tests {
    use futures::{StreamExt, stream};
    use http_body_util::{BodyExt, StreamBody};

    use super::*;

    async fn arrives(bytes: usize, times: usize) -> Result<usize, BodyError<std::convert::Infallible>> {
        let pieces = stream::iter(0..times).then(move |_| async move {
            sleep(Duration::from_secs(10)).await;
            Ok(Frame::data(Bytes::from(vec![0; bytes])))
        });
        let body = Patient::new(StreamBody::new(Box::pin(pieces)));
        Ok(body.collect().await?.to_bytes().len())
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_may_be_slow_and_may_not_stop() {
        assert_eq!(arrives(8 * 1024, 100).await.unwrap(), 800 * 1024);
        assert_eq!(arrives(16, 2).await.unwrap(), 32, "it ended in time");
        assert!(matches!(arrives(16, 100).await, Err(BodyError::Stalled)));
    }

    #[test]
    fn a_body_that_stalled_is_told_from_one_that_was_lost() {
        assert!(is_stalled(&axum::Error::new(BodyError::<hyper::Error>::Stalled)));
        assert!(!is_stalled(&axum::Error::new(std::io::Error::other("lost"))));
    }
}
