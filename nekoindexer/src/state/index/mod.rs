//! The index: name -> the newest record of each origin, and who holds which version of it.

mod departed;
mod entry;
mod listing;
mod name_hash;
mod names;
mod scan;
mod session;

use std::{
    hash::{BuildHasher, RandomState},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use dashmap::DashMap;
use nekoproto::{
    FileName, IdDigits, ListedRecord, NodeAddrs, NodeTag, PackedRecord, QueryRequest, SignedRecord,
    budget::Account, summary::NameKey,
};
use nohash_hasher::BuildNoHashHasher;
use parking_lot::Mutex;

pub use self::session::{SESSION_NAMES_MAX, Session, SessionId, Withdrawn};
use self::{departed::Departed, entry::Entry, name_hash::NameHash, names::NameLog};
use super::merge::Found;

/// Locks that the names are spread over: at a million names, one part of the map rehashes in well under
/// a millisecond, and two threads seldom need the same lock.
const SHARDS: usize = 256;
/// Names of a session that are removed under one lock of it, so that other calls wait briefly.
const REMOVED_AT_ONCE: usize = 256;

/// What a registration or an invalidation did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Noted {
    /// No news: the version is the one known.
    Known,
    /// The version is new here; these sessions hold an older one, or published other bytes under its number.
    News {
        /// Whom to tell.
        outdated: Vec<SessionId>,
    },
    /// A newer version is known, or other bytes under the same number; the holder was not listed.
    Outdated(ListedRecord),
    /// A limit is reached; the holder was not listed.
    Full,
}

/// What is looked up.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The name.
    pub name: &'a FileName,
    /// Only of this origin.
    pub origin: Option<&'a IdDigits>,
    /// Holders that are not wanted.
    pub without: &'a [NodeTag],
}

impl Asked<'_> {
    fn takes_origin(&self, record: &PackedRecord) -> bool {
        self.origin.is_none_or(|digits| digits.begin(record.origin()))
    }
}

impl<'a> From<&'a FileName> for Asked<'a> {
    fn from(name: &'a FileName) -> Self {
        Self { name, origin: None, without: &[] }
    }
}

impl<'a> From<&'a QueryRequest> for Asked<'a> {
    fn from(request: &'a QueryRequest) -> Self {
        Self { name: &request.name, origin: request.origin.as_ref(), without: &request.without }
    }
}

/// Who holds what. `S` makes the hashes of names; a secret key by default.
///
/// Invariants:
/// - a session is listed under a name only if the name is among the session's names, or is being
///   unlisted after it was taken from them;
/// - a name without holdings has no entry; its newest version is in `departed`;
/// - a name that has an entry is in `log`.
///
/// Locks: first a session's names, then a shard of `entries`, then `departed` or `log`. Lookups take a read lock of one
/// shard alone.
#[derive(Debug)]
pub struct Index<S = RandomState> {
    entries: DashMap<NameHash, Entry, BuildNoHashHasher<NameHash>>,
    hash_key: S,
    sessions: DashMap<SessionId, Arc<Session>>,
    next_session: AtomicU64,
    removed: AtomicUsize,
    departed: Mutex<Departed>,
    log: NameLog,
    made: Instant,
}

impl Index {
    /// An empty index; leases are counted from `now`.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self::with_hash_key(RandomState::new(), now)
    }
}

impl<S: BuildHasher> Index<S> {
    fn with_hash_key(hash_key: S, now: Instant) -> Self {
        Self {
            entries: DashMap::with_capacity_and_hasher_and_shard_amount(0, <_>::default(), SHARDS),
            hash_key,
            sessions: DashMap::new(),
            next_session: AtomicU64::new(0),
            removed: AtomicUsize::new(0),
            departed: Mutex::new(Departed::new(now)),
            log: NameLog::default(),
            made: now,
        }
    }

    fn hash(&self, name: &FileName) -> NameHash {
        NameHash::of(name.as_str().as_bytes(), &self.hash_key)
    }

    /// A session for a node, listed `at` its addresses until `now + lease` unless renewed. Its names are on nobody's
    /// account.
    pub fn open_session(&self, at: NodeAddrs, lease: Duration, now: Instant) -> Arc<Session> {
        let site = at.addrs().first().map_or(Ipv4Addr::UNSPECIFIED.into(), SocketAddr::ip);
        self.open_session_on(None, (at, site), lease, now)
    }

    /// The same for one that connects from this site, with its names on `account`.
    pub fn open_session_on(
        &self,
        account: Option<Account>,
        at: (NodeAddrs, IpAddr),
        lease: Duration,
        now: Instant,
    ) -> Arc<Session> {
        let id = SessionId(self.next_session.fetch_add(1, Ordering::Relaxed));
        let session = Arc::new(Session::new(id, at, account, self.millis(now + lease)));
        self.sessions.insert(id, Arc::clone(&session));
        session
    }

