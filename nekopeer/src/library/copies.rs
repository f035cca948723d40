//! Copies of other origins' files: their freshness, and when to ask their origins.

use std::time::{Duration, Instant};

use nekoproto::{FileName, Freshness, NodeId, VerifiedRecord};
use serde::{Deserialize, Serialize};

use super::{Library, events::Event};
use crate::{
    failure::{Failure, Reason},
    state::{
        freshness::{CopyState, NoAnswer},
        outdated::Need,
    },
    storage::catalogue::{Entry, Preference, PreferenceChange, ReaderState},
    util::clock,
};

/// When the origin of a copy confirmed it last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confirmed {
    /// When the question was sent, in Unix time in milliseconds.
    pub at_ms: u64,
    /// Until when the copy counts as fresh, the same.
    pub until_ms: u64,
}

impl Library {
    pub(crate) fn confirmed_at(&self, record: &VerifiedRecord) -> Option<Confirmed> {
        let (since, bound) = self.confirmed_since(record)?;
        let ms = |time: Duration| u64::try_from(time.as_millis()).ok();
        let at_ms = clock::unix_ms().checked_sub(ms(since)?)?;
        Some(Confirmed { at_ms, until_ms: at_ms + ms(bound)? })
    }

    pub(crate) fn keep(&self, entries: &[Entry]) {
        for Entry { record, .. } in entries {
            let name = &record.name;
            let copy = CopyState::new(record, None, self.wanted_bound(name), clock::now());
            self.copies.lock().insert(name, record.origin, copy);
            // News is stored, and then noted in `copies`: the catalogue knows what came before this copy was in it.
            let newest = self.catalogue.get(name).and_then(|entry| entry.newest.clone());
            if let Some(newest) = newest.filter(|newest| newest.replaces(record)) {
                self.copies.lock().change(name, |copy| copy.learn(&newest));
            }
        }
        self.wake.notify_one();
    }

    /// How long a confirmation of the copy of `name` counts at most, if the reader says so. Blocking.
    pub(super) fn wanted_bound(&self, name: &FileName) -> Option<Duration> {
        self.preference(name).bound(self.ttr)
    }

    /// What the reader wants of the copy of `name`; if that cannot be read, what it wants of all. Blocking.
    pub(crate) fn preference(&self, name: &FileName) -> Preference {
        self.catalogue.reader(name).map(|reader| reader.preference).unwrap_or_else(|error| {
            tracing::error!(%error, %name, "what is wanted of the name is not known");
            Preference::default()
        })
    }

    /// Changes what the reader wants of the copies of `names`; a bound counts at once. Blocking.
    pub(crate) fn prefer(&self, names: &[FileName], change: PreferenceChange) -> Result<(), Failure> {
        let change = |reader: &mut ReaderState| reader.preference = change.over(reader.preference);
        self.catalogue.change_readers(names, change)?;
        for name in names {
            let Some(entry) = self.catalogue.get(name).filter(|entry| !self.catalogue.is_own(entry)) else {
                continue;
            };
            let (bound, now) = (self.wanted_bound(name), clock::now());
            self.copies.lock().change(name, |copy| copy.limited(&entry.record, bound, now));
        }
        self.wake.notify_one();
        Ok(())
    }

