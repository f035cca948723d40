//! `cancel`: interrupts a job as its caller would.

use axum::{extract::Path, http::StatusCode};

use super::views::jobs::lines;
use super::{
    JobRow, JobState,
    jobs::{find, only},
    no_input,
    prelude::*,
};

/// Interrupt one of them, whoever began it; what came so far is kept
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, clap::Args)]
pub struct Cancel {
    /// Its id, or the name it is about
    #[arg(value_name = "NAME|ID")]
    what: String,
}

impl Api for Cancel {
    async fn run(self, host: &Arc<Host>, _: Input, answer: &Answer) -> Result<Done, Failure> {
        answer.rows_of(host.jobs.cancel(&self.what, &host.peer).await?, |job| job).await?;
        Ok(Done::all())
    }

    fn about(&self) -> About<'_> {
        About { shape: Shape::Lines, ..About::needing(Need::Running) }
    }

    fn view(&self) -> Box<dyn View> {
        lines(None)
    }

    fn without_peer(&self, folder: &str) -> Result<String, Failure> {
        Err(Failure::missing(format!("no peer runs on the data folder {folder}, and so no job")))
    }
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
        let why = if job.state == JobState::Waiting { "waits for its turn" } else { "has ended" };
        let detail = format!("job {id} {why}: there is nothing to cancel");
        return Err(Problem::new(StatusCode::CONFLICT, "conflict", detail));
    }
    let (rows, _) = inside.carry_out(Cancel { what: id.to_string() }, no_input())?.rows().await?;
    only(&rows).map(Json)
}
