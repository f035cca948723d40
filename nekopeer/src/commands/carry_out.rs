//! Carries out commands on a running peer.

use std::{path::PathBuf, sync::Arc, time::Duration};

use nekoproto::FileName;
use tokio_util::sync::CancellationToken;

use super::{
    Answer, Command, Failure, Host, Input, Reply, Row, Summary,
    answer::pass_events,
    detailed,
    finding::find,
    following::{follow, roll_back},
    input::InputReader,
    jobs::{Job, JobKind, in_background},
    named,
    publishing::{publish, title},
    tickets, waiting,
    watching::watch,
};
use crate::{
    download::{DownloadError, DownloadOptions, Downloads},
    follow::Hook,
    indexers::via::Via,
    listing::Listing,
    peer::PeerHandle,
    publish::{PublishError, PublishOptions, WITHDRAWN_AT_ONCE},
    storage::catalogue::PreferenceChange,
};

/// Carries out `command`; all of the answer but its end goes to `answer`.
///
/// # Cancel safety
/// Dropping the future interrupts the command: what came so far is kept.
pub(crate) async fn carry_out(
    host: &Arc<Host>,
    command: Command,
    input: Input,
    answer: &Answer,
) -> Result<Summary, Failure> {
    let peer = &host.peer;
    // Dropped where it is not read, so that a caller who sends it does not wait.
    let input = command.takes_input().then_some(input);
    match command {
        Command::Publish { .. }
        | Command::Store { .. }
        | Command::Download { .. }
        | Command::Read { .. }
        | Command::Watch { .. } => {
            // On the heap, as it is larger than all others together.
            return Box::pin(long(host, command, input, answer)).await;
        }
        Command::Withdraw { names } => withdraw(peer, &names, answer).await?,
        Command::Query { names, ttl_hops } => {
            let answers = named::search(peer, &names, Some(ttl_hops)).await?;
            let found: Vec<_> = names.into_iter().zip(answers).collect();
            answer.rows_of(&found, |(name, found)| Row::found(name, found)).await?;
        }
        Command::List { first, after } => {
            list(peer, false, first, after.as_ref(), answer).await?;
        }
        Command::Check { names, first, after } => {
            tell_unreached(peer, answer).await?;
            match names.is_empty() {
                true => list(peer, true, first, after.as_ref(), answer).await?,
                false => detailed::list(peer, names, answer).await?,
            }
        }
        Command::Wait { name, version, by_all, within_secs } => {
            let within = within_secs.map(|secs| Duration::from_secs(secs.into()));
            let reached = waiting::wait(peer, &name, waiting::For { version, by_all }, within).await?;
            answer.rows(vec![Row::Reached { name, version: reached }]).await?;
        }
        Command::Ticket { names } => tickets::make(peer, names, answer).await?,
        Command::Events => pass_events(peer.events(), answer, &CancellationToken::new()).await,
        Command::Stop => host.stop.cancel(),
        Command::Find(finding) => find(peer, finding, answer).await?,
        Command::Rollback { name, version } => Box::pin(roll_back(host, &name, version, answer)).await?,
        Command::Follow { names, exec, folder, exec_secs, keep, force, wanted, preference } => {
            let hook = exec.map(|command| Hook {
                command,
                folder: folder.0,
                time: Duration::from_secs(exec_secs.into()),
            });
            prefer(peer, &names, preference).await?;
            let via = tickets::connect(peer, &wanted, answer).await?;
            let job = host.jobs.begin(JobKind::Follow, &names, String::new(), false);
            let options = named::options(&wanted, &via, force);
            job.unless_cancelled(Box::pin(follow(peer, names, hook, keep, options, answer))).await?;
        }
        Command::Trace { name, ttl_hops } => {
            for reply in peer.trace(&name, ttl_hops).await? {
                answer.rows(vec![Row::Trace(reply)]).await?;
            }
        }
        Command::Jobs => answer.rows_of(host.jobs.rows(peer), Row::Job).await?,
        Command::Cancel { what } => {
            answer.rows_of(host.jobs.cancel(&what, peer).await?, Row::Cancelled).await?;
        }
    }
    Ok(Summary::Done)
}

async fn withdraw(peer: &PeerHandle, names: &[FileName], answer: &Answer) -> Result<(), Failure> {
    for names in names.chunks(WITHDRAWN_AT_ONCE) {
        let withdrawn = peer.publisher.deregister(names.to_vec()).await?;
        let row = |(name, outcome): (FileName, Result<(), PublishError>)| {
            let outcome = outcome.map_err(Failure::from);
            Row::Withdrawn { name, outcome }
        };
        answer.rows_of(withdrawn, row).await?;
    }
    Ok(())
}

