//! One version of a file by its number: as it is held or kept here, or from those who hold or keep it elsewhere.

use std::{path::PathBuf, sync::Arc};

use futures::{StreamExt, stream};
use nekoproto::{FileName, Numbered, Record, VerifiedRecord, Version};

use super::{
    DownloadOptions, Downloader,
    error::{not_here, not_kept},
    manifest::Prefetch,
    plan::{Landing, Layout, Plan, begin_with},
    swarm::LOOK_AFTER,
};
use crate::{
    failure::{Failure, Reason},
    library::Library,
    sets::output_of,
    state::choice::Target,
    storage::catalogue::{EarlierVersion, Entry, PassedOver, Why, overtaken},
    util::progress::Progress,
};

/// Holders that are asked, how many at once, and how many of those that have the version are enough.
const HOLDERS_ASKED_MAX: usize = 256;
const HOLDERS_AT_ONCE: usize = 16;
const SOURCES_ENOUGH: usize = 8;

impl Downloader {
    pub(super) async fn find_version(
        &self,
        name: &FileName,
        version: Version,
        options: &DownloadOptions,
    ) -> Result<Plan, Failure> {
        if let Some(error) = self.own(name) {
            return Err(error);
        }
        let wanted = name.clone();
        let look = move |library: &Arc<Library>| kept(library, &wanted, Some(version), None);
        match self.library.blocking(look).await {
            Ok(here) if options.takes(&here.target.record) => return Ok(here),
            Ok(_) | Err(Failure { reason: Reason::NotKept, .. }) => {}
            Err(error) => return Err(error),
        }
        let newest = self.find(name, options).await?;
        if newest.record.version == version {
            return Ok(Plan::new(newest, options.output.clone()));
        }
        let target = Target { others: newest.others.clone(), ..self.ask_holders(&newest, version).await? };
        let passed_over = rolled_back(&newest.record);
        let landing = match self.library.catalogue.get(name) {
            Some(held) => in_its_place(&self.library, &held, passed_over),
            None => Landing { passed_over: Some(passed_over), ..Landing::default() },
        };
        Ok(Plan { target, layout: None, landing, look_after: LOOK_AFTER, ready: None })
    }

    /// A plan of a version that was published here, from readers that hold or keep it, and the path of the file.
    pub(crate) async fn find_published(
        &self,
        name: &FileName,
        version: Version,
        options: &DownloadOptions,
        progress: &Progress,
    ) -> Result<(Plan, PathBuf), Failure> {
        let catalogue = &self.library.catalogue;
        let own = catalogue.get(name).filter(|entry| catalogue.is_own(entry));
        let own =
            own.ok_or_else(|| Failure::missing(format!("{name} is not shared here: ls says what is")))?;
        if own.record.policy.is_set() {
            let get = format!("a peer that keeps version {version} can put that in its place");
            let why = format!("{name} is a folder: bring that to what it was, and share it anew; {get}");
            return Err(Failure::conflict(why));
        }
        if version == own.record.version {
            let why = format!(
                "version {version} of {name} is the newest already: an earlier one can be shared anew"
            );
            return Err(Failure::conflict(why));
        }
        let mut holders: Vec<_> = self.library.readers_of(name).iter().map(|reader| reader.holder).collect();
        holders.extend(self.look_for_sources(&own.record, options).await);
        holders.sort_unstable_by_key(|holder| holder.node);
        holders.dedup_by_key(|holder| holder.node);
        let found = self.ask_holders(&Target::new(own.record.clone(), holders), version).await?;
        let sources = begin_with(&found.sources, None);
        let layout = self.find_layout(&found.record, sources, Prefetch::Bytes, progress).await?;
        Ok((Plan { layout: Some(layout), ..Plan::new(found, None) }, own.path.clone()))
    }

    /// Who of the holders of the newest version has an earlier one.
    async fn ask_holders(&self, newest: &Target, version: Version) -> Result<Target, Failure> {
        let Record { origin, name, .. } = &*newest.record;
        let wanted = Numbered { origin: *origin, name: name.clone(), version };
        let holders = newest.sources.iter().take(HOLDERS_ASKED_MAX).copied();
        let asking = holders.map(async |holder| (holder, self.peers.lend(holder, &wanted).await));
        let mut asking = stream::iter(asking).buffer_unordered(HOLDERS_AT_ONCE);
        let (mut asked, mut silent, mut found) = (0, 0, None::<Target>);
        while let Some((holder, answer)) = asking.next().await {
            asked += 1;
            match (answer, &mut found) {
                (Ok(Some(record)), None) => found = Some(Target::new(record, vec![holder])),
                (Ok(Some(record)), Some(target)) if target.record == record => target.sources.push(holder),
                (Ok(_), _) => {}
                (Err(error), _) => {
                    tracing::debug!(holder = %holder.node.short(), %error, "a holder cannot be asked");
                    silent += 1;
                }
            }
            if found.as_ref().is_some_and(|target| target.sources.len() >= SOURCES_ENOUGH) {
                break;
            }
        }
        found.ok_or_else(|| nobody_keeps(name, version, asked, silent))
    }
}

