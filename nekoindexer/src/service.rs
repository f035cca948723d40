//! What a caller may ask: validates, calls the state, and hands its plans to `query` and `invalidate`.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Instant,
};

use futures::{StreamExt, TryStreamExt, stream};
use nekoproto::{
    Answers, CallBack, Covered, FindReply, FindRequest, Hit, IndexerAddr, IndexerService, InvalidateRequest,
    LeaseReply, List, ListedHolder, ListedRecord, MsgId, Names, QueryAllRequest, QueryReply, QueryRequest,
    Records, Refusal, RegisterReply, RegisterRequest, Role, SignedRecord, Via,
    budget::site_of,
    indexer::AnswersRoom,
    limits::TTL_MAX,
    probe::{ProbeReply, ProbeRequest},
    summary::{SummaryNews, SummaryReply},
    transport::{Remote, slots::SlotOwner},
};
use tarpc::context::Context;
use tokio::{sync::OwnedSemaphorePermit, task::yield_now};
use tracing::warn;

use crate::{
    call_back,
    counters::Drop,
    find,
    invalidate::{self, Envelope},
    neighbors::channel::Channel,
    probe, query,
    shared::Shared,
    state::{caller::Caller, index::Session, merge::Merge, seen::MessageKey},
};

/// Queries of one call that are in flight at once.
const QUERIES_AT_ONCE: usize = 16;
/// More registrations than these are removed on a blocking thread, so that no other call waits.
const REMOVED_INLINE: usize = 256;

/// The indexer as one connection sees it.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) shared: Arc<Shared>,
    pub(crate) remote: Remote,
    pub(crate) caller: Arc<Caller>,
    /// The caller's registrations, or why it has none: it is no peer that listens, or another node runs with its key.
    pub(crate) session: Result<Arc<Session>, Refusal>,
    /// What is said of names over the connection; only indexers have one.
    pub(crate) channel: Option<Arc<Channel>>,
}

impl Service {
    fn session(&self) -> Result<&Arc<Session>, Refusal> {
        match self.remote.role {
            Role::Indexer => Err(Refusal::WrongRole),
            Role::Peer => self.session.as_ref().map_err(|refusal| *refusal),
        }
    }

    /// What this indexer itself knows.
    fn found(&self, asked: &QueryRequest) -> QueryReply {
        let now = Instant::now();
        let reply = Merge::new(self.shared.state.index.lookup(asked, now)).finish();
        self.shared.counters.answered_alone(&self.shared.counters.searches, now);
        reply
    }

    /// `hits` as the caller is told of them: whoever holds a version on this machine, to others at an address that they
    /// reach.
    fn told<const MAX: usize>(&self, hits: List<Hit, MAX>) -> List<Hit, MAX> {
        if self.remote.is_local() {
            return hits;
        }
        let told = |holder: ListedHolder| {
            let via = told_via(&holder, self.remote.here);
            Some(ListedHolder { node: holder.node.told_at(self.remote.here)?, via, ..holder })
        };
        let told = |Hit { record, holders }| {
            let holders = List::first_of(holders.into_iter().filter_map(told));
            Hit { record, holders }
        };
        List::first_of(hits.into_iter().map(told))
    }

    fn lease(&self, session: &Session) -> LeaseReply {
        self.shared.state.index.renew(session, self.shared.lease, Instant::now());
        LeaseReply {
            lease_ms: u32::try_from(self.shared.lease.as_millis()).unwrap_or(u32::MAX),
            names: u32::try_from(session.count()).unwrap_or(u32::MAX),
        }
    }

    /// The records that the caller registers: its own unless others crowd their names, those that are listed already, and
    /// those whose signatures hold. One that is none of these refuses them all.
    async fn believed(&self, records: Records) -> Result<Vec<ListedRecord>, Refusal> {
        let index = &self.shared.state.index;
        let (mut believed, mut unknown) = (Vec::with_capacity(records.len()), Vec::new());
        for record in records {
            match record.said_by(&self.remote.node) {
                Ok(own) if index.is_crowded(&own.name) => unknown.push(own.to_signed()),
                Ok(own) => believed.push(own),
                Err(other) => match index.vouch(other) {
                    Ok(listed) => believed.push(listed),
                    Err(new) => unknown.push(new),
                },
            }
        }
        believed.extend(self.verified(unknown).await?);
        Ok(believed)
    }

