//! Puts an earlier version that is kept here back in its place: its chunks are on this disk, or at other holders.

use std::{sync::Arc, time::Instant};

use nekoproto::{FileName, Manifest, Record, VerifiedRecord, Version};
use tokio_util::sync::CancellationToken;

use super::{
    DownloadOptions, Downloaded, Downloader, deliveries, error::DownloadError,
    file::destination::Destination, manifest::Plan, swarm::Report, unless_ended,
};
use crate::{
    library::{Library, events::Event},
    sets::output_of,
    state::choice::Target,
    storage::catalogue::{CatalogueError, Copy, Entry, PassedOver, Why},
    util::progress::Progress,
};

/// An earlier version, what it takes the place of, and where that is.
pub(super) struct Earlier {
    pub(super) target: Target,
    /// How it is put together, if that is known here.
    pub(super) plan: Option<Plan>,
    /// Which versions do not take its place by themselves from now on.
    pub(super) passed_over: PassedOver,
    pub(super) options: DownloadOptions,
}

impl Downloader {
    /// Puts `version` of `name`, or the last one that was replaced, back in its place. Recorded with it, in one
    /// transaction: if the user went back, those up to the newest one that is known do not take its place by themselves any
    /// more. If `refused`, that one does not, and what is put back takes the place of no other.
    pub(crate) async fn restore(
        &self,
        name: &FileName,
        version: Option<Version>,
        refused: Option<&VerifiedRecord>,
        progress: &Arc<Progress>,
    ) -> Result<Downloaded, DownloadError> {
        let running = self.library.reserve(name, progress);
        let running = running.ok_or_else(|| DownloadError::AlreadyRunning(name.clone()))?;
        let restoring = self.restore_until(&running.stop, name, version, refused, progress);
        unless_ended(&self.library, name, &running.stop, restoring).await
    }

    async fn restore_until(
        &self,
        stop: &CancellationToken,
        name: &FileName,
        version: Option<Version>,
        refused: Option<&VerifiedRecord>,
        progress: &Arc<Progress>,
    ) -> Result<Downloaded, DownloadError> {
        let started = Instant::now();
        let wanted = name.clone();
        let refused_here = refused.cloned();
        let find = move |library: &Arc<Library>| earlier(library, &wanted, version, refused_here.as_ref());
        let earlier = self.library.blocking(find).await?;
        self.restore_found(stop, earlier, refused.is_none(), (progress, started)).await
    }

    /// Puts `earlier` in its place; `is_told` if the user went back to it.
    pub(super) async fn restore_found(
        &self,
        stop: &CancellationToken,
        earlier: Earlier,
        is_told: bool,
        (progress, started): (&Arc<Progress>, Instant),
    ) -> Result<Downloaded, DownloadError> {
        let Earlier { target, plan, passed_over, options } = earlier;
        let (record, others) = (target.record.clone(), target.others.clone());
        if is_told && self.library.judged.has(&record.name) {
            return Err(DownloadError::Judged(record.name.clone()));
        }
        progress.set_total(record.size);
        let (path, report, was_here) = match self.destination(&record, &options).await? {
            Destination::UpToDate(path) => (path, Report::default(), true),
            Destination::Replaceable(stamp) => {
                let plan = self.plan_or_find(plan, &record, &target.sources, progress).await?;
                let over = (stamp, Some(passed_over));
                let (entry, report) = self.obtain_by(plan, target, over, &options, progress, stop).await?;
                self.indexers.offer([&entry.record]).await;
                if is_told {
                    let (name, version) = (record.name.clone(), record.version);
                    self.library.tell(Event::RolledBack { name, version });
                }
                (entry.path, report, false)
            }
        };
        let path = self.unfolded(&record, path, &options, stop).await?;
        Ok(Downloaded {
            freshness: self.library.freshness(&record),
            doubt: self.library.doubt(&record),
            bytes_moved: report.bytes_moved,
            was_here,
            sources: deliveries(progress, &report),
            took: started.elapsed(),
            record,
            others,
            path,
        })
    }
}

