//! [`BaseKeeper`]: keeps copies of what was published, in the background and one after the other, so that the next version is sent
//! as a difference to them. No publish waits for that.

use std::sync::Arc;

use nekoproto::{FileName, VerifiedRecord};
use tokio::sync::mpsc;

use crate::{download::free_in, library::Library, storage::catalogue::BASE_BYTES_MIN};

/// What they take at most unless the user says otherwise: a tenth of what is free, and not more than this.
const BASES_BYTES_USUAL: u64 = 10 * 1024 * 1024 * 1024;
const FREE_PARTS: u64 = 10;

#[derive(Debug)]
pub(super) struct BaseKeeper(mpsc::UnboundedSender<Vec<FileName>>);

impl BaseKeeper {
    /// Keeps those of this peer within `max` bytes, or what is usual.
    pub(super) fn new(library: &Arc<Library>, max: Option<u64>) -> Self {
        let (sender, mut published) = mpsc::unbounded_channel::<Vec<FileName>>(); // of what is published here
        let keeping = Arc::clone(library);
        library.tasks.spawn_until_stop(async move {
            if let Some(max) = max {
                let trim = move |library: &Arc<Library>| library.catalogue.trim_bases(max);
                if let Err(error) = keeping.blocking(trim).await {
                    tracing::warn!(%error, "copies of what is shared take more than they may");
                }
            }
            while let Some(names) = published.recv().await {
                let keep = move |library: &Arc<Library>| {
                    let usual = || {
                        free_in(&library.data_dir).map_or(0, |free| free / FREE_PARTS).min(BASES_BYTES_USUAL)
                    };
                    library.catalogue.keep_bases(&names, max.unwrap_or_else(usual), &library.tasks.stop)
                };
                if let Err(error) = keeping.blocking(keep).await {
                    tracing::warn!(%error, "the next version is sent without a difference to this one");
                }
            }
        });
        Self(sender)
    }

    /// Keeps these versions soon, or what is published under their names by then.
    pub(super) fn keep<'a>(&self, published: impl Iterator<Item = &'a VerifiedRecord>) {
        let large = published.filter(|record| record.size >= BASE_BYTES_MIN);
        let names: Vec<FileName> = large.map(|record| record.name.clone()).collect();
        if !names.is_empty() {
            drop(self.0.send(names)); // the peer ends
        }
    }
}
