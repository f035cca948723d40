//! Lists the readers of a file, those with a lease and those heard in the last 7 days, and stores the latter.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use nekoproto::{FileName, Holder, IdDigits, NodeId, clock::unix_ms};
use tokio::time::sleep;
use tracing::warn;

use super::{Library, subscribers::Subscribed};
use crate::{state::readers::LastHeard, storage::catalogue::CatalogueError, util::clock};

/// Interval between two looks at whether there is a new reader or version to be stored: a kill loses what came since.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Looks after which later times are stored, too.
const TIMES_EVERY: u32 = 60;

impl Library {
    /// The readers of `name`: those with a lease, and without one those that were heard in the last days.
    pub(crate) fn readers_of(&self, name: &FileName) -> Vec<Subscribed> {
        let mut known = self.subscribers.of(name, clock::now());
        for (node, LastHeard { addr, holds, heard_ms, .. }) in self.readers.lock().of(name, unix_ms()) {
            let (holder, ends_in, heard_ms) = (Holder::new(node, addr), Duration::ZERO, Some(heard_ms));
            match known.iter_mut().find(|known| known.holder.node == node) {
                Some(known) => (known.holds, known.heard_ms) = (holds, heard_ms),
                None => known.push(Subscribed { holder, version: holds, holds, ends_in, heard_ms }),
            }
        }
        known.sort_unstable_by_key(|known| known.heard_ms);
        known
    }

    /// Forgets the readers whose ids begin with `digits`, durably; returns their ids. A lease stays. Blocking.
    pub(crate) fn forget_readers(&self, digits: &IdDigits) -> Result<BTreeSet<NodeId>, CatalogueError> {
        let forgotten = self.readers.lock().forget(|node| digits.begin(node));
        self.store_readers(false).map(|()| forgotten)
    }

    fn store_readers(&self, with_times: bool) -> Result<(), CatalogueError> {
        let heard = self.readers.lock().take_changed(unix_ms(), with_times);
        heard.map_or(Ok(()), |heard| self.catalogue.set_heard(&heard))
    }

    /// Stores who was heard, now and then and when the peer stops.
    pub(crate) async fn keep_readers_stored(self: Arc<Self>) {
        let (mut is_last, mut looks) = (false, 0);
        while !is_last {
            is_last = self.tasks.stop.run_until_cancelled(sleep(LOOK_EVERY)).await.is_none();
            looks = (looks + 1) % TIMES_EVERY;
            let with_times = is_last || looks == 0;
            if let Err(error) = self.blocking(move |library| library.store_readers(with_times)).await {
                warn!(%error, "who read files here is not stored"); // with what is heard next
            }
        }
    }
}
