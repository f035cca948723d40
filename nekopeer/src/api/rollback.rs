//! `rollback`: puts an earlier version back in its place.

use std::pin::pin;

use futures::FutureExt;
use nekoproto::{Remedy, Version};

use super::downloading::once_free;
use super::views::downloads::DownloadsView;
use super::{Reply, job::JobKind, named::version, prelude::*};
use crate::util::json;

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
        let library = &host.peer.library;
        let hooks = library.hooks_on(&self.name);
        let restoring = async {
            let restore = || host.peer.downloader.restore(&self.name, self.version, None, &job.progress);
            let done = once_free(&host.peer, &self.name, &job.progress, answer, restore).await?;
            if done.was_here {
                library.ask_again([&self.name]);
            }
            let mut answered = pin!(library.answered(&done.record, hooks));
            match (&mut answered).now_or_never() {
                Some(answered) => answered?,
                None => {
                    let version = done.record.version;
                    let note = format!("version {version} is in its place; waits for the command of follow");
                    answer.send(Reply::Note(note)).await?;
                    answered.await?;
                }
            }
            answer.row(&DownloadedRow::of(&done)).await
        };
        let restored: Result<(), Failure> = job.unless_cancelled(restoring).await;
        restored.map_err(|error| error.not_remedied(Remedy::Force).not_remedied(Remedy::Output))?;
        Ok(Done::all())
    }

    fn about(&self) -> About<'_> {
        let is_once = self.version.is_none();
        About {
            names: vec![&self.name],
            title: self.name.to_string(),
            is_once,
            ..About::needing(Need::Peers)
        }
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
