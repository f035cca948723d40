//! A data folder that publishes one file: `publish`, `serve::control`, `library::{numbers, subscribers}`.

use std::{sync::Arc, time::Instant};

use nekoproto::{
    ContentHash, FileName, Held, Holder, Identity, ManifestHash, Policy, Record, SignedRecord, Verdict,
    VerifiedRecord, Verifier, Version,
};

use super::Act;
use crate::{
    library::subscribers::Subscribers,
    state::{
        contest::{Judgment, Mine, Turn},
        standing::Standing,
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
    standing: Standing,
    subscribers: Subscribers,
    /// It has published above another file with the same number, since the user published last.
    has_gone: bool,
    is_waiting: bool,
}

/// What the catalogue says: kept over a restart, and what a backup restores.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    counter: Option<Version>,
    entry: Option<VerifiedRecord>,
    /// A later version that was published with this key elsewhere.
    newest: Option<VerifiedRecord>,
    /// The indexer has listed the entry.
    is_told: bool,
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
            disk: Disk::default(),
            standing: Standing::new(1),
            subscribers: Subscribers::new(now),
            has_gone: false,
            is_waiting: false,
        }
    }

    /// It starts again, with its own disk or another.
    pub fn restart(&mut self, disk: Option<Disk>, now: Instant) {
        (self.standing, self.subscribers) = (Standing::new(1), Subscribers::new(now));
        (self.has_gone, self.is_waiting) = (false, false);
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
        self.offered().map(|record| Act::Offer { record: record.clone(), news: !self.disk.is_told })
    }

    /// The user publishes this content; none if it is published already, or no number is left.
    pub fn publish(&mut self, content: [u8; 32]) -> Vec<Act> {
        let Disk { counter, entry, newest, .. } = &self.disk;
        let (content, manifest) = (ContentHash::from_bytes(content), ManifestHash::from_bytes(content));
        let known =
            Known { counter: *counter, entry: entry.as_ref(), newest: newest.as_ref(), ..Known::default() };
        let Numbered::New(version) = known.number(Substance { content, manifest, policy: self.policy })
        else {
            return Vec::new();
        };
        self.has_gone = false;
        let (origin, name, policy) = (self.identity.id(), self.name.clone(), self.policy);
        self.commit(Record { origin, name, version, size: 1, content, manifest, policy, published_ms: 0 })
    }

    /// Stores a new version; the number is on disk before anyone hears of it.
    fn commit(&mut self, record: Record) -> Vec<Act> {
        let Ok(record) = record.sign(&self.identity) else { return Vec::new() };
        let (counter, entry) = (Some(record.version), Some(record.clone()));
        self.disk = Disk { counter, entry, newest: None, is_told: false };
        vec![Act::Offer { record: record.clone(), news: true }, Act::Announce(record)]
    }

    /// The indexer has listed `record`, or knows a `newer` version or another file under the number.
    pub fn registered(&mut self, record: &VerifiedRecord, newer: Option<SignedRecord>) -> Vec<Act> {
        if let Some(newer) = newer {
            return self.hear(newer);
        }
        self.standing.confirmed(&self.name);
        self.disk.is_told |= self.disk.entry.as_ref() == Some(record);
        Vec::new()
    }

    /// A version that is signed with this key arrives, from anyone.
    pub fn hear(&mut self, heard: SignedRecord) -> Vec<Act> {
        let turn = if self.has_gone { Turn::Later } else { Turn::First };
        let heard = self.verifier.verify(heard).ok().filter(|heard| heard.origin == self.identity.id());
        heard.map_or_else(Vec::new, |heard| self.settle(heard, turn))
    }

    /// The pause for the other folder is over.
    pub fn waited(&mut self, heard: VerifiedRecord) -> Vec<Act> {
        self.is_waiting = false;
        self.settle(heard, Turn::Now)
    }

    fn settle(&mut self, heard: VerifiedRecord, turn: Turn) -> Vec<Act> {
        let Some(record) = self.disk.entry.clone() else { return Vec::new() };
        let newest = self.disk.newest.as_deref();
        let mine = Mine { record: &record, newest, is_pending: !self.disk.is_told };
        match mine.judge(&heard, turn) {
            Judgment::Stands => Vec::new(),
            Judgment::Adopt => {
                self.disk.counter = self.disk.counter.max(Some(heard.version));
                self.disk.entry = Some(heard.clone());
                self.disk.newest.take_if(|newest| !newest.replaces(&heard));
                vec![Act::Offer { record: heard, news: false }]
            }
            Judgment::Renumber => {
                let known = self.disk.newest.as_ref().map(|newest| newest.version);
                let last = self.disk.counter.max(known).max(Some(heard.version));
                self.has_gone = true;
                let version = last.and_then(Version::next);
                version.map_or_else(Vec::new, |version| {
                    self.commit(Record { version, ..Record::clone(&record) })
                })
            }
            Judgment::Wait if self.is_waiting => Vec::new(),
            Judgment::Wait => {
                self.is_waiting = true;
                vec![Act::Wait(heard)]
            }
            Judgment::Superseded => {
                self.disk.newest = Some(heard);
                Vec::new()
            }
        }
    }

    /// Whether others may be told of `record`: see `Library::hands_out`.
    fn hands_out(&self, record: &Record) -> bool {
        let is_pending =
            !self.disk.is_told && self.disk.entry.as_ref().is_some_and(|entry| **entry == *record);
        self.standing.covers(&self.name) || !is_pending
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
            self.subscribers.subscribe((&self.name, held.version), asker, self.policy.bound(), now);
        }
        answer
    }

    /// Whom to tell of `record` directly.
    #[must_use]
    pub fn told_directly(&self, record: &Record, now: Instant) -> Vec<Holder> {
        if !self.hands_out(record) {
            return Vec::new();
        }
        let known = self.subscribers.of(&self.name, now).into_iter();
        known.filter(|known| known.version < record.version).map(|known| known.holder).collect()
    }
}