    /// Checks the signatures of `records`, all of which have to hold.
    async fn verified(&self, records: Vec<SignedRecord>) -> Result<Vec<ListedRecord>, Refusal> {
        if records.is_empty() {
            return Ok(Vec::new());
        }
        let owner = SlotOwner::at(self.remote.addr.ip(), Some(self.remote.node));
        let checked =
            self.shared.checks.check(owner, records).await.inspect_err(|_| self.drop(Drop::Busy))?;
        checked.into_iter().map(|record| record.map(ListedRecord::from)).collect::<Result<_, _>>().map_err(
            |_| {
                self.drop(Drop::Forged);
                Refusal::Forged
            },
        )
    }

    fn drop(&self, why: Drop) {
        self.shared.counters.drop(why);
    }

    /// Whether what comes over the connection comes from a node that is not trusted, or did before: `said` by the sender. A
    /// peer begins its messages, under ids that are its own.
    fn is_from_guest(&self, said: bool) -> bool {
        self.channel.as_ref().is_some_and(|channel| said || !channel.is_trusted())
    }

    /// Answers a query: from the own index, or by what the indexers in reach know.
    async fn answer(&self, context: Context, query: QueryRequest) -> Result<QueryReply, Refusal> {
        let reply = match query.ttl_hops == 0 && !query.trace && self.remote.role == Role::Peer {
            true => self.found(&query), // no copy of it goes anywhere
            false => {
                let from_guest = self.is_from_guest(query.from_guest);
                let query = QueryRequest { msg_id: self.caller.id_of(query.msg_id), from_guest, ..query };
                query::answer(&self.shared, &self.caller, context.deadline, query).await?
            }
        };
        Ok(QueryReply { hits: self.told(reply.hits), ..reply })
    }

    /// Room to tell of newer versions.
    fn announcing(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        let place = Arc::clone(&self.caller.announcements).try_acquire_owned();
        place.map_err(|_| Refusal::Busy).inspect_err(|_| self.drop(Drop::Busy))
    }
}

/// Who has `holder` connect, as it is told to another machine, which reached this one at `here`.
fn told_via(holder: &ListedHolder, here: IpAddr) -> Via {
    match holder.via {
        Via::Indexer(IndexerAddr { addr, node }) if addr.ip().is_loopback() => {
            Via::Indexer(IndexerAddr { addr: SocketAddr::new(here, addr.port()), node })
        }
        other => other,
    }
}

impl IndexerService for Service {
    async fn register(self, _: Context, request: RegisterRequest) -> Result<RegisterReply, Refusal> {
        let session = self.session()?;
        let counters = &self.shared.counters;
        counters.registrations.inc();
        counters.records.inc_by(request.records.len() as u64);
        let withdrawals = session.withdrawals();
        let announcing = self.announcing()?;
        let records = self.believed(request.records).await?;
        let step = self.shared.registering.step(site_of(self.remote.addr.ip())).await;
        if session.withdrawals() != withdrawals {
            return Err(Refusal::Busy); // it withdrew everything meanwhile
        }
        self.lease(session); // first, so that an old lease does not end in between
        let state = &self.shared.state;
        let plan = if request.partial {
            state.on_register_partial(session, records)
        } else {
            state.on_register(session, records, request.announce)
        };
        drop(step);
        let lease = self.lease(session);
        counters.drop_many(Drop::NotListed, plan.unlisted.len());
        counters.drop_many(Drop::Outdated, plan.newer.len());
        if plan.is_news_to_neighbors {
            self.shared.neighbors.own_changed();
        }
        // Before it waits: the caller may go away meanwhile.
        if !plan.announcement.is_empty() {
            let msg_id = MsgId::random();
            self.shared.note_own_message(&self.caller, msg_id);
            let ttl_hops = Some(TTL_MAX - 1); // this hop is the first
            let news = Envelope { msg_id, ttl_hops, covered: Covered::new(), from_guest: false };
            invalidate::spread(&self.shared, plan.announcement, news, announcing);
        }
        self.shared.neighbors.acknowledge(plan.neighbors_need).await;
        Ok(RegisterReply {
            lease,
            newer: Records::first_of(plan.newer.iter().map(ListedRecord::to_signed)),
            unlisted: Names::first_of(plan.unlisted),
        })
    }

    async fn deregister(self, _: Context, names: Names) -> Result<(), Refusal> {
        let session = self.session()?;
        self.shared.counters.deregistrations.inc();
        names.iter().for_each(|name| self.shared.state.index.deregister(session, name));
        Ok(())
    }

