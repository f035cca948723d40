//! The index: name -> the newest record of each origin, and who holds which version of it.

mod entry;
mod session;
mod table;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use dashmap::DashMap;
use hashbrown::HashTable;
use nekoproto::{FileName, Holder, PackedRecord, SignedRecord, VerifiedRecord, summary::NameKey};

pub use self::session::{SESSION_NAMES_MAX, Session, SessionId};
use self::{entry::Entry, table::Table};
use super::merge::Found;

/// Names of a session that are removed at a time, so that nobody waits long for its lock.
const REMOVED_AT_ONCE: usize = 256;

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

/// Names that were a session's, and are to be unlisted.
#[derive(Debug)]
pub struct Withdrawn(HashTable<u64>);

impl Withdrawn {
    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Invariants:
/// - a session is listed under a name only if the name is among the session's names, except
///   for the moment of its removal, after which it is listed nowhere;
/// - a name without holdings has no entry.
///
/// Locks: first a session's names, then a part of the table. Lookups take a read lock of the table alone.
#[derive(Debug)]
pub struct Index {
    table: Table,
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
            table: Table::new(),
            sessions: DashMap::new(),
            next_session: AtomicU64::new(0),
            removed: AtomicUsize::new(0),
            made: now,
        }
    }

    /// A session for `holder`, listed until `now + lease` unless renewed.
    pub fn open_session(&self, holder: Holder, lease: Duration, now: Instant) -> Arc<Session> {
        let id = SessionId(self.next_session.fetch_add(1, Ordering::Relaxed));
        let session = Arc::new(Session::new(id, holder, self.millis(now + lease)));
        self.sessions.insert(id, Arc::clone(&session));
        session
    }

    /// Begins the lease of `session` anew.
    pub fn renew(&self, session: &Session, lease: Duration, now: Instant) {
        session.renew(self.millis(now + lease));
    }

    /// The connection of `session` ended: so does the session, when its lease does.
    pub fn disconnected(&self, session: &Session) {
        session.disconnected();
    }

    /// Lists `session` as a holder of the version in `record`.
    pub fn register(&self, session: &Arc<Session>, record: &VerifiedRecord) -> Noted {
        self.register_as(session, record, false)
    }

    /// Lists `session` as one that holds a part of the version in `record`, also where it was listed
    /// as a holder of all of it: the newest word counts.
    pub fn register_partial(&self, session: &Arc<Session>, record: &VerifiedRecord) -> Noted {
        self.register_as(session, record, true)
    }

    fn register_as(&self, session: &Arc<Session>, record: &VerifiedRecord, partial: bool) -> Noted {
        let hash = self.table.hash(&record.name);
        let mut names = session.names();
        if !names.has_room_for(hash) {
            return Noted::Full;
        }
        let (noted, is_listed) = self.table.change(
            hash,
            &record.name,
            |entry| entry.list(session, record, partial),
            || (Some(Entry::new(session, record, partial)), (Noted::News { outdated: Vec::new() }, true)),
        );
        if is_listed {
            names.insert(hash);
        }
        noted
    }

    /// Notes a newer version without a holder. A name that nobody here holds is left alone.
    pub fn invalidate(&self, record: &VerifiedRecord) -> Noted {
        let hash = self.table.hash(&record.name);
        self.table.change(hash, &record.name, |entry| entry.invalidate(record), || (None, Noted::Known))
    }

    /// Lists `session` no longer under `name`.
    pub fn deregister(&self, session: &Session, name: &FileName) {
        let hash = self.table.hash(name);
        let mut names = session.names();
        names.remove(hash);
        self.unlist(session, hash);
    }

    /// What is known of `name`: each origin's newest version with holders whose lease runs.
    /// Takes no write lock and, on a miss, allocates nothing.
    #[must_use]
    pub fn lookup(&self, name: &FileName, now: Instant) -> Vec<Found> {
        let now_ms = self.millis(now);
        self.table.read(name, |entry| entry.found(now_ms)).unwrap_or_default()
    }

    /// Takes `record` for verified if exactly this one is listed, signature and all.
    ///
    /// # Errors
    /// It is not, and comes back.
    #[expect(clippy::result_large_err, reason = "the record comes back to be checked otherwise")]
    pub fn vouch(&self, record: SignedRecord) -> Result<VerifiedRecord, SignedRecord> {
        let name = &record.unverified().name;
        let listed = self.table.read(name, |entry| entry.record_that_is(&record).cloned()).flatten();
        match listed {
            Some(listed) => listed.vouch(record),
            None => Err(record),
        }
    }

    /// The sessions whose lease has ended; [`end`](Self::end) each of them.
    #[must_use]
    pub fn ended(&self, now: Instant) -> Vec<Arc<Session>> {
        let now_ms = self.millis(now);
        let ended = self.sessions.iter().filter(|session| !session.is_listed_at(now_ms));
        ended.map(|session| Arc::clone(&session)).collect()
    }

    /// Removes all registrations of a session whose lease has ended by `now`, and the session if it is
    /// not connected any more; one that was renewed meanwhile stays. Takes some hundred nanoseconds for
    /// each of its names.
    pub fn end(&self, session: &Session, now: Instant) {
        let is_over = !session.is_connected();
        let names = {
            let mut names = session.names();
            if session.is_listed_at(self.millis(now)) {
                return;
            }
            names.clear(is_over)
        };
        if is_over {
            self.sessions.remove(&session.id());
        }
        self.unlist_all(session, Withdrawn(names));
    }

    /// Removes a session and all its registrations, as [`end`](Self::end) does in the end.
    #[cfg(test)]
    fn close_session(&self, session: &Session) {
        let names = session.names().clear(true);
        self.sessions.remove(&session.id());
        self.unlist_all(session, Withdrawn(names));
    }

    /// Takes all its names from `session`; [`unlist_all`](Self::unlist_all) makes them be found no more.
    /// What it registers from now on is not among them.
    pub fn withdraw_all(&self, session: &Session) -> Withdrawn {
        session.note_withdrawal();
        Withdrawn(session.names().clear(false))
    }

    /// Lists `session` no longer under these names, unless it has registered them anew. Takes as long as
    /// [`end`](Self::end).
    pub fn unlist_all(&self, session: &Session, Withdrawn(names): Withdrawn) {
        let mut gone = names.into_iter();
        while gone.len() > 0 {
            let names = session.names();
            let some = gone.by_ref().take(REMOVED_AT_ONCE).filter(|hash| !names.contains(*hash));
            some.for_each(|hash| self.unlist(session, hash));
        }
    }

    fn unlist(&self, session: &Session, hash: u64) {
        let gone = self.table.remove(hash, |entry| entry.lists(session), |entry| entry.unlist(session));
        self.removed.fetch_add(gone, Ordering::Relaxed);
    }

    /// How many names have lost their entry since this was asked last.
    pub fn take_removed(&self) -> usize {
        self.removed.swap(0, Ordering::Relaxed)
    }

    /// The keys of all names that have an entry all the while.
    #[must_use]
    pub fn keys(&self) -> Vec<NameKey> {
        let mut keys = Vec::new();
        for shard in self.table.shards() {
            // First the records, so that no part of the table is held while names are hashed.
            let records: Vec<PackedRecord> =
                shard.entries().iter().filter_map(Entry::any_record).cloned().collect();
            drop(shard);
            keys.extend(records.iter().map(NameKey::of_packed));
        }
        keys
    }

    fn millis(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.made).as_millis()).unwrap_or(u64::MAX)
    }

    /// How many names have an entry.
    #[must_use]
    pub fn names(&self) -> usize {
        self.table.len()
    }

    #[cfg(test)]
    fn check(&self) {
        for shard in self.table.shards() {
            for entry in shard.entries() {
                let hash = self.table.hash_of(entry);
                entry.check(|session| session.names().contains(hash));
            }
        }
    }
}

#[cfg(test)]
mod tests;
