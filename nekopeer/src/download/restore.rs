//! Puts an earlier version that is kept here back in its place: its chunks are on this disk, or at other holders.

use std::{sync::Arc, time::Instant};

use nekoproto::{FileName, Manifest, VerifiedRecord, Version};
use tokio_util::sync::CancellationToken;

use super::{
    DownloadOptions, Downloaded, Downloader, deliveries, error::DownloadError,
    file::destination::Destination, manifest::Plan, swarm::Report, unless_ended,
};
use crate::{
    library::{Library, events::Event},
    state::choice::Target,
    storage::catalogue::{Copy, PassedOver, Why},
    util::progress::Progress,
};

/// An earlier version, and what is in its place.
struct Earlier {
    copy: Copy,
    held: VerifiedRecord,
    options: DownloadOptions,
}

impl Downloader {
    /// Puts `version` of `name`, or the last one that was replaced, back in its place. Those up to the newest one that
    /// is known do not take its place by themselves any more, which is recorded first.
    ///
    /// # Errors
    /// It is not kept here, or cannot be restored; the file in its place is unchanged.
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn restore(
        &self,
        name: &FileName,
        version: Option<Version>,
        why: Why,
        progress: &Arc<Progress>,
    ) -> Result<Downloaded, DownloadError> {
        let running = self.library.reserve(name, progress);
        let running = running.ok_or_else(|| DownloadError::AlreadyRunning(name.clone()))?;
        let restoring = self.restore_until(&running.stop, name, version, why, progress);
        unless_ended(&self.library, name, &running.stop, restoring).await
    }

    async fn restore_until(
        &self,
        stop: &CancellationToken,
        name: &FileName,
        version: Option<Version>,
        why: Why,
        progress: &Arc<Progress>,
    ) -> Result<Downloaded, DownloadError> {
        let started = Instant::now();
        let wanted = name.clone();
        let earlier = self.library.blocking(move |library| earlier(library, &wanted, version)).await?;
        let Earlier { copy: Copy { entry, manifest: encoded, .. }, held, options } = earlier;
        let record = entry.record;
        progress.set_total(record.size);
        let (path, report, was_here) = match self.destination(&record, &options).await? {
            Destination::UpToDate(path) => (path, Report::default(), true),
            Destination::Replaceable(stamp) => {
                let damaged = || DownloadError::NotKept { name: name.clone(), version, kept: Vec::new() };
                let manifest = Manifest::decode_for(&record, &encoded).map_err(|_| damaged())?;
                let passed = (name.clone(), held);
                let pass_over = move |library: &Arc<Library>| pass_over(library, &passed.0, &passed.1, why);
                self.library.blocking(pass_over).await?;
                let plan = Plan {
                    manifest: Arc::new(manifest),
                    encoded: encoded.into(),
                    outboard: None,
                    begin: Vec::new(),
                };
                let target = Target { record: record.clone(), sources: Vec::new() };
                let (entry, report) = self.obtain_by(plan, target, stamp, &options, progress, stop).await?;
                self.indexers.offer([&entry.record]).await;
                if why == Why::RolledBack {
                    self.library.tell(Event::RolledBack { name: name.clone(), version: record.version });
                }
                (entry.path, report, false)
            }
        };
        Ok(Downloaded {
            freshness: self.library.freshness(&record),
            doubt: self.library.doubt(&record),
            bytes_moved: report.bytes_moved,
            was_here,
            sources: deliveries(progress, &report),
            took: started.elapsed(),
            record,
            path,
        })
    }
}

/// The version that is wanted, among those that are kept, and the one that is in the place. Blocking.
fn earlier(library: &Library, name: &FileName, version: Option<Version>) -> Result<Earlier, DownloadError> {
    let catalogue = &library.catalogue;
    let not_kept = |kept| DownloadError::NotKept { name: name.clone(), version, kept };
    let held = catalogue.entry(name)?.filter(|held| !catalogue.is_own(held));
    let held = held.ok_or_else(|| not_kept(Vec::new()))?;
    let mut kept = catalogue.kept(name)?;
    kept.retain(|kept| {
        kept.copy.entry.record.same_file(&held.record) && kept.copy.entry.record != held.record
    });
    let is_wanted = |found: Version| version.is_none_or(|version| version == found);
    let versions: Vec<Version> = kept.iter().map(|kept| kept.copy.entry.record.version).collect();
    let found = kept.into_iter().find(|kept| is_wanted(kept.copy.entry.record.version));
    let copy = found.ok_or_else(|| not_kept(versions))?.copy;
    // A copy that was downloaded to another place stays there.
    let output = Some(held.path.clone()).filter(|path| *path != library.share.root().join(name.as_path()));
    let options = DownloadOptions { output, ..DownloadOptions::default() };
    Ok(Earlier { copy, held: held.record.clone(), options })
}

/// The versions up to the newest one that is known do not take the place of `name` by themselves. Blocking.
fn pass_over(
    library: &Library,
    name: &FileName,
    held: &VerifiedRecord,
    why: Why,
) -> Result<(), DownloadError> {
    let entry = library.catalogue.entry(name)?;
    let newest =
        entry.as_ref().and_then(|entry| entry.newest.as_ref()).filter(|newest| newest.same_file(held));
    // A version on which a command failed is known; a later one is to be tried.
    let version = match why {
        Why::RolledBack => newest.map_or(held.version, |newest| newest.version),
        Why::Failed => held.version,
    };
    let passed = PassedOver { origin: held.origin, version, why };
    library.catalogue.change_reader(name, |reader| reader.passed_over = Some(passed))?;
    Ok(())
}
