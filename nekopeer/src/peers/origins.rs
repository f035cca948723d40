//! Asks origins whether copies are still the newest versions.

use std::{
    collections::{HashMap, HashSet},
    iter,
    net::SocketAddr,
    slice,
    sync::Arc,
    time::Instant,
};

use futures::{StreamExt, stream};
use nekoproto::{
    FileName, Held, Holder, List, NodeId, PeerServiceClient, Records, Refusal, Verdict, VerifiedRecord,
    limits::{BATCH_MAX, TTL_DEFAULT},
    transport::call_within,
};
use tarpc::client::RpcError;
use tokio::sync::OnceCell;
use tracing::debug;

use super::{ANSWER_WITHIN, CallError, Peers};
use crate::{
    indexers::via::Via,
    library::Library,
    state::{
        freshness::NoAnswer,
        verdict::{later, of_newest},
    },
    util::clock,
};

pub(crate) const ORIGINS_AT_ONCE: usize = 64;
/// Batches that one origin is asked about at once: the answers to 1 024 names are under way together.
const BATCHES_AT_ONCE: usize = 8;
/// Addresses of an origin that are tried before the indexers are asked for more.
const ADDRESSES_TRIED: usize = 2;
/// Names for which the indexers are asked to find an origin's address.
const NAMES_TRIED: usize = 2;

impl Peers {
    /// Asks the origins of `copies`, and records their answers; returns the origins that did not answer about all.
    /// An origin that hangs delays no other answer.
    pub(crate) async fn confirm(&self, copies: Vec<VerifiedRecord>) -> Vec<NodeId> {
        self.library.watch_named(copies.iter().map(|copy| &copy.name));
        let mut by_origin: HashMap<NodeId, Vec<VerifiedRecord>> = HashMap::new();
        for copy in copies {
            by_origin.entry(copy.origin).or_default().push(copy);
        }
        let elsewhere = OnceCell::new();
        let asking = by_origin
            .into_iter()
            .map(async |(origin, copies)| (origin, self.confirm_one(origin, copies, &elsewhere).await));
        let asked: Vec<(NodeId, bool)> =
            stream::iter(asking).buffer_unordered(ORIGINS_AT_ONCE).collect().await;
        asked.into_iter().filter(|(_, is_answered)| !is_answered).map(|(origin, _)| origin).collect()
    }

    /// Records the answer of its origin about `copy`; whether that was an answer. One that lost its counter is told so by a
    /// call.
    pub(crate) async fn heard(&self, copy: &VerifiedRecord, verdict: Verdict, asked_at: Instant) -> bool {
        let is_answer = verdict != Verdict::Unknown;
        if is_answer {
            self.library.watch_named(iter::once(&copy.name));
            self.record(slice::from_ref(copy), vec![verdict], asked_at).await;
        }
        is_answer
    }

    /// Asks one origin about its files `copies`, many per call over one connection, and records its answers;
    /// whether it answered about all of them. `elsewhere` are the remembered indexers, once somebody needs them.
    pub(crate) async fn confirm_one(
        &self,
        origin: NodeId,
        copies: Vec<VerifiedRecord>,
        elsewhere: &OnceCell<Via>,
    ) -> bool {
        let mut left = copies.as_slice();
        if let Err(error) = self.ask(origin, &mut left, elsewhere).await {
            debug!(origin = %origin.short(), %error, "the origin cannot be asked");
        }
        left.iter().for_each(|copy| self.library.note_unconfirmed(copy, NoAnswer::Away));
        left.is_empty()
    }

