//! The tasks of one peer: tracked, and stopped together.

use nekoproto::tasks::spawn_until;
use tokio::task::JoinHandle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// The tasks of one peer and their stop signal. All clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tasks {
    pub(crate) stop: CancellationToken,
    pub(crate) tracker: TaskTracker,
}

impl Tasks {
    /// Runs `work` as a task until it is done or the peer stops, which drops it at its next await.
    pub(crate) fn spawn_until_stop(&self, work: impl Future<Output = ()> + Send + 'static) {
        spawn_until(&self.tracker, &self.stop, work);
    }

    /// Runs `work`, which blocks, away from the tasks that serve connections. The peer's shutdown waits for
    /// it, since the data folder must not be in use afterwards. A panic in it continues here.
    pub(crate) async fn blocking<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        finished(self.tracker.spawn_blocking(work)).await
    }

    /// Stops every task, and waits until all have ended.
    pub(crate) async fn end(&self) {
        self.stop.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}

/// Runs `work`, which blocks, on its own thread. A panic in it continues here.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    finished(tokio::task::spawn_blocking(work)).await
}

/// The result of a task. A panic in it continues here.
pub(crate) async fn finished<T>(work: JoinHandle<T>) -> T {
    match work.await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => std::future::pending().await, // the runtime is shutting down
        },
    }
}
