//! Searches: from a name to hits, from all indexers concurrently; only signed records count.

mod merging;

use std::{
    collections::HashMap,
    net::SocketAddr,
    slice,
    time::{Duration, Instant},
};

use futures::{StreamExt, future::join_all, stream::FuturesUnordered};
use nekoindexer::state::holders::Sender;
use nekoproto::{
    Answers, Cause, FileName, Hit, IdDigits, IndexerServiceClient, List, MsgId, Names, NodeTag,
    QueryAllRequest, QueryReply, QueryRequest, Refusal, VerifiedRecord,
    limits::{BATCH_MAX, TTL_DEFAULT},
    transport::call_within,
};
use parking_lot::Mutex;
use tarpc::client::RpcError;

use self::merging::absorb;
pub(super) use self::merging::addresses;
use super::{
    Indexers,
    session::Session,
    via::{Connected, Via},
};
use crate::state::choice::Candidate;

/// How far a search goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The own indexers only.
    Own,
    /// The own indexers and those within this many hops of them.
    Network {
        /// Hops beyond the own indexers.
        ttl_hops: u8,
    },
}

/// What a search for one name leaves out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wishes {
    /// Files of other origins.
    pub(crate) origin: Option<IdDigits>,
    /// These holders: they failed.
    pub(crate) without: Vec<NodeTag>,
}

/// Who is asked.
#[derive(Clone, Copy)]
enum Asked<'a> {
    /// An own indexer.
    Session(&'a Session),
    /// One that the command names.
    Via(&'a Connected),
}

impl Asked<'_> {
    fn addr(self) -> SocketAddr {
        match self {
            Self::Session(session) => session.addr(),
            Self::Via(connected) => connected.at.addr,
        }
    }

    fn sender(self) -> Option<Sender> {
        match self {
            Self::Session(session) => session.sender(),
            Self::Via(connected) => Some(Sender { at: connected.at, is_local: connected.is_local }),
        }
    }
}

impl Via {
    /// Why nobody was asked.
    pub(super) fn failure(&self) -> SearchError {
        match self.failed.last().cloned() {
            Some((indexer, why)) => SearchError::Unreachable { indexer, why },
            None => SearchError::NoIndexer,
        }
    }
}

/// The result of a search for one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The newest version of each origin, with its holders; all signatures are verified. There are two of one origin
    /// if it published two files under one number.
    pub candidates: Vec<Candidate>,
    /// The newest versions of origins that withdrew the name; all signatures are verified.
    pub withdrawn: Vec<VerifiedRecord>,
    /// Whether every indexer in reach answered, and every hit was valid.
    pub complete: bool,
    /// Whether guests of an indexer may know more, see [`QueryReply::guests_unheard`].
    pub guests_unheard: bool,
}

impl Answer {
    /// A withdrawal is no file: it is told apart, once it has taken the place of older versions.
    fn part_withdrawn(&mut self) {
        let withdrawn = self.candidates.extract_if(.., |found| found.record.is_withdrawal());
        self.withdrawn.extend(withdrawn.map(|found| found.record));
    }
}

/// Why a search failed.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// None was given or found.
    #[error("no indexer found")]
    NoIndexer,
    /// None of the indexers answered.
    #[error("indexer {indexer} cannot be asked: {why}")]
    Unreachable {
        /// One of them.
        indexer: SocketAddr,
        /// Why.
        why: Cause,
    },
    /// The indexer refused.
    #[error("the indexer refused the query: {0}")]
    Refused(#[from] Refusal),
    /// A glob cannot be read.
    #[error("{0}")]
    Pattern(String),
}

impl SearchError {
    /// The indexer gives no sign of life.
    pub(super) fn silent(indexer: SocketAddr) -> Self {
        Self::Unreachable { indexer, why: "it does not answer".into() }
    }
}

impl Indexers {
    /// Searches for `name`, as [`search_all`](Self::search_all).
    pub(crate) async fn search(
        &self,
        name: &FileName,
        scope: Scope,
        via: &Via,
    ) -> Result<Answer, SearchError> {
        self.search_again(name, scope, via, &Wishes::default()).await
    }

