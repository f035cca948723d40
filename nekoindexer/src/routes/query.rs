//! `/api/v1/query`: asks the indexer as a peer would.

use std::{sync::Arc, time::Instant};

use axum::{
    Extension, Json,
    extract::{Query, State},
};
use futures::{StreamExt, TryStreamExt, stream};
use nekoproto::{
    FileName, Hit, MsgId, QueryReply, QueryRequest, Refusal,
    limits::{QUERY_DEADLINE_DEFAULT, TTL_DEFAULT, TTL_MAX},
};
use serde::Serialize;
use tokio_util::task::AbortOnDropHandle;
use utoipa::{IntoParams, ToSchema};

use super::view::View;
use crate::{
    daemon::http::{Client, Problem},
    query::answer,
};

/// Names of one request.
const NAMES_MAX: usize = 64;
/// Of these, how many are asked for at once.
const AT_ONCE: usize = 8;

/// What is asked.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it describes what `Asked` reads")]
struct Parameters {
    /// The name, all of it. May be repeated for up to 64 names.
    #[param(value_type = Vec<String>, style = Form, explode, min_items = 1, max_items = 64)]
    name: Vec<String>,
    /// How many hops the query may travel; 0 asks this indexer alone.
    #[param(minimum = 0, maximum = 16, default = 3)]
    ttl: Option<u8>,
}

/// What is asked, checked.
struct Asked {
    names: Vec<FileName>,
    ttl_hops: u8,
}

/// Answers in the order of the names.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Answers)]
pub(super) struct FoundAll {
    answers: Vec<Answer>,
}

/// What is known of a name.
#[derive(Debug, Serialize, ToSchema)]
struct Answer {
    name: String,
    /// Whether all indexers that were to be asked have answered.
    complete: bool,
    /// Whether guests of this indexer may know more: they are not waited for where something was found.
    guests_unheard: bool,
    /// One for each origin, with its newest version.
    hits: Vec<FoundFile>,
}

/// One version of a file, and who has it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Hit)]
struct FoundFile {
    name: String,
    /// Who shares it.
    origin: String,
    version: u64,
    /// Bytes.
    size: u64,
    /// Its BLAKE3.
    content: String,
    holders: Vec<FoundHolder>,
}

/// Who has a version.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Holder)]
struct FoundHolder {
    node: String,
    addr: String,
    /// It has only a part yet.
    partial: bool,
}

impl Asked {
    fn read(pairs: Vec<(String, String)>) -> Result<Self, Problem> {
        let (mut names, mut ttl_hops) = (Vec::new(), TTL_DEFAULT);
        for (key, value) in pairs {
            match key.as_str() {
                "name" => names.push(FileName::new(&value).map_err(|error| {
                    Problem::bad_request(format!("`name` is no name of a file: {error}"))
                })?),
                "ttl" => {
                    let ttl = value.parse().ok().filter(|ttl| *ttl <= TTL_MAX);
                    ttl_hops = ttl.ok_or_else(|| {
                        Problem::bad_request(format!("`ttl` must be a number from 0 to {TTL_MAX}"))
                    })?;
                }
                other => {
                    return Err(Problem::bad_request(format!(
                        "there is no parameter `{other}`; give `name` and `ttl`"
                    )));
                }
            }
        }
        match names.len() {
            1..=NAMES_MAX => Ok(Self { names, ttl_hops }),
            _ => Err(Problem::bad_request(format!("give 1 to {NAMES_MAX} names, each as `name=...`"))),
        }
    }
}

/// What the indexers in reach know of names: the same as a peer is told.
#[utoipa::path(
    get,
    path = "/api/v1/query",
    params(Parameters),
    responses(
        (status = 200, body = FoundAll, description = "Answers in the order of the names"),
        (status = "4XX", body = Problem, content_type = "application/problem+json", description = "Bad parameters"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "Too many at once"),
    )
)]
pub(super) async fn query(
    State(view): State<Arc<View>>,
    Extension(Client(client)): Extension<Client>,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Result<Json<FoundAll>, Problem> {
    let Asked { names, ttl_hops } = Asked::read(pairs)?;
    let busy = || Problem::unavailable("too many queries at once; try again in a second");
    let _place = view.queries.enter(client).await.ok_or_else(busy)?;
    let deadline = Instant::now() + QUERY_DEADLINE_DEFAULT;
    let ask = |name: FileName| {
        let shared = Arc::clone(&view.shared);
        let request = QueryRequest::new(MsgId::random(), name.clone(), ttl_hops);
        // On the node's own runtime: its tables keep timers there, which outlive this door.
        let answering =
            view.runtime.spawn(async move { answer(&shared, &shared.own, deadline, request).await });
        let answering = AbortOnDropHandle::new(answering);
        async move {
            match answering.await {
                Ok(Ok(reply)) => Ok(Answer::new(&name, reply)),
                Ok(Err(Refusal::Busy)) | Err(_) => Err(busy()),
                Ok(Err(refusal)) => Err(Problem::bad_request(refusal.to_string())),
            }
        }
    };
    let answers = stream::iter(names.into_iter().map(ask)).buffered(AT_ONCE).try_collect().await?;
    Ok(Json(FoundAll { answers }))
}

impl Answer {
    fn new(name: &FileName, reply: QueryReply) -> Self {
        let files = reply.hits.into_vec().into_iter().filter(|hit| !hit.record.unverified().is_withdrawal());
        let hits = files.map(FoundFile::from).collect();
        let QueryReply { complete, guests_unheard, .. } = reply;
        Self { name: name.to_string(), complete, guests_unheard, hits }
    }
}

impl From<Hit> for FoundFile {
    fn from(hit: Hit) -> Self {
        let record = hit.record.unverified(); // it was verified before it was listed or passed on
        let holders = hit.at().into_iter().map(|holder| FoundHolder {
            node: holder.node.to_string(),
            addr: holder.addr.to_string(),
            partial: holder.partial,
        });
        Self {
            name: record.name.to_string(),
            origin: record.origin.to_string(),
            version: record.version.get(),
            size: record.size,
            content: record.content.to_string(),
            holders: holders.collect(),
        }
    }
}
