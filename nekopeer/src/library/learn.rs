//! [`News`]: what is to be acted on by [`watch`](crate::watch). Newer versions are recorded durably before; of versions that
//! were published here it is decided whether others may be told of them before an indexer has listed their numbers.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    mem,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use nekoproto::{FileName, NodeId, Record, VerifiedRecord};

use super::{Library, events::Event};
use crate::{
    state::{
        contest::{Judgment, Mine},
        freshness::NoAnswer,
    },
    storage::catalogue::Entry,
    util::clock,
};

/// What was not acted on yet.
#[derive(Debug, Default)]
pub(crate) struct News {
    /// Copies of which a newer version was recorded, and their origins.
    pub(crate) outdated: BTreeMap<FileName, NodeId>,
    /// Names whose newest version somebody waits for, and their origins.
    pub(crate) wanted: BTreeMap<FileName, NodeId>,
    /// Files found changed on disk, or as they were again.
    pub(crate) changed: BTreeSet<FileName>,
    /// Newer versions that the own indexers may not know.
    pub(crate) heard: Vec<VerifiedRecord>,
    /// Versions of this node that its catalogue does not have.
    pub(crate) own: BTreeMap<FileName, VerifiedRecord>,
    /// Names whose numbers a publish settles by itself, and by how many publishes.
    settling: HashMap<FileName, usize>,
}

impl Library {
    /// Notes what is to be acted on, and has [`watch`](crate::watch) look.
    pub(crate) fn note<T>(&self, note: impl FnOnce(&mut News) -> T) -> T {
        let noted = note(&mut self.news.lock());
        self.wake.notify_one();
        noted
    }

    /// Takes all news but that of names that a running publish settles by itself.
    pub(crate) fn take_news(&self) -> News {
        let mut news = self.news.lock();
        let News { own, settling, .. } = &mut *news;
        let own = own.extract_if(.., |name, _| settling.contains_key(name)).collect();
        let settling = mem::take(settling);
        mem::replace(&mut news, News { own, settling, ..News::default() })
    }

    /// Records verified records durably; returns once that is done. [`watch`](crate::watch) acts on them in
    /// the background. False if a write to the catalogue failed.
    ///
    /// # Cancel safety
    /// Safe: it runs to its end, so that a caller that disconnects cannot leave news half recorded.
    pub(crate) async fn learn(self: &Arc<Self>, records: Vec<VerifiedRecord>) -> bool {
        if records.is_empty() {
            return true;
        }
        let library = Arc::clone(self);
        let noting = async move {
            let note = move |library: &Arc<Self>| {
                let (own, mut others): (Vec<_>, Vec<_>) =
                    records.into_iter().partition(|record| record.origin == library.node);
                library.note_own(own);
                others.retain(|record| {
                    let Ok(held) = library.catalogue.entry(&record.name) else { return true }; // storing it tells whether it can be acknowledged
                    held.is_some_and(|held| record.replaces(held.newest.as_ref().unwrap_or(&held.record)))
                });
                others
            };
            let newer = library.blocking(note).await;
            newer.is_empty() || library.note_newer(newer).await
        };
        self.tasks.tracker.spawn(noting).await.unwrap_or_else(|error| {
            tracing::error!(%error, "noting newer versions failed");
            false
        })
    }

    async fn note_newer(self: &Arc<Self>, newer: Vec<VerifiedRecord>) -> bool {
        let stored = {
            let newer = newer.clone();
            self.blocking(move |library| library.catalogue.note_newer(&newer)).await
        };
        let is_noted = stored.is_ok();
        let mut outdated = Vec::new();
        match stored {
            Ok(entries) => outdated = self.tell_noted(&newer, &entries),
            Err(error) => {
                // What cannot be stored is not known: the origin is asked again after a pause.
                let now = clock::now();
                for record in &newer {
                    let was_told = self.copies.lock().change(&record.name, |copy| {
                        let was_told = !copy.is_reachable();
                        copy.not_confirmed(NoAnswer::Away, now, rand::random());
                        was_told
                    });
                    if was_told != Some(true) {
                        self.tell(Event::Failed { name: record.name.clone(), why: error.to_string() });
                    }
                }
            }
        }
        self.note(|news| {
            news.outdated.extend(outdated);
            news.heard.extend(newer);
        });
        is_noted
    }

    /// Tells of the newer versions of `entries`, which have been stored; returns their names and origins. What was
    /// overtaken meanwhile is not told: nobody hears of a version after a later one.
    pub(super) fn tell_noted(
        &self,
        newer: &[VerifiedRecord],
        entries: &[Arc<Entry>],
    ) -> Vec<(FileName, NodeId)> {
        // After the write: what is visible in memory is on disk. Locked while it is told.
        let mut copies = self.copies.lock();
        for record in newer {
            copies.learn(record);
        }
        let outdated = entries.iter().filter_map(|entry| {
            let (newest, name, held) =
                (entry.newest.as_ref()?, entry.record.name.clone(), entry.record.version);
            if copies.get(&name).is_none_or(|copy| copy.known() <= newest.version) {
                self.tell(match newest.is_withdrawal() {
                    true => Event::Withdrawn { name: name.clone(), version: Some(newest.version) },
                    false => Event::Invalidated { name: name.clone(), held, newest: newest.version },
                });
            }
            Some((name, newest.origin))
        });
        outdated.collect()
    }

