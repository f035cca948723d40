//! How fast the peer sends and fetches.

use std::sync::Arc;

use axum::{Json, extract::State, response::Response};
use nekoindexer::daemon::http::{Authorized, Problem};
use serde::Deserialize;
use utoipa::ToSchema;

use super::body::answered;
use crate::{
    commands::{Command, ThrottleRow},
    http::{Inside, described::Refused},
};

/// What changes; the rest stays as it is.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Throttle {
    /// Bytes a second that are sent at most; 0: no limit.
    #[schema(maximum = 9007199254740991u64)]
    limit_up: Option<u64>,
    /// Bytes a second that are fetched at most; 0: no limit.
    #[schema(maximum = 9007199254740991u64)]
    limit_down: Option<u64>,
    /// Whether downloads are paused.
    paused: Option<bool>,
}

/// Changes how fast the peer sends and fetches, and whether it fetches, until it ends.
#[utoipa::path(
    post,
    path = "/api/v1/throttle",
    request_body = Throttle,
    responses((status = 200, description = "What holds now", body = ThrottleRow), Refused),
    security(("token" = [])),
)]
pub(super) async fn throttle(
    _: Authorized,
    State(inside): State<Arc<Inside>>,
    Json(Throttle { limit_up: up, limit_down: down, paused: pauses }): Json<Throttle>,
) -> Result<Response, Problem> {
    answered(&inside, Command::Throttle { up, down, pauses }).await
}