    /// Restarts the lease of `session`.
    pub fn renew(&self, session: &Session, lease: Duration, now: Instant) {
        session.renew(self.millis(now + lease));
    }

    /// The connection of `session` ended at `now`: so does the session, when its lease does, or at once if it lists nothing, or
    /// only parts: who downloads them is not there any more, or lists them again over its next connection.
    pub fn disconnected(&self, session: &Session, now: Instant) {
        session.disconnected(self.millis(now));
        let mut names = session.names();
        let is_over = names.len() == 0 || !session.has_complete() && names.len() <= REMOVED_AT_ONCE;
        let parts = is_over.then(|| names.clear(true));
        drop(names);
        if let Some(parts) = parts {
            self.sessions.remove(&session.id());
            self.unlist_all(session, Withdrawn(parts));
        }
    }

    /// Lists `session` as a holder of the version in `record`.
    pub fn register(&self, session: &Arc<Session>, record: &ListedRecord) -> Noted {
        self.register_as(session, record, false)
    }

    /// Lists `session` as a holder of a part of the version in `record`, also where it was listed as a
    /// holder of all of it: the latest registration counts.
    pub fn register_partial(&self, session: &Arc<Session>, record: &ListedRecord) -> Noted {
        self.register_as(session, record, true)
    }

    fn register_as(&self, session: &Arc<Session>, record: &ListedRecord, partial: bool) -> Noted {
        let hash = self.hash(&record.name);
        let mut names = session.names();
        let (was_there, len) = (names.contains(hash), record.name.as_str().len());
        if !names.insert(hash, len) {
            return Noted::Full;
        }
        if !partial {
            session.note_complete();
        }
        let instead = || self.departed.lock().instead_of(hash, record);
        let remember = |last| self.departed.lock().remember(hash, last);
        let (noted, is_listed) = match self.entries.entry(hash) {
            dashmap::Entry::Occupied(mut known) => {
                let is_new = !known.get().has_name(&record.name);
                let listed = known.get_mut().list(session, record, partial, instead, remember);
                if is_new && listed.1 {
                    self.log.add(record.name.as_str().as_bytes());
                }
                listed
            }
            dashmap::Entry::Vacant(free) => match instead() {
                Some(newer) => (Noted::Outdated(newer), false),
                None => {
                    free.insert(Entry::new(session, record, partial));
                    self.log.add(record.name.as_str().as_bytes());
                    (Noted::News { outdated: Vec::new() }, true)
                }
            },
        };
        if !is_listed && !was_there {
            names.remove(hash, len);
        }
        noted
    }

    /// Notes a newer version without a holder, or other bytes under a listed number, which stay unlisted. A name that
    /// nobody here holds is left alone.
    pub fn invalidate(&self, record: &ListedRecord) -> Noted {
        let entry = self.entries.get_mut(&self.hash(&record.name));
        entry.map_or(Noted::Known, |mut entry| entry.invalidate(record))
    }

    /// Lists `session` no longer under `name`.
    pub fn deregister(&self, session: &Session, name: &FileName) {
        let hash = self.hash(name);
        let mut names = session.names();
        names.remove(hash, name.as_str().len());
        self.unlist(session, hash);
    }

