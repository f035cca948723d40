//! Publishing: files of this machine, and what a request carries; and to publish no longer.

use std::sync::Arc;

use axum::{
    Json,
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::Response,
};
use futures::StreamExt;
use nekoindexer::daemon::http::{Authorized, Problem, is_stalled};
use nekoproto::{FileName, Mode, Staleness, limits::POLICY_SECS_MAX};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use utoipa::ToSchema;

use super::{
    body::{answered, framed},
    params::Params,
    whole::whole,
};
use crate::{
    commands::{
        Command, FailedRow, Framed, INPUT_PIECE_BYTES, INPUT_WAITING_MAX, Piece, PublishedRow, SkippedFields,
        UnpublishedRow,
    },
    http::{
        Inside,
        described::{Content, LocalName, Name, Refused},
    },
    publish::{PolicyChange, PublishOptions},
    rules::Rules,
};

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
    /// Hidden files and folders are published too.
    #[serde(default)]
    hidden: bool,
    /// Globs in the syntax of gitignore: what one matches is not published.
    #[serde(default)]
    exclude: Vec<String>,
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
struct Published {
    /// New versions, and those that equal the version published before.
    files: Vec<PublishedRow>,
    /// Names of copies of other origins' files, which stay copies.
    copies: Vec<String>,
    /// Files that cannot be published.
    failed: Vec<UnpublishedRow>,
    /// What to type elsewhere to get all of them, if they are the files of one folder.
    ticket: Option<String>,
    /// What in folders was not published, by cause.
    skipped: SkippedFields,
    /// Copies and failures that are not listed here because they are too many.
    more: usize,
    /// Indexers that acknowledged.
    indexers_told: u64,
    /// Whether each new version is listed by an indexer; until then its number may change.
    confirmed: bool,
}

/// Names that were to be published no longer.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Withdrawn)]
struct Withdrawn {
    /// Those that are not; their files stay on disk.
    withdrawn: Vec<String>,
    /// Those that still are.
    failed: Vec<FailedRow>,
}

/// Publishes files and folders of this machine.
#[utoipa::path(
    post,
    path = "/api/v1/publish",
    request_body = Publish,
    responses(
        (status = 200, description = "What became of them", body = Published),
        Refused,
    ),
    security(("token" = [])),
)]
pub(super) async fn publish(
    _: Authorized,
    State(inside): State<Arc<Inside>>,
    Json(Publish { paths, name, set, hidden, exclude, policy }): Json<Publish>,
) -> Result<Response, Problem> {
    if paths.is_empty() || paths.iter().any(String::is_empty) {
        return Err(Problem::bad_request("say which files: \"paths\" has at least one, and none is empty"));
    }
    if name.is_some() && paths.len() > 1 {
        let detail = "\"name\" names a single file: leave it out, or publish the files one by one";
        return Err(Problem::new(StatusCode::CONFLICT, "conflict", detail));
    }
    let paths = paths.into_iter().map(|path| inside.host.peer.dir().join(path).into()).collect();
    let (rules, policy) = (Rules { hidden, exclude }, policy.change()?);
    let options = PublishOptions { name, is_set: set, policy, rules, ..PublishOptions::default() };
    let command = Command::Publish { paths, options };
    answered(&inside, command).await
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
        (status = 200, description = "What became of it", body = Published),
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
    let shape = Framed::new(command.shape());
    let carried = inside.carry_out(command, input)?;
    let feeding = async {
        match feed(body, pieces).await {
            Ok(()) => std::future::pending().await,
            Err(stalled) => stalled,
        }
    };
    tokio::select! {
        answer = framed(carried, shape) => answer,
        stalled = feeding => Err(stalled),
    }
}

/// Publishes these names no longer; their files stay on disk.
#[utoipa::path(
    delete,
    path = "/api/v1/files",
    params(("name" = Vec<Name>, Query, description = "The names")),
    responses(
        (status = 200, description = "What became of them", body = Withdrawn),
        Refused,
    ),
    security(("token" = [])),
)]
pub(super) async fn withdraw(
    _: Authorized,
    State(inside): State<Arc<Inside>>,
    params: Params,
) -> Result<Response, Problem> {
    answered(&inside, Command::Withdraw { names: params.known(&["name"])?.some_names()? }).await
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
