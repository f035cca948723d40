//! Copies of other origins' files: their freshness, and when to ask their origins.

use std::{collections::HashMap, time::Instant};

use nekoproto::{FileName, Freshness, NodeId, VerifiedRecord};

use super::{ENTRIES_AT_ONCE, Library, events::Event};
use crate::{
    state::freshness::{CopyState, NoAnswer},
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

    /// All outdated copies, with their origins.
    pub(crate) fn outdated(&self) -> Vec<(FileName, NodeId)> {
        let copies = self.copies.lock();
        let outdated = copies.iter().filter(|(_, copy)| copy.newest().is_some());
        outdated.map(|(name, copy)| (name.clone(), copy.held().origin)).collect()
    }

    /// The copies that their origins are to be asked about by `now`, by origin. Those of origins that are `passed`
    /// over are left out.
    pub(crate) fn due(&self, now: Instant, passed: impl Fn(&NodeId) -> bool) -> Due {
        let mut due = Due::default();
        for copy in self.copies.lock().values().filter(|copy| !passed(&copy.held().origin)) {
            if copy.ask_at() <= now {
                let of = due.origins.entry(copy.held().origin).or_default();
                of.is_doubtful |= !copy.is_reachable();
                of.asked.push(copy.asks_for().clone());
            } else {
                due.next = due.next.into_iter().chain([copy.ask_at()]).min();
            }
        }
        due
    }

    /// The origin confirmed, to a question sent at `asked_at`, that `record` is the newest version.
    pub(crate) fn note_confirmed(&self, record: &VerifiedRecord, asked_at: Instant) {
        if let Some(copy) = self.copies.lock().get_mut(&record.name).filter(|copy| is_of(copy, record)) {
            copy.confirmed(record, asked_at);
        }
    }

    /// The origin did not confirm `record`, and told of no later version.
    pub(crate) fn note_unconfirmed(&self, record: &VerifiedRecord, why: NoAnswer) {
        let now = clock::now();
        let is_news = {
            let mut copies = self.copies.lock();
            let Some(copy) = copies.get_mut(&record.name).filter(|copy| is_of(copy, record)) else {
                return;
            };
            let (was_reachable, was_withdrawn) = (copy.is_reachable(), copy.is_withdrawn());
            copy.not_confirmed(why, now, rand::random());
            match why {
                NoAnswer::Away => was_reachable && !was_withdrawn && copy.freshness(now) != Freshness::Stale,
                NoAnswer::Withdrawn => !was_withdrawn,
            }
        };
        if is_news {
            self.tell(match why {
                NoAnswer::Away => Event::OriginAway(record.name.clone()),
                NoAnswer::Withdrawn => Event::Withdrawn(record.name.clone()),
            });
        }
    }

    /// Whether the origin of the copy of `record` does not offer it any more.
    pub(crate) fn is_withdrawn(&self, record: &VerifiedRecord) -> bool {
        let copies = self.copies.lock();
        copies.get(&record.name).is_some_and(|copy| copy.held() == record && copy.is_withdrawn())
    }
}

/// Copies to be confirmed.
#[derive(Debug, Default)]
pub(crate) struct Due {
    /// By origin.
    pub(crate) origins: HashMap<NodeId, DueOf>,
    /// When a further copy is due.
    pub(crate) next: Option<Instant>,
}

/// Copies to be confirmed by one origin.
#[derive(Debug, Default)]
pub(crate) struct DueOf {
    /// Whether it did not answer the last question.
    pub(crate) is_doubtful: bool,
    /// What it is asked about.
    pub(crate) asked: Vec<VerifiedRecord>,
}

/// Whether `record` is the held or the newest version of `copy`.
fn is_of(copy: &CopyState, record: &VerifiedRecord) -> bool {
    copy.held() == record || copy.newest() == Some(record)
}
