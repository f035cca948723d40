//! What an indexer decides: pure, from requests and the time to plans. It opens no socket, reads
//! no clock and never waits; `query` and `invalidate` carry
//! the plans out.

pub mod index;
pub mod merge;
pub mod route;
pub mod seen;
pub mod summary;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use dashmap::DashMap;
use nekoproto::{
    FileName, InvalidateRequest, MsgId, NodeTag, QueryRequest, Refusal, VerifiedRecord, limits::TTL_MAX,
    summary::NameKey,
};

use self::{
    index::{Index, Noted, Session, SessionId},
    merge::Found,
    seen::{Seen, Sight},
    summary::{OwnSummary, Relay, TheirSummary, Told, relays},
};

/// All that an indexer knows.
#[derive(Debug)]
pub struct State {
    /// Names, records, holders.
    pub index: Index,
    /// Message ids.
    pub seen: Seen,
    /// What we tell of our names.
    own_summary: Mutex<OwnSummary>,
    /// What neighbors told of theirs.
    pub their_summaries: DashMap<NodeTag, TheirSummary>,
}

/// What to do about a query.
#[derive(Debug, PartialEq, Eq)]
pub enum QueryPlan {
    /// Answer with this and ask nobody.
    Answer(Vec<Found>),
    /// Answer with this, and say that it is not all: there is no room to remember the message, and
    /// one that is not remembered must not be forwarded.
    Alone(Vec<Found>),
    /// Answer with this and with what neighbors say, who are given so many hops.
    Forward {
        /// What this indexer itself found.
        local: Vec<Found>,
        /// Hops left for the neighbors.
        ttl_hops: u8,
    },
}

/// Whom to tell of newer versions.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Announcement {
    /// Holders of older versions, each with the records that concern it.
    pub holders: HashMap<SessionId, Vec<VerifiedRecord>>,
    /// What neighbors should hear.
    pub neighbors: Vec<VerifiedRecord>,
}

/// What came of a registration.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RegisterPlan {
    /// Newer versions to tell the caller.
    pub newer: Vec<VerifiedRecord>,
    /// How many records a limit kept from being listed.
    pub unlisted: usize,
    /// Whom to tell.
    pub announcement: Announcement,
    /// Whether our summary has changed.
    pub is_news_to_neighbors: bool,
    /// How far neighbors should have come before the caller is answered.
    pub neighbors_need: Told,
}

