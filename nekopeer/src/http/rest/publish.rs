//! Publishing: files of this machine, and what a request carries; and to publish no longer.

use std::sync::Arc;

use axum::{
    Json,
    body::Body,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use futures::StreamExt;
use nekoindexer::http::{Authorized, Problem};
use nekoproto::{FileName, Mode, limits::POLICY_SECS_MAX};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use utoipa::ToSchema;

use super::{
    described::{LocalName, Name, Refused},
    params::Params,
};
use crate::{
    commands::{
        Command, INPUT_PIECE_BYTES, INPUT_WAITING_MAX, Piece, PublishedRow, Row, Summary, VersionRow,
        no_input,
    },
    http::{
        Inside,
        carried::{Carried, problem},
    },
    json::{FailedJson, UnpublishedJson, VersionJson},
    publish::PolicyChange,
};

/// Versions that are listed in one answer; further ones are counted.
const LISTED_MAX: usize = 10_000;

/// What to publish.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Publish {
    /// Files and folders of this machine; relative ones are in the share folder.
    #[schema(value_type = Vec<LocalName>, min_items = 1)]
    paths: Vec<String>,
    /// The name of a single file.
    #[schema(value_type = Option<Name>)]
    name: Option<FileName>,
    #[serde(default)]
    policy: Policy,
}

/// How copies are kept coherent; what is left out stays as it was.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Policy {
    #[schema(value_type = Option<String>, pattern = "^(push|pull|hybrid)$")]
    mode: Option<String>,
    /// Seconds that a copy counts as fresh under push.
    #[schema(minimum = 1, maximum = 604_800)]
    lease_secs: Option<u32>,
    /// Seconds that a copy counts as fresh under pull.
    #[schema(minimum = 1, maximum = 604_800)]
    ttr_secs: Option<u32>,
    /// Whether a copy past its time is handed out again, as such.
    serve_stale: Option<bool>,
}

/// What became of files that were to be published.
#[derive(Serialize, ToSchema)]
#[schema(as = Published)]
pub(super) struct PublishedJson<'a> {
    /// New versions.
    published: Vec<VersionJson<'a>>,
    /// Those that equal the version published before.
    unchanged: Vec<VersionJson<'a>>,
    /// Names of copies of other origins' files, which stay copies.
    copies: Vec<&'a str>,
    /// Files that cannot be published.
    failed: Vec<UnpublishedJson>,
    /// Versions that are not listed here because they are too many.
    more: usize,
    /// Indexers that acknowledged.
    indexers_told: u64,
    /// Whether each new version is listed by an indexer; until then its number may change.
    confirmed: bool,
}

/// Names that were to be published no longer.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = Withdrawn)]
pub(super) struct WithdrawnJson {
    /// Those that are not; their files stay on disk.
    withdrawn: Vec<String>,
    /// Those that still are.
    failed: Vec<FailedJson>,
}

/// Publishes files and folders of this machine.
#[utoipa::path(
    post,
    path = "/api/v1/publish",
    request_body = Publish,
    responses(
        (status = 200, description = "What became of them", body = PublishedJson),
        Refused,
    ),
    security(("token" = [])),
)]
pub(super) async fn publish(
    _: Authorized,
    State(inside): State<Arc<Inside>>,
    Json(Publish { paths, name, policy }): Json<Publish>,
) -> Result<Response, Problem> {
    if paths.is_empty() || paths.iter().any(String::is_empty) {
        return Err(Problem::bad_request("say which files: \"paths\" has at least one, and none is empty"));
    }
    if name.is_some() && paths.len() > 1 {
        let detail = "\"name\" names a single file: leave it out, or publish the files one by one";
        return Err(Problem::new(StatusCode::CONFLICT, "conflict", detail));
    }
    let paths = paths.into_iter().map(|path| inside.host.peer.dir().join(path).into()).collect();
    let command = Command::Publish { paths, name, policy: policy.change()? };
    answered(inside.carry_out(command, no_input())?).await
}

/// Stores the body as a file in the share folder and publishes it. A body that is cut off stores nothing.
#[utoipa::path(
    put,
    path = "/api/v1/files",
    params(
        ("name" = Name, Query, description = "Its name, and its path in the share folder"),
        ("force" = Option<bool>, Query, description = "Replace a file that stands there and is not what was published"),
    ),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 200, description = "What became of it", body = PublishedJson),
        Refused,
    ),
    security(("token" = [])),
)]
pub(super) async fn store(
    _: Authorized,
    State(inside): State<Arc<Inside>>,
    params: Params,
    body: Body,
) -> Result<Response, Problem> {
    let params = params.known(&["name", "force"])?;
    let (name, force) = (params.name()?, params.flag("force")?);
    let (pieces, input) = mpsc::channel(INPUT_WAITING_MAX);
    let command = Command::Store { name, force, policy: PolicyChange::default() };
    let carried = inside.carry_out(command, input)?;
    let feeding = async {
        feed(body, pieces).await;
        std::future::pending().await
    };
    tokio::select! {
        answer = answered(carried) => answer,
        never = feeding => never,
    }
}

