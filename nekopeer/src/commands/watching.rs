//! Carries out the watching of files, until its caller leaves.

use std::path::PathBuf;

use tokio::sync::mpsc;

use super::{
    Answer, Failure, PublishedRow, Reply, in_one_line,
    jobs::Job,
    publishing::{failed, told as tell},
    tickets::Tickets,
};
use crate::{
    changes::{Told, Watching},
    peer::PeerHandle,
    publish::{PublishError, PublishOptions, PublishOutcome},
};

/// What was done and is not told yet, at most; the watching is slowed down beyond.
const TOLD_WAITING_MAX: usize = 4;

/// Publishes and withdraws what changes at `paths`. What is not news is not told: unchanged files and copies.
pub(super) async fn watch(
    peer: &PeerHandle,
    paths: Vec<PathBuf>,
    options: PublishOptions,
    job: &Job,
    answer: &Answer,
) -> Result<(), Failure> {
    peer.indexers_tried().await;
    let (telling, mut told) = mpsc::channel(TOLD_WAITING_MAX);
    let watching = Watching::new((&peer.library, &peer.publisher), paths, options, telling).await?;
    let passing = async {
        while let Some(told) = told.recv().await {
            match told {
                Told::Published(outcome) => {
                    let news = PublishOutcome { unchanged: Vec::new(), ..outcome };
                    tell(&news, &Tickets::of(peer).await, answer).await?;
                    failed(&news, job);
                    let row = |(path, error): &(PathBuf, PublishError)| {
                        let (error, path) = (in_one_line(error), Some(path.to_string_lossy().into_owned()));
                        PublishedRow::Failed { error, path, name: None }
                    };
                    answer.rows_of(&news.failed, row).await?;
                }
                Told::Withdrawn(name, outcome) => {
                    let row = match outcome {
                        Ok(()) => PublishedRow::Withdrawn { name },
                        Err(error) => {
                            PublishedRow::Failed { error: in_one_line(&error), path: None, name: Some(name) }
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
