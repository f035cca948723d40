//! A data folder that publishes one file: `publish`, `serve::control`, `library::{learn, subscribers}`.

use std::{sync::Arc, time::Instant};

use nekoproto::{
    ContentHash, FileName, Held, Holder, Identity, ManifestHash, NodeId, Policy, Record, SignedRecord,
    Verdict, VerifiedRecord, Verifier, Version,
};

use super::Act;
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
    verifier: Arc<Verifier>,
    name: FileName,
    policy: Policy,
    disk: Disk,
    /// The indexer has answered a registration since it started.
    is_registered: bool,
    subscribers: Subscribers,
}

/// What the catalogue says: kept over a restart, and what a backup restores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    counter: Option<Version>,
    entry: Option<VerifiedRecord>,
    /// A later version that was published with this key elsewhere.
    newest: Option<VerifiedRecord>,
    /// The indexer has listed the entry.
    is_told: bool,
    /// It has listed none of its versions.
    is_new: bool,
    /// When the entry was published.
    published_at: Option<Instant>,
}

impl Folder {
    /// A folder that has published nothing yet.
    #[must_use]
    pub fn new(
        identity: Identity,
        name: FileName,
        policy: Policy,
        verifier: &Arc<Verifier>,
        now: Instant,
    ) -> Self {
        Self {
            identity,
            verifier: Arc::clone(verifier),
            name,
            policy,
            disk: Disk { is_new: true, ..Disk::default() },
            is_registered: false,
            subscribers: Subscribers::new(now),
        }
    }

    /// It starts again, with its own disk or another.
    pub fn restart(&mut self, disk: Option<Disk>, now: Instant) {
        (self.is_registered, self.subscribers) = (false, Subscribers::new(now));
        self.disk = disk.unwrap_or_else(|| self.disk.clone());
    }

    /// A copy of its disk.
    #[must_use]
    pub fn backup(&self) -> Disk {
        self.disk.clone()
    }

    /// The version published here, unless a later one was published elsewhere: what is offered and served.
    #[must_use]
    pub fn offered(&self) -> Option<&VerifiedRecord> {
        self.disk.entry.as_ref().filter(|_| self.disk.newest.is_none())
    }

    /// What is to be registered with the indexer, which lists nothing of this peer.
    #[must_use]
    pub fn offer(&self) -> Option<Act> {
        let is_new = !self.disk.is_told;
        self.offered().map(|record| Act::Offer { record: record.clone(), is_new, announce: is_new })
    }

    /// The user publishes this content, and the network knows this version; none if it is published already, or no
    /// number is left.
    pub fn publish(&mut self, content: [u8; 32], network: Option<&VerifiedRecord>, now: Instant) -> Vec<Act> {
        let Disk { counter, entry, newest, .. } = &self.disk;
        let (content, manifest) = (ContentHash::from_bytes(content), ManifestHash::from_bytes(content));
        let known =
            Known { counter: *counter, entry: entry.as_ref(), newest: newest.as_ref(), network, floor: None };
        let version = match known.number(Substance { content, manifest, policy: self.policy }) {
            Numbered::New(version) => version,
            Numbered::Old(same) if entry.as_ref() != Some(same) => {
                let same = same.clone();
                return self.adopt(same);
            }
            Numbered::Old(_) | Numbered::UsedUp => return Vec::new(),
        };
        let (origin, name, policy) = (self.identity.id(), self.name.clone(), self.policy);
        let record = Record { origin, name, version, size: 1, content, manifest, policy, published_ms: 0 };
        let tells_all = self.subscribers.knows_all(policy.bound(), now);
        let acts = self.commit(record, !tells_all);
        self.disk.published_at = Some(now);
        acts
    }

    /// Stores a new version; the number is on disk before anyone hears of it.
    fn commit(&mut self, record: Record, announce: bool) -> Vec<Act> {
        let Ok(record) = record.sign(&self.identity) else { return Vec::new() };
        let (counter, entry) = (Some(record.version), Some(record.clone()));
        self.disk = Disk { counter, entry, newest: None, is_told: false, ..self.disk };
        vec![Act::Offer { record: record.clone(), is_new: true, announce }, Act::Announce(record)]
    }

