//! Going back to an earlier version.

use std::sync::Arc;

use axum::{Json, extract::State, response::Response};
use nekoindexer::daemon::http::{Authorized, Problem};
use nekoproto::{FileName, Version};
use serde::Deserialize;
use utoipa::ToSchema;

use super::body::answered;
use crate::{
    commands::{Command, DownloadedRow},
    http::{
        Inside,
        described::{Name, Refused},
    },
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
        (status = 200, description = "It is in its place", body = DownloadedRow),
        Refused,
    ),
    security(("token" = [])),
)]
pub(super) async fn rollback(
    _: Authorized,
    State(inside): State<Arc<Inside>>,
    Json(Rollback { name, version }): Json<Rollback>,
) -> Result<Response, Problem> {
    answered(&inside, Command::Rollback { name, version }).await
}
