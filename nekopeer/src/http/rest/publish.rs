//! Publishing: files of this machine, and what a request carries; and to publish no longer.

use std::sync::Arc;

use axum::{
    Json,
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use futures::StreamExt;
use nekoindexer::http::{Authorized, Problem, is_stalled};
use nekoproto::{FileName, Mode, Staleness, limits::POLICY_SECS_MAX};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use utoipa::ToSchema;

use super::{params::Params, parted, whole::whole};
use crate::{
    commands::{
        Command, INPUT_PIECE_BYTES, INPUT_WAITING_MAX, Piece, PublishedRow, Reply, Row, Summary, no_input,
    },
    http::{
        Inside,
        carried::{Carried, problem},
        described::{Content, LocalName, Name, Refused},
    },
    json::{FailedJson, TicketedJson, UnpublishedJson},
    publish::{PolicyChange, PublishOptions},
};

/// Versions that are listed in one answer, and files that failed; further ones are counted.
const LISTED_MAX: usize = 10_000;

/// What to publish.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Publish {
    /// Files and folders of this machine; relative ones are in the share folder.
    #[schema(value_type = Vec<LocalName>, min_items = 1)]
    paths: Vec<String>,
    /// The name of a single file, or of a set.
    #[schema(value_type = Option<Name>)]
    name: Option<FileName>,
    /// The only path is a folder: all of it becomes one version of one name.
    #[serde(default)]
    set: bool,
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
    #[serde(default, deserialize_with = "whole")]
    lease_secs: Option<u32>,
    /// Seconds that a copy counts as fresh under pull.
    #[schema(minimum = 1, maximum = 604_800)]
    #[serde(default, deserialize_with = "whole")]
    ttr_secs: Option<u32>,
    /// How far a copy that is read may be behind.
    #[schema(value_type = Option<String>, pattern = "^(strict|bounded|serve-stale)$")]
    staleness: Option<String>,
}

/// What became of files that were to be published.
#[derive(Serialize, ToSchema)]
#[schema(as = Published)]
pub(super) struct PublishedJson<'a> {
    /// New versions.
    published: Vec<TicketedJson<'a>>,
    /// Those that equal the version published before.
    unchanged: Vec<TicketedJson<'a>>,
    /// Names of copies of other origins' files, which stay copies.
    copies: Vec<&'a str>,
    /// Files that cannot be published.
    failed: Vec<UnpublishedJson>,
    /// Files that are not listed here because they are too many.
    more: usize,
    /// Indexers that acknowledged.
    indexers_told: u64,
    /// Whether each new version is listed by an indexer; until then its number may change.
    confirmed: bool,
}

/// Names that were to be published no longer.
#[derive(Debug, Serialize, ToSchema)]
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
    Json(Publish { paths, name, set, policy }): Json<Publish>,
) -> Result<Response, Problem> {
    if paths.is_empty() || paths.iter().any(String::is_empty) {
        return Err(Problem::bad_request("say which files: \"paths\" has at least one, and none is empty"));
    }
    if name.is_some() && paths.len() > 1 {
        let detail = "\"name\" names a single file: leave it out, or publish the files one by one";
        return Err(Problem::new(StatusCode::CONFLICT, "conflict", detail));
    }
    let paths = paths.into_iter().map(|path| inside.host.peer.dir().join(path).into()).collect();
    let options = PublishOptions { name, is_set: set, policy: policy.change()? };
    let command = Command::Publish { paths, options };
    answered(inside.carry_out(command, no_input())?).await
}

/// Stores the body as a file in the share folder and publishes it. A body that is cut off stores nothing; none at
/// all is an empty file.
#[utoipa::path(
    put,
    path = "/api/v1/files",
    params(
        ("name" = Name, Query, description = "Its name, and its path in the share folder"),
        ("force" = Option<bool>, Query, description = "Replace a file that stands there and is not what was published"),
    ),
    request_body(content = Option<Content>, content_type = "application/octet-stream"),
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
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    for refused in
        [header::CONTENT_RANGE, header::IF_MATCH, header::IF_NONE_MATCH, header::IF_UNMODIFIED_SINCE]
    {
        if headers.contains_key(&refused) {
            let why = "a file is stored as a whole, and replaced only with force=true: leave out the header";
            return Err(Problem::bad_request(format!("{why} {refused}")));
        }
    }
    let encoding = headers.get(header::CONTENT_ENCODING);
    if encoding.is_some_and(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        let why = "a file is stored as it is sent: send it without `Content-Encoding`";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported media type", why));
    }
    let params = params.known(&["name", "force"])?;
    let (name, force) = (params.name()?, params.flag("force")?);
    let (pieces, input) = mpsc::channel(INPUT_WAITING_MAX);
    let command = Command::Store { name, force, policy: PolicyChange::default() };
    let carried = inside.carry_out(command, input)?;
    let feeding = async {
        match feed(body, pieces).await {
            Ok(()) => std::future::pending().await,
            Err(stalled) => stalled,
        }
    };
    tokio::select! {
        answer = answered(carried) => answer,
        stalled = feeding => Err(stalled),
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
    let outcomes = rows.into_iter().filter_map(|row| match row {
        Row::Withdrawn { name, outcome } => Some((name, outcome)),
        _ => None,
    });
    let (withdrawn, failed) = parted(outcomes, |name, ()| name)?;
    Ok(Json(WithdrawnJson { withdrawn, failed }))
}