/// Nobody has that version: of holders `asked`, `silent` ones did not answer.
fn nobody_keeps(name: &FileName, version: Version, asked: usize, silent: usize) -> Failure {
    let others = match asked {
        0 => "nobody else holds the file".to_owned(),
        1 => "the one other holder does not keep it".to_owned(),
        more => format!("none of {more} other holders keeps it"),
    };
    let silent = match silent {
        0 => String::new(),
        silent => format!(" ({silent} did not answer: try again later)"),
    };
    Failure::missing(format!("version {version} of {name} is not here, and {others}{silent}"))
}

/// The version that is wanted, among those that are here, and otherwise the last that was replaced and not refused. Blocking.
pub(super) fn kept(
    library: &Library,
    name: &FileName,
    version: Option<Version>,
    refused: Option<&VerifiedRecord>,
) -> Result<Plan, Failure> {
    let catalogue = &library.catalogue;
    let not_kept = |kept: &[Version]| not_kept(name, version, kept);
    let held = catalogue.entry(name)?.ok_or_else(|| not_here(name))?;
    if catalogue.is_own(&held) {
        return Err(not_kept(&[]));
    }
    let (origin, passed) = (held.record.origin, catalogue.reader(name)?.passed_over);
    let passed_over = match refused {
        Some(refused) if *refused == held.record => {
            let failed = PassedOver { origin, version: refused.version, why: Why::Failed };
            // The user had gone back before, and later versions stay out.
            let later = |passed: &PassedOver| passed.origin == origin && passed.version > refused.version;
            passed.filter(later).unwrap_or(failed)
        }
        Some(_) => return Err(overtaken(name)),
        // The user wants none of the versions up to the newest known by itself.
        None => {
            let newest = held.newest.as_ref().filter(|newest| newest.same_file(&held.record));
            rolled_back(newest.unwrap_or(&held.record))
        }
    };
    // What is put back is tried again until its chunks are there: a user may move them, or have no disk for a while.
    let here = match refused {
        Some(_) => catalogue.kept(name)?,
        None => catalogue.versions(name, true, |_| true)?,
    };
    let number = |found: &EarlierVersion| found.entry.record.version;
    let kept: Vec<_> = here.iter().map(number).filter(|found| *found != held.record.version).collect();
    // Who names no version wants none that a command refused.
    let failed = passed.filter(|passed| passed.why == Why::Failed);
    let was_refused = |found: &EarlierVersion| {
        let record = &found.entry.record;
        failed.is_some_and(|failed| (failed.origin, failed.version) == (record.origin, record.version))
    };
    let is_wanted = |found: &EarlierVersion| match version {
        Some(version) => found.entry.record.same_file(&held.record) && number(found) == version,
        None => found.is_before(&held.record) && !was_refused(found),
    };
    let found = here.into_iter().find(is_wanted).ok_or_else(|| not_kept(&kept))?;
    let EarlierVersion { entry, manifest, encoded, .. } = found;
    let layout = Some(Layout { manifest, encoded, outboard: None, begin: Vec::new() });
    let target = Target::new(entry.record, Vec::new());
    let landing = in_its_place(library, &held, passed_over);
    Ok(Plan { target, layout, landing, look_after: LOOK_AFTER, ready: None })
}

fn rolled_back(newest: &Record) -> PassedOver {
    PassedOver { origin: newest.origin, version: newest.version, why: Why::RolledBack }
}

/// A copy that was downloaded to another place stays there.
fn in_its_place(library: &Library, held: &Entry, passed_over: PassedOver) -> Landing {
    let (output, passed_over) = (output_of(library, held), Some(passed_over));
    Landing { output, replaceable: None, passed_over }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use nekoproto::Manifest;

    use super::*;
    use crate::{
        Config, Peer,
        download::file::kills::{self, Killed},
    };

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
        kills::download(library, 3, Killed::Half); // what is there of it is of no use
        let progress = Arc::default();
        let mut restoring = pin!(peer.downloader.restore(name, None, None, &progress));
        let mut done = None;
        while done.is_none() {
            tokio::select! {
                biased;
                ended = &mut restoring => done = Some(ended.unwrap()),
                () = tokio::task::yield_now() => {}
            }
            let passed = catalogue.reader(name).unwrap().passed_over;
            let held = catalogue.get(name).unwrap().record.version;
            assert!(passed.is_none() || held == Version::FIRST, "{passed:?}, and version {held} is there");
        }
        assert_eq!(catalogue.reader(name).unwrap().passed_over.map(|passed| passed.version), Version::new(2));
    }
}
