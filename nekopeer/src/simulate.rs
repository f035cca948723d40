//! The decisions of a peer about one file, without sockets, disk and clock: for simulations in virtual time.
//!
//! All of them are those of `state`, of `library::subscribers` and of `storage::catalogue::numbering`. What is here is
//! how the rest of the crate calls them, with the disk as fields that survive a restart. It is simplified in that
//! - a peer has one file, one indexer, and at most one question and one download under way;
//! - writes to the catalogue do not fail, and a download takes the version that its source has.

use std::{sync::Arc, time::Instant};

use nekoproto::{
    ContentHash, FileName, Freshness, Held, Holder, Identity, ManifestHash, NodeId, Policy, Record, Verdict,
    VerifiedRecord, Verifier, Version,
};

use crate::{
    library::subscribers::Subscribers,
    state::{
        contest::{Judgment, Mine},
        copies::Copies,
        freshness::CopyState,
        outdated::{Ended, Need, Outdated},
        verdict::{later, verdict},
    },
    storage::catalogue::numbering::{Known, Numbered, Substance},
};

/// A data folder that publishes one file: `publish`, `serve::control`, `library::{learn, subscribers}`.
#[derive(Debug)]
pub struct Folder {
    identity: Identity,
    /// The file, but for its content and version.
    draft: Record,
    /// What the catalogue says.
    pub disk: Disk,
    /// The indexer has answered a registration since it started.
    is_registered: bool,
    began: Instant,
    subscribers: Subscribers,
}

/// What the catalogue says: kept over a restart, and what a backup restores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    entry: Option<VerifiedRecord>,
    /// A later version that was published with this key elsewhere.
    newest: Option<VerifiedRecord>,
    /// The indexer has listed the entry.
    pub is_told: bool,
    /// It has listed one of its versions.
    was_told: bool,
    /// When the entry was published.
    published_at: Option<Instant>,
}

/// What became of the version that is offered. It is to be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfferChange {
    /// It is a new one. Subscribers are to be told once the indexer has answered, or does not.
    Published {
        /// They are all whom it concerns, so that indexers need not tell each other.
        tells_all: bool,
    },
    /// It is one that was published elsewhere.
    Adopted,
}

impl Folder {
    /// A folder that has published nothing yet.
    #[must_use]
    pub fn new(identity: Identity, name: FileName, policy: Policy, now: Instant) -> Self {
        let (origin, version) = (identity.id(), Version::FIRST);
        let (content, manifest) = (ContentHash::from_bytes([0; 32]), ManifestHash::from_bytes([0; 32]));
        let draft = Record { origin, name, version, size: 1, content, manifest, policy, published_ms: 0 };
        let subscribers = Subscribers::new(now);
        Self { identity, draft, disk: Disk::default(), is_registered: false, began: now, subscribers }
    }

    /// It starts again, with what is on disk.
    pub fn restart(&mut self, now: Instant) {
        (self.is_registered, self.began, self.subscribers) = (false, now, Subscribers::new(now));
    }

    /// The version published here, unless a later one was published elsewhere: what is offered and served.
    #[must_use]
    pub fn offered(&self) -> Option<&VerifiedRecord> {
        self.disk.entry.as_ref().filter(|_| self.disk.newest.is_none())
    }

    /// The user publishes this content, and the network knows this version. `None` if it is published already, or no
    /// number is left.
    pub fn publish(
        &mut self,
        content: [u8; 32],
        network: Option<&VerifiedRecord>,
        now: Instant,
    ) -> Option<OfferChange> {
        let (content, manifest) = (ContentHash::from_bytes(content), ManifestHash::from_bytes(content));
        let draft = Record { content, manifest, ..self.draft.clone() };
        let (entry, newest) = (self.disk.entry.as_ref(), self.disk.newest.as_ref());
        let counter = entry.map(|entry| entry.version);
        match (Known { counter, entry, newest, network, floor: None }).number(Substance::of(&draft)) {
            Numbered::New(version) => {
                let tells_all = self.subscribers.knows_all(draft.policy.bound(), now);
                self.disk.published_at = Some(now);
                self.commit(Record { version, ..draft }, tells_all)
            }
            Numbered::Old(same) if entry != Some(same) => Some(self.adopt(same.clone())),
            Numbered::Old(_) | Numbered::UsedUp => None,
        }
    }

