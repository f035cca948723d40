//! How a node runs work beside its own: tracked, and ended when the node stops.

use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Runs `work` in a task of `tasks` until it is done, or until `stop`, which drops it where it waits.
pub fn spawn_until(
    tasks: &TaskTracker,
    stop: &CancellationToken,
    work: impl Future<Output = ()> + Send + 'static,
) {
    let stop = stop.clone();
    tasks.spawn(async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = work => {}
        }
    });
}
