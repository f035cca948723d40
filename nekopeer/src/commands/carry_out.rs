//! Carries out commands on a running peer.

use std::{path::PathBuf, sync::Arc};

use nekoproto::FileName;

use super::{
    Answer, Command, Failure, Host, Input, PublishedRow, Row, Summary, Wanted, answer::pass_events,
    finding::find, input::InputReader,
};
use crate::{
    commands::in_one_line,
    download::{DownloadError, DownloadOptions},
    indexers,
    listing::Listing,
    peer::PeerHandle,
    publish::{PublishError, PublishOptions, PublishOutcome},
    util::progress::Progress,
};

/// Carries out `command`; all of the answer but its end goes to `answer`.
///
/// # Errors
/// The command failed. Rows sent before it are valid.
///
/// # Cancel safety
/// Dropping the future interrupts the command: what came so far is kept.
pub(crate) async fn carry_out(
    host: &Host,
    command: Command,
    input: Input,
    answer: &Answer,
) -> Result<Summary, Failure> {
    let peer = &host.peer;
    // Dropped where it is not read, so that a caller who sends it does not wait.
    let input = command.takes_input().then_some(input);
    match command {
        Command::Publish { paths, name, policy } => {
            let paths = paths.into_iter().map(|path| path.0).collect();
            return publish(peer, paths, PublishOptions { name, policy }, answer).await;
        }
        Command::Store { name, force, policy } => {
            let input = input.ok_or_else(|| Failure::new("there is no input"))?;
            let progress = Arc::new(Progress::default());
            let storing = peer.store(&name, InputReader::new(input), force, &progress);
            let path = answer.reporting(&progress, storing).await?;
            return publish(peer, vec![path], PublishOptions { name: Some(name), policy }, answer).await;
        }
        Command::Withdraw { names } => {
            for name in names {
                let outcome = peer.deregister(&name).await.map_err(Failure::from);
                answer.rows(vec![Row::Withdrawn { name, outcome }]).await?;
            }
        }
        Command::Query { names, ttl_hops } => {
            let answers = peer.query_all(&names, ttl_hops).await?;
            found(names, answers, answer).await?;
        }
        Command::Download { names, output, force, wanted } => {
            get(peer, names, options(wanted, output.map(|path| path.0), force), answer).await?;
        }
        Command::Read { name, wanted } => {
            let options = options(wanted, None, false);
            let progress = Arc::new(Progress::default());
            let reading = peer.read(&name, &options, answer.writer(), &progress);
            let done = answer.reporting(&progress, reading).await;
            answer.rows(vec![Row::downloaded(&name, &Ok(done?))]).await?;
        }
        Command::List { first } => list(peer.listing(false), first, answer).await?,
        Command::Check => list(peer.listing(true), None, answer).await?,
        Command::Events => pass_events(peer.events(), answer).await,
        Command::Stop => host.stop.cancel(),
        Command::Find(finding) => find(peer, finding, answer).await?,
    }
    Ok(Summary::Done)
}

async fn publish(
    peer: &PeerHandle,
    paths: Vec<PathBuf>,
    options: PublishOptions,
    answer: &Answer,
) -> Result<Summary, Failure> {
    peer.indexers_tried().await; // so that files are registered before they are reported as published
    let progress = Arc::new(Progress::default());
    let publishing = async {
        let mut publishing = peer.publishing(paths, options, &progress);
        let mut summary = Summary::Published { indexers_told: 0, is_confirmed: false };
        while let Some(PublishOutcome { published, unchanged, copies, failed, indexers_told, is_confirmed }) =
            publishing.next().await?
        {
            answer.rows_of(&published, |record| Row::Published(PublishedRow::New(record.into()))).await?;
            answer
                .rows_of(&unchanged, |record| Row::Published(PublishedRow::Unchanged(record.into())))
                .await?;
            answer.rows_of(copies, |name| Row::Published(PublishedRow::Copy(name))).await?;
            let row = |(path, error): (PathBuf, PublishError)| {
                Row::Published(PublishedRow::failed(&path, in_one_line(&error)))
            };
            answer.rows_of(failed, row).await?;
            summary = Summary::Published { indexers_told: indexers_told as u64, is_confirmed };
        }
        Ok(summary)
    };
    answer.reporting(&progress, publishing).await
}

async fn get(
    peer: &PeerHandle,
    names: Vec<FileName>,
    options: DownloadOptions,
    answer: &Answer,
) -> Result<(), Failure> {
    let progress = Arc::new(Progress::default());
    if let [name] = names.as_slice() {
        let done = loop {
            let downloading = peer.download(name, options.clone(), &progress);
            match answer.reporting(&progress, downloading).await {
                Err(DownloadError::AlreadyRunning(_)) => until_free(peer, name, answer).await,
                ended => break ended?,
            }
        };
        return answer.rows(vec![Row::downloaded(name, &Ok(done))]).await;
    }
    let mut left = names;
    while !left.is_empty() {
        let mut running = Vec::new();
        let downloading = async {
            let mut downloads = peer.downloads(&left, &options, &progress);
            while let Some(mut outcomes) = downloads.next().await {
                let is_running =
                    |(_, outcome): &mut _| matches!(outcome, Err(DownloadError::AlreadyRunning(_)));
                running.extend(outcomes.extract_if(.., is_running).map(|(name, _)| name));
                answer.rows_of(&outcomes, |(name, outcome)| Row::downloaded(name, outcome)).await?;
            }
            Ok::<_, Failure>(())
        };
        answer.reporting(&progress, downloading).await?;
        for name in &running {
            until_free(peer, name, answer).await;
        }
        left = running;
    }
    Ok(())
}

/// Waits for another download of `name`, whose end is that of this one if it succeeds.
async fn until_free(peer: &PeerHandle, name: &FileName, answer: &Answer) {
    if let Some(progress) = peer.in_use(name) {
        answer.reporting(&progress, peer.until_free(name)).await;
    }
}

async fn found(names: Vec<FileName>, found: Vec<indexers::Answer>, answer: &Answer) -> Result<(), Failure> {
    let found: Vec<_> = names.into_iter().zip(found).collect();
    answer.rows_of(&found, |(name, found)| Row::found(name, found)).await
}

/// Lists at most `first` files, piece by piece as they are read.
async fn list(mut listing: Listing, first: Option<u32>, answer: &Answer) -> Result<(), Failure> {
    let mut left = first.map_or(usize::MAX, |first| first as usize);
    while left > 0 {
        let Some(mut files) = listing.next().await.map_err(|error| Failure::new(in_one_line(&error)))? else {
            break;
        };
        files.truncate(left);
        left -= files.len();
        answer.rows_of(files, Row::listed).await?;
    }
    Ok(())
}

fn options(wanted: Wanted, output: Option<PathBuf>, force: bool) -> DownloadOptions {
    DownloadOptions { output, origin: wanted.origin, force, ttl_hops: wanted.ttl_hops }
}
