//! Looking for files by words and globs; and tickets, which say where a file is to be had.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use axum::{Json, extract::State, response::Response};
use nekoindexer::http::Problem;
use nekoproto::{NotAPosition, Position};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{
    body::{Elements, Listed, list},
    described::{Name, Refused},
    params::Params,
};
use crate::{
    commands::{Command, Filters, Finding, MATCHES_DEFAULT, MATCHES_MAX, Part, Row, no_input},
    http::{Inside, carried::problem},
    json::MatchJson,
};

/// Files that match, by name.
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
    next: Option<Position>,
}

impl Listed for Matches {
    const KEY: &'static str = "matches";

    fn add(&mut self, row: &Row, elements: &mut Elements) {
        match row {
            Row::Match(found) => elements.add(&MatchJson::from(found)),
            Row::Further { next, complete } => (self.next, self.complete) = (next.clone(), *complete),
            _ => {}
        }
    }

    fn end(self) -> Vec<(&'static str, Value)> {
        let next = self.next.map(|next| next.to_string());
        vec![("complete", self.complete.into()), ("next", next.into())]
    }
}

/// Finds files whose names have all these words and match all these globs. A single plain word that is the name of a
/// file is that file alone.
#[utoipa::path(
    get,
    path = "/api/v1/search",
    params(
        ("q" = String, Query, description = "Words and globs, with spaces between", max_length = 4096),
        ("ttl" = Option<u8>, Query, description = "Hops beyond the own indexers", minimum = 0, maximum = 16),
        ("min_size" = Option<u64>, Query, description = "The least size in bytes", minimum = 0),
        ("newer_than" = Option<u64>, Query, description = "Seconds since it was published, at most", minimum = 1),
        ("origin" = Option<String>, Query, description = "The first digits of the origin's id", pattern = "^[0-9a-fA-F]{1,64}$"),
        ("limit" = Option<u32>, Query, description = "Matches in this answer, at most", minimum = 1, maximum = 10000),
        ("after" = Option<String>, Query, description = "`next` of the answer before", min_length = 1),
    ),
    responses((status = 200, description = "Files", body = MatchesJson), Refused),
)]
pub(super) async fn search(State(inside): State<Arc<Inside>>, params: Params) -> Result<Response, Problem> {
    let params = params.known(&["q", "ttl", "min_size", "newer_than", "origin", "limit", "after"])?;
    let words = params.text("q")?.unwrap_or_default().split_whitespace();
    let filters = Filters {
        min_size: params.number("min_size", 0, u64::MAX)?.unwrap_or_default(),
        published_from_ms: params.number("newer_than", 1, u64::MAX)?.map_or(0, since),
        origin: params.text("origin")?.map(str::to_owned),
    };
    let after = params.text("after")?.map(str::parse).transpose();
    let part = Part {
        // A page is for people, who do not know where a file is listed.
        ttl_hops: Some(params.ttl()?),
        limit: Some(params.number("limit", 1, MATCHES_MAX)?.unwrap_or(MATCHES_DEFAULT)),
        after: after.map_err(|error: NotAPosition| Problem::bad_request(error.to_string()))?,
    };
    let words: Vec<String> = words.map(str::to_owned).collect();
    let finding = Finding::new(&words, filters, part).map_err(Problem::bad_request)?;
    list(inside.carry_out(Command::Find(finding), no_input())?, Matches::default()).await
}

/// The time so many seconds ago, in Unix time in milliseconds; at least 1, as 0 stands for any.
fn since(seconds: u64) -> u64 {
    let then = SystemTime::now().checked_sub(Duration::from_secs(seconds));
    let then = then.and_then(|then| then.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    u64::try_from(then.as_millis()).unwrap_or(u64::MAX).max(1)
}

/// Tickets for files that are published or held here.
#[derive(Serialize, ToSchema)]
#[schema(as = Tickets)]
pub(super) struct TicketsJson {
    tickets: Vec<TicketJson>,
}

/// A ticket: `nekopeer get TICKET` gets the file anywhere.
#[derive(Serialize, ToSchema)]
#[schema(as = Ticket)]
struct TicketJson {
    name: String,
    ticket: String,
}

/// Makes a ticket for a file that is published or held here.
#[utoipa::path(
    get,
    path = "/api/v1/ticket",
    params(("name" = Name, Query, description = "Which file")),
    responses((status = 200, description = "Its ticket", body = TicketsJson), Refused),
)]
pub(super) async fn ticket(
    State(inside): State<Arc<Inside>>,
    params: Params,
) -> Result<Json<TicketsJson>, Problem> {
    let name = params.known(&["name"])?.name()?;
    let (rows, _) = inside.carry_out(Command::Ticket { names: vec![name] }, no_input())?.rows().await?;
    let mut tickets = Vec::new();
    for row in rows {
        match row {
            Row::Ticket { name, outcome: Ok(ticket) } => {
                tickets.push(TicketJson { name: name.to_string(), ticket });
            }
            Row::Ticket { outcome: Err(failure), .. } => return Err(problem(&failure)),
            _ => {}
        }
    }
    Ok(Json(TicketsJson { tickets }))
}
