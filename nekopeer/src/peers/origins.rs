//! Asks origins whether copies are still the newest versions.

use std::{collections::HashMap, sync::Arc};

use futures::{StreamExt, stream};
use nekoproto::{
    FileName, Held, Holder, List, NodeId, PeerServiceClient, Verdict, VerifiedRecord,
    limits::{BATCH_MAX, TTL_DEFAULT},
    transport::call_within,
};
use tracing::debug;

use super::{ANSWER_WITHIN, CallError, Peers};
use crate::{indexers::Scope, util::clock};

/// Maximum number of origins asked concurrently.
const ASKED_AT_ONCE: usize = 16;
/// Addresses of an origin that are tried before the indexers are asked for more.
const ADDRESSES_TRIED: usize = 2;
/// Names for which the indexers are asked to find an origin's address.
const NAMES_TRIED: usize = 2;

impl Peers {
    /// Asks the origins of `copies`, many copies per call, and records their answers.
    pub(crate) async fn confirm(self: &Arc<Self>, copies: Vec<VerifiedRecord>) {
        let mut by_origin: HashMap<NodeId, Vec<VerifiedRecord>> = HashMap::new();
        for copy in copies {
            by_origin.entry(copy.origin).or_default().push(copy);
        }
        stream::iter(by_origin)
            .for_each_concurrent(ASKED_AT_ONCE, |(origin, copies)| async move {
                let mut batches = copies.chunks(BATCH_MAX);
                while let Some(batch) = batches.next() {
                    if !self.confirm_with(origin, batch).await {
                        // After one failed call the origin's remaining batches are not tried.
                        batches.by_ref().flatten().for_each(|copy| self.library.note_unconfirmed(copy));
                    }
                }
            })
            .await;
    }

    /// Asks one origin about some of its files; returns whether it answered.
    async fn confirm_with(&self, origin: NodeId, copies: &[VerifiedRecord]) -> bool {
        let asked_at = clock::now();
        let verdicts = self.verdicts(origin, copies).await;
        if let Err(error) = &verdicts {
            debug!(origin = %origin.short(), %error, "the origin cannot be asked");
        }
        let is_answered = verdicts.is_ok();
        let mut verdicts = verdicts.unwrap_or_default().into_iter(); // no verdicts if the call failed
        let mut news = Vec::new();
        for copy in copies {
            match verdicts.next() {
                Some(Verdict::Current) => self.library.note_confirmed(copy, asked_at),
                Some(Verdict::Newer(record)) => match self.library.verifier.verify(*record) {
                    Ok(record) if record.replaces(copy) => news.push(record),
                    _ => self.library.note_unconfirmed(copy),
                },
                Some(Verdict::Unpublished) | None => self.library.note_unconfirmed(copy),
            }
        }
        self.library.learn(news).await;
        is_answered
    }

    /// Calls the origin at its last known address, then at those that the indexers list.
    async fn verdicts(
        &self,
        origin: NodeId,
        copies: &[VerifiedRecord],
    ) -> Result<List<Verdict, BATCH_MAX>, CallError> {
        let held: List<Held, BATCH_MAX> = List::first_of(copies.iter().map(|copy| Held {
            name: copy.name.clone(),
            version: copy.version,
            content: copy.content,
        }));
        let ask = |addr, held| {
            let call = |client: PeerServiceClient| async move {
                client.confirm(call_within(ANSWER_WITHIN), held).await
            };
            self.call(Holder::new(origin, addr), ANSWER_WITHIN, call)
        };
        let mut tried = Vec::new();
        let mut failed = CallError::TooLong;
        let known = copies.iter().filter_map(|copy| self.library.catalogue.get(&copy.name)?.origin_addr);
        for addr in known {
            if !tried.contains(&addr) && tried.len() < ADDRESSES_TRIED {
                tried.push(addr);
                match ask(addr, held.clone()).await {
                    Ok(verdicts) => return Ok(verdicts),
                    Err(error) => failed = error,
                }
            }
        }
        // One of the names may have been withdrawn, so two are searched for.
        for copy in copies.iter().take(NAMES_TRIED) {
            let scope = Scope::Network { ttl_hops: TTL_DEFAULT };
            let answer = self.indexers.search(&copy.name, scope).await.unwrap_or_default();
            let mut holders = answer.candidates.into_iter().flat_map(|candidate| candidate.holders);
            let found = holders.find(|holder| holder.node == origin).map(|holder| holder.addr);
            if let Some(addr) = found.filter(|addr| !tried.contains(addr)) {
                let verdicts = ask(addr, held).await?;
                self.remember_origin(copy.name.clone(), addr).await;
                return Ok(verdicts);
            }
        }
        Err(failed)
    }

    async fn remember_origin(&self, name: FileName, addr: std::net::SocketAddr) {
        let remember = move |library: &Arc<crate::library::Library>| {
            library.catalogue.update(&name, |entry| entry.origin_addr.replace(addr) != Some(addr))
        };
        if let Err(error) = self.library.blocking(remember).await {
            tracing::warn!(%error, "cannot store where an origin is"); // found by a search next time
        }
    }
}
