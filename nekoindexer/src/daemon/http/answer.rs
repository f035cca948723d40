//! [`Answer`]: the body of an answer, which marks its connection as busy for as long as more of it is to come.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::body::{Body, Bytes};
use hyper::body::{Frame, SizeHint};
use nekoproto::transport::slots::Activity;

#[derive(Debug)]
pub(super) struct Answer {
    body: Body,
    _busy: Busy,
}

/// The connection is busy with a request, until dropped or until the answer is not read.
#[derive(Debug)]
pub(super) struct Busy(Activity);

impl Busy {
    pub(super) fn with_request(activity: &Activity) -> Self {
        activity.set_busy(true);
        Self(activity.clone())
    }

    pub(super) const fn with(self, body: Body) -> Answer {
        Answer { body, _busy: self }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.set_busy(false);
    }
}

impl hyper::body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