    /// Stores a new version; the number is on disk before anyone hears of it.
    fn commit(&mut self, record: Record, tells_all: bool) -> Option<OfferChange> {
        let entry = record.sign(&self.identity).ok()?;
        (self.disk.entry, self.disk.newest, self.disk.is_told) = (Some(entry), None, false);
        Some(OfferChange::Published { tells_all })
    }

    /// What is published here was published as `record` elsewhere.
    fn adopt(&mut self, record: VerifiedRecord) -> OfferChange {
        self.disk.newest.take_if(|newest| !newest.replaces(&record));
        (self.disk.entry, self.disk.is_told, self.disk.was_told) = (Some(record), true, true);
        OfferChange::Adopted
    }

    /// The indexer has listed `record`, or knows a `newer` version or another file under the number.
    pub fn registered(
        &mut self,
        record: &VerifiedRecord,
        newer: Option<VerifiedRecord>,
    ) -> Option<OfferChange> {
        if let Some(newer) = newer {
            return self.settle(newer, false);
        }
        self.is_registered = true;
        if self.disk.entry.as_ref() == Some(record) {
            (self.disk.is_told, self.disk.was_told) = (true, true);
        }
        None
    }

    /// A version of its own was heard, from anyone; what it published stands if that `is_wanted`.
    pub fn settle(&mut self, heard: VerifiedRecord, is_wanted: bool) -> Option<OfferChange> {
        let (record, newest) = (self.disk.entry.as_ref()?, self.disk.newest.as_ref());
        let is_pending = is_wanted || !self.disk.is_told;
        match (Mine { record, newest: newest.map(|newest| &**newest), is_pending }).judge(&heard)? {
            Judgment::Adopt => Some(self.adopt(heard)),
            Judgment::Renumber => {
                let known = [record, &heard].into_iter().chain(newest).map(|record| record.version);
                let version = known.max().and_then(Version::next)?;
                self.commit(Record { version, ..Record::clone(record) }, false)
            }
            Judgment::Superseded => {
                self.disk.newest = Some(heard);
                None
            }
        }
    }

    /// Whether the network was asked for its versions since it began: see `Library::is_asked`.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.is_registered && self.disk.is_told && self.disk.published_at.is_some_and(|at| at > self.began)
    }

    /// Whether others may be told of `record`: see `Library::hands_out`.
    fn hands_out(&self, record: &Record) -> bool {
        let is_pending = !self.disk.is_told && self.disk.entry.as_deref() == Some(record);
        !is_pending || (self.is_registered && self.disk.was_told)
    }

    /// The version that is served to those who download.
    #[must_use]
    pub fn served(&self) -> Option<VerifiedRecord> {
        self.offered().filter(|record| self.hands_out(record)).cloned()
    }

    /// Answers `asker`, and subscribes it under a policy that pushes.
    pub fn confirm(&self, held: &Held, asker: Holder, now: Instant) -> Verdict {
        let own = self.disk.entry.as_ref().map(|entry| (entry, self.disk.newest.as_ref()));
        let answer = verdict(own, held, |newest| self.hands_out(newest));
        let (Record { name, policy, .. }, version) = (&self.draft, held.version);
        if answer == Verdict::Current && policy.pushes() {
            self.subscribers.subscribe(name, version, version, asker, policy.bound(), now);
        }
        answer
    }

    /// `node` has acknowledged `record`.
    pub fn acknowledged(&self, record: &Record, node: &NodeId) {
        self.subscribers.acknowledge(&self.draft.name, record.version, node);
    }

    /// What was published so shortly before it started that a copy of the version before may still be fresh, though
    /// nobody knows any more who holds one.
    #[must_use]
    pub fn untold(&self, now: Instant) -> Option<VerifiedRecord> {
        let bound = self.draft.policy.bound();
        let is_recent = self.disk.published_at.is_some_and(|at| now.saturating_duration_since(at) < bound);
        let is_due = self.draft.policy.pushes() && is_recent && !self.subscribers.knows_all(bound, now);
        self.offered().filter(|_| is_due).cloned()
    }

    /// Whom to tell of `record` directly, while it is the newest.
    #[must_use]
    pub fn told_directly(&self, record: &VerifiedRecord, now: Instant) -> Vec<Holder> {
        if self.disk.entry.as_ref() != Some(record) || !self.hands_out(record) {
            return Vec::new();
        }
        let known = self.subscribers.of(&self.draft.name, now).into_iter();
        known.filter(|known| known.version < record.version).map(|known| known.holder).collect()
    }
}