/// Publishes these names no longer; their files stay on disk.
#[utoipa::path(
    delete,
    path = "/api/v1/files",
    params(("name" = Vec<Name>, Query, description = "The names")),
    responses(
        (status = 200, description = "What became of them", body = WithdrawnJson),
        Refused,
    ),
    security(("token" = [])),
)]
pub(super) async fn withdraw(
    _: Authorized,
    State(inside): State<Arc<Inside>>,
    params: Params,
) -> Result<Json<WithdrawnJson>, Problem> {
    let names = params.known(&["name"])?.some_names()?;
    let (rows, _) = inside.carry_out(Command::Withdraw { names }, no_input())?.rows().await?;
    let (mut answer, mut first) = (WithdrawnJson::default(), None);
    for row in rows {
        match row {
            Row::Withdrawn { name, outcome: Ok(()) } => answer.withdrawn.push(name.to_string()),
            Row::Withdrawn { name, outcome: Err(failure) } => {
                answer.failed.push(FailedJson { name: name.to_string(), error: failure.message.clone() });
                first.get_or_insert(failure);
            }
            _ => {}
        }
    }
    match first {
        Some(failure) if answer.withdrawn.is_empty() => Err(problem(&failure)),
        _ => Ok(Json(answer)),
    }
}

/// Passes a body on to a command, as fast as that takes it. One that is cut off is no complete input.
async fn feed(body: Body, pieces: mpsc::Sender<Piece>) {
    let mut body = body.into_data_stream();
    while let Some(bytes) = body.next().await {
        let is_taken = match bytes {
            Ok(mut bytes) => loop {
                let piece = bytes.split_to(bytes.len().min(INPUT_PIECE_BYTES));
                if piece.is_empty() {
                    break true;
                }
                if pieces.send(Piece::Bytes(piece.into())).await.is_err() {
                    break false;
                }
            },
            Err(error) => {
                let _ = pieces.send(Piece::Failed(format!("the body was cut off: {error}"))).await;
                return;
            }
        };
        if !is_taken {
            return; // the answer says why
        }
    }
    let _ = pieces.send(Piece::End).await; // the answer says why it is not taken
}

/// Answers with what was published; if nothing was and something failed, that is an error.
async fn answered(carried: Carried) -> Result<Response, Problem> {
    let (rows, summary) = carried.rows().await?;
    let (indexers_told, confirmed) = match summary {
        Summary::Published { indexers_told, is_confirmed } => (indexers_told, is_confirmed),
        Summary::Done => (0, false),
    };
    let published =
        rows.iter().filter_map(|row| if let Row::Published(row) = row { Some(row) } else { None });
    let (mut new, mut unchanged, mut copies, mut failed): (Vec<&VersionRow>, Vec<_>, Vec<_>, Vec<_>) =
        Default::default();
    for row in published {
        match row {
            PublishedRow::New(version) => new.push(version),
            PublishedRow::Unchanged(version) => unchanged.push(version),
            PublishedRow::Copy(name) => copies.push(name.as_str()),
            PublishedRow::Failed { path, why } => {
                failed.push(UnpublishedJson { error: why.clone(), path: path.0.to_string_lossy().into() });
            }
        }
    }
    if let Some(first) = failed.first().filter(|_| new.is_empty() && unchanged.is_empty()) {
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        return Err(Problem::new(status, "cannot be published", first.error.clone()));
    }
    let more = new.len().saturating_sub(LISTED_MAX) + unchanged.len().saturating_sub(LISTED_MAX);
    let (published, unchanged) = (listed(&new), listed(&unchanged));
    let answer = PublishedJson { published, unchanged, copies, failed, more, indexers_told, confirmed };
    Ok(Json(answer).into_response())
}

fn listed<'a>(versions: &[&'a VersionRow]) -> Vec<VersionJson<'a>> {
    versions.iter().take(LISTED_MAX).map(|version| (*version).into()).collect()
}

const _: () = assert!(POLICY_SECS_MAX == 604_800, "as described");

impl Policy {
    fn change(self) -> Result<PolicyChange, Problem> {
        let mode = self.mode.as_deref().map(str::parse::<Mode>).transpose();
        let mode = mode.map_err(|_| Problem::bad_request("\"mode\" is push, pull or hybrid"))?;
        let secs = [self.lease_secs, self.ttr_secs].into_iter().flatten();
        if secs.into_iter().any(|secs| !(1..=POLICY_SECS_MAX).contains(&secs)) {
            return Err(Problem::bad_request(format!(
                "times of a policy are 1 to {POLICY_SECS_MAX} seconds"
            )));
        }
        let Self { lease_secs, ttr_secs, serve_stale, .. } = self;
        Ok(PolicyChange { mode, lease_secs, ttr_secs, serve_stale })
    }
}
