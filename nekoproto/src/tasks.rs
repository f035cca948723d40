//! Background tasks of a node: tracked, and ended when the node stops.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::{Context, Poll, Wake, Waker},
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

/// A token that one task looks at whenever it is polled, and is woken by. A look costs no lock.
pub(crate) struct Stop {
    /// None once it is cancelled.
    waiting: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    told: Option<Arc<Told>>,
}

/// Wakes the task, and notes that it was not woken by anything else.
struct Told {
    is_told: AtomicBool,
    task: Waker,
}

impl Wake for Told {
    fn wake(self: Arc<Self>) {
        self.is_told.store(true, SeqCst);
        self.task.wake_by_ref();
    }
}

impl Stop {
    pub(crate) fn new(token: CancellationToken) -> Self {
        Self { waiting: Some(Box::pin(token.cancelled_owned())), told: None }
    }

    /// Whether it is cancelled. If not, the task is woken when it is.
    pub(crate) fn is_cancelled(&mut self, cx: &mut Context<'_>) -> bool {
        if let Some(told) = &self.told
            && !told.is_told.load(SeqCst)
            && told.task.will_wake(cx.waker())
        {
            return false;
        }
        let Some(waiting) = &mut self.waiting else { return true };
        let told = Arc::new(Told { is_told: AtomicBool::new(false), task: cx.waker().clone() });
        self.told = Some(Arc::clone(&told));
        let is_over = waiting.as_mut().poll(&mut Context::from_waker(&Waker::from(told))).is_ready();
        if is_over {
            (self.waiting, self.told) = (None, None);
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// One that moves to another task, as a future that is selected from does, is woken there.
    #[tokio::test(start_paused = true)]
    async fn whoever_polled_last_is_woken_and_told() {
        let token = CancellationToken::new();
        let mut stop = Stop::new(token.clone());
        assert!(!poll_fn(|cx| Poll::Ready(stop.is_cancelled(cx) || stop.is_cancelled(cx))).await);
        let waits = tokio::spawn(async move {
            poll_fn(|cx| if stop.is_cancelled(cx) { Poll::Ready(()) } else { Poll::Pending }).await;
            assert!(poll_fn(|cx| Poll::Ready(stop.is_cancelled(cx))).await, "it stays so");
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        token.cancel();
        waits.await.unwrap();
    }
}
