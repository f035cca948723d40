//! What is published and held here.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use nekoindexer::http::Problem;
use serde::Serialize;
use utoipa::ToSchema;

use super::{body::answered, params::Params};
use crate::{
    commands::{Command, FileRow},
    http::{
        Inside,
        described::{Name, Refused},
    },
};

/// Files in one answer, unless told otherwise, and at most.
const FIRST_DEFAULT: u32 = 1000;
const FIRST_MAX: u32 = 10_000;

/// Files that are published or held here, by name.
#[derive(Serialize, ToSchema)]
#[schema(as = Catalogue)]
struct Catalogue {
    files: Vec<FileRow>,
    /// Why some entries cannot be read.
    damaged: Vec<String>,
    /// Give this as `after` to go on; null after the last file.
    next: Option<String>,
}

/// Lists what is published and held here, by name. No other node is asked.
#[utoipa::path(
    get,
    path = "/api/v1/catalogue",
    params(
        ("first" = Option<u32>, Query, description = "Files in this answer, at most", minimum = 1, maximum = 10000),
        ("after" = Option<Name>, Query, description = "Those after this name"),
    ),
    responses(
        (status = 200, description = "Files", body = Catalogue),
        Refused,
    ),
)]
pub(super) async fn catalogue(
    State(inside): State<Arc<Inside>>,
    params: Params,
) -> Result<Response, Problem> {
    let params = params.known(&["first", "after"])?;
    let first = params.number("first", 1, FIRST_MAX)?.unwrap_or(FIRST_DEFAULT);
    let command = Command::List { first: Some(first), after: params.name_in("after")? };
    answered(&inside, command).await
}

/// Asks the origins of copies whether they are still the newest, and lists them as the catalogue does.
#[utoipa::path(
    get,
    path = "/api/v1/status",
    params(
        ("name" = Option<Vec<Name>>, Query, description = "These files; without it, all"),
        ("first" = Option<u32>, Query, description = "Files in this answer, at most", minimum = 1, maximum = 10000),
        ("after" = Option<Name>, Query, description = "Those after this name"),
    ),
    responses(
        (status = 200, description = "Files", body = Catalogue),
        Refused,
    ),
)]
pub(super) async fn status(State(inside): State<Arc<Inside>>, params: Params) -> Result<Response, Problem> {
    let params = params.known(&["name", "first", "after"])?;
    let (names, after) = (params.names()?, params.name_in("after")?);
    let first = match params.number("first", 1, FIRST_MAX)? {
        None if !names.is_empty() => None,
        first => first.or(Some(FIRST_DEFAULT)),
    };
    let command = Command::Check { names, first, after };
    answered(&inside, command).await
}
