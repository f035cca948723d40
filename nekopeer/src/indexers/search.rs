//! Searches: from a name to hits, from all indexers concurrently; only signed records count.

mod merging;

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use futures::{
    StreamExt,
    future::join_all,
    stream::{self, FuturesUnordered},
};
use nekoindexer::state::holders::Sender;
use nekoproto::{
    Cause, FileName, Hit, IdDigits, IndexerServiceClient, List, MsgId, Names, NodeTag, QueryAllRequest,
    QueryReply, QueryRequest, Refusal, Remedy, VerifiedRecord,
    limits::{BATCH_MAX, HANDSHAKE_TIMEOUT, TTL_DEFAULT},
    transport::call_within,
};
use parking_lot::Mutex;
use tarpc::client::RpcError;
use tokio_util::sync::CancellationToken;

use self::merging::absorb;
pub(super) use self::merging::addresses;
use super::{
    Indexers,
    session::{Session, failed, sender, unreachable},
    via::{Connected, Via},
};
use crate::{
    failure::{Failure, FailureKind},
    state::choice::Candidate,
};

/// Round trips that the longest answer takes over a new connection, which sends twice as much in each, and 14 KB in the first.
const ANSWER_ROUND_TRIPS: u32 = 4;
/// Time for the first attempt to connect: a little more than it takes at most, as it then says why it failed.
const TRIED_WITHIN: Duration = HANDSHAKE_TIMEOUT.saturating_add(Duration::from_secs(1));
/// Calls under way at once, of those that one search for many names takes.
const CALLS_AT_ONCE: usize = 8;
/// Lists in which one indexer is asked for a batch of names: an answer has room for four of the longest replies.
const LISTS_MAX: usize = BATCH_MAX / 4;

/// What a search for one name leaves out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wishes {
    /// Files of other origins.
    pub(crate) origin: Option<IdDigits>,
    /// These holders: they failed.
    pub(crate) without: Vec<NodeTag>,
}

#[derive(Clone, Copy)]
pub(super) enum Asked<'a> {
    Session(&'a Session),
    /// One that the command names.
    Via(&'a Connected),
}

impl Asked<'_> {
    pub(super) fn tag(self) -> NodeTag {
        match self {
            Self::Session(session) => {
                session.remote().map_or_else(|| NodeTag::of_addr(session.addr()), |node| node.tag())
            }
            Self::Via(connected) => connected.remote.node.tag(),
        }
    }

    /// Why a call failed: the connection may have been refused meanwhile.
    pub(super) async fn failed(self, error: RpcError) -> Failure {
        if let Self::Session(session) = self
            && let Some(why) = session.refused().await
        {
            return self.unreachable(why);
        }
        self.unreachable(error.to_string())
    }

    pub(super) fn unreachable(self, why: impl Into<Cause>) -> Failure {
        let indexer = match self {
            Self::Session(session) => session.addr(),
            Self::Via(connected) => connected.remote.addr,
        };
        unreachable(indexer, &why.into())
    }

    /// What calls it, it as one that names holders, and the time that an answer has which takes it `limit`: the link to it
    /// takes some round trips, or as long as it took to connect, if it was not connected before.
    pub(super) async fn client(
        self,
        limit: Duration,
    ) -> Result<(IndexerServiceClient, Sender, Duration), Failure> {
        let began = Instant::now();
        let (client, remote) = match self {
            Self::Session(session) => {
                let asked = session.asked_within(TRIED_WITHIN).await;
                asked.ok_or_else(|| self.unreachable(session.why_away()))?
            }
            Self::Via(Connected { remote, client, .. }) => (client.clone(), *remote),
        };
        Ok((client, sender(&remote), limit + began.elapsed().max(ANSWER_ROUND_TRIPS * remote.round_trip())))
    }

    /// What it is `asked`; once another one has `answered`, an own indexer that gives no sign of life is not waited for.
    pub(super) async fn while_alive<T>(
        self,
        answered: &CancellationToken,
        asked: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let Self::Session(session) = self else { return asked.await.inspect(|_| answered.cancel()) };
        let answer = session.while_alive(answered, asked).await;
        answer.unwrap_or_else(|| Err(self.unreachable("it does not answer")))
    }
}

