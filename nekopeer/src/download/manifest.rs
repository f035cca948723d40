//! The manifest of a version: implied by the record if possible, otherwise fetched from a holder.

use std::sync::Arc;

use nekoproto::{Holder, Manifest, VerifiedRecord};

use super::{
    Downloader,
    error::{DownloadError, exhausted},
    swarm::{
        Begin,
        busy::Busy,
        source::{FetchError, Source},
    },
};
use crate::{content::outboard::Segments, util::tasks::blocking};

/// What to fetch, and the sources to start with.
pub(super) struct Plan {
    pub(super) manifest: Arc<Manifest>,
    pub(super) encoded: Arc<[u8]>,
    /// The outboard, if a holder has it. Bytes are verified by its segments, and the whole file with them.
    pub(super) outboard: Option<Arc<Segments>>,
    pub(super) begin: Begin,
}

impl Downloader {
    /// The manifest of `record`, from the first of `sources` that has it, unless the record implies it.
    pub(super) async fn find_manifest(
        &self,
        record: &VerifiedRecord,
        sources: &[Holder],
    ) -> Result<Plan, DownloadError> {
        let mut begin: Begin = sources.iter().map(|holder| (*holder, None)).collect();
        if let Some((manifest, encoded)) = Manifest::implied_by(record) {
            return Ok(Plan { manifest: Arc::new(manifest), encoded: encoded.into(), outboard: None, begin });
        }
        let (mut last, mut busy) = (None, Busy::default());
        let mut asked: Vec<usize> = (0..begin.len()).collect();
        loop {
            let mut refused = Vec::new();
            for place in asked {
                let holder = begin[place].0;
                match self.manifest_from(record, &holder).await {
                    Ok((source, (manifest, encoded), outboard)) => {
                        begin[place].1 = source;
                        let (manifest, outboard) = (Arc::new(manifest), outboard.map(Arc::new));
                        return Ok(Plan { manifest, encoded: encoded.into(), outboard, begin });
                    }
                    Err(error) => {
                        refused.extend(error.is_busy().then_some(place));
                        last = Some(format!("source {} at {}: {error}", holder.node.short(), holder.addr));
                    }
                }
            }
            if refused.is_empty() || busy.is_over() {
                return Err(exhausted(record, last));
            }
            asked = refused;
            tokio::time::sleep(busy.pause()).await;
        }
    }

    async fn manifest_from(&self, record: &VerifiedRecord, holder: &Holder) -> Result<Found, FetchError> {
        let source = Source::connect(&self.endpoint, holder).await?;
        let (guard, wanted) = (source.hang_up().on_drop(), record.clone());
        let found = blocking(move || manifest_of(source, &wanted)).await;
        guard.disarm();
        found
    }
}

type Found = (Option<Source>, (Manifest, Vec<u8>), Option<Segments>);

/// The manifest and the outboard that `source` has, and the source if its stream is still usable.
fn manifest_of(mut source: Source, record: &VerifiedRecord) -> Result<Found, FetchError> {
    let manifest = source.manifest(record)?;
    match source.outboard(record) {
        Ok(outboard) => Ok((Some(source), manifest, outboard)),
        Err(_) => Ok((None, manifest, None)), // reconnected when chunks are fetched
    }
}
