//! Carries out commands on a running peer.

use std::{collections::HashSet, num::NonZeroU64, path::PathBuf, sync::Arc, time::Duration};

use nekoproto::FileName;
use tokio_util::sync::CancellationToken;

use super::{
    Answer, Command, Detail, Done, DownloadedRow, FailedRow, Failure, FailureKind, FileRow, FoundRow, Host,
    Input, Outcome, ReachedRow, Reply, ThrottleRow, TraceRow,
    answer::pass_events,
    expanding::expanded,
    finding::find,
    following::{follow, roll_back},
    in_one_line,
    input::InputReader,
    jobs::{Job, JobKind, in_background},
    named,
    publishing::{publish, title},
    similar::similar,
    tickets, waiting,
    watching::watch,
};
use crate::{
    download::{DownloadError, DownloadOptions, Downloads},
    follow::Hook,
    indexers::via::Via,
    listing::Listing,
    peer::{Limits, PeerHandle},
    publish::{PublishOptions, WITHDRAWN_AT_ONCE},
    storage::catalogue::PreferenceChange,
};

/// Damaged entries that are told in one answer.
const DAMAGED_MAX: usize = 20;

/// Carries out `command`; all of the answer but its end goes to `answer`.
///
/// # Cancel safety
/// Dropping the future interrupts the command: what came so far is kept.
pub(crate) async fn carry_out(
    host: &Arc<Host>,
    command: Command,
    input: Input,
    answer: &Answer,
) -> Result<Done, Failure> {
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
        Command::Withdraw { names } => return withdraw(peer, &names, answer).await,
        Command::Query { names, ttl_hops } => {
            let answers = named::search(peer, &names, Some(ttl_hops)).await?;
            let found: Vec<_> = names.into_iter().zip(answers).collect();
            let is_missing = |(_, found): &(FileName, _)| FoundRow::of_none(found);
            let outcome = if found.iter().any(is_missing) { Outcome::NotFound } else { Outcome::All };
            answer.rows_of(&found, |(name, found)| FoundRow::of(name, found)).await?;
            return Ok(Done { outcome, ..Done::all() });
        }
        Command::List { first, after } => {
            return list(peer, false, first, after.as_ref(), answer).await;
        }
        Command::Check { names, first, after } => {
            tell_unreached(peer, answer).await?;
            return match names.is_empty() {
                true => list(peer, true, first, after.as_ref(), answer).await,
                false => list_of(peer, names, answer).await,
            };
        }
        Command::Wait { name, version, by_all, within_secs } => {
            let within = within_secs.map(|secs| Duration::from_secs(secs.into()));
            let reached = waiting::wait(peer, &name, waiting::For { version, by_all }, within).await?;
            answer.row(&ReachedRow { name, version: reached.get() }).await?;
        }
        Command::Ticket { names, .. } => return tickets::make(peer, names, answer).await,
        Command::Events => pass_events(peer.events(), answer, &CancellationToken::new()).await,
        Command::Stop => host.stop.cancel(),
        Command::Find(finding) => return find(peer, finding, answer).await,
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
            return trace(peer, &name, ttl_hops, answer).await;
        }
        Command::Throttle { up, down, pauses } => {
            answer.row(&throttled(peer, [up, down], pauses)).await?;
        }
        Command::Jobs => answer.rows_of(host.jobs.rows(peer), |job| job).await?,
        Command::Cancel { what } => {
            answer.rows_of(host.jobs.cancel(&what, peer).await?, |job| job).await?;
        }
    }
    Ok(Done::all())
}

/// Follows a query through the network.
async fn trace(peer: &PeerHandle, name: &FileName, ttl_hops: u8, answer: &Answer) -> Result<Done, Failure> {
    let traces = peer.trace(name, ttl_hops).await?;
    let has_answer = traces.iter().flat_map(|trace| trace.hops.iter()).any(|hop| hop.answer.is_ok());
    let trace = TraceRow::of(name, &traces);
    answer.row(&trace).await?;
    let outcome = match (trace.found, has_answer) {
        (true, _) => Outcome::All,
        (false, true) => Outcome::NotFound,
        (false, false) => Outcome::Nothing,
    };
    Ok(Done { outcome, ..Done::all() })
}

/// Changes how fast the peer sends and fetches, and says what holds then.
fn throttled(peer: &PeerHandle, [up, down]: [Option<u64>; 2], pauses: Option<bool>) -> ThrottleRow {
    let before = peer.limits();
    let new = |rate: Option<u64>, before| rate.map_or(before, NonZeroU64::new); // 0: no limit
    peer.set_limits(Limits { up: new(up, before.up), down: new(down, before.down) });
    match pauses {
        Some(true) => peer.pause(),
        Some(false) => peer.resume(),
        None => {}
    }
    let (now, paused) = (peer.limits(), peer.is_paused());
    ThrottleRow { limit_up: now.up.map(NonZeroU64::get), limit_down: now.down.map(NonZeroU64::get), paused }
}

