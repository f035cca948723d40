//! [`BaseKeeper`]: a task that copies each published file, one after the other, as the delta base of its next version. No publish
//! waits for it.

use std::{sync::Arc, time::Duration};

use nekoproto::{FileName, VerifiedRecord};
use tokio::{sync::mpsc, time::sleep};

use crate::{download::free_in, failure::Failure, library::Library, storage::catalogue::BASE_BYTES_MIN};

/// What they take at most unless the user says otherwise: a tenth of what is free, and not more than this.
const BASES_BYTES_USUAL: u64 = 10 * 1024 * 1024 * 1024;
const FREE_PARTS: u64 = 10;
/// Names that are looked at together when the peer starts.
const NAMES_AT_ONCE: usize = 512;

/// How long a version has for its readers to take the next one before its base gives way, where there is no room for both.
const GIVES_WAY_AFTER: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct BaseKeeper(mpsc::UnboundedSender<Kept>);

/// Names of what is to be kept, and whether the versions before give way to it.
type Kept = (Vec<FileName>, bool);

impl BaseKeeper {
    /// Keeps those of this peer within `max` bytes, or what is usual; first of all what an earlier process did not come to.
    pub(super) fn new(library: &Arc<Library>, max: Option<u64>) -> Self {
        let (sender, published) = mpsc::unbounded_channel(); // of what is published here
        if library.is_serving {
            let (keeping, again) = (Arc::clone(library), sender.downgrade());
            library.tasks.spawn_until_stop(async move { run(&keeping, max, published, &again).await });
        }
        Self(sender)
    }

    /// Keeps these versions soon, or what is published under their names by then.
    pub(super) fn keep<'a>(&self, published: impl Iterator<Item = &'a VerifiedRecord>) {
        let large = published.filter(|record| record.size >= BASE_BYTES_MIN);
        let names: Vec<FileName> = large.map(|record| record.name.clone()).collect();
        if !names.is_empty() {
            drop(self.0.send((names, false))); // the peer ends
        }
    }
}

async fn run(
    library: &Arc<Library>,
    max: Option<u64>,
    mut published: mpsc::UnboundedReceiver<Kept>,
    again: &mpsc::WeakUnboundedSender<Kept>,
) {
    if let Some(max) = max {
        or_warn(library.blocking(move |library| library.catalogue.trim_bases(max)).await);
    }
    let mut last = String::new();
    loop {
        let next = move |library: &Arc<Library>| library.catalogue.names_after(&last, NAMES_AT_ONCE);
        let names = or_warn(library.blocking(next).await).unwrap_or_default();
        let Some(name) = names.last() else { break };
        last = name.to_string();
        or_warn(keep_all(library, max, (names, false)).await);
    }
    while let Some(kept) = published.recv().await {
        let crowded = or_warn(keep_all(library, max, kept).await).filter(|crowded| !crowded.is_empty());
        if let (Some(crowded), Some(again)) = (crowded, again.upgrade()) {
            library.tasks.spawn_until_stop(async move {
                sleep(GIVES_WAY_AFTER).await;
                drop(again.send((crowded, true))); // the peer ends
            });
        }
    }
}

/// Returns the names of those for which the version before would have to give way.
async fn keep_all(
    library: &Arc<Library>,
    max: Option<u64>,
    (names, gives_way): Kept,
) -> Result<Vec<FileName>, Failure> {
    let keep = move |library: &Arc<Library>| {
        let free = || free_in(&library.data_dir).map_or(0, |free| free / FREE_PARTS);
        let max = max.unwrap_or_else(|| free().min(BASES_BYTES_USUAL));
        library.catalogue.keep_bases(&names, max, gives_way, &library.tasks.stop)
    };
    library.blocking(keep).await
}

fn or_warn<T>(kept: Result<T, Failure>) -> Option<T> {
    kept.inspect_err(
        |error| tracing::warn!(%error, "the next version is sent without a difference to this one"),
    )
    .ok()
}
