//! The index: name -> the newest record of each origin, and who holds which version of it.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use dashmap::DashMap;
use nekoproto::{
    FileName, Holder, SignedRecord, VerifiedRecord, Version,
    limits::{HITS_MAX, HOLDERS_MAX},
    summary::NameKey,
};

use super::merge::Found;

/// Names one session may register.
pub const SESSION_NAMES_MAX: usize = 1_000_000;

/// Identifies one connection of a holder, so that its next connection is another session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(u64);

/// One holder's registrations over one connection: what it holds, and how long it is listed.
#[derive(Debug)]
pub struct Session {
    id: SessionId,
    holder: Holder,
    /// End of the lease in milliseconds since the index was made.
    lease_ends_ms: AtomicU64,
    /// Its connection is open: when the lease ends it loses its registrations, and may make new ones.
    connected: AtomicBool,
    names: Mutex<SessionNames>,
}

#[derive(Debug, Default)]
struct SessionNames {
    names: HashSet<FileName>,
    /// The session was removed; nothing may be added to it any more.
    closed: bool,
}

/// One origin's file of one name.
#[derive(Debug)]
struct Listing {
    record: VerifiedRecord,
    holdings: Vec<Holding>,
}

#[derive(Debug)]
struct Holding {
    session: Arc<Session>,
    version: Version,
}

/// What a registration or an invalidation did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Noted {
    /// No news: the version is the one known.
    Known,
    /// The version is new here; these sessions hold an older one.
    News {
        /// Whom to tell.
        outdated: Vec<SessionId>,
    },
    /// A newer version is known, or other bytes under the same number; the holder was not listed.
    Outdated(VerifiedRecord),
    /// A limit is reached; the holder was not listed.
    Full,
}

/// Invariants:
/// - a listing's record is the newest version noted while the listing existed;
/// - a session is listed under a name only if the name is among the session's names, except
///   for the moment of its removal, after which it is listed nowhere;
/// - a name without holdings has no entry.
///
/// Locks: an entry of `listings` and a session's `names` are never held together.
#[derive(Debug)]
pub struct Index {
    listings: DashMap<FileName, Vec<Listing>>,
    sessions: DashMap<SessionId, Arc<Session>>,
    next_session: AtomicU64,
    removed: AtomicUsize,
    made: Instant,
}