/// A reader that keeps a copy of one file and downloads newer versions: `library::{learn, copies}`, `watch` and
/// `peers::origins`.
#[derive(Debug)]
pub struct Reader {
    verifier: Arc<Verifier>,
    /// The version on disk.
    pub held: VerifiedRecord,
    /// The newest later one, on disk too.
    newest: Option<VerifiedRecord>,
    copies: Copies,
    outdated: Outdated,
}

impl Reader {
    /// A reader with the copy `held` on disk; [`restart`](Self::restart) starts it.
    #[must_use]
    pub fn new(held: VerifiedRecord, verifier: Arc<Verifier>) -> Self {
        Self { verifier, held, newest: None, copies: Copies::default(), outdated: Outdated::default() }
    }

    /// It starts again, with what is on disk.
    pub fn restart(&mut self, now: Instant) {
        (self.copies, self.outdated) = (Copies::default(), Outdated::default());
        self.watch(now);
        self.newest.iter().for_each(|newest| add(&mut self.outdated, newest));
    }

    fn watch(&mut self, now: Instant) {
        let state = CopyState::new(&self.held, self.newest.clone(), None, now);
        self.copies.insert(&self.held.name, self.held.origin, state);
    }

    /// The newest version that it knows.
    #[must_use]
    pub fn known(&self) -> &VerifiedRecord {
        self.newest.as_ref().unwrap_or(&self.held)
    }

    /// How fresh the copy is.
    #[must_use]
    pub fn freshness(&self, now: Instant) -> Freshness {
        let copy = self.copies.get(&self.held.name).filter(|copy| copy.holds(&self.held));
        copy.map_or(Freshness::Unverified, |copy| copy.freshness(now))
    }

    /// What begins at `now`: a download of the newest version, a question to the origin whether the newest known
    /// version is the newest; and when something is next.
    pub fn wake(&mut self, now: Instant) -> (bool, bool, Option<Instant>) {
        let (fetches, asks) = (!self.outdated.begin(now).is_empty(), !self.copies.ask(now).is_empty());
        (fetches, asks, self.outdated.next_at(now).into_iter().chain(self.copies.next_at(now)).min())
    }

    /// A version was heard of, from anyone.
    pub fn learn(&mut self, record: VerifiedRecord) {
        if record.replaces(self.known()) {
            self.copies.learn(&record);
            add(&mut self.outdated, &record);
            self.newest = Some(record);
        }
    }

    /// The question about `copy` was answered; `None` if no answer came in time. `random` is uniform in 0..1. Returns
    /// whether the origin is to be sent `copy`, since it does not know it.
    pub fn answered(
        &mut self,
        (copy, asked_at): (&VerifiedRecord, Instant),
        verdict: Option<Verdict>,
        now: Instant,
        random: f64,
    ) -> bool {
        self.copies.asked(copy.origin, verdict.is_some(), now, random);
        let is_lost = verdict == Some(Verdict::Unknown);
        match later(copy, verdict, &self.verifier) {
            Ok(None) => {
                self.copies.change_of(copy, |state| state.confirmed(copy, asked_at, random));
            }
            Ok(Some(record)) => {
                self.copies.change_of(copy, CopyState::found_later);
                self.learn(record);
            }
            Err(why) => {
                self.copies.change_of(copy, |state| state.not_confirmed(why, now, random));
            }
        }
        is_lost
    }

    /// The download has ended; `None` if it failed. Returns whether another version is held, which is to be registered.
    pub fn fetched(&mut self, found: Option<VerifiedRecord>, now: Instant, random: f64) -> bool {
        let newer = found.filter(|record| self.newest.is_some() && record.replaces(&self.held));
        let (is_wanted, is_newer) = (self.newest.is_some(), newer.is_some());
        if let Some(record) = newer {
            self.newest.take_if(|newest| !newest.replaces(&record));
            self.held = record;
            self.watch(now);
        }
        let how = match (is_wanted, is_newer) {
            (true, false) => Ended::Failed,
            (true, true) if self.newest.is_some() => Ended::Outdated,
            _ => Ended::Done,
        };
        self.outdated.ended(&self.held.name, how, now, random);
        is_newer
    }
}

fn add(outdated: &mut Outdated, newest: &VerifiedRecord) {
    let need = Need { origin: newest.origin, size: newest.size, late_at: None };
    outdated.add(newest.name.clone(), need);
}
