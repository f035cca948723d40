//! [`Census`]: how many files there are, and how fresh they are.

use nekoproto::Freshness;
use serde::Serialize;
use utoipa::ToSchema;

use super::{Library, subscribers::Subscribed};
use crate::{failure::Failure, util::clock};

/// Ages of a confirmation that copies are counted by, in seconds.
pub(crate) const AGES_S: [u64; 9] = [1, 10, 30, 60, 300, 600, 3600, 21_600, 86_400];

/// Files by their condition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = FilesStatus)]
pub(crate) struct Census {
    /// Shared here.
    pub(crate) own: u64,
    /// Copies of other origins' files.
    pub(crate) copies: u64,
    /// Bytes of all of them.
    pub(crate) bytes: u64,
    /// Copies that count as fresh.
    pub(crate) fresh: u64,
    /// Copies whose origin has not confirmed them in time.
    pub(crate) unverified: u64,
    /// Files of which a newer version is known.
    pub(crate) stale: u64,
    /// Files that changed on disk and are not shared.
    pub(crate) changed: u64,
    /// Files that are sets: folders, all of which is one version.
    pub(crate) sets: u64,
    /// Leases of readers on news of the files that are shared here.
    pub(crate) readers: u64,
    /// Those whose reader has not acknowledged the newest version.
    pub(crate) behind: u64,
    /// Copies that were confirmed at most so long ago, for each of [`AGES_S`].
    #[serde(skip)]
    pub(crate) confirmed_within: [u64; AGES_S.len()],
    /// The longest time since a confirmation of a copy, in milliseconds; of those that were ever confirmed.
    #[serde(skip)]
    pub(crate) oldest_ms: u64,
}

impl Library {
    /// Counts the files. Takes some microseconds for each, and looks at none of them on disk. Blocking.
    pub(crate) fn census(&self) -> Result<Census, Failure> {
        let now = clock::now();
        let mut census = Census { changed: self.changed.told().len() as u64, ..Census::default() };
        for page in self.catalogue.pages() {
            let now_ms = clock::unix_ms();
            for entry in page?.iter().flatten() {
                census.bytes += entry.record.size;
                census.sets += u64::from(entry.record.policy.is_set());
                let is_own = self.catalogue.is_own(entry);
                if is_own {
                    let readers = self.subscribers.of(&entry.record.name, now);
                    census.readers += readers.len() as u64;
                    let is_behind = |reader: &&Subscribed| reader.version < entry.record.version;
                    census.behind += readers.iter().filter(is_behind).count() as u64;
                }
                *(if is_own { &mut census.own } else { &mut census.copies }) += 1;
                match self.freshness_of(entry) {
                    Freshness::Stale => census.stale += 1,
                    Freshness::Fresh if !is_own => census.fresh += 1,
                    Freshness::Unverified if !is_own => census.unverified += 1,
                    Freshness::Fresh | Freshness::Unverified => {}
                }
                if let Some(confirmed) = self.confirmed_at(&entry.record).filter(|_| !is_own) {
                    census.confirmed(now_ms.saturating_sub(confirmed.at_ms));
                }
            }
        }
        Ok(census)
    }
}

impl Census {
    fn confirmed(&mut self, age_ms: u64) {
        self.oldest_ms = self.oldest_ms.max(age_ms);
        for (within, count) in AGES_S.iter().zip(&mut self.confirmed_within) {
            *count += u64::from(age_ms <= within * 1000);
        }
    }
}
