//! Searches by pattern: one page from all own indexers, merged by name.

use std::{collections::HashMap, mem::take, sync::Arc, time::Duration};

use futures::future::join_all;
use nekoindexer::state::{
    find::{Matcher, Page, Reached, checked, merged},
    holders::{Sender, heard},
};
use nekoproto::{
    FindReply, FindRequest, ListedRecord, Position, Search,
    limits::{HOLDERS_MAX, LISTED_MAX},
    transport::{Endpoint, call_within},
};
use rayon::{iter::ParallelIterator, slice::ParallelSlice};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::{
    Indexers,
    search::{Asked, addresses, refused},
    session::failed,
    via::Via,
};
use crate::{
    failure::{Failure, FailureKind},
    library::Library,
    state::choice::Candidate,
};

/// Signatures that one core checks in a row: fewer are not worth another core.
const CHECKED_IN_A_ROW: usize = 32;

/// One page of matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The newest version of each name that matches, with its holders, by name and origin; all signatures are verified.
    /// It may be one that [withdraws](nekoproto::Record::is_withdrawal) the name.
    pub matches: Vec<Candidate>,
    /// Where further matches may begin; `None`: there are none.
    pub next: Option<Position>,
    /// Whether every indexer in reach answered, and every page was valid.
    pub complete: bool,
    /// Whether guests of an indexer may know more, see [`FindReply::guests_unheard`].
    pub guests_unheard: bool,
    /// How many indexers are known to have been asked, and how many of them answered; see [`FindReply::silent`].
    pub asked: usize,
    /// See `asked`.
    pub answered: usize,
}

impl Indexers {
    /// The first `limit` files behind `after` that match, at most [`LISTED_MAX`], known to the own indexers, to those of `via`
    /// and to those within `ttl_hops` of them.
    pub(crate) async fn find(
        &self,
        search: &Search,
        after: Option<&Position>,
        limit: usize,
        ttl_hops: u8,
        via: &Via,
    ) -> Result<Found, Failure> {
        let matcher =
            Matcher::new(search).map_err(|error| failed(FailureKind::Invalid, error.to_string(), None))?;
        // The same id for all indexers: the network handles it once.
        let request = FindRequest {
            after: after.cloned(),
            limit: u16::try_from(limit.min(LISTED_MAX)).unwrap_or(u16::MAX),
            ..FindRequest::new(search.clone(), ttl_hops)
        };
        let (asked, first) = (self.asked(via).count(), CancellationToken::new());
        let asking = self.asked(via).map(async |one| {
            let answer = one.while_alive(&first, ask(one, &request, self.query_deadline)).await;
            (one.tag(), answer)
        });
        let answers = join_all(asking).await;
        let (mut replies, mut failure, mut reached) = (Vec::new(), via.failure(), Reached::default());
        for (tag, answer) in answers {
            match answer {
                Ok(reply) => replies.push(reply),
                Err(error) => {
                    failure = error;
                    reached.silent(tag);
                }
            }
        }
        if replies.is_empty() {
            return Err(failure);
        }
        let is_answered = replies.len() == asked;
        let endpoint = Arc::clone(&self.endpoint);
        let merge =
            move |library: &Arc<Library>| page(&endpoint, library, (replies, reached), &request, &matcher);
        let mut found = self.library.blocking(merge).await;
        found.complete &= is_answered;
        self.library.learn(found.matches.iter().map(|found| found.record.clone()).collect()).await;
        if search.min_size > 0 || search.published_from_ms > 0 {
            self.leave_newest(&mut found, search, ttl_hops, via).await;
        }
        Ok(found)
    }

    /// Puts the newest versions in the place of matches, as far as these match too. An indexer that knows of a newer one
    /// may have left it out, for its size or its time, where another still lists an older one.
    async fn leave_newest(&self, found: &mut Found, search: &Search, ttl_hops: u8, via: &Via) {
        let mut names: Vec<_> = found.matches.iter().map(|found| found.record.name.clone()).collect();
        names.dedup(); // one name of several origins
        let Ok(answers) = self.search_all(&names, ttl_hops, via).await else {
            return found.complete = false;
        };
        found.complete &= answers.iter().all(|answer| answer.complete);
        let mut newest = HashMap::new();
        for answer in answers {
            let withdrawn =
                answer.withdrawn.into_iter().map(|record| Candidate { record, holders: Vec::new() });
            for candidate in withdrawn.chain(answer.candidates) {
                newest.insert(Position::of(&candidate.record), candidate);
            }
        }
        found.matches.retain_mut(|known| {
            match newest.remove(&Position::of(&known.record)) {
                Some(other) if other.record.replaces(&known.record) => *known = other,
                _ => {}
            }
            search.takes(&known.record.origin, known.record.size, known.record.published_ms)
        });
    }
}

async fn ask(
    asked: Asked<'_>,
    request: &FindRequest,
    limit: Duration,
) -> Result<(Sender, FindReply), Failure> {
    let (client, sender, limit) = asked.client(limit).await?;
    match client.find(call_within(limit), request.clone()).await {
        Ok(page) => Ok((sender, page.map_err(refused)?)),
        Err(error) => Err(asked.failed(error).await),
    }
}

/// Checks what the indexers said, none of it on trust, and merges it. A page that is wrong anywhere does not count.
/// Blocking: it checks signatures.
fn page(
    endpoint: &Endpoint,
    library: &Library,
    (replies, mut reached): (Vec<(Sender, FindReply)>, Reached),
    request: &FindRequest,
    matcher: &Matcher,
) -> Found {
    let (mut pages, mut complete, mut guests_unheard) = (Vec::with_capacity(replies.len()), true, false);
    let verifier = library.checks.verifier();
    for (sender, mut reply) in replies {
        // On all cores, and remembered: what is not valid is found below.
        reply.hits.par_chunks(CHECKED_IN_A_ROW).for_each(|hits| {
            hits.iter().for_each(|hit| drop(verifier.verify(hit.record.clone())));
        });
        complete &= reply.complete;
        guests_unheard |= reply.guests_unheard;
        // Without hops left nobody is behind it.
        let behind = (request.ttl_hops > 0).then(|| (take(&mut reply.answered), take(&mut reply.silent)));
        let verify = |record| verifier.verify(record).map(ListedRecord::from).ok();
        let believed = |holders| heard(holders, HOLDERS_MAX, &[], sender);
        match checked(reply, request, matcher, verify, believed) {
            Ok(page) => {
                pages.push(page);
                reached.answered(sender.at.node.tag(), behind);
            }
            Err(error) => {
                debug!(%error, "a page of an indexer is left out");
                complete = false;
                reached.silent(sender.at.node.tag());
            }
        }
    }
    let Page { found, next } = merged(pages, request.limit());
    let candidate = |found: nekoindexer::state::merge::Found| {
        let holders = addresses(endpoint, &found.holders);
        let record = verifier.verify(found.record.into_signed()).ok()?; // known to be valid
        Some(Candidate { record, holders })
    };
    let (matches, (answered, asked)) = (found.into_iter().filter_map(candidate).collect(), reached.counts());
    Found { matches, next, complete, guests_unheard, asked, answered }
}
