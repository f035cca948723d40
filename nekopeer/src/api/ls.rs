//! `ls`: lists what is shared and held here.

use std::collections::HashSet;

use axum::response::IntoResponse;
use tokio::sync::Semaphore;

use super::{Word, in_one_line, named::expanding::found_here, prelude::*};
use crate::{
    api::rest::problem,
    api::views::files::Files,
    library::browse::{Browsed, Selection, Sort, Totals},
    listing::Listing,
    peer::PeerHandle,
    util::json::text::maybe,
};

/// Files in one answer over HTTP, unless told otherwise, and at most.
pub(super) const LIMIT_DEFAULT: u32 = 1000;
const LIMIT_MAX: u32 = 10_000;
/// Damaged entries that are told in one answer.
const DAMAGED_MAX: usize = 20;
/// Selections that are carried out at once: each reads the whole catalogue. Further ones wait.
const SELECTIONS_MAX: usize = 2;

static SELECTIONS: Semaphore = Semaphore::const_new(SELECTIONS_MAX);

/// List what is shared and held here
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::Args)]
pub struct Ls {
    /// Only these; FOLDER/ or a glob for all that match. `search --here` takes words
    #[serde(default)]
    #[arg(value_name = "NAME", value_parser = Word::said)]
    pub(crate) names: Vec<Word>,
    /// At most this many; `None`: all
    #[arg(skip)]
    pub(crate) first: Option<u32>,
    /// Those after this name; `None`: from the first
    #[arg(skip)]
    pub(crate) after: Option<FileName>,
}

impl Api for Ls {
    async fn run(self, host: &Arc<Host>, _: Input, answer: &Answer) -> Result<Done, Failure> {
        list(&host.peer, false, self, answer).await
    }

    fn about(&self) -> About<'_> {
        About { shape: Shape::List("files"), ..About::needing(Need::Catalogue) }
    }

    fn view(&self) -> Box<dyn View> {
        Box::<Files>::default()
    }
}

/// Lists files, piece by piece as they are read; origins are asked if `asks`, and then all that is known of names is told.
pub(super) async fn list(
    peer: &PeerHandle,
    asks: bool,
    Ls { names, first, after }: Ls,
    answer: &Answer,
) -> Result<Done, Failure> {
    let mut left = first.map_or(usize::MAX, |first| first as usize);
    let (library, peers) = (&peer.library, asks.then_some(&peer.peers));
    let names = found_here(peer, names, None, answer).await?;
    let mut listing = match names.is_empty() {
        true => Listing::new(library, peers, after.as_ref(), left),
        false => Listing::of(library, peers, names.clone()),
    };
    let tells_all = asks && !names.is_empty();
    let (mut damaged, mut last, mut found) = (Vec::new(), None, HashSet::new());
    while left > 0 {
        let Some(mut files) = listing.next().await? else {
            break;
        };
        files.truncate(left);
        left -= files.len();
        let mut rows = Vec::with_capacity(files.len());
        for file in files {
            match file {
                Ok(file) => {
                    let mut row = FileRow::from(&file);
                    if tells_all {
                        row.detail = Some(Detail::of(&file, peer.reading_of(&file.record.name).await?));
                    }
                    if !names.is_empty() {
                        found.insert(file.record.name.clone());
                    }
                    rows.push(row);
                }
                Err(error) => damaged.push(in_one_line(&error)),
            }
        }
        last = rows.last().map(|row| row.version.name.clone()).or(last);
        answer.rows_of(rows, |row| row).await?;
    }
    match names.iter().find(|name| !found.contains(*name)) {
        Some(name) if tells_all => {
            let why = format!(
                "{name} is neither shared nor held here: ls lists what is, and get brings a copy of what others share"
            );
            return Err(Failure::missing(why));
        }
        Some(_) if found.is_empty() => {
            let names: Vec<&str> = names.iter().map(FileName::as_str).collect();
            return Err(Failure::missing(format!("nothing here is called {}", names.join(" or "))));
        }
        _ => {}
    }
    let outcome = if damaged.is_empty() { Outcome::All } else { Outcome::Part };
    let more = damaged.len().saturating_sub(DAMAGED_MAX);
    damaged.truncate(DAMAGED_MAX);
    if more > 0 {
        damaged.push(format!("and {more} more"));
    }
    let next = last.filter(|_| left == 0);
    Ok(Done::with(outcome, &serde_json::json!({ "damaged": damaged, "next": next })))
}

