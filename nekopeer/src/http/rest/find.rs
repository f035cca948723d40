//! Looking for files.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use axum::{Json, extract::State, response::Response};
use nekoindexer::http::Problem;
use nekoproto::Position;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{
    body::{Elements, Listed, list},
    params::Params,
    parted,
};
use crate::{
    commands::{Command, Filters, Finding, MATCHES_MAX, Part, Row, no_input},
    http::{
        Inside,
        described::{Name, Refused},
    },
    json::{FailedJson, FoundJson, MatchJson, TraceJson},
};

/// What was found.
#[derive(Serialize, ToSchema)]
#[schema(as = Answers)]
struct AnswersJson<'a> {
    /// One for each name, in order.
    answers: Vec<FoundJson<'a>>,
}

struct Answers;

impl Listed for Answers {
    const KEY: &'static str = "answers";

    fn add(&mut self, row: &Row, elements: &mut Elements) {
        if let Row::Found(found) = row {
            elements.add(&FoundJson::from(found));
        }
    }

    fn end(self) -> Vec<(&'static str, Value)> {
        Vec::new()
    }
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
        (status = 200, description = "Who has what; a name that nobody has is without hits", body = AnswersJson),
        Refused,
    ),
)]
pub(super) async fn query(State(inside): State<Arc<Inside>>, params: Params) -> Result<Response, Problem> {
    let params = params.known(&["name", "ttl"])?;
    let command = Command::Query { names: params.some_names()?, ttl_hops: params.ttl()? };
    list(inside.carry_out(command, no_input())?, Answers).await
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
        (status = 200, description = "The tree of indexers that were asked", body = TraceJson),
        Refused,
    ),
)]
pub(super) async fn trace(
    State(inside): State<Arc<Inside>>,
    params: Params,
) -> Result<Json<TraceJson>, Problem> {
    let params = params.known(&["name", "ttl"])?;
    let (name, ttl_hops) = (params.name()?, params.ttl()?);
    let command = Command::Trace { name: name.clone(), ttl_hops };
    let (rows, _) = inside.carry_out(command, no_input())?.rows().await?;
    let traces =
        rows.into_iter().filter_map(|row| if let Row::Trace(trace) = row { Some(trace) } else { None });
    Ok(Json(TraceJson::of(&name, &traces.collect::<Vec<_>>())))
}

/// Files that match a search.
#[derive(Serialize, ToSchema)]
#[schema(as = Matches)]
struct MatchesJson<'a> {
    matches: Vec<MatchJson<'a>>,
    /// Whether every indexer in reach answered.
    complete: bool,
    /// Give this as `after` to go on; null after the last match.
    next: Option<String>,
}

/// The list that becomes `Matches`.
#[derive(Default)]
struct Matches {
    complete: bool,
    next: Option<String>,
}

impl Listed for Matches {
    const KEY: &'static str = "matches";

    fn add(&mut self, row: &Row, elements: &mut Elements) {
        match row {
            Row::Match(found) => elements.add(&MatchJson::from(found)),
            Row::Further { next, complete } => {
                (self.next, self.complete) = (next.as_ref().map(Position::to_string), *complete);
            }
            _ => {}
        }
    }

    fn end(self) -> Vec<(&'static str, Value)> {
        vec![("complete", self.complete.into()), ("next", self.next.into())]
    }
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
    responses((status = 200, description = "Matches, by name", body = MatchesJson), Refused),
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
    let command = Command::Find(finding.map_err(Problem::bad_request)?);
    list(inside.carry_out(command, no_input())?, Matches::default()).await
}

/// A name to type elsewhere.
#[derive(Serialize, ToSchema)]
#[schema(as = Ticket)]
struct TicketJson {
    name: String,
    ticket: String,
}

/// Tickets.
#[derive(Serialize, ToSchema)]
#[schema(as = Tickets)]
pub(super) struct TicketsJson {
    tickets: Vec<TicketJson>,
    /// Names that are neither published nor held here.
    failed: Vec<FailedJson>,
}

/// Makes tickets for files that are published or held here: `nekopeer get TICKET` gets them elsewhere.
#[utoipa::path(
    get,
    path = "/api/v1/ticket",
    params(("name" = Vec<Name>, Query, description = "The names")),
    responses((status = 200, description = "Tickets", body = TicketsJson), Refused),
)]
pub(super) async fn ticket(
    State(inside): State<Arc<Inside>>,
    params: Params,
) -> Result<Json<TicketsJson>, Problem> {
    let names = params.known(&["name"])?.some_names()?;
    let (rows, _) = inside.carry_out(Command::Ticket { names }, no_input())?.rows().await?;
    let outcomes = rows.into_iter().filter_map(|row| match row {
        Row::Ticket { name, outcome } => Some((name, outcome)),
        _ => None,
    });
    let (tickets, failed) = parted(outcomes, |name, ticket| TicketJson { name, ticket })?;
    Ok(Json(TicketsJson { tickets, failed }))
}
