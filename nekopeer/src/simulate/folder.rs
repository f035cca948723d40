//! A data folder that publishes one file: `publish`, `serve::control`, `library::{learn, subscribers}`.

use std::time::Instant;

use nekoproto::{
    ContentHash, FileName, Held, Holder, Identity, ManifestHash, NodeId, Policy, Record, Verdict,
    VerifiedRecord, Version,
};

use crate::{
    library::subscribers::Subscribers,
    state::{
        contest::{Judgment, Mine},
        verdict::verdict,
    },
    storage::catalogue::numbering::{Known, Numbered, Substance},
};

/// A data folder that publishes one file.
#[derive(Debug)]
pub struct Folder {
    identity: Identity,
    /// The file, but for its content and version.
    draft: Record,
    /// What the catalogue says.
    pub disk: Disk,
    /// The indexer has answered a registration since it started.
    is_registered: bool,
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
        Self { identity, draft, disk: Disk::default(), is_registered: false, subscribers }
    }

    /// It starts again, with what is on disk.
    pub fn restart(&mut self, now: Instant) {
        (self.is_registered, self.subscribers) = (false, Subscribers::new(now));
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
