//! Copies of other origins' files: their freshness, and when to ask their origins.

use std::time::Instant;

use nekoproto::{FileName, Freshness, VerifiedRecord};

use super::{ENTRIES_AT_ONCE, Library, events::Event};
use crate::{
    state::freshness::CopyState,
    storage::catalogue::{CatalogueError, Entry, PageStart},
    util::clock,
};

impl Library {
    /// Starts to watch the copies in `entries`.
    pub(crate) fn keep(&self, entries: &[Entry]) {
        {
            let mut copies = self.copies.lock();
            for Entry { record, .. } in entries {
                // The catalogue knows the news that arrived since the commit. Later news is recorded in
                // `copies`, which is locked until the entries are in it.
                let newest = self.catalogue.get(&record.name).and_then(|entry| entry.newest.clone());
                let copy = CopyState::new(record.clone(), newest, self.ttr, clock::now());
                copies.insert(record.name.clone(), copy);
            }
        }
        self.wake();
    }

    /// Starts to watch the copies among `entries` that are not watched yet. Call it with what the catalogue has
    /// now.
    pub(crate) fn watch<'a>(&self, entries: impl Iterator<Item = &'a Entry>) {
        let now = clock::now();
        let mut copies = self.copies.lock();
        for Entry { record, newest, .. } in entries.filter(|entry| !self.catalogue.is_own(entry)) {
            if copies.get(&record.name).is_none_or(|copy| copy.held() != record) {
                let copy = CopyState::new(record.clone(), newest.clone(), self.ttr, now);
                copies.insert(record.name.clone(), copy);
            }
        }
    }

    /// Starts to watch all copies. Blocking.
    ///
    /// # Errors
    /// The catalogue failed; some are watched.
    pub(crate) fn watch_all(&self) -> Result<(), CatalogueError> {
        let mut start = Some(PageStart::default());
        while let Some(from) = start {
            let page = self.catalogue.page(&from, ENTRIES_AT_ONCE)?;
            self.watch(page.entries.iter().flatten());
            start = page.next;
        }
        Ok(())
    }

    /// Stops watching the copies of `names`.
    pub(crate) fn forget<'a>(&self, names: impl IntoIterator<Item = &'a FileName>) {
        let mut copies = self.copies.lock();
        names.into_iter().for_each(|name| drop(copies.remove(name)));
    }

    /// The freshness of the copy of `record`: fresh only if the origin confirmed it within the bound.
    pub(crate) fn freshness(&self, record: &VerifiedRecord) -> Freshness {
        let copies = self.copies.lock();
        let copy = copies.get(&record.name).filter(|copy| copy.held() == record);
        copy.map_or(Freshness::Unverified, |copy| copy.freshness(clock::now()))
    }

    /// Whether the last question about the copy of `record` to its origin, if any, was answered.
    pub(crate) fn is_reachable(&self, record: &VerifiedRecord) -> bool {
        self.copies.lock().get(&record.name).is_none_or(CopyState::is_reachable)
    }

    /// Whether a newer version of the copy of `name` is known.
    pub(crate) fn is_outdated(&self, name: &FileName) -> bool {
        self.copies.lock().get(name).is_some_and(|copy| copy.newest().is_some())
    }

    /// Names of all outdated copies.
    pub(crate) fn outdated(&self) -> Vec<FileName> {
        let copies = self.copies.lock();
        copies.iter().filter(|(_, copy)| copy.newest().is_some()).map(|(name, _)| name.clone()).collect()
    }

    /// Copies whose origin is to be asked by `now`; with `None`, all copies that are not outdated.
    pub(crate) fn due(&self, now: Option<Instant>) -> Vec<VerifiedRecord> {
        let copies = self.copies.lock();
        let is_due = |at: Instant| now.is_none_or(|now| at <= now);
        let due = copies.values().filter(|copy| copy.ask_at().is_some_and(is_due));
        due.map(|copy| copy.held().clone()).collect()
    }

    /// When the next copy is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.copies.lock().values().filter_map(CopyState::ask_at).min()
    }

    /// The origin confirmed, to a question sent at `asked_at`, that `record` is the newest version.
    pub(crate) fn note_confirmed(&self, record: &VerifiedRecord, asked_at: Instant) {
        if let Some(copy) = self.copies.lock().get_mut(&record.name).filter(|copy| copy.held() == record) {
            copy.confirmed(asked_at);
        }
    }

    /// The origin did not answer about `record`, or does not know it.
    pub(crate) fn note_unconfirmed(&self, record: &VerifiedRecord) {
        let now = clock::now();
        let went_away = {
            let mut copies = self.copies.lock();
            let Some(copy) = copies.get_mut(&record.name).filter(|copy| copy.held() == record) else {
                return;
            };
            let was_reachable = copy.is_reachable();
            copy.not_confirmed(now, rand::random());
            was_reachable && copy.freshness(now) != Freshness::Stale
        };
        if went_away {
            self.tell(Event::OriginAway(record.name.clone()));
        }
    }
}
