//! Tells subscribers of new versions, until each has acknowledged or its lease has ended.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{StreamExt, stream};
use nekoproto::{Holder, NodeId, VerifiedRecord, transport::Backoff};
use parking_lot::Mutex;
use tokio::time::sleep;
use tracing::debug;

use super::Publisher;
use crate::util::clock;

const TOLD_AT_ONCE: usize = 64;
/// Minimum and maximum pause before those that did not acknowledge are told again.
const AGAIN_MIN: Duration = Duration::from_millis(250);
const AGAIN_MAX: Duration = Duration::from_secs(10);

/// Rounds without an acknowledgement after which the indexers are told too: the holder may be reached only from there.
const SPREAD_AFTER: u32 = 2;

/// What each is to be told, and where it is.
type ToTell = HashMap<NodeId, (Holder, Vec<VerifiedRecord>)>;

impl Publisher {
    /// Tells subscribers directly, in the background, of what may be handed out, and returns that. A lost message is repeated;
    /// the lease bounds the delay where none arrives.
    pub(super) fn tell_subscribers<'a>(
        &self,
        news: impl IntoIterator<Item = &'a VerifiedRecord>,
    ) -> Vec<VerifiedRecord> {
        let told: Vec<_> =
            news.into_iter().filter(|record| self.library.hands_out(record)).cloned().collect();
        let mut to_tell = self.behind(&told);
        if to_tell.is_empty() {
            return told;
        }
        let (library, peers) = (Arc::clone(&self.library), Arc::clone(&self.peers));
        let indexers = Arc::clone(&self.indexers);
        self.library.tasks.spawn_until_stop(async move {
            let (mut again, mut rounds) = (Backoff::new(AGAIN_MIN, AGAIN_MAX), 0);
            while !to_tell.is_empty() {
                rounds += 1;
                let is_there = AtomicBool::new(false);
                let silent = Mutex::new(ToTell::new());
                let tell =
                    async |(node, (holder, records)): (NodeId, (Holder, Vec<VerifiedRecord>))| match peers
                        .invalidate(holder, &records)
                        .await
                    {
                        Ok(()) => records.iter().for_each(|record| {
                            library.subscribers.acknowledge(&record.name, record.version, &node);
                            library.counters.acknowledged.inc();
                        }),
                        Err(error) => {
                            debug!(holder = %node.short(), %error, "a subscriber did not acknowledge");
                            // One that has ended is reached by nobody, and asks when it starts.
                            is_there.fetch_or(!error.is_of_nobody(), Ordering::Relaxed);
                            silent.lock().insert(node, (holder, records));
                        }
                    };
                stream::iter(to_tell).for_each_concurrent(TOLD_AT_ONCE, tell).await;
                to_tell = silent.into_inner();
                if rounds == SPREAD_AFTER && is_there.into_inner() {
                    let mut records: Vec<_> =
                        to_tell.values().flat_map(|(_, records)| records).cloned().collect();
                    records.sort_unstable_by(|a, b| a.name.cmp(&b.name));
                    records.dedup();
                    indexers.spread(&records).await;
                }
                if !to_tell.is_empty() {
                    sleep(again.pause(rand::random())).await;
                }
                // Until then it may have heard of it otherwise, moved, or left; or a later version is out, which
                // another task tells it.
                let now = clock::now();
                to_tell.retain(|node, (holder, records)| {
                    records.retain(|record| {
                        let newest =
                            library.catalogue.get_stated(&record.name).map(|entry| entry.record.version);
                        let behind = library.subscribers.behind(&record.name, record.version, node, now);
                        *holder = behind.unwrap_or(*holder);
                        newest == Some(record.version) && behind.is_some()
                    });
                    !records.is_empty()
                });
            }
        });
        told
    }

    /// Whom `news` concerns.
    fn behind(&self, news: &[VerifiedRecord]) -> ToTell {
        let (now, mut to_tell) = (clock::now(), ToTell::new());
        for record in news {
            let subscribers = self.library.subscribers.of(&record.name, now);
            let is_known = |one: &Holder| subscribers.iter().any(|known| known.holder.node == one.node);
            let mut remembered = self.library.remembered(record); // these are told once: they have no lease
            remembered.retain(|one| !is_known(one));
            let behind = subscribers.iter().filter(|known| known.version < record.version);
            for holder in behind.map(|known| known.holder).chain(remembered) {
                let (_, records) = to_tell.entry(holder.node).or_insert_with(|| (holder, Vec::new()));
                records.push(record.clone());
            }
        }
        to_tell
    }
}
