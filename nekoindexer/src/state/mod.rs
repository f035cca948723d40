//! What an indexer decides: pure, from requests and the time to plans. It opens no socket, reads
//! no clock and never waits; `query` and `invalidate` carry the plans out.

pub mod caller;
pub mod find;
pub mod holders;
pub mod index;
pub mod merge;
mod plan;
pub mod probe;
pub mod route;
pub mod seen;
pub mod summary;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
pub mod trust_level;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use nekoproto::{
    Covered, FindRequest, InvalidateRequest, ListedRecord, QueryRequest, Refusal, limits::TTL_MAX,
    summary::NameKey,
};
use parking_lot::{Mutex, MutexGuard};

pub use self::plan::{Announcement, RegisterPlan, Share};
use self::{
    caller::Caller,
    index::{Index, Noted, Session},
    merge::Found,
    seen::{MessageKey, Seen, Sight},
    summary::OwnSummary,
};

/// All that an indexer knows.
#[derive(Debug)]
pub struct State {
    /// Names, records, holders.
    pub index: Index,
    /// Message ids.
    pub seen: Seen,
    own_summary: Mutex<OwnSummary>,
}

impl State {
    /// A state that knows nothing yet.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self {
            index: Index::new(now),
            seen: Seen::new(now),
            own_summary: Mutex::new(OwnSummary::new(rand::random())),
        }
    }

    /// What we advertise of our names; not to be held across an await.
    pub fn own_summary(&self) -> MutexGuard<'_, OwnSummary> {
        self.own_summary.lock()
    }

    /// A holder registers versions. With `announce`, later versions than the first that are news
    /// here are announced; the first version of a file has no older copies to invalidate.
    pub fn on_register(
        &self,
        session: &Arc<Session>,
        records: Vec<ListedRecord>,
        announce: bool,
    ) -> RegisterPlan {
        self.registered(records, announce, |record| self.index.register(session, record))
    }

    /// A holder registers versions that it has a part of. They are not announced to neighbors:
    /// that is for the origin, not for those who download.
    pub fn on_register_partial(&self, session: &Arc<Session>, records: Vec<ListedRecord>) -> RegisterPlan {
        self.registered(records, false, |record| self.index.register_partial(session, record))
    }

    fn registered(
        &self,
        records: Vec<ListedRecord>,
        announce: bool,
        register: impl Fn(&ListedRecord) -> Noted,
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
                Noted::Full => plan.unlisted.push(record.name.clone()),
            }
        }
        // Includes what other registrations have added and neighbors have not acknowledged yet.
        plan.neighbors_need = self.own_summary().position();
        plan
    }

    /// A query of `from` arrives, which ends after `deadline`. Also returns what this indexer itself finds.
    ///
    /// The id of a query that ends here is not remembered if it came from the indexer where it began: that
    /// indexer named us among the covered, as does every copy of the query, so no other copy comes. (A peer
    /// that asks several indexers at once is answered over each of them.)
    ///
    /// # Errors
    /// The TTL is past the limit.
    pub fn on_query(
        &self,
        request: &QueryRequest,
        from: &Caller,
        deadline: Duration,
        now: Instant,
    ) -> Result<(Share, Vec<Found>), Refusal> {
        let QueryRequest { msg_id, ttl_hops, covered, from_guest, .. } = request;
        let message = MessageKey { id: *msg_id, from_guest: *from_guest };
        let share = self.share((message, *ttl_hops, covered), from, deadline, now)?;
        let local = if share.answers { self.index.lookup(request, now) } else { Vec::new() };
        Ok((share, local))
    }

    /// A search by pattern arrives, as a query does; see [`on_query`](Self::on_query).
    ///
    /// # Errors
    /// The TTL is past the limit.
    pub fn on_find(
        &self,
        request: &FindRequest,
        from: &Caller,
        deadline: Duration,
        now: Instant,
    ) -> Result<Share, Refusal> {
        let FindRequest { msg_id, ttl_hops, covered, from_guest, .. } = request;
        let message = MessageKey { id: *msg_id, from_guest: *from_guest };
        self.share((message, *ttl_hops, covered), from, deadline, now)
    }

    fn share(
        &self,
        (message, ttl_hops, covered): (MessageKey, u8, &Covered),
        from: &Caller,
        deadline: Duration,
        now: Instant,
    ) -> Result<Share, Refusal> {
        let began_at = covered.first();
        if ttl_hops == 0 && began_at.is_some() && began_at == from.neighbor.as_ref() {
            return Ok(Share { answers: true, is_remembered: true, ttl_hops: None });
        }
        let sight = self.sight(from, (message, ttl_hops), deadline, now)?;
        let goes_on = matches!(sight, Sight::First | Sight::Deeper);
        Ok(Share {
            // A deeper copy was answered before, but may travel further.
            answers: matches!(sight, Sight::First | Sight::Full),
            is_remembered: sight != Sight::Full,
            ttl_hops: ttl_hops.checked_sub(1).filter(|_| goes_on),
        })
    }

    /// An invalidation of `from` arrives; `records` are those of the request, verified.
    ///
    /// # Errors
    /// The TTL is past the limit, or too many messages are remembered.
    pub fn on_invalidate(
        &self,
        request: &InvalidateRequest,
        from: &Caller,
        records: Vec<ListedRecord>,
        deadline: Duration,
        now: Instant,
    ) -> Result<Announcement, Refusal> {
        let message = MessageKey { id: request.msg_id, from_guest: request.from_guest };
        let sight = self.sight(from, (message, request.ttl_hops), deadline, now)?;
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

    /// Notes the message. Its copies travel within the deadline; twice that covers clocks that drift.
    fn sight(
        &self,
        from: &Caller,
        (message, ttl_hops): (MessageKey, u8),
        deadline: Duration,
        now: Instant,
    ) -> Result<Sight, Refusal> {
        if ttl_hops > TTL_MAX {
            return Err(Refusal::TtlTooLarge(ttl_hops));
        }
        Ok(self.seen.sight(from, message, ttl_hops, deadline * 2 + Duration::from_secs(1), now))
    }
}
