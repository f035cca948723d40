//! Background tasks of a node: tracked, and ended when the node stops.

use std::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll},
};

use tokio_util::{
    sync::{CancellationToken, WaitForCancellationFutureOwned},
    task::TaskTracker,
};

/// Runs `work` in a task of `tasks` until it is done, or until `stop` is cancelled, which drops it at its
/// current `.await`.
pub fn spawn_until(
    tasks: &TaskTracker,
    stop: &CancellationToken,
    work: impl Future<Output = ()> + Send + 'static,
) {
    let mut work = Box::pin(work); // moved into the task and pinned there, it would take its room twice
    let mut stop = Stop::new(stop.clone());
    tasks.spawn(poll_fn(
        move |cx| if stop.is_cancelled(cx) { Poll::Ready(()) } else { work.as_mut().poll(cx) },
    ));
}

/// A token that one task looks at whenever it is polled, and is woken by.
pub(crate) struct Stop {
    token: CancellationToken,
    waiting: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
}

impl Stop {
    pub(crate) const fn new(token: CancellationToken) -> Self {
        Self { token, waiting: None }
    }

    /// Whether it is cancelled. If not, the task is woken when it is.
    pub(crate) fn is_cancelled(&mut self, cx: &mut Context<'_>) -> bool {
        // Polled once, it wakes this task. Polling it every time would cost a connection a third of a system call
        // per turn.
        if self.waiting.is_some() && !self.token.is_cancelled() {
            return false;
        }
        let wait = || Box::pin(self.token.clone().cancelled_owned());
        self.waiting.get_or_insert_with(wait).as_mut().poll(cx).is_ready()
    }
}
