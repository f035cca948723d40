//! Looking for files.

use std::sync::Arc;

use axum::{extract::State, response::Response};
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
    json::FoundJson,
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