impl State {
    /// A state that knows nothing yet.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self {
            index: Index::new(now),
            seen: Seen::default(),
            own_summary: Mutex::new(OwnSummary::new(rand::random())),
            their_summaries: DashMap::new(),
        }
    }

    /// What we tell of our names; not to be held across an await.
    pub fn own_summary(&self) -> MutexGuard<'_, OwnSummary> {
        self.own_summary.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to be passed on to neighbor `to` by `me` of what other neighbors told.
    #[must_use]
    pub fn relays(&self, to: NodeTag, me: NodeTag, now: Instant) -> Vec<Relay> {
        let mut heard = Vec::new();
        for theirs in &self.their_summaries {
            heard.extend(theirs.heard(*theirs.key(), to, now));
        }
        relays(to, me, heard.into_iter())
    }

    /// Says of a neighbor whether it need not be asked for `name` at first (see [`TheirSummary::rules_out`]).
    pub fn ruled_out(
        &self,
        name: &FileName,
        ttl_hops: u8,
        covers: impl Fn(&NodeTag) -> bool,
        now: Instant,
    ) -> impl Fn(&NodeTag) -> bool {
        let key = NameKey::of(name);
        move |neighbor| {
            let theirs = self.their_summaries.get(neighbor);
            theirs.is_some_and(|theirs| theirs.rules_out(key, ttl_hops, &covers, now))
        }
    }

    /// A holder registers versions. With `announce`, later versions than the first that are news
    /// here are announced; the first version of a file has no older copies to invalidate.
    pub fn on_register(
        &self,
        session: &Arc<Session>,
        records: Vec<VerifiedRecord>,
        announce: bool,
    ) -> RegisterPlan {
        self.registered(records, announce, |record| self.index.register(session, record))
    }

    /// A holder registers versions that it has a part of. Neighbors are not told of news
    /// among them: who downloads a version is not the one to announce it.
    pub fn on_register_partial(&self, session: &Arc<Session>, records: Vec<VerifiedRecord>) -> RegisterPlan {
        self.registered(records, false, |record| self.index.register_partial(session, record))
    }

    fn registered(
        &self,
        records: Vec<VerifiedRecord>,
        announce: bool,
        register: impl Fn(&VerifiedRecord) -> Noted,
    ) -> RegisterPlan {
        let mut plan = RegisterPlan::default();
        for record in records {
            let noted = register(&record);
            if matches!(noted, Noted::News { .. }) {
                let key = NameKey::of(&record.name);
                plan.is_news_to_neighbors |= self.own_summary().add(key);
            }
            match noted {
                Noted::Known => {}
                Noted::News { .. } if !record.policy.pushes() => {} // holders ask by themselves
                Noted::News { outdated } => {
                    plan.announcement.tell(&outdated, &record);
                    if announce && record.version > nekoproto::Version::FIRST {
                        plan.announcement.neighbors.push(record);
                    }
                }
                Noted::Outdated(newer) => plan.newer.push(newer),
                Noted::Full => plan.unlisted += 1,
            }
        }
        // Also what another registration has added to the same name and is still being told.
        plan.neighbors_need = self.own_summary().position();
        plan
    }

    /// A query arrives, from a peer or from the neighbor `from`. It may live for `deadline` more.
    ///
    /// The id of one that ends here is not remembered if it came from the indexer where it began: that one
    /// named us among the covered, as does every copy that anybody sends on, so no other copy comes. (A peer
    /// that asks several indexers at once is answered over each of them.)
    ///
    /// # Errors
    /// The TTL is past the limit.
    pub fn on_query(
        &self,
        request: &QueryRequest,
        from: Option<NodeTag>,
        deadline: Duration,
        now: Instant,
    ) -> Result<QueryPlan, Refusal> {
        let began_at = request.covered.first();
        if request.ttl_hops == 0 && began_at.is_some() && began_at == from.as_ref() {
            return Ok(QueryPlan::Answer(self.index.lookup(&request.name, now)));
        }
        let sight = self.sight(request.msg_id, request.ttl_hops, deadline, now)?;
        let local = match sight {
            Sight::First => self.index.lookup(&request.name, now),
            Sight::Deeper => Vec::new(), // answered before, but this copy may travel further
            Sight::Duplicate => return Ok(QueryPlan::Answer(Vec::new())),
            Sight::Full => return Ok(QueryPlan::Alone(self.index.lookup(&request.name, now))),
        };
        Ok(match request.ttl_hops.checked_sub(1) {
            Some(ttl_hops) => QueryPlan::Forward { local, ttl_hops },
            None => QueryPlan::Answer(local),
        })
    }

    /// Word of newer versions arrives; `records` are those of the request, verified.
    ///
    /// # Errors
    /// The TTL is past the limit, or too many messages are under way.
    pub fn on_invalidate(
        &self,
        request: &InvalidateRequest,
        records: Vec<VerifiedRecord>,
        deadline: Duration,
        now: Instant,
    ) -> Result<Announcement, Refusal> {
        let sight = self.sight(request.msg_id, request.ttl_hops, deadline, now)?;
        let mut announcement = Announcement::default();
        match sight {
            Sight::First | Sight::Deeper => {}
            Sight::Duplicate => return Ok(announcement),
            Sight::Full => return Err(Refusal::Busy),
        }
        for record in records {
            match self.index.invalidate(&record) {
                Noted::News { outdated } => announcement.tell(&outdated, &record),
                Noted::Outdated(_) => continue, // not news to anyone beyond us either
                Noted::Known | Noted::Full => {}
            }
            if request.ttl_hops > 0 {
                announcement.neighbors.push(record);
            }
        }
        Ok(announcement)
    }

    /// Copies travel within the deadline; twice that also covers clocks that run unevenly.
    fn sight(&self, id: MsgId, ttl_hops: u8, deadline: Duration, now: Instant) -> Result<Sight, Refusal> {
        if ttl_hops > TTL_MAX {
            return Err(Refusal::TtlTooLarge(ttl_hops));
        }
        Ok(self.seen.sight(id, ttl_hops, deadline * 2 + Duration::from_secs(1), now))
    }
}

impl Announcement {
    fn tell(&mut self, sessions: &[SessionId], record: &VerifiedRecord) {
        for session in sessions {
            self.holders.entry(*session).or_default().push(record.clone());
        }
    }

    /// Whether there is nobody to tell.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.holders.is_empty() && self.neighbors.is_empty()
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! Small made-up values for the tests of this room.

    use nekoproto::{
        ContentHash, FileName, Identity, ManifestHash, NodeTag, Policy, Record, VerifiedRecord, Version,
    };