/// Passes a body on to a command, as fast as that takes it. One that is cut off is no complete input.
async fn feed(body: Body, pieces: mpsc::Sender<Piece>) -> Result<(), Problem> {
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
            Err(error) if is_stalled(&error) => {
                let why = error.to_string();
                return Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "too slow", why));
            }
            Err(error) => {
                let _ = pieces.send(Piece::Failed(format!("the body was cut off: {error}"))).await;
                return Ok(());
            }
        };
        if !is_taken {
            return Ok(()); // the answer says why
        }
    }
    let _ = pieces.send(Piece::End).await; // the answer says why it is not taken
    Ok(())
}

/// Rows of an answer as they come, up to a bound.
#[derive(Debug, Default)]
struct Gathered {
    versions: Vec<PublishedRow>,
    failed: Vec<UnpublishedJson>,
    more: usize,
}

impl Gathered {
    fn add(&mut self, row: PublishedRow) {
        match row {
            PublishedRow::Failed { path, why } if self.failed.len() < LISTED_MAX => {
                self.failed.push(UnpublishedJson { error: why, path: path.0.to_string_lossy().into() });
            }
            PublishedRow::New(..) | PublishedRow::Unchanged(..) | PublishedRow::Copy(_)
                if self.versions.len() < LISTED_MAX =>
            {
                self.versions.push(row);
            }
            _ => self.more += 1,
        }
    }

    /// The answer; if nothing was published and something failed, that is an error.
    fn answer(self, indexers_told: u64, confirmed: bool) -> Result<Response, Problem> {
        let Self { versions, failed, more } = self;
        let (mut published, mut unchanged, mut copies) = (Vec::new(), Vec::new(), Vec::new());
        for row in &versions {
            match row {
                PublishedRow::New(version, ticket) => published.push((version, ticket).into()),
                PublishedRow::Unchanged(version, ticket) => unchanged.push((version, ticket).into()),
                PublishedRow::Copy(name) => copies.push(name.as_str()),
                PublishedRow::Failed { .. } => {}
            }
        }
        if let Some(first) = failed.first().filter(|_| published.is_empty() && unchanged.is_empty()) {
            let status = StatusCode::UNPROCESSABLE_ENTITY;
            return Err(Problem::new(status, "cannot be published", first.error.clone()));
        }
        let answer = PublishedJson { published, unchanged, copies, failed, more, indexers_told, confirmed };
        Ok(Json(answer).into_response())
    }
}

/// Answers with what was published.
async fn answered(mut carried: Carried) -> Result<Response, Problem> {
    let mut gathered = Gathered::default();
    loop {
        match carried.next().await {
            Reply::Rows(rows) => rows.into_iter().for_each(|row| {
                if let Row::Published(row) = row {
                    gathered.add(row);
                }
            }),
            Reply::Finished(Ok(Summary::Published { indexers_told, is_confirmed })) => {
                return gathered.answer(indexers_told, is_confirmed);
            }
            Reply::Finished(Ok(Summary::Done)) => return gathered.answer(0, false),
            Reply::Finished(Err(failure)) => return Err(problem(&failure)),
            _ => {}
        }
    }
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
        let staleness = self.staleness.as_deref().map(str::parse::<Staleness>).transpose();
        let staleness =
            staleness.map_err(|_| Problem::bad_request("\"staleness\" is strict, bounded or serve-stale"))?;
        let Self { lease_secs, ttr_secs, .. } = self;
        Ok(PolicyChange { mode, lease_secs, ttr_secs, staleness })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::LocalPath;

    #[test]
    fn a_long_answer_is_cut_and_the_rest_counted_and_what_failed_is_said_all_the_same() {
        let mut gathered = Gathered::default();
        for n in 0..LISTED_MAX + 7 {
            gathered.add(PublishedRow::Copy(FileName::new(&format!("f{n}")).unwrap()));
        }
        gathered.add(PublishedRow::Failed { path: LocalPath("x".into()), why: "unreadable".to_owned() });
        assert_eq!((gathered.versions.len(), gathered.failed.len(), gathered.more), (LISTED_MAX, 1, 7));
        assert_eq!(gathered.answer(1, true).unwrap_err().detail, "unreadable");
    }
}
