//! Carries out the publishing of files, and tells what became of them.

use std::path::PathBuf;

use nekoproto::VerifiedRecord;

use super::{
    Answer, Failure, PublishedRow, Row, Summary, VersionRow, in_one_line, jobs::Job, tickets::Tickets,
};
use crate::{
    peer::PeerHandle,
    publish::{PublishError, PublishOptions, PublishOutcome},
};

/// What the publishing of these is called.
pub(super) fn title(paths: &[PathBuf]) -> String {
    match paths {
        [] => String::new(),
        [path] => path.display().to_string(),
        [first, others @ ..] => format!("{} and {} more", first.display(), others.len()),
    }
}

/// Publishes files and folders, and tells what became of each.
pub(super) async fn publish(
    peer: &PeerHandle,
    paths: Vec<PathBuf>,
    options: PublishOptions,
    job: &Job,
    answer: &Answer,
) -> Result<Summary, Failure> {
    peer.indexers_tried().await; // so that files are registered before they are reported as published
    let tickets = Tickets::of(peer).await;
    let publishing = async {
        let mut publishing = peer.publisher.publishing(paths, options, &job.progress);
        let mut summary = Summary::Published { indexers_told: 0, is_confirmed: false };
        while let Some(outcome) = publishing.next().await? {
            let (indexers_told, is_confirmed) = (outcome.indexers_told, outcome.is_confirmed);
            published(outcome, &tickets, job, answer).await?;
            summary = Summary::Published { indexers_told: indexers_told as u64, is_confirmed };
        }
        Ok(summary)
    };
    answer.reporting(&job.progress, publishing).await
}

/// Tells what became of files that were to be published.
pub(super) async fn published(
    outcome: PublishOutcome,
    tickets: &Tickets,
    job: &Job,
    answer: &Answer,
) -> Result<(), Failure> {
    let row = |record: &VerifiedRecord, row: fn(VersionRow, Option<String>) -> PublishedRow| {
        let version = VersionRow::from(record);
        let ticket = tickets.of_version(&version);
        Row::Published(row(version, ticket))
    };
    let PublishOutcome { published, unchanged, copies, failed, .. } = outcome;
    answer.rows_of(&published, |record| row(record, PublishedRow::New)).await?;
    answer.rows_of(&unchanged, |record| row(record, PublishedRow::Unchanged)).await?;
    answer.rows_of(copies, |name| Row::Published(PublishedRow::Copy(name))).await?;
    failed.iter().for_each(|(_, error)| job.failed(&Failure::new(in_one_line(error))));
    let failed_row = |(path, error): (PathBuf, PublishError)| {
        Row::Published(PublishedRow::failed(&path, in_one_line(&error)))
    };
    answer.rows_of(failed, failed_row).await
}
