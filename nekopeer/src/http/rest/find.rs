//! Looking for files.

use std::sync::Arc;

use axum::{Json, extract::State, response::Response};
use nekoindexer::http::Problem;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{
    body::{Elements, Listed, list},
    described::{Name, Refused},
    params::Params,
};
use crate::{
    commands::{Command, Row, no_input},
    http::Inside,
    json::{FoundJson, TraceJson},
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