/// Carries out a command that may take long, as a job.
async fn long(
    host: &Arc<Host>,
    command: Command,
    input: Option<Input>,
    answer: &Answer,
) -> Result<Summary, Failure> {
    let begin = |kind, names: &[FileName], title| host.jobs.begin(kind, names, title, false);
    let peer = &host.peer;
    match command {
        Command::Publish { paths, options } => {
            let paths: Vec<PathBuf> = paths.into_iter().map(|path| path.0).collect();
            let job = begin(JobKind::Publish, options.name.as_slice(), title(&paths));
            let publishing = publish(peer, paths, options, &job, answer);
            job.unless_cancelled(publishing).await
        }
        Command::Watch { paths, options } => {
            let paths: Vec<PathBuf> = paths.into_iter().map(|path| path.0).collect();
            let job = begin(JobKind::Watch, options.name.as_slice(), title(&paths));
            let watching = watch(peer, paths, options, &job, answer);
            job.unless_cancelled(watching).await?;
            Ok(Summary::Done)
        }
        Command::Store { name, force, policy } => {
            let input = input.ok_or_else(|| Failure::new("there is no input"))?;
            let job = begin(JobKind::Store, std::slice::from_ref(&name), String::new());
            let begun = job.progress.mark();
            let storing = async {
                let storing = peer.store(&name, InputReader::new(input), force, &job.progress);
                let path = answer.reporting(&job.progress, storing).await?;
                job.progress.start_at(begun, 0); // the same bytes are read again
                let options = PublishOptions { name: Some(name.clone()), is_set: false, policy };
                publish(peer, vec![path], options, &job, answer).await
            };
            job.unless_cancelled(storing).await
        }
        Command::Download { names, output, force, wanted, preference, background } => {
            prefer(peer, &names, preference).await?;
            let via = tickets::connect(peer, &wanted, answer).await?;
            let options =
                DownloadOptions { output: output.map(|path| path.0), ..named::options(&wanted, &via, force) };
            if background {
                let begin = || host.jobs.begin(JobKind::Get, &names, String::new(), true);
                let work = |host: Arc<Host>, job: Arc<Job>, answer| {
                    let names = names.clone();
                    async move {
                        get(&host.peer, names, options, &job, &answer).await?;
                        remember(&host.peer, &via).await;
                        Ok(())
                    }
                };
                in_background(host, answer, begin, work).await?;
            } else {
                let job = begin(JobKind::Get, &names, String::new());
                job.unless_cancelled(Box::pin(get(peer, names, options, &job, answer))).await?;
                remember(peer, &via).await;
            }
            Ok(Summary::Done)
        }
        Command::Read { name, wanted } => {
            let via = tickets::connect(peer, &wanted, answer).await?;
            let options = named::options(&wanted, &via, false);
            let job = begin(JobKind::Read, std::slice::from_ref(&name), String::new());
            let reading = async {
                let reading = peer.read(&name, &options, answer.writer(), &job.progress);
                let done = answer.reporting(&job.progress, reading).await;
                answer.rows(vec![Row::downloaded(&name, &Ok(done?))]).await
            };
            job.unless_cancelled(Box::pin(reading)).await?;
            remember(peer, &via).await;
            Ok(Summary::Done)
        }
        _ => Err(Failure::new("it is no long command")), // unreachable: see the caller
    }
}

/// Says which indexers are connected and could not connect to this peer.
async fn tell_unreached(peer: &PeerHandle, answer: &Answer) -> Result<(), Failure> {
    for link in peer.indexers.links().into_iter().filter(|link| link.is_connected) {
        if let Some(why) = link.why {
            answer.send(Reply::Note(format!("note: indexer {}: {why}", link.addr))).await?;
        }
    }
    Ok(())
}

/// Notes how the copies of `names` are kept coherent, whether they are here already or not.
async fn prefer(peer: &PeerHandle, names: &[FileName], change: PreferenceChange) -> Result<(), Failure> {
    if change == PreferenceChange::default() {
        return Ok(());
    }
    Ok(peer.prefer(names.to_vec(), change).await?)
}

async fn get(
    peer: &PeerHandle,
    names: Vec<FileName>,
    options: DownloadOptions,
    job: &Job,
    answer: &Answer,
) -> Result<(), Failure> {
    let progress = &job.progress;
    if let [name] = names.as_slice() {
        let done = loop {
            let downloading = peer.download(name, options.clone(), progress);
            match answer.reporting(progress, downloading).await {
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
            let mut downloads = Downloads::new(&peer.downloader, &left, &options, progress);
            while let Some(mut outcomes) = downloads.next().await {
                let is_running =
                    |(_, outcome): &mut _| matches!(outcome, Err(DownloadError::AlreadyRunning(_)));
                running.extend(outcomes.extract_if(.., is_running).map(|(name, _)| name));
                let errors = outcomes.iter().filter_map(|(_, outcome)| outcome.as_ref().err());
                errors.for_each(|error| job.failed(&error.into()));
                answer.rows_of(&outcomes, |(name, outcome)| Row::downloaded(name, outcome)).await?;
            }
            Ok::<_, Failure>(())
        };
        answer.reporting(progress, downloading).await?;
        for name in &running {
            until_free(peer, name, answer).await;
        }
        left = running;
    }
    Ok(())
}

/// Waits for another download of `name`, whose end is that of this one if it succeeds.
async fn until_free(peer: &PeerHandle, name: &FileName, answer: &Answer) {
    if let Some(progress) = peer.library.in_use(name) {
        answer.reporting(&progress, peer.library.until_free(name)).await;
    }
}

/// Lists at most `first` files, piece by piece as they are read.
async fn list(
    peer: &PeerHandle,
    asks: bool,
    first: Option<u32>,
    after: Option<&FileName>,
    answer: &Answer,
) -> Result<(), Failure> {
    let mut left = first.map_or(usize::MAX, |first| first as usize);
    let mut listing = Listing::new(&peer.library, asks.then_some(&peer.peers), after, left);
    while left > 0 {
        let Some(mut files) = listing.next().await? else {
            break;
        };
        files.truncate(left);
        left -= files.len();
        answer.rows_of(files, Row::listed).await?;
    }
    Ok(())
}

/// The indexers of a ticket have brought what was wanted: later commands on this folder find it by them.
async fn remember(peer: &PeerHandle, via: &Via) {
    if !via.good.is_empty() {
        peer.indexers.remember(via).await;
    }
}
