//! Carries out downloads: of one file, of several, and in order to a reader.

use std::collections::HashSet;

use super::{
    Reply, Wanted, Word,
    job::{Job, JobKind},
    named::{
        self, Pattern,
        expanding::{Among, matching},
        similar::similar,
    },
    prelude::*,
};
use crate::{
    download::{DownloadOptions, Downloads},
    failure::Reason,
    indexers::via::Via,
    library::Library,
    peer::PeerHandle,
    storage::catalogue::PreferenceChange,
};

/// Reads one file in order; no copy is kept. Answers with [`Reply::Bytes`](super::Reply::Bytes), then with a row.
pub(super) async fn read(
    host: &Arc<Host>,
    name: &FileName,
    (wanted, via): (&Wanted, &Via),
    answer: &Answer,
) -> Result<Done, Failure> {
    let peer = &host.peer;
    let options = named::options(wanted, via, false);
    let job = host.jobs.begin(JobKind::Read, std::slice::from_ref(name), String::new(), false);
    let reading = async {
        let reading = peer.read(name, &options, answer.writer(), &job.progress);
        let done = answer.reporting(&job.progress, reading).await;
        answer.row(&DownloadedRow::of(&done?)).await
    };
    job.unless_cancelled(Box::pin(reading)).await?;
    remember(peer, via).await;
    Ok(Done::all())
}

/// Notes how the copies of `names` are kept coherent, whether they are here already or not.
pub(super) async fn prefer(
    peer: &PeerHandle,
    names: &[FileName],
    change: PreferenceChange,
) -> Result<(), Failure> {
    if change == PreferenceChange::default() {
        return Ok(());
    }
    peer.prefer(names.to_vec(), change).await
}

/// The same of those that are here now: a download that was refused leaves nothing that its user did not see.
pub(super) async fn prefer_held(
    peer: &PeerHandle,
    mut names: Vec<FileName>,
    change: PreferenceChange,
) -> Result<(), Failure> {
    if change == PreferenceChange::default() {
        return Ok(());
    }
    let held = move |library: &Arc<Library>| {
        names.retain(|name| library.catalogue.get(name).is_some());
        names
    };
    prefer(peer, &peer.library.blocking(held).await, change).await
}

/// Downloads `names`; if they are several, the files that fail are told at the end. One name that nobody shares becomes those
/// below the folder of that name, if there are any.
pub(super) async fn get_all(
    peer: &PeerHandle,
    (names, is_one): (&mut Vec<FileName>, bool),
    mut options: DownloadOptions,
    job: &Job,
    answer: &Answer,
) -> Result<Done, Failure> {
    let progress = &job.progress;
    if let ([name], true) = (names.as_slice(), is_one) {
        let done = loop {
            let downloading = peer.download(name, options.clone(), progress);
            match answer.reporting(progress, downloading).await {
                Err(Failure { reason: Reason::AlreadyRunning, .. }) => until_free(peer, name, answer).await,
                Err(failure) if failure.reason == Reason::NotFound => {
                    let origin = options.origin_of(name).map(str::to_owned);
                    let folder = Pattern { origin, ..Word::Name(name.clone()).pattern() };
                    let network = Among::Network(options.ttl_hops, &options.via);
                    let below = matching(peer, &folder, network, Some(answer)).await.unwrap_or_default();
                    if !below.is_empty() && options.output.is_none() && options.version.is_none() {
                        break Err((below, folder.origin));
                    }
                    return Err(match similar(peer, name, options.ttl_hops).await {
                        Some(other) => Failure::missing(format!("{failure}; did you mean {other}?")),
                        None => failure,
                    });
                }
                ended => break Ok(ended?),
            }
        };
        match done {
            Ok(done) => {
                answer.row(&DownloadedRow::newest(&done)).await?;
                return Ok(Done::all());
            }
            Err(below) => (*names, options.origin) = below,
        }
        answer.send(Reply::Many).await?;
    }
    let (mut left, mut failed) = (names.clone(), Vec::new());
    while !left.is_empty() {
        let mut running = Vec::new();
        let downloading = async {
            let mut downloads = Downloads::new(&peer.downloader, &left, &options, progress);
            while let Some(outcomes) = downloads.next().await {
                let mut done = Vec::with_capacity(outcomes.len());
                for (name, outcome) in outcomes {
                    match outcome {
                        Ok(downloaded) => done.push(downloaded),
                        Err(Failure { reason: Reason::AlreadyRunning, .. }) => running.push(name),
                        Err(why) => {
                            job.failed(&why);
                            failed.push(FailedRow { name, why });
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
    parted(true, failed)
}

/// Checks that files of these names can stand in one folder.
pub(super) fn own_places(names: &[FileName]) -> Result<(), Failure> {
    let mut ends = HashSet::new();
    match names.iter().find(|name| !ends.insert(name.as_path().file_name())) {
        None => Ok(()),
        Some(name) => Err(Failure::invalid(format!(
            "-o puts all into one folder, and no two may end alike: {name} ends like another"
        ))),
    }
}

/// Waits for another download of `name`, whose end is that of this one if it succeeds.
async fn until_free(peer: &PeerHandle, name: &FileName, answer: &Answer) {
    if let Some(progress) = peer.library.in_use(name) {
        answer.reporting(&progress, peer.library.until_free(name)).await;
    }
}

/// The indexers of a ticket have brought what was wanted, or are to: later commands on this folder find it by them.
pub(super) async fn remember(peer: &PeerHandle, via: &Via) {
    if !via.good.is_empty() {
        peer.indexers.remember(via).await;
    }
}