    /// The indexer has listed `record`, or knows a `newer` version or another file under the number.
    pub fn registered(&mut self, record: &VerifiedRecord, newer: Option<SignedRecord>) -> Vec<Act> {
        if let Some(newer) = newer {
            return self.hear(newer);
        }
        self.is_registered = true;
        if self.disk.entry.as_ref() == Some(record) {
            (self.disk.is_told, self.disk.is_new) = (true, false);
        }
        Vec::new()
    }

    /// A version that is signed with this key arrives, from anyone.
    pub fn hear(&mut self, heard: SignedRecord) -> Vec<Act> {
        let heard = self.verifier.verify(heard).ok().filter(|heard| heard.origin == self.identity.id());
        heard.map_or_else(Vec::new, |heard| self.settle(heard, false))
    }

    /// A version of its own was heard; what it published stands if that `is_wanted`.
    pub(crate) fn settle(&mut self, heard: VerifiedRecord, is_wanted: bool) -> Vec<Act> {
        let Some(record) = self.disk.entry.clone() else { return Vec::new() };
        let newest = self.disk.newest.as_deref();
        let is_pending = is_wanted || !self.disk.is_told;
        match (Mine { record: &record, newest, is_pending }).judge(&heard) {
            None => Vec::new(),
            Some(Judgment::Adopt) => self.adopt(heard),
            Some(Judgment::Renumber) => {
                let known = self.disk.newest.as_ref().map(|newest| newest.version);
                let last = self.disk.counter.max(known).max(Some(heard.version));
                let version = last.and_then(Version::next);
                version.map_or_else(Vec::new, |version| {
                    self.commit(Record { version, ..Record::clone(&record) }, true)
                })
            }
            Some(Judgment::Superseded) => {
                self.disk.newest = Some(heard);
                Vec::new()
            }
        }
    }

    /// What is published here was published as `record` elsewhere.
    fn adopt(&mut self, record: VerifiedRecord) -> Vec<Act> {
        self.disk.counter = self.disk.counter.max(Some(record.version));
        self.disk.newest.take_if(|newest| !newest.replaces(&record));
        (self.disk.entry, self.disk.is_told, self.disk.is_new) = (Some(record.clone()), true, false);
        vec![Act::Offer { record, is_new: false, announce: false }]
    }

    /// Whether others may be told of `record`: see `Library::hands_out`.
    fn hands_out(&self, record: &Record) -> bool {
        let is_pending =
            !self.disk.is_told && self.disk.entry.as_ref().is_some_and(|entry| **entry == *record);
        !is_pending || (self.is_registered && !self.disk.is_new)
    }

    /// The version that is served to those who download.
    #[must_use]
    pub fn served(&self) -> Option<SignedRecord> {
        self.offered().filter(|record| self.hands_out(record)).map(VerifiedRecord::to_signed)
    }

    /// Answers `asker`, and subscribes it under a policy that pushes.
    pub fn confirm(&self, held: &Held, asker: Holder, now: Instant) -> Verdict {
        let own = self.disk.entry.as_ref().map(|entry| (entry, self.disk.newest.as_ref()));
        let answer = verdict(own, held, |newest| self.hands_out(newest));
        if answer == Verdict::Current && self.policy.pushes() {
            self.subscribers.subscribe(
                &self.name,
                held.version,
                held.version,
                asker,
                self.policy.bound(),
                now,
            );
        }
        answer
    }

    /// `node` has acknowledged `record`.
    pub fn acknowledged(&self, record: &Record, node: &NodeId) {
        self.subscribers.acknowledge(&self.name, record.version, node);
    }

    /// What was published so shortly before it started that a copy of the version before may still be fresh, though
    /// nobody knows any more who holds one.
    #[must_use]
    pub fn untold(&self, now: Instant) -> Option<VerifiedRecord> {
        let bound = self.policy.bound();
        let is_recent = self.disk.published_at.is_some_and(|at| now.saturating_duration_since(at) < bound);
        let is_due = self.policy.pushes() && is_recent && !self.subscribers.knows_all(bound, now);
        self.offered().filter(|_| is_due).cloned()
    }

    /// Whom to tell of `record` directly, while it is the newest.
    #[must_use]
    pub fn told_directly(&self, record: &Record, now: Instant) -> Vec<Holder> {
        let is_newest = self.disk.entry.as_ref().is_some_and(|entry| **entry == *record);
        if !is_newest || !self.hands_out(record) {
            return Vec::new();
        }
        let known = self.subscribers.of(&self.name, now).into_iter();
        known.filter(|known| known.version < record.version).map(|known| known.holder).collect()
    }
}
