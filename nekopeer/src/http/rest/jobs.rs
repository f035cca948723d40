//! Jobs: to begin them, to look at them, to cancel them; and the end of the peer.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use nekoindexer::daemon::http::{Authorized, Problem};
use nekoproto::{
    Version,
    limits::{POLICY_SECS_MAX, TTL_DEFAULT, TTL_MAX},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{body::answered, whole::whole};
use crate::{
    commands::{Command, JobRow, JobState, Row, Wanted, Word, id_digits, no_input},
    http::{
        Inside,
        described::{self, Refused},
    },
    state::freshness::OnStale,
    storage::catalogue::{Preference, PreferenceChange},
};

/// What to download.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Get {
    /// The names or tickets of files; small ones are fetched together.
    #[schema(value_type = Vec<described::Wanted>, min_items = 1)]
    names: Vec<Word>,
    /// Whose files, where several origins publish different ones: the first digits of the id; `@` is then part of each
    /// name.
    #[schema(pattern = "^[0-9a-fA-F]{1,64}$")]
    origin: Option<String>,
    /// Hops that are searched beyond the own indexers.
    #[schema(maximum = 16)]
    #[serde(default, deserialize_with = "whole")]
    ttl: Option<u32>,
    /// Replace files that stand there and are no copies from here.
    #[serde(default)]
    force: bool,
    /// Of a single file this version, from whoever holds or keeps it; it takes its place as with rollback.
    #[schema(value_type = Option<u64>, minimum = 1)]
    version: Option<Version>,
    /// Seconds that the copies count as fresh at most, from now on; their origins may be stricter.
    #[schema(minimum = 1, maximum = 604_800)]
    #[serde(default, deserialize_with = "whole")]
    bound_secs: Option<u32>,
    /// What happens to the copies when a newer version is out, from now on.
    on_stale: Option<OnStale>,
    /// What was said before of the copies, by these two fields, is taken back.
    #[serde(default)]
    anew: bool,
}

/// Downloads files in the background; its end is an event.
#[utoipa::path(
    post,
    path = "/api/v1/get",
    request_body = Get,
    responses(
        (status = 202, description = "It runs", body = JobRow,
         headers(("location" = String, description = "Where to look at it"))),
        Refused,
    ),
    security(("token" = [])),
)]
pub(super) async fn get(
    _: Authorized,
    State(inside): State<Arc<Inside>>,
    Json(Get { names, origin, ttl, force, version, bound_secs, on_stale, anew }): Json<Get>,
) -> Result<Response, Problem> {
    if names.is_empty() {
        return Err(Problem::bad_request("say which files: \"names\" has at least one"));
    }
    let ttl_hops = ttl.map_or(Ok(TTL_DEFAULT), u8::try_from).unwrap_or(u8::MAX);
    if ttl_hops > TTL_MAX {
        return Err(Problem::bad_request(format!("\"ttl\" is at most {TTL_MAX}")));
    }
    let origin = origin.map(|text| id_digits(&text)).transpose();
    let origin = origin.map_err(|why| Problem::bad_request(format!("\"origin\": {why}")))?;
    let wanted = Wanted::of_words(&names, origin, ttl_hops);
    let (names, mut wanted) = wanted.map_err(|why| Problem::new(StatusCode::CONFLICT, "conflict", why))?;
    if version.is_some() && names.len() > 1 {
        return Err(Problem::bad_request("\"version\" is of a single file"));
    }
    if bound_secs.is_some_and(|secs| !(1..=POLICY_SECS_MAX).contains(&secs)) {
        return Err(Problem::bad_request(format!("\"bound_secs\" is 1 to {POLICY_SECS_MAX}")));
    }
    wanted.version = version;
    let preference = PreferenceChange { anew, said: Preference { bound_secs, on_stale } };
    let command = Command::Download { names, output: None, force, wanted, preference, background: true };
    let (rows, _) = inside.carry_out(command, no_input())?.rows().await?;
    let job = only(&rows)?;
    let location = format!("/api/v1/jobs/{}", job.id);
    Ok((StatusCode::ACCEPTED, [(header::LOCATION, location)], Json(job)).into_response())
}

/// Lists the long commands that run, whoever began them, and those that ended lately.
#[utoipa::path(
    get,
    path = "/api/v1/jobs",
    responses(
        (status = 200, description = "Jobs", body = Jobs),
        Refused,
    ),
)]
pub(super) async fn jobs(State(inside): State<Arc<Inside>>) -> Result<Response, Problem> {
    answered(&inside, Command::Jobs).await
}

/// Jobs.
#[derive(Debug, Serialize, ToSchema)]
struct Jobs {
    /// Those that run, then those that ended lately, the last first.
    jobs: Vec<JobRow>,
}

/// One job.
#[utoipa::path(
    get,
    path = "/api/v1/jobs/{id}",
    params(("id" = u64, Path, description = "Its id")),
    responses(
        (status = 200, description = "The job", body = JobRow),
        Refused,
    ),
)]
pub(super) async fn job(
    State(inside): State<Arc<Inside>>,
    Path(id): Path<u64>,
) -> Result<Json<JobRow>, Problem> {
    find(&inside, id).await.map(Json)
}

/// Interrupts a job, whoever began it; what came so far is kept.
#[utoipa::path(
    delete,
    path = "/api/v1/jobs/{id}",
    params(("id" = u64, Path, description = "Its id")),
    responses(
        (status = 200, description = "It was interrupted", body = JobRow),
        Refused,
    ),
    security(("token" = [])),
)]
pub(super) async fn cancel(
    _: Authorized,
    State(inside): State<Arc<Inside>>,
    Path(id): Path<u64>,
) -> Result<Json<JobRow>, Problem> {
    let job = find(&inside, id).await?;
    if job.state != JobState::Running {
        let detail = format!("job {id} has ended: there is nothing to cancel");
        return Err(Problem::new(StatusCode::CONFLICT, "conflict", detail));
    }
    let cancel = Command::Cancel { what: id.to_string() };
    let (rows, _) = inside.carry_out(cancel, no_input())?.rows().await?;
    only(&rows).map(Json)
}

/// Ends the peer. It has begun to end when the answer arrives.
#[utoipa::path(
    post,
    path = "/api/v1/stop",
    responses(
        (status = 202, description = "It ends"),
        Refused,
    ),
    security(("token" = [])),
)]
pub(super) async fn stop(_: Authorized, State(inside): State<Arc<Inside>>) -> Result<StatusCode, Problem> {
    inside.carry_out(Command::Stop, no_input())?.rows().await?;
    Ok(StatusCode::ACCEPTED)
}

async fn find(inside: &Inside, id: u64) -> Result<JobRow, Problem> {
    let (rows, _) = inside.carry_out(Command::Jobs, no_input())?.rows().await?;
    let job = rows.iter().filter_map(Row::parse).find(|job: &JobRow| job.id == id);
    let missing = || Problem::not_found(format!("there is no job {id}: /api/v1/jobs lists them"));
    job.ok_or_else(missing)
}

fn only(rows: &[Row]) -> Result<JobRow, Problem> {
    let gone = || Problem::unavailable("the job ended at once: /api/v1/jobs tells how");
    rows.iter().find_map(Row::parse).ok_or_else(gone)
}
