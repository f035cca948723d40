//! Waits until all neighbors have acknowledged our summary, or cannot trust it any more.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use nekoproto::clock;
use parking_lot::Mutex;
use scopeguard::guard;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use super::channel::Channel;
use crate::state::summary::{Position, TRUSTED_FOR};

/// A registration waits this long for guests, and then no more for those that acknowledged nothing until they do.
const GUESTS_WITHIN: Duration = Duration::from_millis(500);

/// The connections over which we advertise.
#[derive(Debug)]
pub(crate) struct Acknowledged {
    open: Mutex<Open>,
    changed: watch::Sender<()>,
}

#[derive(Debug)]
struct Open {
    channels: Vec<Arc<Channel>>,
    /// The other ends of earlier connections, also those before this node was started again, may not know yet that
    /// these are over, and trust what they were told until then.
    left_trusts_until: Option<Instant>,
}

impl Acknowledged {
    /// No connection is open.
    pub(super) fn new(left_trusts_until: Option<Instant>) -> Self {
        let open = Mutex::new(Open { channels: Vec::new(), left_trusts_until });
        Self { open, changed: watch::Sender::new(()) }
    }

    /// Adds a connection; it is removed when what is returned is dropped.
    pub(super) fn add<'a>(&'a self, channel: &'a Arc<Channel>) -> impl Drop {
        self.open.lock().channels.push(Arc::clone(channel));
        guard((), move |()| {
            let mut open = self.open.lock();
            open.channels.retain(|other| !Arc::ptr_eq(other, channel));
            // A guest that leaves keeps no registration waiting.
            let trusts_until = channel.progress.lock().trusts_until().filter(|_| !channel.is_guest);
            open.left_trusts_until = open.left_trusts_until.max(trusts_until);
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
        let is_behind = |channel: &Arc<Channel>| !channel.progress.lock().reaches(needed, links);
        let mut changed = self.changed.subscribe();
        let reached = changed.wait_for(|()| {
            let channels = &self.open.lock().channels;
            channels.len() >= count && !channels.iter().any(is_behind)
        });
        // The sender lives as long as `self`, so waiting ends by a change or by time.
        let _ = timeout(TRUSTED_FOR, reached).await;
    }

    /// Waits until every neighbor has acknowledged `needed`, or cannot trust our summary any more: at most
    /// [`TRUSTED_FOR`], and for guests [`GUESTS_WITHIN`]. What was registered before a query began is thus found
    /// wherever it begins, but perhaps where a guest hangs.
    pub(crate) async fn by_all_that_trust(&self, needed: Position) {
        let began = clock::now();
        let latest = began + TRUSTED_FOR;
        // What is told over connections that open from now on has the news.
        let (channels, left) = {
            let open = self.open.lock();
            (open.channels.clone(), open.left_trusts_until)
        };
        if let Some(left) = left.and_then(|until| until.min(latest).checked_duration_since(began)) {
            sleep(left).await;
        }
        for channel in channels {
            if channel.is_guest {
                channel.guest_acknowledges(needed, began + GUESTS_WITHIN).await;
            } else {
                channel.acknowledges(needed, latest).await;
            }
        }
    }
}
