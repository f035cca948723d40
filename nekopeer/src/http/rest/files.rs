//! What is published and held here.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use nekoindexer::daemon::http::Problem;
use serde::Serialize;
use tokio::sync::Semaphore;
use utoipa::ToSchema;

use super::{body::answered, params::Params};
use crate::{
    commands::{Command, FileRow},
    http::{
        Inside,
        described::{Name, Refused},
    },
    library::browse::{Browsed, Selection, Sort, Totals},
};

/// Files in one answer, unless told otherwise, and at most.
const FIRST_DEFAULT: u32 = 1000;
const FIRST_MAX: u32 = 10_000;
/// Damaged entries that a selection tells.
const DAMAGED_MAX: usize = 20;
/// Selections that are carried out at once: each reads the whole catalogue. Further ones wait.
const SELECTIONS_MAX: usize = 2;

static SELECTIONS: Semaphore = Semaphore::const_new(SELECTIONS_MAX);

/// Files that are published or held here, by name.
#[derive(Serialize, ToSchema)]
#[schema(as = Catalogue)]
struct Catalogue {
    files: Vec<FileRow>,
    /// Why some entries cannot be read.
    damaged: Vec<String>,
    /// Give this as `after` to go on; null after the last file.
    next: Option<String>,
    /// With `folder` and without `q`: the folders directly below it.
    #[serde(skip_serializing_if = "Option::is_none")]
    folders: Option<Vec<FolderJson>>,
    /// With `q`, `sort` or `folder`: the totals of all selected files, over all pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    selected: Option<TotalsJson>,
}

/// A folder, with all that is below it.
#[derive(Serialize, ToSchema)]
#[schema(as = Folder)]
struct FolderJson {
    /// Its path: what the names of its files begin with.
    name: String,
    #[serde(flatten)]
    #[schema(inline)]
    totals: TotalsJson,
}

/// Totals of files.
#[derive(Serialize, ToSchema)]
#[schema(as = Totals)]
struct TotalsJson {
    files: u64,
    bytes: u64,
    /// Files of which a newer version is known.
    stale: u64,
}

impl From<Totals> for TotalsJson {
    fn from(Totals { files, bytes, stale }: Totals) -> Self {
        Self { files, bytes, stale }
    }
}

/// Lists what is published and held here, by name or as `sort` says. No other node is asked. With `q`, `sort` or `folder`
/// the answer has totals, and the whole catalogue is read for it.
#[utoipa::path(
    get,
    path = "/api/v1/catalogue",
    params(
        ("first" = Option<u32>, Query, description = "Files in this answer, at most", minimum = 1, maximum = 10000),
        ("after" = Option<Name>, Query, description = "Those after this name"),
        ("q" = Option<String>, Query, description = "Words with spaces between them: each occurs in the name"),
        ("sort" = Option<String>, Query, description = "`name`, `size`, `published` or `freshness` (stale first); `-` \
         before it: in descending order", pattern = "^-?(name|size|published|freshness)$"),
        ("folder" = Option<String>, Query, description = "Files below this folder; empty: the topmost. Without `q` \
         deeper files are counted by folder"),
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
    let params = params.known(&["first", "after", "q", "sort", "folder"])?;
    let first = params.number("first", 1, FIRST_MAX)?.unwrap_or(FIRST_DEFAULT);
    if let Some(selection) = selection(&params, first)? {
        return browse(&inside, selection).await;
    }
    let command = Command::List { first: Some(first), after: params.name_in("after")? };
    answered(&inside, command).await
}

/// What `q`, `sort` and `folder` select; `None` without them.
fn selection(params: &Params, first: u32) -> Result<Option<Selection>, Problem> {
    let (q, sort, folder) = (params.text("q")?, params.text("sort")?, params.text("folder")?);
    if (q, sort, folder) == (None, None, None) {
        return Ok(None);
    }
    let sort = sort.map(str::parse::<Sort>).transpose();
    let wrong = |()| Problem::bad_request("sort is name, size, published or freshness, or - and one of them");
    Ok(Some(Selection {
        words: q.unwrap_or_default().split_whitespace().map(str::to_lowercase).collect(),
        folder: folder.map(|folder| folder.trim_matches('/').to_owned()),
        sort: sort.map_err(wrong)?.unwrap_or_default(),
        first: first as usize,
        after: params.name_in("after")?,
    }))
}

async fn browse(inside: &Inside, selection: Selection) -> Result<Response, Problem> {
    let _permit = SELECTIONS.acquire().await; // it is never closed
    let has_folders = selection.folder.is_some() && selection.words.is_empty();
    let browsed = inside.host.peer.library.blocking(move |library| library.browse(&selection)).await;
    let Browsed { files, folders, totals, damaged, next } = browsed
        .map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", error.to_string()))?;
    let folders = folders.into_iter().map(|(name, totals)| FolderJson { name, totals: totals.into() });
    let catalogue = Catalogue {
        files: files.iter().map(FileRow::from).collect(),
        damaged: damaged.iter().take(DAMAGED_MAX).map(ToString::to_string).collect(),
        next: next.map(|name| name.to_string()),
        folders: has_folders.then(|| folders.collect()),
        selected: Some(totals.into()),
    };
    Ok(Json(catalogue).into_response())
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
