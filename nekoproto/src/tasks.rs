//! How a node runs work beside its own: tracked, and ended when the node stops.

use std::{future::poll_fn, pin::pin, task::Poll};

use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Runs `work` in a task of `tasks` until it is done, or until `stop`, which drops it where it waits.
pub fn spawn_until(
    tasks: &TaskTracker,
    stop: &CancellationToken,
    work: impl Future<Output = ()> + Send + 'static,
) {
    let stop = stop.clone();
    tasks.spawn(async move {
        let (mut cancelled, mut work) = (pin!(stop.cancelled()), pin!(work));
        let mut is_awaited = false;
        poll_fn(|cx| {
            // Once it has been polled it wakes this task when it comes. Polling it every time costs a
            // connection as much as a third of a system call.
            if !is_awaited || stop.is_cancelled() {
                is_awaited = true;
                if cancelled.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(());
                }
            }
            work.as_mut().poll(cx)
        })
        .await;
    });
}