    /// Searches for all of `names`, many per call, at the own indexers and at those of `via`; returns answers in the
    /// order of `names`.
    pub(crate) async fn search_all(
        &self,
        names: &[FileName],
        scope: Scope,
        via: &Via,
    ) -> Result<Vec<Answer>, SearchError> {
        self.search_for(names, scope, via, &Wishes::default()).await
    }

    /// Searches for all that is known of one name and meets `wishes`. See [`search_all`](Self::search_all).
    pub(crate) async fn search_again(
        &self,
        name: &FileName,
        scope: Scope,
        via: &Via,
        wishes: &Wishes,
    ) -> Result<Answer, SearchError> {
        let answers = self.search_for(slice::from_ref(name), scope, via, wishes).await?;
        Ok(answers.into_iter().next().unwrap_or_default()) // one answer per name
    }

    /// Searches for `names`; the wishes count where one is asked for alone.
    async fn search_for(
        &self,
        names: &[FileName],
        scope: Scope,
        via: &Via,
        wishes: &Wishes,
    ) -> Result<Vec<Answer>, SearchError> {
        let mut merged = vec![Answer { complete: true, ..Answer::default() }; names.len()];
        let (mut answered, mut failure) = (false, via.failure());
        let asked = || {
            let own = self.sessions.iter().map(Asked::Session);
            own.chain(via.connected.iter().map(Asked::Via))
        };
        for (names, merged) in names.chunks(BATCH_MAX).zip(merged.chunks_mut(BATCH_MAX)) {
            // The deadline of each call is that of a single query.
            let deadline = Instant::now() + self.query_deadline;
            let msg_id = MsgId::random(); // the same for all indexers: the network handles it once
            let has_others = asked().nth(1).is_some();
            let asking =
                asked().map(|asked| ask_live(asked, has_others, scope, msg_id, names, (wishes, deadline)));
            let mut answers: FuturesUnordered<_> = asking.collect();
            while let Some(answer) = answers.next().await {
                match answer {
                    Ok(replies) => {
                        answered = true;
                        for ((name, merged), reply) in names.iter().zip(&mut *merged).zip(replies) {
                            absorb(&self.endpoint, &self.library.verifier, merged, name, reply);
                        }
                    }
                    Err(error) => {
                        merged.iter_mut().for_each(|answer| answer.complete = false);
                        failure = error;
                    }
                }
            }
        }
        if !answered && !names.is_empty() {
            return Err(failure);
        }
        let found = merged.iter().flat_map(|answer| &answer.candidates);
        self.library.learn(found.map(|candidate| candidate.record.clone()).collect()).await;
        merged.iter_mut().for_each(Answer::part_withdrawn);
        Ok(merged)
    }
}

impl Indexers {
    /// Asks the network for the newest versions of `names` that were published with this node's key, and adds
    /// the answers to `known` as they come. Asks nobody if no indexer is connected.
    ///
    /// # Cancel safety
    /// Safe: what was answered is in `known`.
    pub(crate) async fn ask_own(&self, names: &[FileName], known: &Mutex<HashMap<FileName, VerifiedRecord>>) {
        // The same ids for all indexers: the network handles each query once.
        let batches: Vec<_> = names.chunks(BATCH_MAX).map(|names| (MsgId::random(), names)).collect();
        let scope = Scope::Network { ttl_hops: TTL_DEFAULT };
        let asked = self.sessions.iter().filter(|session| session.is_connected()).map(async |session| {
            for (msg_id, names) in &batches {
                let deadline = Instant::now() + self.query_deadline;
                let replies =
                    ask_one(Asked::Session(session), scope, *msg_id, names, (&Wishes::default(), deadline))
                        .await;
                let Ok(replies) = replies else { return };
                for (name, hit) in names.iter().zip(replies).flat_map(|(name, (_, reply))| {
                    reply.hits.into_vec().into_iter().map(move |hit| (name, hit))
                }) {
                    self.note_own_hit(name, hit, known);
                }
            }
        });
        join_all(asked).await;
    }

