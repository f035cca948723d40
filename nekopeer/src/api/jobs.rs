//! `jobs`: the long commands that run, and those that ended lately.

use axum::extract::Path;

use super::{JobRow, no_input, prelude::*, views};

/// List the long commands that the running peer carries out, and those that ended lately
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, IntoParams, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Jobs {}

impl Api for Jobs {
    async fn run(self, host: &Arc<Host>, _: Input, answer: &Answer) -> Result<Done, Failure> {
        answer.rows_of(host.jobs.rows(&host.peer), |job| job).await?;
        Ok(Done::all())
    }

    fn about(&self) -> About<'_> {
        About { shape: Shape::List("jobs"), ..About::needing(Need::Running) }
    }

    fn view(&self) -> Box<dyn View> {
        Box::<views::jobs::Jobs>::default()
    }

    fn without_peer(&self, folder: &str) -> Result<String, Failure> {
        Ok(format!("no peer runs on the data folder {folder}, and so no job"))
    }
}

route! {
    /// Lists the long commands that run, whoever began them, and those that ended lately.
    get "/api/v1/jobs" jobs(Jobs) -> Listed, "Jobs"
}

/// Jobs.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Jobs)]
struct Listed {
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

pub(super) async fn find(inside: &Inside, id: u64) -> Result<JobRow, Problem> {
    let (rows, _) = inside.carry_out(Jobs {}, no_input())?.rows().await?;
    let job = rows.iter().filter_map(Row::parse).find(|job: &JobRow| job.id == id);
    job.ok_or_else(|| Problem::not_found(format!("there is no job {id}: /api/v1/jobs lists them")))
}

pub(super) fn only(rows: &[Row]) -> Result<JobRow, Problem> {
    let gone = || Problem::unavailable("the job ended at once: /api/v1/jobs tells how");
    rows.iter().find_map(Row::parse).ok_or_else(gone)
}