impl Via {
    pub(super) fn failure(&self) -> Failure {
        self.failed.last().map_or_else(no_indexer, |(indexer, why)| unreachable(*indexer, why))
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
    /// Those of the file that most likely is meant.
    pub(crate) fn bytes(&self) -> u64 {
        self.candidates.first().map_or(0, |found| found.record.size)
    }

    /// A withdrawal is no file: it is told apart, once it has taken the place of older versions.
    fn part_withdrawn(&mut self) {
        let withdrawn = self.candidates.extract_if(.., |found| found.record.is_withdrawal());
        self.withdrawn.extend(withdrawn.map(|found| found.record));
    }
}

pub(super) fn no_indexer() -> Failure {
    failed(FailureKind::Away, "no indexer found".to_owned(), Some(Remedy::Indexer))
}

pub(super) fn refused(refusal: Refusal) -> Failure {
    let kind = if refusal == Refusal::Busy { FailureKind::Busy } else { FailureKind::Failed };
    failed(kind, format!("the indexer refused the query: {refusal}"), None)
}

impl Indexers {
    pub(super) fn asked<'a>(&'a self, via: &'a Via) -> impl Iterator<Item = Asked<'a>> {
        let own = self.sessions().map(Asked::Session);
        own.chain(via.connected.iter().map(Asked::Via))
    }

    /// Many names per call, at the own indexers, at those of `via`, and at those within `ttl_hops` of them; returns answers in the
    /// order of `names`.
    pub(crate) async fn search_all(
        &self,
        names: &[FileName],
        ttl_hops: u8,
        via: &Via,
    ) -> Result<Vec<Answer>, Failure> {
        self.search_for(names, ttl_hops, via, &Wishes::default()).await
    }

    /// Searches for all that is known of one name and meets `wishes`. See [`search_all`](Self::search_all).
    pub(crate) async fn search_one(
        &self,
        name: &FileName,
        ttl_hops: u8,
        via: &Via,
        wishes: &Wishes,
    ) -> Result<Answer, Failure> {
        let answers = self.search_for(std::slice::from_ref(name), ttl_hops, via, wishes).await?;
        Ok(answers.into_iter().next().unwrap_or_default()) // one answer per name
    }

    /// Searches for `names`; the wishes count where one is asked for alone.
    async fn search_for(
        &self,
        names: &[FileName],
        ttl_hops: u8,
        via: &Via,
        wishes: &Wishes,
    ) -> Result<Vec<Answer>, Failure> {
        let mut merged = vec![Answer { complete: true, ..Answer::default() }; names.len()];
        let calls = names.chunks(BATCH_MAX).zip(merged.chunks_mut(BATCH_MAX));
        let calls: Vec<_> =
            calls.map(|(names, merged)| self.search_some(names, merged, ttl_hops, via, wishes)).collect();
        let asked: Vec<_> = stream::iter(calls).buffered(CALLS_AT_ONCE).collect().await;
        if !asked.iter().any(|(answered, _)| *answered) && !names.is_empty() {
            return Err(asked.into_iter().find_map(|(_, failure)| failure).unwrap_or_else(|| via.failure()));
        }
        let found = merged.iter().flat_map(|answer| &answer.candidates);
        self.library.learn(found.map(|candidate| candidate.record.clone()).collect()).await;
        merged.iter_mut().for_each(Answer::part_withdrawn);
        Ok(merged)
    }
}

impl Indexers {
    /// Searches for at most [`BATCH_MAX`] names; says whether anybody answered, and what kept the last one from it.
    async fn search_some(
        &self,
        names: &[FileName],
        merged: &mut [Answer],
        ttl_hops: u8,
        via: &Via,
        wishes: &Wishes,
    ) -> (bool, Option<Failure>) {
        let (mut answered, mut failure) = (false, None);
        let wishes = (wishes, self.query_deadline); // for each call as for a single query
        let msg_id = MsgId::random(); // the same for all indexers: the network handles it once
        let first = CancellationToken::new();
        let asking = self
            .asked(via)
            .map(|asked| asked.while_alive(&first, ask_one(asked, ttl_hops, msg_id, names, wishes)));
        let mut answers: FuturesUnordered<_> = asking.collect();
        while let Some(answer) = answers.next().await {
            match answer {
                Ok(replies) => {
                    answered = true;
                    for ((name, merged), reply) in names.iter().zip(&mut *merged).zip(replies) {
                        absorb(&self.endpoint, self.library.checks.verifier(), merged, name, reply);
                    }
                }
                Err(error) => {
                    merged.iter_mut().for_each(|answer| answer.complete = false);
                    failure = Some(error);
                }
            }
        }
        (answered, failure)
    }

