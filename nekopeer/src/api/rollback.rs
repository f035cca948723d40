//! `rollback`: puts an earlier version back in its place.

use nekoproto::Version;

use super::views::downloads::DownloadsView;
use super::{Reply, job::JobKind, named::version, prelude::*};
use crate::{follow, util::json};

/// Put an earlier version that follow kept back in its place; newer ones up to the newest known stay out of it. Where a
/// follower runs a command on each version, its answer is waited for
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Rollback {
    /// The name
    #[arg(value_name = "NAME")]
    #[schema(value_type = Name)]
    name: FileName,
    /// The version [default: the last one that was replaced]
    #[arg(value_name = "VERSION", value_parser = version)]
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 9007199254740991u64)]
    #[serde(default, deserialize_with = "json::version")]
    version: Option<Version>,
}

impl Api for Rollback {
    async fn run(self, host: &Arc<Host>, _: Input, answer: &Answer) -> Result<Done, Failure> {
        let job = host.jobs.begin(JobKind::Get, std::slice::from_ref(&self.name), String::new(), false);
        let (events, library) = (host.peer.events(), &host.peer.library);
        let judges = library.judges(&self.name);
        let restoring = async {
            let restoring = host.peer.downloader.restore(&self.name, self.version, None, &job.progress);
            let done = answer.reporting(&job.progress, restoring).await?;
            let judges = judges.max(library.judges(&self.name));
            if judges > 0 && !library.all_accepted(&done.record) {
                if done.was_here {
                    library.ask_again([&self.name]);
                }
                let note = format!(
                    "version {} is in its place; waits for the command of follow",
                    done.record.version
                );
                answer.send(Reply::Note(note)).await?;
                follow::answered(library, &done.record, judges, events).await?;
            }
            answer.row(&DownloadedRow::of(&done)).await
        };
        job.unless_cancelled(restoring).await?;
        Ok(Done::all())
    }

    fn about(&self) -> About<'_> {
        About { names: vec![&self.name], title: self.name.to_string(), ..About::needing(Need::Peers) }
    }

    fn view(&self) -> Box<dyn View> {
        Box::<DownloadsView>::default()
    }
}

route! {
    /// Puts an earlier version that is kept here back in its place. Newer ones up to the newest known stay out of it. Where a
    /// follower runs a command on each version, its answer is waited for.
    post "/api/v1/rollback" rollback(Rollback) -> DownloadedRow, "It is in its place"
}