    /// Asks the origin at its last known addresses, then at that which the indexers list. What is in `left`
    /// afterwards has no answer.
    async fn ask(
        &self,
        origin: NodeId,
        left: &mut &[VerifiedRecord],
        elsewhere: &OnceCell<Via>,
    ) -> Result<(), CallError> {
        let mut tried = HashSet::new();
        let mut failed = CallError::TooLong;
        let known = left.iter().filter_map(|copy| self.library.catalogue.get(&copy.name)?.origin_addr);
        let mut known: Vec<SocketAddr> = known.take(BATCH_MAX).collect();
        known.dedup();
        for addr in known {
            if tried.len() < ADDRESSES_TRIED
                && tried.insert((addr, self.endpoint.knows_another_way(origin, addr)))
            {
                match self.ask_at(Holder::new(origin, addr), left).await {
                    Ok(()) => return Ok(()),
                    Err(error) => failed = error,
                }
            }
        }
        // One of the names may have been withdrawn, so two are searched for.
        for copy in left.iter().take(NAMES_TRIED) {
            let own = Via::default();
            let mut found = self.address_of(origin, &copy.name, &own).await;
            if found.is_none() {
                // The own indexers may not know it: it came by a ticket.
                let via = elsewhere.get_or_init(|| self.indexers.connect_remembered(&own)).await;
                if !via.good.is_empty() {
                    found = self.address_of(origin, &copy.name, via).await;
                }
            }
            // The search may have brought another way to an address that was tried.
            let is_new = |addr: &SocketAddr| {
                let is_known = self.endpoint.knows_another_way(origin, *addr);
                !tried.contains(&(*addr, is_known)) && !tried.contains(&(*addr, true))
            };
            if let Some(addr) = found.filter(is_new) {
                let name = copy.name.clone();
                self.ask_at(Holder::new(origin, addr), left).await?;
                self.remember_origin(name, addr).await;
                return Ok(());
            }
        }
        Err(failed)
    }

    /// Where `origin` holds the file of `name`, as indexers list it.
    pub(crate) async fn address_of(&self, origin: NodeId, name: &FileName, via: &Via) -> Option<SocketAddr> {
        let answers =
            self.indexers.search_all(slice::from_ref(name), TTL_DEFAULT, via).await.unwrap_or_default();
        let mut holders =
            answers.into_iter().flat_map(|answer| answer.candidates).flat_map(|found| found.holders);
        holders.find(|holder| holder.node == origin).map(|holder| holder.addr)
    }

    /// Asks the origin at one address about all that is `left`, and records each answer as it comes.
    async fn ask_at(&self, origin: Holder, left: &mut &[VerifiedRecord]) -> Result<(), CallError> {
        let batches = u32::try_from(left.len().div_ceil(BATCH_MAX)).unwrap_or(u32::MAX);
        let ask = |client: PeerServiceClient| async move {
            let all = *left;
            let asked: Vec<_> = all.chunks(BATCH_MAX).map(|batch| self.ask_batch(&client, batch)).collect();
            let mut answers = stream::iter(asked).buffered(BATCHES_AT_ONCE);
            while let Some(answer) = answers.next().await {
                match answer? {
                    Ok(()) => *left = &left[left.len().min(BATCH_MAX)..],
                    Err(refusal) => return Ok(Err(refusal)),
                }
            }
            Ok(Ok(()))
        };
        self.call_origin(origin, ANSWER_WITHIN.saturating_mul(batches), ask).await
    }

