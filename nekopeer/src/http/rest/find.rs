//! Looking for files.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use axum::{extract::State, response::Response};
use nekoindexer::daemon::http::Problem;
use nekoproto::Position;
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    body::{answered, framed},
    params::Params,
};
use crate::{
    commands::{
        Command, FailedRow, Filters, Finding, FoundRow, Framed, MATCHES_MAX, MatchRow, Part, Shape,
        TicketRow, TraceRow, no_input,
    },
    http::{
        Inside,
        described::{Name, Refused},
    },
};

/// What was found.
#[derive(Serialize, ToSchema)]
#[schema(as = Answers)]
struct Answers {
    /// One for each name, in order.
    answers: Vec<FoundRow>,
}

/// Asks the network who has files of these names.
#[utoipa::path(
    get,
    path = "/api/v1/query",
    params(
        ("name" = Vec<Name>, Query, description = "What to look for"),
        ("ttl" = Option<u8>, Query, description = "Hops beyond the own indexers", minimum = 0, maximum = 16),
    ),
    responses(
        (status = 200, description = "Who has what; a name that nobody has is without hits", body = Answers),
        Refused,
    ),
)]
pub(super) async fn query(State(inside): State<Arc<Inside>>, params: Params) -> Result<Response, Problem> {
    let params = params.known(&["name", "ttl"])?;
    let command = Command::Query { names: params.some_names()?, ttl_hops: params.ttl()? };
    // Also of one name.
    framed(inside.carry_out(command, no_input())?, Framed::new(Shape::List("answers"))).await
}

/// Follows a query through the network: which indexers were asked, which were not and why, and how long each took.
#[utoipa::path(
    get,
    path = "/api/v1/trace",
    params(
        ("name" = Name, Query, description = "What to look for"),
        ("ttl" = Option<u8>, Query, description = "Hops beyond the own indexers", minimum = 0, maximum = 16),
    ),
    responses(
        (status = 200, description = "The tree of indexers that were asked", body = TraceRow),
        Refused,
    ),
)]
pub(super) async fn trace(State(inside): State<Arc<Inside>>, params: Params) -> Result<Response, Problem> {
    let params = params.known(&["name", "ttl"])?;
    answered(&inside, Command::Trace { name: params.name()?, ttl_hops: params.ttl()? }).await
}

/// Files that match a search.
#[derive(Serialize, ToSchema)]
#[schema(as = Matches)]
struct Matches {
    hits: Vec<MatchRow>,
    /// Whether every indexer in reach answered.
    complete: bool,
    /// What was looked for.
    name: String,
    /// Give this as `after` to go on; null after the last match.
    next: Option<String>,
}

/// Looks for files by words, globs and filters, all of which must match.
#[utoipa::path(
    get,
    path = "/api/v1/search",
    params(
        ("q" = Option<String>, Query, description = "Words and globs, with spaces between them"),
        ("ttl" = Option<u8>, Query, description = "Hops beyond the own indexers", minimum = 0, maximum = 16),
        ("min_size" = Option<u64>, Query, description = "The least size in bytes",
         maximum = 9007199254740991u64),
        ("newer_than" = Option<u64>, Query, description = "The largest age in seconds",
         maximum = 9007199254740991u64),
        ("origin" = Option<String>, Query, description = "The first digits of the origin's id",
         pattern = "^[0-9a-fA-F]{1,64}$"),
        ("limit" = Option<u32>, Query, description = "Matches in this answer, at most", minimum = 1, maximum = 10000),
        ("after" = Option<String>, Query, description = "The `next` of the answer before"),
    ),
    responses((status = 200, description = "Matches, by name", body = Matches), Refused),
)]
pub(super) async fn search(State(inside): State<Arc<Inside>>, params: Params) -> Result<Response, Problem> {
    let params = params.known(&["q", "ttl", "min_size", "newer_than", "origin", "limit", "after"])?;
    let words = params.text("q")?.unwrap_or_default().split_whitespace().map(str::to_owned);
    let after = params.text("after")?.map(str::parse::<Position>).transpose();
    let after = after.map_err(|_| Problem::bad_request("after is the \"next\" of the answer before"))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let newer_than = params.number("newer_than", 0, u64::MAX / 1000)?;
    let from_ms = |secs: u64| u64::try_from(now.as_millis()).unwrap_or(u64::MAX).saturating_sub(secs * 1000);
    let filters = Filters {
        min_size: params.number("min_size", 0, u64::MAX)?.unwrap_or_default(),
        published_from_ms: newer_than.map(from_ms).unwrap_or_default(),
        origin: params.text("origin")?.map(str::to_owned),
    };
    let ttl_hops = Some(params.ttl()?); // whoever looks does not know where a file is listed
    let limit = params.number("limit", 1, MATCHES_MAX)?;
    let finding = Finding::new(&words.collect::<Vec<_>>(), filters, Part { ttl_hops, limit, after });
    answered(&inside, Command::Find(finding.map_err(Problem::bad_request)?)).await
}

/// Tickets.
#[derive(Serialize, ToSchema)]
#[schema(as = Tickets)]
struct Tickets {
    tickets: Vec<TicketRow>,
    /// Names that are neither published nor held here.
    failed: Vec<FailedRow>,
}

/// Makes tickets for files that are published or held here: `nekopeer get TICKET` gets them elsewhere.
#[utoipa::path(
    get,
    path = "/api/v1/ticket",
    params(("name" = Vec<Name>, Query, description = "The names")),
    responses((status = 200, description = "Tickets", body = Tickets), Refused),
)]
pub(super) async fn ticket(State(inside): State<Arc<Inside>>, params: Params) -> Result<Response, Problem> {
    let names = params.known(&["name"])?.some_names()?;
    answered(&inside, Command::Ticket { names, as_qr: false }).await
}
