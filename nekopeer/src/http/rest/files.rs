//! What is published and held here.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use nekoindexer::http::Problem;
use nekoproto::FileName;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{
    body::{Elements, Listed, list},
    params::Params,
};
use crate::{
    commands::{Command, Row, no_input},
    http::{
        Inside,
        described::{Name, Refused},
    },
    json::FileJson,
};

/// Files in one answer, unless told otherwise, and at most.
const FIRST_DEFAULT: u32 = 1000;
const FIRST_MAX: u32 = 10_000;
/// Damaged entries that are told in one answer.
const DAMAGED_MAX: usize = 20;

/// Files that are published or held here, by name.
#[derive(Serialize, ToSchema)]
#[schema(as = Catalogue)]
struct CatalogueJson<'a> {
    files: Vec<FileJson<'a>>,
    /// Why some entries cannot be read.
    damaged: Vec<String>,
    /// Give this as `after` to go on; null after the last file.
    next: Option<String>,
}

/// The list that becomes a `Catalogue`.
struct Files {
    /// Files and damaged entries that may still come before the answer is full; `None`: it never is.
    left: Option<u32>,
    last: Option<FileName>,
    damaged: Vec<String>,
}

impl Listed for Files {
    const KEY: &'static str = "files";

    fn add(&mut self, row: &Row, elements: &mut Elements) {
        self.left = self.left.map(|left| left.saturating_sub(1));
        match row {
            Row::File(file) => {
                self.last = Some(file.record.name.clone());
                elements.add(&FileJson::from(file));
            }
            Row::Damaged { why } if self.damaged.len() < DAMAGED_MAX => self.damaged.push(why.clone()),
            _ => {}
        }
    }

    fn end(self) -> Vec<(&'static str, Value)> {
        let next = self.last.filter(|_| self.left == Some(0)).map(|name| name.to_string());
        vec![("damaged", self.damaged.into()), ("next", next.into())]
    }
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
        (status = 200, description = "Files", body = CatalogueJson),
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
    let carried = inside.carry_out(command, no_input())?;
    list(carried, Files { left: Some(first), last: None, damaged: Vec::new() }).await
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
        (status = 200, description = "Files", body = CatalogueJson),
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
    let carried = inside.carry_out(command, no_input())?;
    list(carried, Files { left: first, last: None, damaged: Vec::new() }).await
}
