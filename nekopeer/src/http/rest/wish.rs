//! What is wanted of one name.

use std::sync::Arc;

use axum::{Json, extract::State};
use nekoindexer::http::{Authorized, Problem};
use nekoproto::{FileName, limits::POLICY_SECS_MAX};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::{
    commands::{Command, Row, no_input},
    http::{
        Inside,
        described::{Name, Refused},
    },
    json::WishJson,
    state::freshness::OnStale,
};

/// What is said of a name.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Said {
    #[schema(value_type = Name)]
    name: FileName,
    /// What was said before is taken back.
    #[serde(default)]
    anew: bool,
    /// Seconds that its copy here counts as fresh at most; its origin may be stricter.
    #[schema(minimum = 1, maximum = 604_800)]
    bound_secs: Option<u32>,
    /// What happens to its copy here when a newer version is out.
    on_stale: Option<What>,
}

/// What happens to an outdated copy.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum What {
    /// It stays, marked as stale.
    Keep,
    /// The newer version is downloaded in its place.
    Refetch,
    /// It is deleted.
    Drop,
}

/// Says what is wanted of a name from now on; what is not said stays. Answers with what is wanted then.
#[utoipa::path(
    post,
    path = "/api/v1/wish",
    request_body = Said,
    responses(
        (status = 200, description = "What is wanted of the name now", body = WishJson),
        Refused,
    ),
    security(("token" = [])),
)]
pub(super) async fn wish(
    _: Authorized,
    State(inside): State<Arc<Inside>>,
    Json(Said { name, anew, bound_secs, on_stale }): Json<Said>,
) -> Result<Json<WishJson>, Problem> {
    if bound_secs.is_some_and(|secs| secs == 0 || secs > POLICY_SECS_MAX) {
        return Err(Problem::bad_request(format!("bound_secs is 1 to {POLICY_SECS_MAX}")));
    }
    let on_stale = on_stale.map(|what| match what {
        What::Keep => OnStale::Keep,
        What::Refetch => OnStale::Refetch,
        What::Drop => OnStale::Drop,
    });
    let command = Command::Wish { name, anew, bound_secs, on_stale };
    let (rows, _) = inside.carry_out(command, no_input())?.rows().await?;
    let wish = rows.into_iter().find_map(|row| match row {
        Row::Wish { wish, .. } => Some(wish),
        _ => None,
    });
    wish.map(|wish| Json(wish.into())).ok_or_else(|| Problem::unavailable("it was interrupted"))
}