/// The version that is wanted, among those that are kept. Blocking.
pub(super) fn earlier(
    library: &Library,
    name: &FileName,
    version: Option<Version>,
    refused: Option<&VerifiedRecord>,
) -> Result<Earlier, DownloadError> {
    let catalogue = &library.catalogue;
    let not_kept = |kept| DownloadError::NotKept { name: name.clone(), version, kept };
    let held = catalogue.entry(name)?.filter(|held| !catalogue.is_own(held));
    let held = held.ok_or_else(|| not_kept(Vec::new()))?;
    let origin = held.record.origin;
    let passed_over = match refused {
        Some(refused) if *refused == held.record => {
            PassedOver { origin, version: refused.version, why: Why::Failed }
        }
        Some(_) => return Err(CatalogueError::Overtaken(name.clone()).into()),
        None => all_known(&held),
    };
    // What is put back is tried again until its chunks are there: a user may move them, or have no disk for a while.
    let mut kept: Vec<Copy> = match refused {
        Some(_) => catalogue.kept(name)?.into_iter().map(|kept| kept.copy).collect(),
        None => catalogue.restorable(name)?,
    };
    kept.retain(|copy| copy.entry.record.same_file(&held.record) && copy.entry.record != held.record);
    let is_wanted = |found: Version| version.is_none_or(|version| version == found);
    let versions: Vec<Version> = kept.iter().map(|copy| copy.entry.record.version).collect();
    let found = kept.into_iter().find(|copy| is_wanted(copy.entry.record.version));
    let Copy { entry, manifest, .. } = found.ok_or_else(|| not_kept(versions))?;
    let plan = plan_of(&entry.record, manifest).ok_or_else(|| not_kept(Vec::new()))?;
    let target = Target::new(entry.record, Vec::new());
    Ok(Earlier { target, plan: Some(plan), passed_over, options: in_its_place(library, &held) })
}

/// The user wants none of the versions up to the newest known by itself.
pub(super) fn all_known(held: &Entry) -> PassedOver {
    let newest = held.newest.as_ref().filter(|newest| newest.same_file(&held.record));
    let Record { origin, version, .. } = **newest.unwrap_or(&held.record);
    PassedOver { origin, version, why: Why::RolledBack }
}

/// A copy that was downloaded to another place stays there.
pub(super) fn in_its_place(library: &Library, held: &Entry) -> DownloadOptions {
    DownloadOptions { output: output_of(library, held), ..DownloadOptions::default() }
}

/// How a version is put together whose manifest is stored here; `None` if that is damaged.
pub(super) fn plan_of(record: &VerifiedRecord, encoded: Vec<u8>) -> Option<Plan> {
    let manifest = Arc::new(Manifest::decode_for(record, &encoded).ok()?);
    Some(Plan { manifest, encoded: encoded.into(), outboard: None, begin: Vec::new() })
}

#[cfg(test)]
mod tests {
    use std::{ops::ControlFlow, pin::pin};

    use nekoproto::Manifest;

    use super::*;
    use crate::{
        Config, Peer,
        download::file::kills::{self, Killed},
    };

    /// Whenever a rollback is interrupted: no version is passed over for one that is not in its place.
    #[tokio::test]
    async fn what_is_passed_over_is_recorded_with_what_is_put_back_and_not_before() {
        let folder = tempfile::tempdir().unwrap();
        let peer = Peer::spawn(Config::new(folder.path())).await.unwrap();
        let (library, record) = (&peer.library, kills::record(2));
        let (name, catalogue) = (&record.name, &library.catalogue);
        kills::download(library, 1, Killed::Never);
        catalogue.change_readers([name], |reader| reader.keep = 1).unwrap();
        catalogue.keep_before(name, &Manifest::implied_by(&record).unwrap().0).unwrap();
        kills::download(library, 2, Killed::Never);
        let progress = Arc::default();
        let mut restoring = pin!(peer.downloader.restore(name, None, None, &progress));
        let mut step = async || {
            tokio::select! {
                biased;
                done = &mut restoring => ControlFlow::Break(done),
                () = tokio::task::yield_now() => ControlFlow::Continue(()),
            }
        };
        while step().await.map_break(Result::unwrap).is_continue() {
            let passed = catalogue.reader(name).unwrap().passed_over;
            let held = catalogue.get(name).unwrap().record.version;
            assert!(passed.is_none() || held == Version::FIRST, "{passed:?}, and version {held} is there");
        }
        assert_eq!(catalogue.reader(name).unwrap().passed_over.map(|passed| passed.version), Version::new(2));
    }
}
