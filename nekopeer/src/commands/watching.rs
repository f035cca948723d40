//! Carries out the watching of files, until its caller leaves.

use std::path::PathBuf;

use tokio::sync::mpsc;

use super::{Answer, Failure, Reply, Row, jobs::Job, publishing::published, tickets::Tickets};
use crate::{
    changes::{Told, Watching},
    peer::PeerHandle,
    publish::{PublishOptions, PublishOutcome},
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
                    let PublishOutcome { published: new, failed, .. } = outcome;
                    let news = PublishOutcome { published: new, failed, ..PublishOutcome::default() };
                    published(news, &Tickets::of(peer).await, job, answer).await?;
                }
                Told::Withdrawn(name, outcome) => {
                    let outcome = outcome.map_err(Failure::from);
                    answer.rows(vec![Row::Withdrawn { name, outcome }]).await?;
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