    async fn ask_batch(
        &self,
        client: &PeerServiceClient,
        batch: &[VerifiedRecord],
    ) -> Result<Result<(), Refusal>, RpcError> {
        let asked_at = clock::now();
        let verdicts = match self.verdicts(client, batch).await? {
            Ok(verdicts) => verdicts,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let lost = self.record(batch, verdicts, asked_at).await;
        if !lost.is_empty() {
            // If it lost its counter its own signature shows it that, and it publishes above it.
            let told = client.invalidate(call_within(ANSWER_WITHIN), lost).await?;
            debug!(?told, "an origin was told of versions that it did not know");
        }
        Ok(Ok(()))
    }

    /// What an origin says of a batch of the newest versions that are known.
    async fn verdicts(
        &self,
        client: &PeerServiceClient,
        newest: &[VerifiedRecord],
    ) -> Result<Result<Vec<Verdict>, Refusal>, RpcError> {
        let in_place = self.in_place(newest);
        let held = List::first_of(in_place.iter().map(held));
        let verdicts = client.confirm(call_within(ANSWER_WITHIN), held).await?;
        Ok(verdicts.map(|verdicts| about_newest(newest, &in_place, verdicts)))
    }

    /// Of each of these newest versions that are known, the earlier one of the same origin whose place it has not taken, or
    /// that the command of a follower accepted before, if there is one: that is what an origin is told that this peer holds.
    fn in_place(&self, newest: &[VerifiedRecord]) -> Vec<VerifiedRecord> {
        let in_place = |newest: &VerifiedRecord| {
            let held = self.library.catalogue.get(&newest.name)?.record.clone();
            self.library.accepted_instead(&held).or(Some(held)).filter(|held| newest.replaces(held))
        };
        newest.iter().map(|newest| in_place(newest).unwrap_or_else(|| newest.clone())).collect()
    }

    /// Records the answers to one call; returns versions that the origin signed and does not know.
    async fn record(&self, batch: &[VerifiedRecord], verdicts: Vec<Verdict>, asked_at: Instant) -> Records {
        let (mut news, mut lost) = (Vec::new(), Vec::new());
        let mut verdicts = verdicts.into_iter();
        for copy in batch {
            let verdict = verdicts.next();
            if verdict == Some(Verdict::Unknown) {
                lost.push(copy.to_signed());
            }
            match later(copy, verdict, self.library.checks.verifier()) {
                Ok(None) => self.library.note_confirmed(copy, asked_at),
                Ok(Some(record)) => {
                    self.library.note_found_later(copy);
                    news.push(record);
                }
                Err(why) => self.library.note_unconfirmed(copy, why),
            }
        }
        self.library.learn(news).await; // what cannot be stored is asked again
        Records::first_of(lost)
    }

    /// Asks an origin for the newest versions of files of which `known` are versions; returns them by name, in any
    /// order. What it does not offer, or does not hand out yet, is left out, and everything if it does not answer.
    pub(crate) async fn newest(
        &self,
        origin: Holder,
        known: Vec<VerifiedRecord>,
    ) -> Vec<(FileName, VerifiedRecord)> {
        let batches = u32::try_from(known.len().div_ceil(BATCH_MAX)).unwrap_or(u32::MAX);
        let ask = |client: PeerServiceClient| async move {
            let mut newest = Vec::new();
            for batch in known.chunks(BATCH_MAX) {
                let asked_at = clock::now();
                let verdicts = match self.verdicts(&client, batch).await? {
                    Ok(verdicts) => verdicts,
                    Err(refusal) => return Ok(Err(refusal)),
                };
                newest.extend(batch.iter().zip(verdicts).filter_map(|(known, verdict)| {
                    let later = later(known, Some(verdict), self.library.checks.verifier()).ok()?;
                    if later.is_none() {
                        self.library.note_confirmed(known, asked_at);
                    }
                    let newest = later.unwrap_or_else(|| known.clone());
                    Some((known.name.clone(), newest))
                }));
            }
            Ok(Ok(newest))
        };
        let answer = self.call_origin(origin, ANSWER_WITHIN.saturating_mul(batches), ask).await;
        answer.unwrap_or_else(|error| {
            debug!(origin = %origin.node.short(), %error, "the origin cannot be asked");
            Vec::new()
        })
    }

    async fn remember_origin(&self, name: FileName, addr: SocketAddr) {
        let remember = move |library: &Arc<Library>| {
            library.catalogue.update(&name, |entry| entry.origin_addr.replace(addr) != Some(addr))
        };
        if let Err(error) = self.library.blocking(remember).await {
            tracing::warn!(%error, "cannot store where an origin is"); // found by a search next time
        }
    }
}

/// The answers about what is `in_place`, as answers about the `newest` versions that are known.
fn about_newest(
    newest: &[VerifiedRecord],
    in_place: &[VerifiedRecord],
    verdicts: List<Verdict, BATCH_MAX>,
) -> Vec<Verdict> {
    let asked = newest.iter().zip(in_place);
    asked.zip(verdicts).map(|((newest, held), verdict)| of_newest(newest, held, verdict)).collect()
}

/// `copy` as its origin is asked about it.
pub(crate) fn held(copy: &VerifiedRecord) -> Held {
    Held { name: copy.name.clone(), version: copy.version, content: copy.content }
}