    /// The tag of the n-th made-up node.
    pub(crate) fn tag(n: usize) -> NodeTag {
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&n.to_le_bytes());
        Identity::from_seed(&seed).id().tag()
    }

    /// A version of a file of a made-up origin.
    pub(crate) fn record(origin: u8, name: &str, version: u64) -> VerifiedRecord {
        let origin = Identity::from_seed(&[origin; 32]);
        let record = Record {
            origin: origin.id(),
            name: FileName::new(name).unwrap(),
            version: Version::new(version).unwrap(),
            size: version,
            content: ContentHash::from_bytes([u8::try_from(version % 256).unwrap(); 32]),
            manifest: ManifestHash::from_bytes([0; 32]),
            policy: Policy::default(),
        };
        record.sign(&origin).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use nekoproto::{Covered, FileName, Holder, Identity};

    use super::{testing::record, *};

    fn query(id: u128, ttl_hops: u8) -> QueryRequest {
        let name = FileName::new("a").unwrap();
        QueryRequest { msg_id: MsgId::from_u128(id), name, ttl_hops, covered: Covered::new() }
    }

    fn session(state: &State, n: u8, now: Instant) -> Arc<Session> {
        let addr = SocketAddr::from(([127, 0, 0, 1], 1));
        let holder = Holder::new(Identity::from_seed(&[n; 32]).id(), addr);
        state.index.open_session(holder, Duration::from_secs(9), now)
    }

    const DEADLINE: Duration = Duration::from_secs(2);

    #[tokio::test]
    async fn a_ttl_past_the_limit_is_refused() {
        let now = Instant::now();
        let state = State::new(now);
        let refusal = state.on_query(&query(1, 255), None, DEADLINE, now);
        assert_eq!(refusal, Err(Refusal::TtlTooLarge(255)));
        assert!(state.on_query(&query(1, TTL_MAX), None, DEADLINE, now).is_ok());
    }

    #[tokio::test]
    async fn a_deeper_copy_is_forwarded_and_not_answered_again() {
        let now = Instant::now();
        let state = State::new(now);
        state.on_register(&session(&state, 1, now), vec![record(1, "a", 1)], true);
        let QueryPlan::Forward { local, ttl_hops: 1 } =
            state.on_query(&query(1, 2), None, DEADLINE, now).unwrap()
        else {
            panic!("not forwarded")
        };
        assert_eq!(local.len(), 1);
        let duplicate = state.on_query(&query(1, 1), None, DEADLINE, now).unwrap();
        assert_eq!(duplicate, QueryPlan::Answer(vec![]));
        let deeper = state.on_query(&query(1, 3), None, DEADLINE, now).unwrap();
        assert_eq!(deeper, QueryPlan::Forward { local: vec![], ttl_hops: 2 });
    }

    #[tokio::test]
    async fn only_the_indexer_where_a_query_began_is_answered_without_being_remembered() {
        let now = Instant::now();
        let state = State::new(now);
        state.on_register(&session(&state, 1, now), vec![record(1, "a", 1)], true);
        let covered = Covered::first_of([testing::tag(1), testing::tag(2), testing::tag(3)]);
        let last_hop = |id| QueryRequest { covered: covered.clone(), ..query(id, 0) };
        let answer = |request: &QueryRequest, from| match state.on_query(request, from, DEADLINE, now) {
            Ok(QueryPlan::Answer(found)) => found.len(),
            other => panic!("{other:?}"),
        };
        let began_at = Some(testing::tag(1));
        assert_eq!([(); 2].map(|()| answer(&last_hop(1), began_at)), [1, 1]);
        for (id, from) in [(2, Some(testing::tag(2))), (3, None)] {
            assert_eq!([(); 2].map(|()| answer(&last_hop(id), from)), [1, 0], "{id}");
        }
        let further = QueryRequest { ttl_hops: 1, ..last_hop(4) };
        state.on_query(&further, began_at, DEADLINE, now).unwrap();
        assert_eq!(answer(&further, began_at), 0, "what travels on is remembered");
    }

    #[tokio::test]
    async fn only_news_past_the_first_version_is_announced_to_neighbors() {
        let now = Instant::now();
        let state = State::new(now);
        let (origin, copy) = (session(&state, 1, now), session(&state, 2, now));
        assert!(state.on_register(&origin, vec![record(1, "a", 1)], true).announcement.is_empty());
        assert!(state.on_register(&copy, vec![record(1, "a", 1)], true).announcement.is_empty());
        let plan = state.on_register(&origin, vec![record(1, "a", 2)], true);
        assert_eq!(plan.announcement.neighbors, [record(1, "a", 2)]);
        assert_eq!(plan.announcement.holders[&copy.id()], [record(1, "a", 2)]);
        assert!(state.on_register(&origin, vec![record(1, "a", 2)], true).announcement.is_empty());
        let old = state.on_register(&copy, vec![record(1, "a", 1)], true);
        assert_eq!((old.newer, old.announcement), (vec![record(1, "a", 2)], Announcement::default()));
    }

    #[tokio::test]
    async fn old_news_is_not_passed_on() {
        let now = Instant::now();
        let state = State::new(now);
        state.on_register(&session(&state, 1, now), vec![record(1, "a", 5)], true);
        let invalidate = |id, version| {
            let request = InvalidateRequest {
                msg_id: MsgId::from_u128(id),
                records: Default::default(),
                ttl_hops: 3,
                covered: Covered::new(),
            };
            state.on_invalidate(&request, vec![record(1, "a", version)], DEADLINE, now).unwrap()
        };
        assert!(invalidate(1, 4).is_empty());
        assert_eq!(invalidate(2, 6).neighbors, [record(1, "a", 6)]);
        assert!(invalidate(2, 6).is_empty(), "a second copy of the same message");
    }
}