impl Index {
    /// An empty index; leases are counted from `now`.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self {
            listings: DashMap::new(),
            sessions: DashMap::new(),
            next_session: AtomicU64::new(0),
            removed: AtomicUsize::new(0),
            made: now,
        }
    }

    /// A session for `holder`, listed until `now + lease` unless renewed.
    pub fn open_session(&self, holder: Holder, lease: Duration, now: Instant) -> Arc<Session> {
        let id = SessionId(self.next_session.fetch_add(1, Ordering::Relaxed));
        let session = Arc::new(Session {
            id,
            holder,
            lease_ends_ms: AtomicU64::new(self.millis(now + lease)),
            connected: AtomicBool::new(true),
            names: Mutex::default(),
        });
        self.sessions.insert(id, Arc::clone(&session));
        session
    }

    /// Begins the lease of `session` anew.
    pub fn renew(&self, session: &Session, lease: Duration, now: Instant) {
        session.lease_ends_ms.store(self.millis(now + lease), Ordering::Relaxed);
    }

    /// The connection of `session` ended: so does the session, when its lease does.
    pub fn disconnected(&self, session: &Session) {
        session.connected.store(false, Ordering::Relaxed);
    }

    /// Lists `session` as a holder of the version in `record`.
    pub fn register(&self, session: &Arc<Session>, record: &VerifiedRecord) -> Noted {
        if !session.add(&record.name) {
            return Noted::Full;
        }
        let (noted, listed) = self.list(session, record);
        // Its lease may have ended in between; then the name was taken from it, but may be listed.
        let lost = !session.names().names.contains(&record.name);
        if lost || (!listed && !self.holds(session, &record.name)) {
            self.unlist(session.id, &record.name);
            session.names().names.remove(&record.name);
        }
        noted
    }

    fn list(&self, session: &Arc<Session>, record: &VerifiedRecord) -> (Noted, bool) {
        let node = session.holder.node;
        let mut listings = self.listings.entry(record.name.clone()).or_insert_with(|| Vec::with_capacity(1));
        let of_origin = listings.iter().position(|listing| listing.record.origin == record.origin);
        match of_origin.map(|place| &listings[place].record) {
            Some(known) if known.replaces(record) || known.contradicts(record) => {
                return (Noted::Outdated(known.clone()), false);
            }
            None if listings.len() >= HITS_MAX => return (Noted::Full, false),
            _ => {}
        }
        // One node holds one file under a name: what it held there before makes room for this.
        for listing in listings.iter_mut() {
            listing.holdings.retain(|known| known.session.holder.node != node);
        }
        let holding = Holding { session: Arc::clone(session), version: record.version };
        let noted = match of_origin {
            Some(place) => {
                let noted = listings[place].note(record);
                listings[place].holdings.push(holding);
                noted
            }
            None => {
                listings.push(Listing { record: record.clone(), holdings: vec![holding] });
                Noted::News { outdated: Vec::new() }
            }
        };
        listings.retain(|listing| !listing.holdings.is_empty());
        (noted, true)
    }

    /// Notes a newer version without a holder. A name that nobody here holds is left alone.
    pub fn invalidate(&self, record: &VerifiedRecord) -> Noted {
        let Some(mut listings) = self.listings.get_mut(&record.name) else { return Noted::Known };
        match listings.iter_mut().find(|listing| listing.record.origin == record.origin) {
            Some(listing) if listing.record.replaces(record) => Noted::Outdated(listing.record.clone()),
            Some(listing) => listing.note(record),
            None => Noted::Known,
        }
    }

    /// Lists `session` no longer under `name`.
    pub fn deregister(&self, session: &Session, name: &FileName) {
        session.names().names.remove(name);
        self.unlist(session.id, name);
    }

    /// What is known of `name`: each origin's newest version with holders whose lease runs.
    /// Takes no write lock and, on a miss, allocates nothing.
    #[must_use]
    pub fn lookup(&self, name: &FileName, now: Instant) -> Vec<Found> {
        let Some(listings) = self.listings.get(name) else { return Vec::new() };
        let now_ms = self.millis(now);
        listings.iter().filter_map(|listing| listing.found(now_ms)).collect()
    }

    /// The record if exactly this one is listed, signature and all: then it was checked before.
    #[must_use]
    pub fn listed(&self, record: &SignedRecord) -> Option<VerifiedRecord> {
        let listings = self.listings.get(&record.unverified().name)?;
        listings.iter().map(|listing| &listing.record).find(|known| *known.signed() == *record).cloned()
    }

    /// Removes all registrations of the sessions whose lease has ended, and those of them that are
    /// not connected any more; says which have ended.
    pub fn expire(&self, now: Instant) -> Vec<SessionId> {
        let now_ms = self.millis(now);
        let ended: Vec<Arc<Session>> = self
            .sessions
            .iter()
            .filter(|session| session.lease_ends_ms.load(Ordering::Relaxed) <= now_ms)
            .map(|session| Arc::clone(&session))
            .collect();
        for session in &ended {
            self.clear(session, !session.connected.load(Ordering::Relaxed));
        }
        ended.iter().map(|session| session.id).collect()
    }

    /// Removes a session and all its registrations.
    pub fn close_session(&self, session: &Session) {
        self.clear(session, true);
    }

    fn clear(&self, session: &Session, close: bool) {
        let names = {
            let mut names = session.names();
            names.closed |= close;
            std::mem::take(&mut names.names)
        };
        if close {
            self.sessions.remove(&session.id);
        }
        for name in names {
            self.unlist(session.id, &name);
        }
    }

    fn holds(&self, session: &Session, name: &FileName) -> bool {
        self.listings.get(name).is_some_and(|listings| {
            listings.iter().any(|l| l.holdings.iter().any(|held| held.session.id == session.id))
        })
    }

    fn unlist(&self, session: SessionId, name: &FileName) {
        if let Some(mut listings) = self.listings.get_mut(name) {
            for listing in listings.iter_mut() {
                listing.holdings.retain(|held| held.session.id != session);
            }
            listings.retain(|listing| !listing.holdings.is_empty());
        }
        if self.listings.remove_if(name, |_, listings| listings.is_empty()).is_some() {
            self.removed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many names have lost their entry since this was asked last.
    pub fn take_removed(&self) -> usize {
        self.removed.swap(0, Ordering::Relaxed)
    }

    /// The keys of all names that have an entry all the while.
    #[must_use]
    pub fn keys(&self) -> Vec<NameKey> {
        // First the names, so that no part of the map is held while they are hashed.
        let names: Vec<FileName> = self.listings.iter().map(|entry| entry.key().clone()).collect();
        names.iter().map(NameKey::of).collect()
    }

    fn millis(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.made).as_millis()).unwrap_or(u64::MAX)
    }

    /// How many names have an entry.
    #[must_use]
    pub fn names(&self) -> usize {
        self.listings.len()
    }

    #[cfg(test)]
    fn check(&self) {
        for entry in &self.listings {
            assert!(!entry.is_empty(), "{} has no listing", entry.key());
            for listing in entry.value() {
                assert!(!listing.holdings.is_empty(), "{} has no holding", entry.key());
                for held in &listing.holdings {
                    assert!(held.version <= listing.record.version);
                    assert!(held.session.names().names.contains(entry.key()), "{}", entry.key());
                }
            }
        }
    }
}

impl Listing {
    /// Takes note of `record`, which is not older than the one known.
    fn note(&mut self, record: &VerifiedRecord) -> Noted {
        if !record.replaces(&self.record) {
            return Noted::Known;
        }
        self.record = record.clone();
        let older = self.holdings.iter().filter(|held| held.version < record.version);
        Noted::News { outdated: older.map(|held| held.session.id).collect() }
    }

    /// At most [`HOLDERS_MAX`] of the current holders; each lookup begins elsewhere among them,
    /// so that the load spreads.
    fn found(&self, now_ms: u64) -> Option<Found> {
        let start =
            if self.holdings.len() > HOLDERS_MAX { rand::random_range(0..self.holdings.len()) } else { 0 };
        let (late, early) = self.holdings.split_at(start);
        let holders: Vec<Holder> = early
            .iter()
            .chain(late)
            .filter(|held| held.version == self.record.version)
            .filter(|held| held.session.lease_ends_ms.load(Ordering::Relaxed) > now_ms)
            .map(|held| held.session.holder)
            .take(HOLDERS_MAX)
            .collect();
        (!holders.is_empty()).then(|| Found { record: self.record.clone(), holders })
    }
}

impl Session {
    /// Its id.
    #[must_use]
    pub const fn id(&self) -> SessionId {
        self.id
    }

    /// How many names it has registered.
    #[must_use]
    pub fn count(&self) -> usize {
        self.names().names.len()
    }

    fn names(&self) -> MutexGuard<'_, SessionNames> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, name: &FileName) -> bool {
        let mut names = self.names();
        let is_full = names.names.len() >= SESSION_NAMES_MAX && !names.names.contains(name);
        if names.closed || is_full {
            return false;
        }
        names.names.insert(name.clone());
        true
    }
}

#[cfg(test)]
#[path = "index_tests.rs"]
mod tests;
