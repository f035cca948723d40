//! Background tasks of a node: tracked, and ended when the node stops.

use std::{future::poll_fn, pin::pin, task::Poll};

use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Runs `work` in a task of `tasks` until it is done, or until `stop` is cancelled, which drops it at its
/// current `.await`.
pub fn spawn_until(
    tasks: &TaskTracker,
    stop: &CancellationToken,
    work: impl Future<Output = ()> + Send + 'static,
) {
    let stop = stop.clone();
    let mut work = Box::pin(work); // moved into the task and pinned there, it would take its room twice
    tasks.spawn(async move {
        let mut cancelled = pin!(stop.cancelled());
        let mut is_awaited = false;
        poll_fn(|cx| {
            // Polled once, `cancelled` wakes this task. Polling it every time would cost a connection a
            // third of a system call per turn.
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
