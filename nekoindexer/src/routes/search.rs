//! `/api/v1/search`: finds names by words and globs, as a peer would.

use std::{sync::Arc, time::Instant};

use axum::{
    Extension, Json,
    extract::{Query, State},
};
use nekoproto::{
    FindReply, FindRequest, Hit, Position, Refusal, Search, Term, Terms,
    limits::{FOUND_MAX, QUERY_DEADLINE_DEFAULT, TERMS_MAX, TTL_MAX},
};
use serde::{Deserialize, Serialize};
use tokio_util::task::AbortOnDropHandle;
use utoipa::{IntoParams, ToSchema};

use super::view::View;
use crate::{
    daemon::http::{Client, Problem},
    find::answer,
};

/// Matches of one answer, unless told otherwise.
const LIMIT_DEFAULT: u16 = 50;

/// What is looked for.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Asked {
    /// Words and globs, with spaces between; all must match.
    q: String,
    /// How many hops the search may travel; 0 asks this indexer alone.
    #[param(minimum = 0, maximum = 16)]
    ttl: Option<u8>,
    /// Matches in this answer, at most.
    #[param(minimum = 1, maximum = 128)]
    limit: Option<u16>,
    /// `next` of the answer before.
    #[param(min_length = 1)]
    after: Option<String>,
}

/// Files that match, by name.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Matches {
    hits: Vec<Match>,
    /// Whether all indexers that were to be asked have answered.
    complete: bool,
    /// Whether guests of this indexer may know more: they are waited for 250 ms longer than the others.
    guests_unheard: bool,
    indexers: Indexers,
    /// Give this as `after` to go on; null after the last match.
    next: Option<String>,
}

/// The indexers that the search reached, this one included.
#[derive(Debug, Serialize, ToSchema)]
struct Indexers {
    /// Those that are known to be in reach; nobody knows who is behind one that is silent.
    asked: usize,
    /// Of these, those whose answer counts.
    answered: usize,
}

/// The newest version of one origin.
#[derive(Debug, Serialize, ToSchema)]
struct Match {
    name: String,
    /// Who shares it.
    origin: String,
    version: u64,
    /// Bytes.
    size: u64,
    /// Its BLAKE3.
    content: String,
    /// When it was shared, in Unix time in milliseconds; null if its origin does not say.
    shared_ms: Option<u64>,
    /// How many peers have it.
    holders: usize,
}

impl Asked {
    fn request(self) -> Result<FindRequest, Problem> {
        let terms =
            self.q.split_whitespace().take(TERMS_MAX + 1).map(Term::new).collect::<Result<Vec<_>, _>>();
        let terms = terms.map_err(|error| Problem::bad_request(error.to_string()))?;
        if terms.is_empty() || terms.len() > TERMS_MAX {
            return Err(Problem::bad_request(format!("`q` has 1 to {TERMS_MAX} words and globs")));
        }
        let (ttl_hops, limit) = (self.ttl.unwrap_or(0), self.limit.unwrap_or(LIMIT_DEFAULT));
        if ttl_hops > TTL_MAX || !(1..=FOUND_MAX).contains(&usize::from(limit)) {
            let detail =
                format!("`ttl` must be a number from 0 to {TTL_MAX}, `limit` one from 1 to {FOUND_MAX}");
            return Err(Problem::bad_request(detail));
        }
        let after = self.after.map(|after| after.parse::<Position>()).transpose();
        let after = after.map_err(|error| Problem::bad_request(error.to_string()))?;
        let search = Search { terms: Terms::first_of(terms), ..Search::default() };
        Ok(FindRequest { after, limit, ..FindRequest::new(search, ttl_hops) })
    }
}

/// Finds files whose names have all these words and match all these globs.
#[utoipa::path(
    get,
    path = "/api/v1/search",
    params(Asked),
    responses(
        (status = 200, body = Matches, description = "Files, by name"),
        (status = "4XX", body = Problem, content_type = "application/problem+json", description = "Bad parameters"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "Too many at once"),
    )
)]
pub(super) async fn search(
    State(view): State<Arc<View>>,
    Extension(Client(client)): Extension<Client>,
    Query(asked): Query<Asked>,
) -> Result<Json<Matches>, Problem> {
    let request = asked.request()?;
    let busy = || Problem::unavailable("too many queries at once; try again in a second");
    let _place = view.queries.enter(client).await.ok_or_else(busy)?;
    let (shared, deadline) = (Arc::clone(&view.shared), Instant::now() + QUERY_DEADLINE_DEFAULT);
    // On the node's own runtime: its tables keep timers there, which outlive this door.
    let answering = view.runtime.spawn(async move { answer(&shared, &shared.own, deadline, request).await });
    match AbortOnDropHandle::new(answering).await {
        Ok(Ok(reply)) => Ok(Json(reply.into())),
        Ok(Err(Refusal::Busy)) | Err(_) => Err(busy()),
        Ok(Err(refusal)) => Err(Problem::bad_request(refusal.to_string())),
    }
}

impl From<FindReply> for Matches {
    fn from(FindReply { hits, next, complete, guests_unheard, answered, silent, .. }: FindReply) -> Self {
        let (hits, answered) = (hits.into_vec(), 1 + answered.len());
        let indexers = Indexers { asked: answered + silent.len(), answered };
        let next = next.map(|next| next.to_string());
        let files = hits.into_iter().filter(|hit| !hit.record.unverified().is_withdrawal());
        Self { hits: files.map(Match::from).collect(), complete, guests_unheard, indexers, next }
    }
}

impl From<Hit> for Match {
    fn from(Hit { record, holders }: Hit) -> Self {
        let record = record.unverified(); // it was verified before it was listed or passed on
        Self {
            name: record.name.to_string(),
            origin: record.origin.to_string(),
            version: record.version.get(),
            size: record.size,
            content: record.content.to_string(),
            shared_ms: (record.published_ms != 0).then_some(record.published_ms),
            holders: holders.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use nekoproto::{List, Policy, Record, Version};

    use super::*;
    use crate::state::testing::{name, record, signed};

    #[test]
    fn withdrawn_name_is_no_match_and_a_page_that_ends_with_one_goes_on_behind_it() {
        let file = record(1, "a", 1);
        let (version, policy) = (Version::FIRST, Policy::default());
        let withdrawal = signed(1, Record::withdrawal(file.origin, name("b"), version, policy, 1));
        let hits =
            [&file, &withdrawal].map(|record| Hit { record: record.to_signed(), holders: List::new() });
        let (hits, next) = (List::first_of(hits), Some(Position::of(&withdrawal)));
        let reply = FindReply { hits, next, complete: true, ..FindReply::default() };
        let matches = Matches::from(reply);
        assert_eq!(matches.hits.iter().map(|found| found.name.as_str()).collect::<Vec<_>>(), ["a"]);
        assert_eq!(matches.next, Some(Position::of(&withdrawal).to_string()));
    }
}
