//! Who reads the files of this origin: with a lease, or heard in the last days.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use nekoproto::{FileName, Holder, IdDigits, NodeId, clock::unix_ms};
use tokio::time::sleep;
use tracing::warn;

use super::{Library, subscribers::Subscribed};
use crate::{
    state::readers::{LastHeard, Readers},
    storage::catalogue::{Catalogue, CatalogueError},
    util::clock,
};

/// Interval between two looks at whether they are to be stored.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// A reader of a file.
pub(crate) struct KnownReader {
    /// What it holds and knows; one without a lease has an end of zero.
    pub(crate) said: Subscribed,
    /// When it was heard last, in milliseconds since 1970, unless there were too many to note it.
    pub(crate) heard_ms: Option<u64>,
}

/// The readers that were heard before this process began.
pub(super) fn stored(catalogue: &Catalogue) -> Readers {
    Readers::new(catalogue.heard().unwrap_or_else(|error| {
        warn!(%error, "it is not known who read files here before");
        <_>::default()
    }))
}

impl Library {
    /// The readers of `name`, those that were heard last at the end.
    pub(crate) fn readers_of(&self, name: &FileName) -> Vec<KnownReader> {
        let mut heard: HashMap<_, _> = self.readers.lock().of(name, unix_ms()).into_iter().collect();
        let subscribed = self.subscribers.of(name, clock::now()).into_iter().map(|said| {
            let heard = heard.remove(&said.holder.node);
            KnownReader { said, heard_ms: heard.map(|heard| heard.heard_ms) }
        });
        let mut known: Vec<KnownReader> = subscribed.collect();
        known.extend(heard.into_iter().map(|(node, LastHeard { addr, holds, heard_ms, .. })| {
            let (holder, ends_in) = (Holder::new(node, addr), Duration::ZERO);
            let said = Subscribed { holder, version: holds, holds, ends_in };
            KnownReader { said, heard_ms: Some(heard_ms) }
        }));
        known.sort_unstable_by_key(|reader| reader.heard_ms);
        known
    }

    /// Forgets the readers whose ids begin with `digits`, durably; returns their ids. A lease stays. Blocking.
    pub(crate) fn forget_readers(&self, digits: &IdDigits) -> Result<BTreeSet<NodeId>, CatalogueError> {
        let forgotten = self.readers.lock().forget(|node| digits.begin(node));
        self.store_readers(true).map(|()| forgotten)
    }

    fn store_readers(&self, is_last: bool) -> Result<(), CatalogueError> {
        let heard = self.readers.lock().to_store(unix_ms(), is_last);
        heard.map_or(Ok(()), |heard| self.catalogue.set_heard(&heard))
    }

    /// Stores who was heard, now and then and when the peer stops.
    pub(crate) async fn keep_readers_stored(self: Arc<Self>) {
        let mut is_last = false;
        while !is_last {
            is_last = self.tasks.stop.run_until_cancelled(sleep(LOOK_EVERY)).await.is_none();
            if let Err(error) = self.blocking(move |library| library.store_readers(is_last)).await {
                warn!(%error, "who read files here is not stored"); // with what is heard next
            }
        }
    }
}
