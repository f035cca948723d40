//! [`Steps`]: how many steps of handshakes compute until the runtime looks at what has arrived. A step takes up to 0.3 ms,
//! and costs far more here than who asks for it pays.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Weak},
    task::{Context, Poll, ready},
};

use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::yield_now,
};
use tokio_util::sync::PollSemaphore;

use crate::limits::HANDSHAKES_MAX;

/// Steps of all handshakes between two looks.
const STEPS: usize = 4;
/// First steps of those at one address: whoever goes on with a handshake does not wait for all that begin one.
const FIRST_OF_ONE: usize = 2;

/// Permits for steps.
#[derive(Debug)]
pub(super) struct Steps {
    all: Arc<Semaphore>,
    /// For first steps, by address; at most one for each handshake is in use.
    first: Mutex<HashMap<IpAddr, Weak<Semaphore>>>,
}

/// The steps of one handshake. It holds no permit while it waits for the other end.
#[derive(Debug)]
pub(super) struct Stepping {
    all: PollSemaphore,
    /// Until its first step is done.
    first: Option<PollSemaphore>,
    begins: Option<OwnedSemaphorePermit>,
}

impl Default for Steps {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(STEPS)), first: Mutex::default() }
    }
}

impl Steps {
    /// Those of a handshake with a node at `site`.
    pub(super) fn at(&self, site: IpAddr) -> Stepping {
        let mut sites = self.first.lock();
        if sites.len() > HANDSHAKES_MAX {
            sites.retain(|_, first| first.strong_count() > 0);
        }
        let first = sites.get(&site).and_then(Weak::upgrade).unwrap_or_else(|| {
            let first = Arc::new(Semaphore::new(FIRST_OF_ONE));
            sites.insert(site, Arc::downgrade(&first));
            first
        });
        let all = PollSemaphore::new(Arc::clone(&self.all));
        Stepping { all, first: Some(PollSemaphore::new(first)), begins: None }
    }
}

impl Stepping {
    /// Does a step, which is `work`, once there is a permit. That comes back when all that is ready was polled, and the
    /// sockets were looked at.
    pub(super) fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        work: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        if let Some(first) = self.first.as_mut().filter(|_| self.begins.is_none()) {
            self.begins = ready!(first.poll_acquire(cx));
        }
        let permits = (ready!(self.all.poll_acquire(cx)), self.begins.take());
        self.first = None;
        let polled = work(cx);
        tokio::spawn(async {
            yield_now().await;
            drop(permits);
        });
        polled
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::poll_fn,
        sync::atomic::{AtomicUsize, Ordering::Relaxed},
    };

    use super::*;

    /// Goal: a crowd that begins handshakes delays neither those at other addresses nor those that go on with theirs.
    #[tokio::test]
    async fn who_begins_waits_for_its_own_address_and_who_goes_on_does_not() {
        let (steps, begun) = (Steps::default(), Arc::new(AtomicUsize::new(0)));
        let [crowded, other] = [[192, 0, 2, 1], [192, 0, 2, 2]].map(IpAddr::from);
        let step = async |stepping: &mut Stepping| poll_fn(|cx| stepping.poll(cx, |_| Poll::Ready(()))).await;
        let mut goes_on = steps.at(crowded);
        step(&mut goes_on).await;
        yield_now().await;
        yield_now().await;
        for _ in 0..100 {
            let (mut begins, begun) = (steps.at(crowded), Arc::clone(&begun));
            tokio::spawn(async move {
                step(&mut begins).await;
                begun.fetch_add(1, Relaxed);
            });
        }
        yield_now().await;
        step(&mut goes_on).await;
        step(&mut steps.at(other)).await;
        assert!((1..20).contains(&begun.load(Relaxed)), "{begun:?} of the crowd went first");
        while begun.load(Relaxed) < 100 {
            yield_now().await;
        }
        assert_eq!(steps.all.available_permits() + 2, STEPS, "the last ones come back next");
    }
}