    /// What is known of a name: each origin's newest version with holders whose lease runs. More hits than an answer has
    /// room for say that it is not all. Takes no write lock and, on a miss, allocates nothing.
    #[must_use]
    pub fn lookup<'a>(&self, asked: impl Into<Asked<'a>>, now: Instant) -> Vec<Found> {
        let (asked, now_ms) = (asked.into(), self.millis(now));
        self.entries.view(&self.hash(asked.name), |_, entry| entry.found(&asked, now_ms)).unwrap_or_default()
    }

    /// Takes `record` for verified if exactly this one is listed, signature and all.
    ///
    /// # Errors
    /// It is not, and comes back.
    #[expect(clippy::result_large_err, reason = "the record comes back to be checked otherwise")]
    pub fn vouch(&self, record: SignedRecord) -> Result<ListedRecord, SignedRecord> {
        let hash = self.hash(&record.unverified().name);
        let listed = self.entries.view(&hash, |_, entry| entry.record_that_is(&record).cloned()).flatten();
        match listed {
            Some(listed) => listed.vouch(record),
            None => Err(record),
        }
    }

    /// Whether the name has as many origins as an answer holds: a further one must prove itself.
    pub(crate) fn is_crowded(&self, name: &FileName) -> bool {
        self.entries.view(&self.hash(name), |_, entry| entry.is_crowded()).unwrap_or_default()
    }

    /// The sessions whose lease has ended, or whose account was evicted; [`end`](Self::end) each of them.
    #[must_use]
    pub fn ended(&self, now: Instant) -> Vec<Arc<Session>> {
        let now_ms = self.millis(now);
        let ended =
            self.sessions.iter().filter(|session| !session.is_listed_at(now_ms) || session.is_evicted());
        ended.map(|session| Arc::clone(&session)).collect()
    }

    /// Removes all registrations of a session whose lease has ended by `now` or whose account was evicted, and the
    /// session if it is not connected any more. A session that was renewed meanwhile stays. Takes some hundred nanoseconds
    /// for each of its names.
    pub fn end(&self, session: &Session, now: Instant) {
        let is_evicted = session.is_evicted();
        let is_over = is_evicted || !session.is_connected();
        let names = {
            let mut names = session.names();
            if session.is_listed_at(self.millis(now)) && !is_evicted {
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

    /// Takes all its names from `session`; [`unlist_all`](Self::unlist_all) then removes it from their
    /// entries. Names that it registers from now on stay.
    pub fn withdraw_all(&self, session: &Session) -> Withdrawn {
        session.note_withdrawal();
        Withdrawn(session.names().clear(false))
    }

    /// Lists `session` no longer under these names, unless it has registered them again. Takes as long as
    /// [`end`](Self::end).
    pub fn unlist_all(&self, session: &Session, Withdrawn(names): Withdrawn) {
        let mut gone = names.into_iter();
        while gone.len() > 0 {
            let names = session.names();
            let some = gone.by_ref().take(REMOVED_AT_ONCE).filter(|hash| !names.contains(*hash));
            some.for_each(|hash| self.unlist(session, hash));
        }
    }

    /// Lists nobody any longer under `record`, which its origin registered and did not sign.
    pub fn unlist_forged(&self, record: &ListedRecord) {
        let hash = self.hash(&record.name);
        let sessions = |entry: &Entry| entry.sessions_of(record.signed());
        let listed = || self.entries.view(&hash, |_, entry| sessions(entry)).unwrap_or_default();
        for session in listed() {
            let mut names = session.names(); // until it is unlisted, it registers nothing else
            if listed().iter().any(|other| Arc::ptr_eq(other, &session)) {
                names.remove(hash, record.name.as_str().len());
                self.unlist_and(&session, hash, drop);
            }
        }
    }

    fn unlist(&self, session: &Session, hash: NameHash) {
        self.unlist_and(session, hash, |last| self.departed.lock().remember(hash, last));
    }

    fn unlist_and(&self, session: &Session, hash: NameHash, remember: impl FnMut(PackedRecord)) {
        let mut len = 0;
        let unlist = |_: &NameHash, entry: &mut Entry| {
            len = entry.records().map(|record| record.name_bytes().len()).sum();
            entry.unlist(session, remember)
        };
        if self.entries.remove_if_mut(&hash, unlist).is_some() {
            self.log.note_gone(len);
            self.removed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Forgets versions whose last holder left long ago.
    pub fn forget_departed(&self, now: Instant) {
        self.departed.lock().forget(now);
    }

    /// How many names have lost their entry since this was asked last.
    pub fn take_removed(&self) -> usize {
        self.removed.swap(0, Ordering::Relaxed)
    }

    /// The keys of all names that have an entry from the beginning of this call to its end.
    #[must_use]
    pub fn keys(&self) -> Vec<NameKey> {
        let mut keys = Vec::new();
        for entry in &self.entries {
            keys.extend(entry.records().map(NameKey::of_packed));
        }
        keys.dedup(); // a name with several origins has as many records, one after the other
        keys
    }

    fn millis(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.made).as_millis()).unwrap_or(u64::MAX)
    }

    /// How many names have an entry.
    #[must_use]
    pub fn names(&self) -> usize {
        self.entries.len()
    }

    /// How many holders have a connection, or a lease that outlives it.
    #[must_use]
    pub fn holders(&self) -> usize {
        self.sessions.len()
    }

    #[cfg(test)]
    fn check(&self) {
        let mut logged = std::collections::HashSet::new();
        self.log.each(None, |name, _, _| {
            logged.insert(name.to_vec());
            std::ops::ControlFlow::Continue(())
        });
        for entry in &self.entries {
            let hash = entry.key();
            entry.check(|session| session.names().contains(*hash));
            let hash_of = |name| NameHash::of(name, &self.hash_key);
            assert!(entry.records().all(|record| hash_of(record.name_bytes()) == *hash));
            assert!(entry.records().all(|record| logged.contains(record.name_bytes())));
        }
    }
}

#[cfg(test)]
mod tests;