    async fn deregister_all(self, _: Context) -> Result<(), Refusal> {
        if let Some(channel) = &self.channel {
            self.shared.neighbors.leave(self.remote.node, channel);
            return Ok(());
        }
        let session = Arc::clone(self.session()?);
        let shared = Arc::clone(&self.shared);
        shared.counters.deregistrations.inc();
        // Before the first await, so that what is registered after this call stays.
        let names = shared.state.index.withdraw_all(&session);
        if names.len() <= REMOVED_INLINE {
            shared.state.index.unlist_all(&session, names);
            return Ok(());
        }
        let remove = move || shared.state.index.unlist_all(&session, names);
        tokio::task::spawn_blocking(remove).await.map_err(|error| {
            warn!(%error, "not all registrations were removed");
            Refusal::Busy // they expire with the lease
        })
    }

    async fn renew(self, _: Context) -> Result<LeaseReply, Refusal> {
        Ok(self.lease(self.session()?))
    }

    async fn query(self, context: Context, request: QueryRequest) -> Result<QueryReply, Refusal> {
        self.answer(context, request).await
    }

    async fn query_all(self, context: Context, request: QueryAllRequest) -> Result<Answers, Refusal> {
        let turn = self.caller.lists.acquire().await;
        let _turn = turn.map_err(|_| Refusal::Busy)?; // it is never closed
        let answer = async |query| {
            yield_now().await; // others have their turn between two
            match self.answer(context, query).await {
                // The other queries of the call are still answered.
                Err(Refusal::Busy) => Ok(QueryReply::default()),
                answer => answer,
            }
        };
        let mut room = AnswersRoom::default();
        let all = stream::iter(request.queries().map(answer)).buffered(QUERIES_AT_ONCE);
        // What does not fit the answer is not kept until the last of them is there.
        let all = all.map_ok(|reply| room.fit(reply)).try_collect::<Vec<_>>().await?;
        Ok(Answers::first_of(all))
    }

    async fn find(self, context: Context, request: FindRequest) -> Result<FindReply, Refusal> {
        let from_guest = self.is_from_guest(request.from_guest);
        let request = FindRequest { msg_id: self.caller.id_of(request.msg_id), from_guest, ..request };
        let reply = find::answer(&self.shared, &self.caller, context.deadline, request).await?;
        Ok(FindReply { hits: self.told(reply.hits), ..reply })
    }

    async fn probe(self, context: Context, request: ProbeRequest) -> Result<ProbeReply, Refusal> {
        probe::answer(&self.shared, &self.caller, context.deadline, request).await
    }

    async fn summarize(self, _: Context, news: SummaryNews) -> Result<SummaryReply, Refusal> {
        let channel = self.channel.as_ref().ok_or(Refusal::WrongRole)?;
        self.shared.neighbors.hear(&self.shared.state, channel, news)
    }

    async fn call_back(self, _: Context, request: CallBack) -> Result<(), Refusal> {
        call_back::answer(&self.shared, (&self.caller, self.remote), request).await
    }

    async fn invalidate(self, context: Context, mut request: InvalidateRequest) -> Result<(), Refusal> {
        if self.remote.role == Role::Peer {
            // A holder tells its own indexers. The origin has the network told of what it says itself.
            let is_origin = |record: &SignedRecord| record.unverified().origin == self.remote.node;
            if !request.records.iter().all(is_origin) {
                request.ttl_hops = 0;
            }
        }
        self.shared.counters.invalidations.inc();
        request.msg_id = self.caller.id_of(request.msg_id);
        request.from_guest = self.is_from_guest(request.from_guest);
        let message = MessageKey { id: request.msg_id, from_guest: request.from_guest };
        if self.shared.state.seen.is_duplicate(message, request.ttl_hops, Instant::now()) {
            return Ok(()); // its signatures were checked
        }
        let announcing = self.announcing()?;
        let records = self.verified(request.records.clone().into_vec()).await?;
        let now = Instant::now();
        let left = context.deadline.saturating_duration_since(now);
        let mut announcement =
            self.shared.state.on_invalidate(&request, &self.caller, records, left, now).inspect_err(
                |refusal| {
                    let is_busy = matches!(refusal, Refusal::Busy);
                    self.shared.counters.drop(if is_busy { Drop::SeenFull } else { Drop::Ttl });
                },
            )?;
        if let Ok(session) = &self.session {
            announcement.holders.remove(&session.id()); // who brings the news knows it
        }
        let envelope = Envelope {
            msg_id: request.msg_id,
            ttl_hops: request.ttl_hops.checked_sub(1),
            covered: request.covered,
            from_guest: request.from_guest,
        };
        invalidate::spread(&self.shared, announcement, envelope, announcing);
        Ok(())
    }
}