async fn withdraw(peer: &PeerHandle, names: &[FileName], answer: &Answer) -> Result<Done, Failure> {
    let (mut is_any, mut failed) = (false, Vec::new());
    for names in names.chunks(WITHDRAWN_AT_ONCE) {
        let mut withdrawn = Vec::with_capacity(names.len());
        for (name, outcome) in peer.publisher.deregister(names.to_vec()).await? {
            match outcome {
                Ok(()) => withdrawn.push(name),
                Err(error) => failed.push(FailedRow::of(&name, error.into())),
            }
        }
        is_any |= !withdrawn.is_empty();
        answer.rows_of(withdrawn, |name| name).await?;
    }
    parted(is_any, failed)
}

/// The end of an answer about names of which some `failed`; if nothing was done for `any`, that is a failure.
pub(super) fn parted(any: bool, failed: Vec<FailedRow>) -> Result<Done, Failure> {
    let is_missing = |failed: &FailedRow| failed.kind == FailureKind::NotFound;
    let outcome = match failed.as_slice() {
        [] => Outcome::All,
        [only] if !any => return Err(Failure::with(only.kind, only.error.clone())),
        all if all.iter().all(is_missing) => Outcome::NotFound,
        _ => Outcome::Part,
    };
    Ok(Done::with(outcome, &serde_json::json!({ "failed": failed })))
}

/// Carries out a command that may take long, as a job.
async fn long(
    host: &Arc<Host>,
    command: Command,
    input: Option<Input>,
    answer: &Answer,
) -> Result<Done, Failure> {
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
            Ok(Done::all())
        }
        Command::Store { name, force, policy } => {
            let input = input.ok_or_else(|| Failure::new("there is no input"))?;
            let job = begin(JobKind::Store, std::slice::from_ref(&name), String::new());
            let begun = job.progress.mark();
            let storing = async {
                let storing = peer.store(&name, InputReader::new(input), force, &job.progress);
                let path = answer.reporting(&job.progress, storing).await?;
                job.progress.start_at(begun, 0); // the same bytes are read again
                let options =
                    PublishOptions { name: Some(name.clone()), policy, ..PublishOptions::default() };
                publish(peer, vec![path], options, &job, answer).await
            };
            job.unless_cancelled(storing).await
        }
        Command::Download { .. } => download(host, command, answer).await,
        Command::Read { name, wanted } => {
            let via = tickets::connect(peer, &wanted, answer).await?;
            let options = named::options(&wanted, &via, false);
            let job = begin(JobKind::Read, std::slice::from_ref(&name), String::new());
            let reading = async {
                let reading = peer.read(&name, &options, answer.writer(), &job.progress);
                let done = answer.reporting(&job.progress, reading).await;
                answer.row(&DownloadedRow::of(&done?)).await
            };
            job.unless_cancelled(Box::pin(reading)).await?;
            remember(peer, &via).await;
            Ok(Done::all())
        }
        _ => Err(Failure::new("it is no long command")), // unreachable: see the caller
    }
}

/// Downloads files, as a job, in the background if that is wanted.
async fn download(host: &Arc<Host>, command: Command, answer: &Answer) -> Result<Done, Failure> {
    let Command::Download { names, output, force, mut wanted, preference, background } = command else {
        return Err(Failure::new("it is no download")); // unreachable: see the caller
    };
    let peer = &host.peer;
    prefer(peer, &names, preference).await?;
    let via = tickets::connect(peer, &wanted, answer).await?;
    let is_one = !wanted.are_many(&names);
    let names = Box::pin(expanded(peer, names, (&mut wanted, &via), answer)).await?;
    if output.is_some() && !is_one {
        own_places(&names)?;
    }
    let options =
        DownloadOptions { output: output.map(|path| path.0), ..named::options(&wanted, &via, force) };
    if background {
        let begin = || host.jobs.begin(JobKind::Get, &names, String::new(), true);
        let work = |host: Arc<Host>, job: Arc<Job>, answer| {
            let names = names.clone();
            async move {
                let _: Done = get(&host.peer, (names, is_one), options, &job, &answer).await?;
                remember(&host.peer, &via).await;
                Ok(())
            }
        };
        in_background(host, answer, begin, work).await?;
    } else {
        let job = host.jobs.begin(JobKind::Get, &names, String::new(), false);
        let done = job.unless_cancelled(Box::pin(get(peer, (names, is_one), options, &job, answer))).await?;
        remember(peer, &via).await;
        return Ok(done);
    }
    Ok(Done::all())
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
    (names, is_one): (Vec<FileName>, bool),
    options: DownloadOptions,
    job: &Job,
    answer: &Answer,
) -> Result<Done, Failure> {
    let progress = &job.progress;
    if let ([name], true) = (names.as_slice(), is_one) {
        let done = loop {
            let downloading = peer.download(name, options.clone(), progress);
            match answer.reporting(progress, downloading).await {
                Err(DownloadError::AlreadyRunning(_)) => until_free(peer, name, answer).await,
                Err(error @ DownloadError::NotFound { .. }) => {
                    let failure = Failure::from(error);
                    return Err(match similar(peer, name).await {
                        Some(other) => Failure::missing(format!("{failure}; did you mean {other}?")),
                        None => failure,
                    });
                }
                ended => break ended?,
            }
        };
        answer.row(&DownloadedRow::newest(&done)).await?;
        return Ok(Done::all());
    }
    let (mut left, mut failed) = (names, Vec::new());
    while !left.is_empty() {
        let mut running = Vec::new();
        let downloading = async {
            let mut downloads = Downloads::new(&peer.downloader, &left, &options, progress);
            while let Some(outcomes) = downloads.next().await {
                let mut done = Vec::with_capacity(outcomes.len());
                for (name, outcome) in outcomes {
                    match outcome {
                        Ok(downloaded) => done.push(downloaded),
                        Err(DownloadError::AlreadyRunning(_)) => running.push(name),
                        Err(error) => {
                            let failure = Failure::from(&error);
                            job.failed(&failure);
                            failed.push(FailedRow::of(&name, failure));
                        }
                    }
                }
                answer.rows_of(&done, DownloadedRow::newest).await?;
            }
            Ok::<_, Failure>(())
        };
        answer.reporting(progress, downloading).await?;
        for name in &running {
            until_free(peer, name, answer).await;
        }
        left = running;
    }
    let is_missing = |failed: &FailedRow| failed.kind == FailureKind::NotFound;
    let outcome = match failed.iter().all(is_missing) {
        true if failed.is_empty() => Outcome::All,
        true => Outcome::NotFound,
        false => Outcome::Part,
    };
    Ok(Done::with(outcome, &serde_json::json!({ "failed": failed })))
}

