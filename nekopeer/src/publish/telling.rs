//! Tells subscribers of new versions, until each has acknowledged or its lease has ended.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use nekoproto::{Holder, NodeId, VerifiedRecord, transport::Backoff};
use parking_lot::Mutex;
use tokio::time::sleep;
use tracing::debug;

use super::Publisher;
use crate::util::clock;

/// Maximum number of subscribers told concurrently.
const TOLD_AT_ONCE: usize = 64;
/// Minimum and maximum pause before those that did not acknowledge are told again.
const AGAIN_MIN: Duration = Duration::from_millis(250);
const AGAIN_MAX: Duration = Duration::from_secs(10);

/// What each is to be told, and where it is.
type ToTell = HashMap<NodeId, (Holder, Vec<VerifiedRecord>)>;

impl Publisher {
    /// Tells subscribers directly, in the background, of what may be handed out. A lost message is repeated; the lease
    /// bounds the delay where none arrives.
    pub(super) fn tell_subscribers(&self, news: &[VerifiedRecord]) {
        let mut to_tell = self.behind(news);
        if to_tell.is_empty() {
            return;
        }
        let (library, peers) = (Arc::clone(&self.library), Arc::clone(&self.peers));
        self.library.tasks.spawn_until_stop(async move {
            let mut again = Backoff::new(AGAIN_MIN, AGAIN_MAX);
            while !to_tell.is_empty() {
                let silent = Mutex::new(ToTell::new());
                let tell =
                    async |(node, (holder, records)): (NodeId, (Holder, Vec<VerifiedRecord>))| match peers
                        .invalidate(holder, &records)
                        .await
                    {
                        Ok(()) => records.iter().for_each(|record| {
                            library.subscribers.acknowledge(&record.name, record.version, &node);
                            library.counters.acknowledged.add(1);
                        }),
                        Err(error) => {
                            debug!(holder = %node.short(), %error, "a subscriber did not acknowledge");
                            silent.lock().insert(node, (holder, records));
                        }
                    };
                stream::iter(to_tell).for_each_concurrent(TOLD_AT_ONCE, tell).await;
                to_tell = silent.into_inner();
                if !to_tell.is_empty() {
                    sleep(again.pause(rand::random())).await;
                }
                // Until then it may have heard of it otherwise, moved, or left; or a later version is out, which
                // another task tells it.
                let now = clock::now();
                to_tell.retain(|node, (_, records)| {
                    records.retain(|record| {
                        let newest =
                            library.catalogue.get_stated(&record.name).map(|entry| entry.record.version);
                        newest == Some(record.version)
                            && library.subscribers.is_behind(&record.name, record.version, node, now)
                    });
                    !records.is_empty()
                });
            }
        });
    }

    /// Whom `news` concerns.
    fn behind(&self, news: &[VerifiedRecord]) -> ToTell {
        let (now, mut to_tell) = (clock::now(), ToTell::new());
        for record in news.iter().filter(|record| self.library.hands_out(record)) {
            let subscribers = self.library.subscribers.of(&record.name, now);
            for known in subscribers.into_iter().filter(|known| known.version < record.version) {
                let (_, records) =
                    to_tell.entry(known.holder.node).or_insert_with(|| (known.holder, Vec::new()));
                records.push(record.clone());
            }
        }
        to_tell
    }
}