    /// Starts to watch the copies among `entries` that are not watched yet. Under the name of one that is, a later
    /// version may have been stored since `entries` were read: it stays.
    pub(crate) fn watch<'a>(&self, entries: impl Iterator<Item = &'a Entry>) {
        let now = clock::now();
        let found =
            entries.filter(|entry| !self.catalogue.is_own(entry)).map(|Entry { record, newest, .. }| {
                (record, CopyState::new(record, newest.clone(), self.wanted_bound(&record.name), now))
            });
        let found: Vec<_> = found.collect(); // before others wait for the lock
        let mut copies = self.copies.lock();
        for (record, copy) in found {
            if copies.get(&record.name).is_none() {
                copies.insert(&record.name, record.origin, copy);
            }
        }
    }

    pub(crate) fn watch_named<'a>(&self, names: impl Iterator<Item = &'a FileName>) {
        let unwatched: Vec<&FileName> = {
            let copies = self.copies.lock();
            names.filter(|name| copies.get(name).is_none()).collect()
        };
        let entries: Vec<_> = unwatched.into_iter().filter_map(|name| self.catalogue.get(name)).collect();
        self.watch(entries.iter().map(|entry| &**entry));
    }

    pub(crate) fn watch_all(&self) -> Result<(), Failure> {
        let len = self.catalogue.len()?;
        self.copies.lock().reserve(len);
        self.catalogue.pages().try_for_each(|page| page.map(|page| self.watch(page.iter().flatten())))
    }

    /// Ends what was interrupted in the placing of `name`, as
    /// [`Catalogue::settle`](crate::storage::catalogue::Catalogue::settle); a copy that reached its place is
    /// watched. Blocking.
    pub(crate) fn settle_placing(&self, name: &FileName) -> Result<(), Failure> {
        if let Some(settled) = self.catalogue.settle(name)? {
            self.keep(&[settled]);
        }
        Ok(())
    }

    pub(crate) fn forget<'a>(&self, names: impl IntoIterator<Item = &'a FileName>) {
        let mut copies = self.copies.lock();
        names.into_iter().for_each(|name| copies.remove(name));
    }

    fn copy_of<T>(&self, record: &VerifiedRecord, look: impl FnOnce(&CopyState) -> T) -> Option<T> {
        self.copies.lock().get(&record.name).filter(|copy| copy.holds(record)).map(look)
    }

    /// The freshness of the copy of `record`: fresh only if the origin confirmed it within the bound.
    pub(crate) fn freshness(&self, record: &VerifiedRecord) -> Freshness {
        self.copy_of(record, |copy| copy.freshness(clock::now())).unwrap_or(Freshness::Unverified)
    }

    /// How long ago the question was sent that the origin of the copy of `record` confirmed last, and how long
    /// that counts.
    pub(super) fn confirmed_since(&self, record: &VerifiedRecord) -> Option<(Duration, Duration)> {
        let (at, bound) = self.copy_of(record, CopyState::confirmation)??;
        Some((clock::now().saturating_duration_since(at), bound))
    }

    /// Whether asking the origin of the copy of `record` now may tell more than is known: not while it is away,
    /// since it is then asked again at growing intervals.
    pub(crate) fn is_worth_asking(&self, record: &VerifiedRecord) -> bool {
        self.copies.lock().get(&record.name).is_none_or(CopyState::is_reachable)
    }

    pub(crate) fn is_outdated(&self, name: &FileName) -> bool {
        self.copies.lock().get(name).is_some_and(|copy| copy.newest().is_some())
    }

    /// The newer version that is to take the place of the copy of `name`, if one is known and not passed over. A version
    /// that withdraws the name takes no place. Blocking.
    pub(crate) fn wanted(&self, name: &FileName) -> Option<VerifiedRecord> {
        let newest = self.catalogue.get(name)?.newest.clone()?;
        let reader = self.catalogue.reader(name).unwrap_or_default();
        (!newest.is_withdrawal() && !reader.passes_over(&newest)).then_some(newest)
    }

    /// What decides how soon the newest version of `name` is downloaded. What is not held is late. Blocking.
    pub(crate) fn need(&self, name: &FileName, origin: NodeId) -> Need {
        let Some(held) = self.catalogue.get(name) else {
            return Need { origin, size: u64::MAX, late_at: Some(clock::now()) };
        };
        let size = held.newest.as_ref().unwrap_or(&held.record).size;
        let confirmed_at = || Some(self.copies.lock().get(name)?.confirmation()?.0);
        let late_at = |bound| confirmed_at().map_or_else(clock::now, |at| at + bound);
        Need { origin, size, late_at: self.wanted_bound(name).map(late_at) }
    }

    pub(crate) fn outdated(&self) -> Vec<(FileName, NodeId)> {
        self.copies.lock().outdated().map(|(name, origin)| (name.clone(), origin)).collect()
    }

    /// The questions that begin now, and when there may be a further one if none of them ends before.
    pub(crate) fn ask(&self, now: Instant) -> (Vec<(NodeId, Vec<FileName>)>, Option<Instant>) {
        let mut copies = self.copies.lock();
        (copies.ask(now), copies.next_at(now))
    }

    pub(crate) fn asked(&self, origin: NodeId, is_answered: bool) {
        self.copies.lock().asked(origin, is_answered, clock::now(), rand::random());
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
                Ok(_) | Err(Failure { reason: Reason::DamagedEntry, .. }) => self.forget([name]),
                Err(error) => tracing::error!(%error, "a copy is not confirmed"),
            }
        }
        asked
    }

    pub(crate) fn note_confirmed(&self, record: &VerifiedRecord, asked_at: Instant) {
        self.copies.lock().change_of(record, |copy| copy.confirmed(record, asked_at, rand::random()));
    }

    pub(crate) fn postpone(&self, record: &VerifiedRecord) {
        let now = clock::now();
        self.copies.lock().change_of(record, |copy| copy.postpone(now));
    }

    pub(crate) fn note_found_later(&self, record: &VerifiedRecord) {
        self.copies.lock().change_of(record, CopyState::found_later);
    }

    /// The origin did not confirm `record`, and told of no later version.
    pub(crate) fn note_unconfirmed(&self, record: &VerifiedRecord, why: NoAnswer) {
        let now = clock::now();
        let note = |copy: &mut CopyState| {
            let (was_reachable, was_withdrawn) = (copy.is_reachable(), copy.is_withdrawn());
            copy.not_confirmed(why, now, rand::random());
            match why {
                NoAnswer::Away => was_reachable && !was_withdrawn && copy.freshness(now) != Freshness::Stale,
                NoAnswer::Withdrawn => !was_withdrawn,
            }
        };
        if self.copies.lock().change_of(record, note) == Some(true) {
            self.tell(match why {
                NoAnswer::Away => Event::OriginAway(record.name.clone()),
                NoAnswer::Withdrawn => Event::Withdrawn { name: record.name.clone(), version: None },
            });
        }
    }

    /// Whether the origin of the copy of `record`, the newest known version, no longer shares it.
    pub(crate) fn is_withdrawn(&self, record: &VerifiedRecord) -> bool {
        self.copy_of(record, |copy| copy.is_withdrawn()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::future::join_all;
    use nekoproto::ContentHash;
    use tempfile::TempDir;
    use testkit::goods::record;

    use super::*;
    use crate::{
        library::{events::Event, tests::library},
        storage::catalogue::model_tests::copy_of,
    };

    fn opened() -> (TempDir, Arc<Library>) {
        let folder = tempfile::tempdir().unwrap();
        let library = library(folder.path(), true);
        (folder, library)
    }

    /// A copy of a version whose origin is another node.
    fn stored(folder: &TempDir, library: &Library, version: u64) -> Entry {
        let path = folder.path().join("a");
        std::fs::write(&path, version.to_string()).unwrap();
        let content = ContentHash::from_bytes([u8::try_from(version).unwrap(); 32]);
        let record = record(1, "a", version, |record| record.content = content);
        let copy = copy_of(record, &path);
        library.catalogue.put_copy(copy.clone()).unwrap();
        copy.entry
    }

    #[test]
    fn a_page_that_was_read_before_a_download_ended_does_not_hide_its_version() {
        let (folder, library) = opened();
        let read_before = stored(&folder, &library, 1);
        let downloaded = stored(&folder, &library, 2);
        library.keep(std::slice::from_ref(&downloaded));
        library.watch([&read_before].into_iter());
        library.note_confirmed(&downloaded.record, clock::now());
        assert_eq!(library.freshness(&downloaded.record), Freshness::Fresh);
    }

    /// The copy was replaced by that of another origin's file after the news was stored.
    #[test]
    fn news_of_one_origin_says_nothing_of_a_copy_of_another() {
        let (folder, library) = opened();
        let held = stored(&folder, &library, 1);
        library.watch([&held].into_iter());
        library.tell_noted(&[record(2, "a", 9, |_| {})], &[]);
        assert!(!library.is_outdated(&held.record.name));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn news_that_come_at_once_are_told_in_their_order() {
        let (folder, library) = opened();
        let held = stored(&folder, &library, 1);
        library.watch([&held].into_iter());
        let mut events = library.events();
        let news = (2..1000).map(|n| library.learn(vec![record(1, "a", n, |_| {})]));
        assert!(join_all(news).await.into_iter().all(|is_noted| is_noted));
        let mut told = Vec::new();
        while let Ok(Event::Invalidated { newest, .. }) = events.try_recv() {
            told.push(newest.get());
        }
        assert!(told.is_sorted() && told.last() == Some(&999), "{told:?}");
    }
}
