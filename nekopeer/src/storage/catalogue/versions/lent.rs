//! [`Lent`]: versions that were asked for by their number, opened so that their bytes can be sent for a while.

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use nekoproto::{Numbered, Record, VerifiedRecord};
use parking_lot::Mutex;

use super::EarlierVersion;
use crate::{failure::Failure, storage::catalogue::Catalogue, util::clock};

/// How long a version stays open after it was asked for last.
const LENT_FOR: Duration = Duration::from_secs(600);
/// Versions that are open at once, their files, and their chunks (some 60 bytes each in memory).
const LENT_MAX: usize = 16;
const LENT_FILES_MAX: usize = 1024;
const LENT_CHUNKS_MAX: usize = 1024 * 1024;

/// The versions that are open, since when each was asked for last, and how many files it has open; that one is the last.
#[derive(Debug, Default)]
pub(crate) struct Lent(Mutex<Vec<(Instant, usize, Arc<EarlierVersion>)>>);

impl Lent {
    pub(crate) fn find(
        &self,
        is_wanted: impl Fn(&Record) -> bool,
        now: Instant,
    ) -> Option<Arc<EarlierVersion>> {
        let mut lent = self.0.lock();
        lent.retain(|(since, ..)| now.saturating_duration_since(*since) < LENT_FOR);
        let at = lent.iter().position(|(.., version)| is_wanted(&version.entry.record))?;
        let (_, files, version) = lent.remove(at);
        lent.push((now, files, Arc::clone(&version)));
        Some(version)
    }

    /// Adds a version; those that were not asked for longest make room for it.
    fn add(&self, version: EarlierVersion, now: Instant) {
        let files = version.at.iter().map(|(file, _)| Arc::as_ptr(file)).collect::<HashSet<_>>().len();
        let mut lent = self.0.lock();
        lent.push((now, files, Arc::new(version)));
        while lent.len() > LENT_MAX
            || lent.iter().map(|(_, files, _)| files).sum::<usize>() > LENT_FILES_MAX
            || lent.iter().map(|(.., version)| version.at.len()).sum::<usize>() > LENT_CHUNKS_MAX
        {
            lent.remove(0);
        }
    }

    /// The record of a version of another origin's file that is held or kept here; its bytes can be read for a while.
    /// Blocking.
    pub(crate) fn lend(
        &self,
        catalogue: &Catalogue,
        wanted: &Numbered,
    ) -> Result<Option<VerifiedRecord>, Failure> {
        let is_wanted = |record: &Record| {
            (record.origin, &record.name, record.version) == (wanted.origin, &wanted.name, wanted.version)
        };
        let now = clock::now();
        if let Some(lent) = self.find(is_wanted, now) {
            return Ok(Some(lent.entry.record.clone()));
        }
        // A file that another program changed is not read whenever somebody asks.
        let version = catalogue.versions(&wanted.name, false, is_wanted)?.into_iter().next();
        let record = version.as_ref().map(|version| version.entry.record.clone());
        version.into_iter().for_each(|version| self.add(version, now));
        Ok(record)
    }
}
