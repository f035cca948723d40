//! Waits until all neighbors have acknowledged our summary, or cannot trust it any more.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use scopeguard::guard;
use tokio::{sync::watch, time::timeout};

use super::channel::Channel;
use crate::state::summary::{Position, TRUSTED_FOR};

/// The connections over which we advertise.
#[derive(Debug, Default)]
pub(crate) struct Acknowledged {
    open: Mutex<Open>,
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Open {
    channels: Vec<Arc<Channel>>,
    /// The other ends of earlier connections may not know yet that these are over, and trust what they were told
    /// until then.
    left_trusts_until: Option<Instant>,
}

impl Acknowledged {
    /// Adds a connection; it is removed when what is returned is dropped.
    pub(super) fn add<'a>(&'a self, channel: &'a Arc<Channel>) -> impl Drop {
        self.open.lock().channels.push(Arc::clone(channel));
        guard((), move |()| {
            let mut open = self.open.lock();
            open.channels.retain(|other| !Arc::ptr_eq(other, channel));
            open.left_trusts_until = open.left_trusts_until.max(channel.progress.lock().trusts_until());
            drop(open);
            self.changed.send_replace(());
        })
    }

    /// A neighbor has acknowledged something.
    pub(super) fn changed(&self) {
        self.changed.send_replace(());
    }

    /// Waits until there are `count` neighbors and all have acknowledged `needed` and the links of version `links`;
    /// at most [`TRUSTED_FOR`].
    pub(crate) async fn by_all(&self, count: usize, needed: Position, links: u64) {
        let until = Instant::now() + TRUSTED_FOR;
        let is_behind = |channel: &Arc<Channel>| !channel.progress.lock().reaches(needed, links);
        self.wait_while(|| {
            let channels = &self.open.lock().channels;
            (channels.len() < count || channels.iter().any(is_behind)).then_some(until)
        })
        .await;
    }

    /// Waits until every neighbor has acknowledged `needed`, or cannot trust our summary any more: at most
    /// [`TRUSTED_FOR`]. What was registered before a query began is thus found wherever it begins.
    pub(crate) async fn by_all_that_trust(&self, needed: Position) {
        let began = Instant::now();
        let trusts_until = |channel: &Arc<Channel>| {
            let progress = channel.progress.lock();
            progress.trusts_until().filter(|_| !progress.reaches(needed, 0))
        };
        self.wait_while(|| {
            let open = self.open.lock();
            let until = open.channels.iter().filter_map(trusts_until).max().max(open.left_trusts_until);
            // What a neighbor is told from now on has the news.
            until.map(|until| until.min(began + TRUSTED_FOR))
        })
        .await;
    }

    /// Waits while `until` gives a time that is not over.
    async fn wait_while(&self, until: impl Fn() -> Option<Instant>) {
        let mut changed = self.changed.subscribe();
        // The sender lives as long as `self`, so waiting ends by a change or by time.
        while let Some(left) = until().and_then(|until| until.checked_duration_since(Instant::now()))
            && left > Duration::ZERO
        {
            let _ = timeout(left, changed.changed()).await; // either way it looks again
        }
    }
}