    /// Queues those of `heard`, signed by this node, that the catalogue does not have: see
    /// [`contest`](crate::state::contest).
    fn note_own(&self, heard: Vec<VerifiedRecord>) {
        if !self.is_serving {
            return; // it offers nothing, and tells no user
        }
        for record in heard {
            if self.judge(&record, false).is_some() {
                self.note(|news| {
                    let known = news.own.get(&record.name);
                    if known.is_none_or(|known| record.version >= known.version) {
                        news.own.insert(record.name.clone(), record);
                    }
                });
            }
        }
    }

    /// What to do about `heard`, signed by this node; `None`: nothing. Whatever the network
    /// relies on, what `is_wanted` stands.
    pub(crate) fn judge(&self, heard: &VerifiedRecord, is_wanted: bool) -> Option<Judgment> {
        let entry = self.catalogue.get_stated(&heard.name).filter(|entry| self.catalogue.is_own(entry))?;
        let is_pending = is_wanted || self.catalogue.is_pending(&entry.record);
        let newest = entry.newest.as_deref();
        Mine { record: &entry.record, newest, is_pending }.judge(heard)
    }

    /// Whether another version of `name` was heard with this key, and it is not settled yet which one stands.
    pub(super) fn is_heard(&self, name: &FileName) -> bool {
        self.news.lock().own.contains_key(name)
    }

    /// Whether a publish settles the number of `name` by itself, and then tells its subscribers.
    pub(crate) fn is_settling(&self, name: &FileName) -> bool {
        self.news.lock().settling.contains_key(name)
    }

    /// Whether other nodes may be told of this version, which was published here. While no indexer has listed it, its
    /// number may have been used before the data folder was restored: unless an indexer has answered since this process
    /// began, and has listed a version of the name before.
    pub(crate) fn hands_out(&self, record: &Record) -> bool {
        match self.catalogue.pending(record) {
            None => true,
            Some(pending) => {
                let is_sure =
                    self.is_alone || (!pending.is_new && self.is_registered.load(Ordering::Acquire));
                is_sure && !self.is_heard(&record.name)
            }
        }
    }

    /// Whether the network was asked for versions of this name since this process began, as it is before one is published.
    /// An indexer that was connected then tells of those that others publish with this key.
    pub(crate) fn is_asked(&self, own: &VerifiedRecord) -> bool {
        let age = clock::unix_ms().checked_sub(own.published_ms).map(Duration::from_millis);
        let is_of_this_process =
            age.is_some_and(|age| age < clock::now().saturating_duration_since(self.began));
        is_of_this_process && self.is_registered.load(Ordering::Acquire) && !self.catalogue.is_pending(own)
    }

    /// Whether a publish tells everyone itself whom this version concerns, so that indexers need not tell each other:
    /// everyone whose copy may be fresh. A withdrawal concerns all who list the name.
    pub(crate) fn tells_all(&self, record: &Record) -> bool {
        let knows_all = self.subscribers.knows_all(record.policy.bound(), clock::now());
        knows_all && self.is_settling(&record.name) && !record.is_withdrawal()
    }

    /// Which of these were published here so shortly before this process began that a copy of the version before may
    /// still be fresh, though it is not known any more who holds one.
    pub(crate) fn untold<'a>(
        &self,
        records: impl Iterator<Item = &'a VerifiedRecord>,
    ) -> Vec<VerifiedRecord> {
        let (now, now_ms) = (clock::now(), clock::unix_ms());
        let is_untold = |record: &&VerifiedRecord| {
            let bound = record.policy.bound();
            record.origin == self.node
                && record.policy.pushes()
                && u128::from(now_ms.saturating_sub(record.published_ms)) < bound.as_millis()
                && !self.subscribers.knows_all(bound, now)
        };
        records.filter(is_untold).cloned().collect()
    }

    /// While the guard lives, a publish settles the numbers of `names` by itself.
    pub(crate) fn settle(self: &Arc<Self>, names: Vec<FileName>) -> Settling {
        let mut news = self.news.lock();
        for name in &names {
            *news.settling.entry(name.clone()).or_default() += 1;
        }
        drop(news);
        Settling { library: Arc::clone(self), names }
    }
}

#[derive(Debug)]
pub(crate) struct Settling {
    library: Arc<Library>,
    names: Vec<FileName>,
}

impl Settling {
    /// Keeps the names for which `is_kept` says so, in their order, and releases the others.
    pub(crate) fn keep(&mut self, is_kept: impl Iterator<Item = bool>) {
        let mut released = Settling { library: Arc::clone(&self.library), names: Vec::new() };
        let mut is_kept = is_kept.fuse();
        for name in std::mem::take(&mut self.names) {
            let names = if is_kept.next() == Some(true) { &mut self.names } else { &mut released.names };
            names.push(name);
        }
    }

    pub(crate) fn take(&self) -> Vec<VerifiedRecord> {
        let own = &mut self.library.news.lock().own;
        if own.is_empty() {
            return Vec::new();
        }
        self.names.iter().filter_map(|name| own.remove(name)).collect()
    }
}

impl Drop for Settling {
    fn drop(&mut self) {
        self.library.note(|News { settling, .. }| {
            for name in &self.names {
                if let Some(publishes) = settling.get_mut(name) {
                    *publishes -= 1;
                    if *publishes == 0 {
                        settling.remove(name);
                    }
                }
            }
            if settling.is_empty() {
                settling.shrink_to_fit();
            }
        });
    }
}