/// Checks that files of these names can stand in one folder.
pub(crate) fn own_places(names: &[FileName]) -> Result<(), Failure> {
    let mut ends = HashSet::new();
    match names.iter().find(|name| !ends.insert(name.as_path().file_name())) {
        None => Ok(()),
        Some(name) => Err(Failure::with(
            FailureKind::Invalid,
            format!("-o puts all into one folder, and no two may end alike: {name} ends like another"),
        )),
    }
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
) -> Result<Done, Failure> {
    let mut left = first.map_or(usize::MAX, |first| first as usize);
    let mut listing = Listing::new(&peer.library, asks.then_some(&peer.peers), after, left);
    let (mut damaged, mut last) = (Vec::new(), None);
    while left > 0 {
        let Some(mut files) = listing.next().await? else {
            break;
        };
        files.truncate(left);
        left -= files.len();
        let mut rows = Vec::with_capacity(files.len());
        for file in files {
            match file {
                Ok(file) => rows.push(FileRow::from(&file)),
                Err(error) => damaged.push(in_one_line(&error)),
            }
        }
        last = rows.last().map(|row| row.version.name.clone()).or(last);
        answer.rows_of(rows, |row| row).await?;
    }
    Ok(listed(damaged, last.filter(|_| left == 0)))
}

/// The end of a list, with what of the catalogue cannot be read, and the name after which it goes on.
fn listed(mut damaged: Vec<String>, next: Option<FileName>) -> Done {
    let outcome = if damaged.is_empty() { Outcome::All } else { Outcome::Part };
    let more = damaged.len().saturating_sub(DAMAGED_MAX);
    damaged.truncate(DAMAGED_MAX);
    if more > 0 {
        damaged.push(format!("and {more} more"));
    }
    Done::with(outcome, &serde_json::json!({ "damaged": damaged, "next": next }))
}

/// Asks the origins of copies, and lists what is published or held under `names`, with all that is known of each.
async fn list_of(peer: &PeerHandle, names: Vec<FileName>, answer: &Answer) -> Result<Done, Failure> {
    let mut missing = names.clone();
    let mut listing = Listing::of(&peer.library, Some(&peer.peers), names);
    let mut damaged = Vec::new();
    while let Some(files) = listing.next().await? {
        for file in files {
            match file {
                Ok(file) => {
                    missing.retain(|name| *name != file.record.name);
                    let read = peer.reading_of(&file.record.name).await?;
                    let mut row = FileRow::from(&file);
                    row.detail = Some(Detail::of(&file, read));
                    answer.row(&row).await?;
                }
                Err(error) => damaged.push(in_one_line(&error)),
            }
        }
    }
    match missing.first() {
        Some(name) => Err(Failure::missing(format!(
            "{name} is neither published nor held here: get {name} brings a copy"
        ))),
        None => Ok(listed(damaged, None)),
    }
}

/// The indexers of a ticket have brought what was wanted: later commands on this folder find it by them.
async fn remember(peer: &PeerHandle, via: &Via) {
    if !via.good.is_empty() {
        peer.indexers.remember(via).await;
    }
}
