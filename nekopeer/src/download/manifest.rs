//! The manifest of a version: implied by the record if possible, otherwise fetched from a holder.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures::{StreamExt, stream::FuturesUnordered};
use nekoproto::{Holder, Manifest, VerifiedRecord};
use tokio::time::timeout;

use super::{
    Downloader,
    error::{DownloadError, exhausted},
    swarm::{
        Begin, SILENCE_TOLD,
        busy::Busy,
        named,
        source::{FetchError, Source},
    },
};
use crate::{
    content::outboard::Segments,
    util::{progress::Progress, tasks::blocking},
};

/// Sources asked for the manifest at once, and the time that each has before the next is asked too.
const ASKED_MAX: usize = 3;
const ASK_ANOTHER_AFTER: Duration = Duration::from_secs(1);

/// What to fetch, and the sources to start with.
pub(super) struct Plan {
    pub(super) manifest: Arc<Manifest>,
    pub(super) encoded: Arc<[u8]>,
    /// The outboard, if a holder has it. Bytes are verified by its segments, and the whole file with them.
    pub(super) outboard: Option<Arc<Segments>>,
    pub(super) begin: Begin,
}

impl Downloader {
    /// The manifest of `record`, from the first of `sources` that delivers it, unless the record implies it. While one
    /// takes its time, others are asked too.
    async fn find_manifest(
        &self,
        record: &VerifiedRecord,
        sources: &[Holder],
    ) -> Result<Plan, DownloadError> {
        let mut begin: Begin = sources.iter().map(|holder| (*holder, None)).collect();
        if let Some((manifest, encoded)) = Manifest::implied_by(record) {
            return Ok(Plan { manifest: Arc::new(manifest), encoded: encoded.into(), outboard: None, begin });
        }
        let (mut last, mut busy) = (None, Busy::default());
        let mut waiting: VecDeque<usize> = (0..begin.len()).collect();
        let (mut asked, mut refused) = (FuturesUnordered::new(), Vec::new());
        loop {
            if asked.len() < ASKED_MAX
                && let Some(place) = waiting.pop_front()
            {
                let holder = begin[place].0;
                asked.push(async move { (place, self.manifest_from(record, &holder).await) });
            }
            if asked.is_empty() {
                if refused.is_empty() || busy.is_over() {
                    return Err(exhausted(record, last));
                }
                tokio::time::sleep(busy.pause()).await;
                waiting.extend(refused.drain(..));
                continue;
            }
            let is_another = !waiting.is_empty() && asked.len() < ASKED_MAX;
            let (place, found) = tokio::select! {
                Some(ended) = asked.next() => ended,
                () = tokio::time::sleep(ASK_ANOTHER_AFTER), if is_another => continue,
            };
            match found {
                Ok((source, (manifest, encoded), outboard)) => {
                    begin[place].1 = source;
                    drop(asked);
                    let (manifest, outboard) = (Arc::new(manifest), outboard.map(Arc::new));
                    return Ok(Plan { manifest, encoded: encoded.into(), outboard, begin });
                }
                Err(error) => {
                    refused.extend(error.is_busy().then_some(place));
                    last = Some(format!("{}: {error}", named(&begin[place].0)));
                }
            }
        }
    }

    /// As [`find_manifest`](Self::find_manifest); if it takes long, the user is told what is waited for.
    pub(super) async fn find_plan(
        &self,
        record: &VerifiedRecord,
        sources: &[Holder],
        progress: &Progress,
    ) -> Result<Plan, DownloadError> {
        let finding = self.find_manifest(record, sources);
        tokio::pin!(finding);
        if let Ok(found) = timeout(SILENCE_TOLD, &mut finding).await {
            return found;
        }
        let sources: Vec<String> = sources.iter().map(named).collect();
        let text =
            format!("waiting for the list of chunks of {} from {}", record.name, sources.join(" and "));
        progress.waits_for(Some(text));
        let found = finding.await;
        progress.waits_for(None);
        found
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
