//! Going back to an earlier version.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use nekoindexer::http::{Authorized, Problem};
use nekoproto::{FileName, Version};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::{
    commands::{Command, Row, no_input},
    http::{
        Inside,
        carried::problem,
        described::{Name, Refused},
    },
    json::DownloadedJson,
};

/// Where to go back to.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Rollback {
    #[schema(value_type = Name)]
    name: FileName,
    /// One of the versions that are kept; without it the last one that was replaced.
    #[schema(value_type = Option<u64>, minimum = 1)]
    version: Option<Version>,
}

/// Puts an earlier version that is kept here back in its place. Newer ones up to the newest known stay out of it.
#[utoipa::path(
    post,
    path = "/api/v1/rollback",
    request_body = Rollback,
    responses(
        (status = 200, description = "It is in its place", body = DownloadedJson),
        Refused,
    ),
    security(("token" = [])),
)]
pub(super) async fn rollback(
    _: Authorized,
    State(inside): State<Arc<Inside>>,
    Json(Rollback { name, version }): Json<Rollback>,
) -> Result<Response, Problem> {
    let (rows, _) = inside.carry_out(Command::Rollback { name, version }, no_input())?.rows().await?;
    let outcome = rows.iter().find_map(|row| match row {
        Row::Downloaded { outcome, .. } => Some(outcome),
        _ => None,
    });
    match outcome {
        Some(Ok(done)) => Ok(Json(DownloadedJson::from(&**done)).into_response()),
        Some(Err(failure)) => Err(problem(failure)),
        None => Err(Problem::unavailable("it was interrupted: /api/v1/jobs tells how")),
    }
}