/// Files that are shared or held here, by name.
#[derive(Serialize, ToSchema)]
#[schema(as = Catalogue)]
pub(super) struct CatalogueJson {
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
    selected: Option<Totals>,
}

/// A folder, with all that is below it.
#[derive(Serialize, ToSchema)]
#[schema(as = Folder)]
struct FolderJson {
    /// Its path: what the names of its files begin with.
    name: String,
    #[serde(flatten)]
    #[schema(inline)]
    totals: Totals,
}

/// Lists what is shared and held here, by name or as `sort` says. No other node is asked. With `q`, `sort` or `folder`
/// the answer has totals, and the whole catalogue is read for it.
#[utoipa::path(
    get,
    path = "/api/v1/catalogue",
    params(CatalogueParams),
    responses(
        (status = 200, description = "Files", body = CatalogueJson),
        Refused,
    ),
)]
pub(super) async fn catalogue(
    State(inside): State<Arc<Inside>>,
    Asked(page): Asked<CatalogueParams>,
) -> Result<Response, Problem> {
    let first = first(page.first)?.unwrap_or(LIMIT_DEFAULT);
    match page.selection(first) {
        Some(selection) => browse(&inside, selection).await,
        None => answered(&inside, Ls { first: Some(first), after: page.after, ..Ls::default() }).await,
    }
}

/// Which files, and in which order.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct CatalogueParams {
    /// Files in this answer, at most
    #[param(minimum = 1, maximum = 10000)]
    #[serde(rename = "limit")]
    first: Option<u32>,
    /// Those after this name
    #[param(value_type = Option<Name>)]
    after: Option<FileName>,
    /// Words with spaces between them: each occurs in the name
    q: Option<String>,
    /// `name`, `size`, `shared` or `freshness` (stale first); `-` before it: in descending order
    #[param(value_type = Option<String>, pattern = "^-?(name|size|shared|freshness)$")]
    #[serde(default, deserialize_with = "maybe::deserialize")]
    sort: Option<Sort>,
    /// Files below this folder; empty: the topmost. Without `q` deeper files are counted by folder
    folder: Option<String>,
}

impl CatalogueParams {
    /// What `q`, `sort` and `folder` select; `None` without them.
    fn selection(&self, first: u32) -> Option<Selection> {
        let is_said = self.q.is_some() || self.sort.is_some() || self.folder.is_some();
        is_said.then(|| Selection {
            words: self.q.as_deref().unwrap_or_default().split_whitespace().map(str::to_lowercase).collect(),
            folder: self.folder.as_ref().map(|folder| folder.trim_matches('/').to_owned()),
            sort: self.sort.unwrap_or_default(),
            first: first as usize,
            after: self.after.clone(),
        })
    }
}

pub(super) fn first(asked: Option<u32>) -> Result<Option<u32>, Problem> {
    match asked {
        Some(first) if !(1..=LIMIT_MAX).contains(&first) => {
            Err(Problem::bad_request(format!("limit is a number from 1 to {LIMIT_MAX}")))
        }
        first => Ok(first),
    }
}

async fn browse(inside: &Inside, selection: Selection) -> Result<Response, Problem> {
    let _permit = SELECTIONS.acquire().await; // it is never closed
    let has_folders = selection.folder.is_some() && selection.words.is_empty();
    let browsed = inside.host.peer.library.blocking(move |library| library.browse(&selection)).await;
    let Browsed { files, folders, totals, damaged, next } = browsed.map_err(|error| problem(&error))?;
    let folders = folders.into_iter().map(|(name, totals)| FolderJson { name, totals });
    let catalogue = CatalogueJson {
        files: files.iter().map(FileRow::from).collect(),
        damaged: damaged.iter().take(DAMAGED_MAX).map(ToString::to_string).collect(),
        next: next.map(|name| name.to_string()),
        folders: has_folders.then(|| folders.collect()),
        selected: Some(totals),
    };
    Ok(Json(catalogue).into_response())
}
