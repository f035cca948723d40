//! `share --watch`: watches files and folders, and publishes or withdraws what changes there.

use std::{path::PathBuf, time::Duration};

use tokio::sync::mpsc;

use super::{
    Reply, Share,
    job::{Job, JobKind},
    named::tickets::Tickets,
    prelude::*,
    publishing::{failed, title, told as tell},
};
use crate::{
    api::views::published::line_of,
    changes::{Told, Watching},
    peer::PeerHandle,
    publish::{PublishError, PublishOptions, PublishOutcome},
    terminal::table::ShownNames,
};

/// What was done and is not told yet, at most; the watching is slowed down beyond.
const TOLD_WAITING_MAX: usize = 4;
/// Seconds that a file has to be gone before it is unshared: a build takes some to make it anew.
pub(super) const SETTLE_SECS_DEFAULT: u32 = 10;

/// Watch what was shared, until the caller leaves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    pub(super) share: Share,
    /// Seconds that a file has to be gone before it is unshared.
    pub(super) settle: u32,
}

impl Api for Watch {
    async fn run(self, host: &Arc<Host>, _: Input, answer: &Answer) -> Result<Done, Failure> {
        let (settle, (paths, options)) = (Duration::from_secs(self.settle.into()), self.share.parts());
        let job = host.jobs.begin(JobKind::Watch, options.name.as_slice(), title(&paths), false);
        job.unless_cancelled(watch(&host.peer, paths, (options, settle), &job, answer)).await?;
        Ok(Done::all())
    }

    fn about(&self) -> About<'_> {
        About {
            shape: Shape::Lines,
            is_endless: true,
            stores_files: true,
            title: "reading".to_owned(),
            ..About::needing(Need::Serving)
        }
    }

    fn view(&self) -> Box<dyn View> {
        Lines::of(|row: PublishedRow, output| {
            match row {
                PublishedRow::Published(shared) => {
                    output.text(&line_of("shared", &shared.version, &mut ShownNames::default()))?;
                }
                PublishedRow::Withdrawn { name } => {
                    output.text(&format!("unshared {name}: its file is gone"))?;
                }
                PublishedRow::Failed { why, .. } => why.print(output),
                PublishedRow::Unchanged(_) => {}
            }
            Ok(())
        })
    }
}

/// Publishes and withdraws what changes at `paths`. What is not news is not told: unchanged files and copies.
async fn watch(
    peer: &PeerHandle,
    paths: Vec<PathBuf>,
    (options, settle): (PublishOptions, Duration),
    job: &Job,
    answer: &Answer,
) -> Result<(), Failure> {
    peer.indexers_tried().await;
    let (telling, mut told) = mpsc::channel(TOLD_WAITING_MAX);
    let watching = Watching::new((&peer.library, &peer.publisher), paths, options, settle, telling).await?;
    let passing = async {
        while let Some(told) = told.recv().await {
            match told {
                Told::Published(outcome) => {
                    let news = PublishOutcome { unchanged: Vec::new(), ..outcome };
                    tell(&news, &Tickets::of(peer).await, answer).await?;
                    failed(&news, job);
                    let row = |(path, error): &(PathBuf, PublishError)| {
                        let path = Some(path.to_string_lossy().into_owned());
                        PublishedRow::Failed { why: Failure::of(error), path, name: None }
                    };
                    answer.rows_of(&news.failed, row).await?;
                }
                Told::Withdrawn(name, outcome) => {
                    let row = match outcome {
                        Ok(()) => PublishedRow::Withdrawn { name },
                        Err(error) => {
                            PublishedRow::Failed { why: error.into(), path: None, name: Some(name) }
                        }
                    };
                    answer.row(&row).await?;
                }
                Told::Note(text) => answer.send(Reply::Note(text)).await?,
            }
        }
        Ok(())
    };
    tokio::select! {
        () = watching.run() => Ok(()),
        passed = passing => passed,
    }
}
