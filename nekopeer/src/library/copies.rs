//! Copies of other origins' files: their freshness, and when to ask their origins.

use std::time::Instant;

use nekoproto::{FileName, Freshness, NodeId, VerifiedRecord};

use super::{ENTRIES_AT_ONCE, Library, events::Event};
use crate::{
    state::{
        copies::Due,
        freshness::{CopyState, Doubt, NoAnswer},
    },
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
                let copy = CopyState::new(record, newest, self.ttr, clock::now());
                copies.insert(&record.name, record.origin, copy);
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
            if copies.get(&record.name).is_none_or(|copy| !copy.holds(record)) {
                let copy = CopyState::new(record, newest.clone(), self.ttr, now);
                copies.insert(&record.name, record.origin, copy);
            }
        }
    }

    /// Starts to watch the copies of `names` that are not watched yet.
    pub(crate) fn watch_named<'a>(&self, names: impl Iterator<Item = &'a FileName>) {
        let unwatched: Vec<&FileName> = {
            let copies = self.copies.lock();
            names.filter(|name| copies.get(name).is_none()).collect()
        };
        let entries: Vec<_> = unwatched.into_iter().filter_map(|name| self.catalogue.get(name)).collect();
        self.watch(entries.iter().map(|entry| &**entry));
    }

    /// Starts to watch all copies. Blocking.
    ///
    /// # Errors
    /// The catalogue failed; some are watched.
    pub(crate) fn watch_all(&self) -> Result<(), CatalogueError> {
        self.copies.lock().reserve(self.catalogue.len()?);
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
        names.into_iter().for_each(|name| copies.remove(name));
    }

    /// The freshness of the copy of `record`: fresh only if the origin confirmed it within the bound.
    pub(crate) fn freshness(&self, record: &VerifiedRecord) -> Freshness {
        let copies = self.copies.lock();
        let copy = copies.get(&record.name).filter(|copy| copy.holds(record));
        match copy.map_or(Freshness::Unverified, |copy| copy.freshness(clock::now())) {
            Freshness::Fresh if self.is_contested(record) => Freshness::Unverified,
            freshness => freshness,
        }
    }

    /// Whether a newer version of the copy of `name` is known.
    pub(crate) fn is_outdated(&self, name: &FileName) -> bool {
        self.copies.lock().get(name).is_some_and(|copy| copy.newest().is_some())
    }

    /// All outdated copies, with their origins.
    pub(crate) fn outdated(&self) -> Vec<(FileName, NodeId)> {
        self.copies.lock().outdated().map(|(name, origin)| (name.clone(), origin)).collect()
    }

    /// The copies that their origins are to be asked about by `now`, by origin. Those of origins that are `passed`
    /// over are left out.
    pub(crate) fn due(&self, now: Instant, passed: impl Fn(&NodeId) -> bool) -> Due {
        self.copies.lock().due(now, passed)
    }

    /// The versions that origins are asked about for the copies of `names`: the newest known ones, so that the
    /// answers tell of later ones, and subscribe to them, for outdated copies too. What is no copy any more is
    /// forgotten; what cannot be read now is left out. Blocking.
    pub(crate) fn asked_for(&self, names: &[FileName]) -> Vec<VerifiedRecord> {
        let mut asked = Vec::with_capacity(names.len());
        for name in names {
            match self.catalogue.entry(name) {
                Ok(Some(entry)) if !self.catalogue.is_own(&entry) => {
                    asked.push(entry.newest.as_ref().unwrap_or(&entry.record).clone());
                }
                Ok(_) | Err(CatalogueError::DamagedEntry { .. }) => self.forget([name]),
                Err(error) => tracing::error!(%error, "a copy is not confirmed"),
            }
        }
        asked
    }

    /// The origin confirmed, to a question sent at `asked_at`, that `record` is the newest version.
    pub(crate) fn note_confirmed(&self, record: &VerifiedRecord, asked_at: Instant) {
        self.copies.lock().change(&record.name, |copy| {
            if copy.is_of(record) {
                copy.confirmed(record, asked_at);
            }
        });
    }

    /// The origin did not confirm `record`, and told of no later version.
    pub(crate) fn note_unconfirmed(&self, record: &VerifiedRecord, why: NoAnswer) {
        let now = clock::now();
        let note = |copy: &mut CopyState| {
            if !copy.is_of(record) {
                return false;
            }
            let (was_reachable, doubt) = (copy.is_reachable(), copy.doubt());
            copy.not_confirmed(why, now, rand::random());
            match why {
                NoAnswer::Away => was_reachable && doubt.is_none() && copy.freshness(now) != Freshness::Stale,
                NoAnswer::Withdrawn | NoAnswer::Unsettled => copy.doubt() != doubt,
            }
        };
        if self.copies.lock().change(&record.name, note) == Some(true) {
            self.tell(match why {
                NoAnswer::Away => Event::OriginAway(record.name.clone()),
                NoAnswer::Withdrawn => Event::Withdrawn(record.name.clone()),
                NoAnswer::Unsettled => Event::Unsettled(record.name.clone()),
            });
        }
    }

    /// `origin` did not answer: all its copies that are due are asked about later.
    pub(crate) fn note_away(&self, origin: &NodeId) {
        let (now, mut went_away) = (clock::now(), Vec::new());
        {
            let mut copies = self.copies.lock();
            for name in copies.due_of(origin, now) {
                let went = copies.change(&name, |copy| {
                    let was_told = !copy.is_reachable() || copy.doubt().is_some();
                    copy.not_confirmed(NoAnswer::Away, now, rand::random());
                    !was_told && copy.freshness(now) != Freshness::Stale
                });
                went_away.extend((went == Some(true)).then_some(name));
            }
        }
        went_away.into_iter().for_each(|name| self.tell(Event::OriginAway(name)));
    }

    /// What speaks against the copy of `record`, if that is the newest known version.
    pub(crate) fn doubt(&self, record: &VerifiedRecord) -> Option<Doubt> {
        if self.is_contested(record) {
            return Some(Doubt::Contested);
        }
        let copies = self.copies.lock();
        copies.get(&record.name).filter(|copy| copy.holds(record))?.doubt()
    }
}