    fn note_own_hit(&self, name: &FileName, hit: Hit, known: &Mutex<HashMap<FileName, VerifiedRecord>>) {
        let record = hit.record.unverified();
        if record.origin != self.library.node || record.name != *name {
            return;
        }
        let Ok(record) = self.library.verifier.verify(hit.record) else { return };
        let mut known = known.lock();
        if known.get(name).is_none_or(|known| record.replaces(known)) {
            known.insert(name.clone(), record);
        }
    }
}

/// A reply, and of whom it is.
type Heard = (Sender, QueryReply);

/// As [`ask_one`], but if there are others, one that gives no sign of life is not waited for.
async fn ask_live(
    asked: Asked<'_>,
    has_others: bool,
    scope: Scope,
    msg_id: MsgId,
    names: &[FileName],
    wishes: (&Wishes, Instant),
) -> Result<Vec<Heard>, SearchError> {
    let Asked::Session(session) = asked else { return ask_one(asked, scope, msg_id, names, wishes).await };
    let asking = ask_one(asked, scope, msg_id, names, wishes);
    let silent = || SearchError::silent(session.addr());
    session.while_alive(has_others, asking).await.unwrap_or_else(|| Err(silent()))
}

/// Asks one indexer for at most [`BATCH_MAX`] names; returns one reply per name.
async fn ask_one(
    asked: Asked<'_>,
    scope: Scope,
    msg_id: MsgId,
    names: &[FileName],
    (wishes, deadline): (&Wishes, Instant),
) -> Result<Vec<Heard>, SearchError> {
    let left = || deadline.saturating_duration_since(Instant::now());
    let unreachable = |why: Cause| SearchError::Unreachable { indexer: asked.addr(), why };
    let client = match asked {
        Asked::Session(session) => {
            let client = session.client_within(left()).await;
            client.ok_or_else(|| unreachable(session.why_away()))?
        }
        Asked::Via(connected) => connected.client.clone(),
    };
    let failed = |error: RpcError| unreachable(error.to_string().into());
    let sender = asked.sender().ok_or_else(|| unreachable("it has just gone".into()))?;
    if let [name] = names {
        let reply = call(&client, scope, msg_id, name, (wishes, left())).await.map_err(failed)??;
        return Ok(vec![(sender, reply)]);
    }
    let answers = call_all(&client, scope, msg_id, names, left()).await.map_err(failed)??;
    let mut replies = Vec::with_capacity(names.len());
    for (n, name) in names.iter().enumerate() {
        let reply = match answers.get(n).cloned().flatten() {
            Some(reply) => reply,
            // The batch reply had no room for it: ask again. If that fails, this name's reply is empty and
            // incomplete.
            None => match call(&client, scope, MsgId::random(), name, (&Wishes::default(), left())).await {
                Ok(Ok(reply)) => reply,
                Ok(Err(_)) | Err(_) => QueryReply::default(),
            },
        };
        replies.push((sender, reply));
    }
    Ok(replies)
}

async fn call(
    client: &IndexerServiceClient,
    scope: Scope,
    msg_id: MsgId,
    name: &FileName,
    (wishes, left): (&Wishes, Duration),
) -> Result<Result<QueryReply, Refusal>, RpcError> {
    let name = name.clone();
    match scope {
        Scope::Own => client.search(call_within(left), name).await,
        Scope::Network { ttl_hops } => {
            let without = List::first_of(wishes.without.iter().copied());
            let origin = wishes.origin.clone();
            let request = QueryRequest { origin, without, ..QueryRequest::new(msg_id, name, ttl_hops) };
            client.query(call_within(left), request).await
        }
    }
}

async fn call_all(
    client: &IndexerServiceClient,
    scope: Scope,
    msg_id: MsgId,
    names: &[FileName],
    left: Duration,
) -> Result<Result<Answers, Refusal>, RpcError> {
    let names = Names::first_of(names.iter().cloned());
    match scope {
        Scope::Own => client.search_all(call_within(left), names).await,
        Scope::Network { ttl_hops } => {
            client.query_all(call_within(left), QueryAllRequest { msg_id, names, ttl_hops }).await
        }
    }
}
