//! [`WorkPermits`]: semaphores that admit 4 long pieces of work, 2 of them of one address, between two polls of the sockets: steps of
//! handshakes, and registrations. Each takes up to 0.3 ms, and costs far more here than who asks for it pays.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Weak},
    task::{Context, Poll, ready},
};

use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore},
    task::yield_now,
};
use tokio_util::sync::PollSemaphore;

/// Addresses beyond which those without a step are forgotten.
const SITES_MAX: usize = 512;

/// Permits between two polls of the sockets.
const STEPS: usize = 4;
/// Of these, those of one address; of handshakes only the first step counts so: whoever goes on with one does not wait for
/// all that begin one.
const STEPS_OF_ONE: usize = 2;

/// Permits for steps.
#[derive(Debug)]
pub struct WorkPermits {
    all: Arc<Semaphore>,
    /// By address.
    of_one: Mutex<HashMap<IpAddr, Weak<Semaphore>>>,
}

/// A step that is being done. Its permits come back when all that is ready was polled, and the sockets were looked at.
#[derive(Debug)]
pub struct WorkPermit(Option<(OwnedSemaphorePermit, Option<OwnedSemaphorePermit>)>);

/// The steps of one handshake. It holds no permit while it waits for the other end.
#[derive(Debug)]
pub(super) struct HandshakePermits {
    all: PollSemaphore,
    /// Until its first step is done.
    first: Option<PollSemaphore>,
    begins: Option<OwnedSemaphorePermit>,
}

impl Default for WorkPermits {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(STEPS)), of_one: Mutex::default() }
    }
}

impl WorkPermits {
    /// Those of a handshake with a node at `site`.
    pub(super) fn at(&self, site: IpAddr) -> HandshakePermits {
        let [all, first] = [Arc::clone(&self.all), self.of_one(site)].map(PollSemaphore::new);
        HandshakePermits { all, first: Some(first), begins: None }
    }

    /// A step for a node at `site`, once there is a permit; until dropped. `None` while the node stops.
    ///
    /// # Cancel safety
    /// Safe: who stops waiting loses its place.
    pub async fn step(&self, site: IpAddr) -> Option<WorkPermit> {
        let of_one = self.of_one(site).acquire_owned().await.ok()?;
        Some(WorkPermit(Some((Arc::clone(&self.all).acquire_owned().await.ok()?, Some(of_one)))))
    }

    fn of_one(&self, site: IpAddr) -> Arc<Semaphore> {
        let mut sites = self.of_one.lock();
        if sites.len() > SITES_MAX {
            sites.retain(|_, of_one| of_one.strong_count() > 0);
        }
        sites.get(&site).and_then(Weak::upgrade).unwrap_or_else(|| {
            let of_one = Arc::new(Semaphore::new(STEPS_OF_ONE));
            sites.insert(site, Arc::downgrade(&of_one));
            of_one
        })
    }
}

impl Drop for WorkPermit {
    fn drop(&mut self) {
        let permits = self.0.take();
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async {
                yield_now().await;
                drop(permits);
            });
        }
    }
}

impl HandshakePermits {
    /// Does a step, which is `work`, once there is a permit.
    pub(super) fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        work: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        if let Some(first) = self.first.as_mut().filter(|_| self.begins.is_none()) {
            self.begins = ready!(first.poll_acquire(cx));
        }
        let Some(permit) = ready!(self.all.poll_acquire(cx)) else { return Poll::Pending }; // it is never closed
        let _step = WorkPermit(Some((permit, self.begins.take())));
        self.first = None;
        work(cx)
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
        let (steps, begun) = (WorkPermits::default(), Arc::new(AtomicUsize::new(0)));
        let [crowded, other] = [[192, 0, 2, 1], [192, 0, 2, 2]].map(IpAddr::from);
        let step = async |stepping: &mut HandshakePermits| {
            poll_fn(|cx| stepping.poll(cx, |_| Poll::Ready(()))).await
        };
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