    /// Asks the network for the newest versions of `names` that were published with this node's key, and adds
    /// the answers to `known` as they come. Asks nobody if no indexer is connected.
    ///
    /// # Cancel safety
    /// Safe: what was answered is in `known`.
    pub(crate) async fn ask_own(&self, names: &[FileName], known: &Mutex<HashMap<FileName, VerifiedRecord>>) {
        // The same ids for all indexers: the network handles each query once.
        let batches: Vec<_> = names.chunks(BATCH_MAX).map(|names| (MsgId::random(), names)).collect();
        let asked = self.sessions().filter(|session| session.is_connected()).map(async |session| {
            for (msg_id, names) in &batches {
                let (asked, wishes) = (Asked::Session(session), (&Wishes::default(), self.query_deadline));
                let asking = ask_one(asked, TTL_DEFAULT, *msg_id, names, wishes);
                let replies = asked.while_alive(&CancellationToken::new(), asking).await;
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
        let Ok(record) = self.library.checks.verifier().verify(hit.record) else { return };
        let mut known = known.lock();
        if known.get(name).is_none_or(|known| record.replaces(known)) {
            known.insert(name.clone(), record);
        }
    }
}

type Heard = (Sender, QueryReply);

/// Asks one indexer for at most [`BATCH_MAX`] names, each time for at most `limit`; returns one reply per name.
async fn ask_one(
    asked: Asked<'_>,
    ttl_hops: u8,
    msg_id: MsgId,
    names: &[FileName],
    (wishes, limit): (&Wishes, Duration),
) -> Result<Vec<Heard>, Failure> {
    let (client, sender, limit) = asked.client(limit).await?;
    let until = call_within(limit);
    if let [name] = names {
        let without = List::first_of(wishes.without.iter().copied());
        let request = QueryRequest::new(msg_id, name.clone(), ttl_hops);
        let request = QueryRequest { origin: wishes.origin.clone(), without, ..request };
        return match client.query(until, request).await {
            Ok(reply) => Ok(vec![(sender, reply.map_err(refused)?)]),
            Err(error) => Err(asked.failed(error).await),
        };
    }
    let request = |msg_id, names| QueryAllRequest { msg_id, names, ttl_hops };
    let list = Names::first_of(names.iter().cloned());
    let mut replies = match client.query_all(until, request(msg_id, list)).await {
        Ok(replies) => replies.map_err(refused)?.into_vec(),
        Err(error) => return Err(asked.failed(error).await),
    };
    replies.resize(names.len(), None);
    for _ in 1..LISTS_MAX {
        // The answers so far had no room for these.
        let rest: Vec<usize> = (0..names.len()).filter(|n| replies[*n].is_none()).collect();
        if rest.is_empty() {
            break;
        }
        let list = Names::first_of(rest.iter().map(|n| names[*n].clone()));
        match client.query_all(call_within(limit), request(MsgId::random(), list)).await {
            Ok(Ok(answers)) if answers.iter().any(Option::is_some) => {
                rest.into_iter().zip(answers).for_each(|(n, reply)| replies[n] = reply);
            }
            _ => break,
        }
    }
    // The reply for a name that is not answered is empty and incomplete.
    Ok(replies.into_iter().map(|reply| (sender, reply.unwrap_or_default())).collect())
}
