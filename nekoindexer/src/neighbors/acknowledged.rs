//! Waits until all trusted neighbors have acknowledged our summary, or cannot rely on it any more.

use std::{sync::Arc, time::Instant};

use nekoproto::clock;
use parking_lot::Mutex;
use scopeguard::guard;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use super::channel::Channel;
use crate::state::summary::{CURRENT_FOR, Position};

/// The connections over which we advertise.
#[derive(Debug)]
pub(crate) struct Acknowledged {
    open: Mutex<Open>,
    changed: watch::Sender<()>,
}

#[derive(Debug)]
struct Open {
    channels: Vec<Arc<Channel>>,
    left: Option<Left>,
}

/// The other ends of earlier connections, also those before this node was started again. They may not know yet that these
/// are over, and rely on what they were told.
#[derive(Clone, Copy, Debug)]
struct Left {
    relies_until: Instant,
    /// What all of them have acknowledged.
    acknowledged: Option<Position>,
}

impl Left {
    fn and(self, other: Self) -> Self {
        let earlier = |one: Position, other: Position| if one.reaches(other) { other } else { one };
        let both = self.acknowledged.zip(other.acknowledged).map(|(one, other)| earlier(one, other));
        Self { relies_until: self.relies_until.max(other.relies_until), acknowledged: both }
    }
}

impl Acknowledged {
    pub(super) fn new(left_relies_until: Option<Instant>) -> Self {
        let left = left_relies_until.map(|relies_until| Left { relies_until, acknowledged: None });
        let open = Mutex::new(Open { channels: Vec::new(), left });
        Self { open, changed: watch::Sender::new(()) }
    }

    /// Adds a connection; it is removed when what is returned is dropped.
    pub(super) fn add<'a>(&'a self, channel: &'a Arc<Channel>) -> impl Drop {
        self.open.lock().channels.push(Arc::clone(channel));
        guard((), move |()| {
            let mut open = self.open.lock();
            open.channels.retain(|other| !Arc::ptr_eq(other, channel));
            if let Some(left) = channel.relies_until().map(|relies_until| Left {
                relies_until,
                acknowledged: channel.progress.lock().acknowledged.map(|(position, _)| position),
            }) {
                let before = open.left.filter(|before| before.relies_until > clock::now());
                open.left = Some(before.map_or(left, |before| before.and(left)));
            }
            drop(open);
            self.changed.send_replace(());
        })
    }

    /// A neighbor has acknowledged something.
    pub(super) fn changed(&self) {
        self.changed.send_replace(());
    }

    /// Waits until there are `count` neighbors and all have acknowledged `needed` and the links of version `links`;
    /// at most [`CURRENT_FOR`].
    pub(crate) async fn by_all(&self, count: usize, needed: Position, links: u64) {
        let is_behind = |channel: &Arc<Channel>| !channel.progress.lock().reaches(needed, links);
        let mut changed = self.changed.subscribe();
        let reached = changed.wait_for(|()| {
            let channels = &self.open.lock().channels;
            channels.len() >= count && !channels.iter().any(is_behind)
        });
        // The sender lives as long as `self`, so waiting ends by a change or by time.
        let _ = timeout(CURRENT_FOR, reached).await;
    }

    /// Waits until every neighbor that was told our names has acknowledged `needed`, or cannot rely on them any more: at most
    /// [`CURRENT_FOR`]. What was registered before a query began is thus found wherever it begins.
    pub(crate) async fn by_all_that_rely(&self, needed: Position) {
        let began = clock::now();
        let latest = began + CURRENT_FOR;
        // What is told over connections that open from now on has the news.
        let (channels, left) = {
            let open = self.open.lock();
            (open.channels.clone(), open.left)
        };
        let behind = left.filter(|left| !left.acknowledged.is_some_and(|known| known.reaches(needed)));
        if let Some(left) =
            behind.and_then(|left| left.relies_until.min(latest).checked_duration_since(began))
        {
            sleep(left).await;
        }
        for channel in channels {
            channel.acknowledges(needed, latest).await;
        }
    }
}
