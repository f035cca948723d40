//! Carries out downloads: of one file, of several, and in order to a reader.

use std::{
    collections::{HashMap, HashSet},
    mem,
};

use serde_json::json;
use tokio::sync::mpsc;

use super::{
    Reply, Wanted, Word,
    job::{Job, JobKind},
    named::{self, Pattern, pages::Pages, similar::similar},
    prelude::*,
    rows::outcome_of,
};
use crate::{
    download::{DownloadOptions, Downloaded, Downloads, Located},
    failure::Reason,
    indexers::{Answer as SearchAnswer, via::Via},
    library::Library,
    peer::PeerHandle,
    storage::catalogue::PreferenceChange,
    util::progress::Progress,
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

pub(super) struct WantedFiles {
    pub(super) names: Vec<FileName>,
    /// What was found of some of them: they are not searched for.
    pub(super) known: HashMap<FileName, SearchAnswer>,
    /// Where further ones are listed while those before are downloaded.
    pub(super) further: Option<Pages>,
    /// Its user named a single file.
    pub(super) is_one: bool,
    pub(super) options: DownloadOptions,
}

impl WantedFiles {
    fn select(&mut self, listed: Vec<Located>, further: Pages) {
        self.names = listed.iter().map(|(name, _)| name.clone()).collect();
        self.known = listed.into_iter().collect();
        self.further = Some(further);
    }
}

fn left_to_commands(which: &str, stays: &str) -> Reply {
    Reply::Note(format!("note: the command of follow decides whether {which} {stays} there"))
}

/// Downloads what is selected; of several files those that fail are told at the end.
pub(super) async fn get_all(
    peer: &PeerHandle,
    wanted: &mut WantedFiles,
    job: &Job,
    answer: &Answer,
) -> Result<Done, Failure> {
    if wanted.is_one && get_one(peer, wanted, job, answer).await? {
        return Ok(Done::all());
    }
    let (progress, options) = (&job.progress, &wanted.options);
    let (mut left, mut known) = (wanted.names.clone(), mem::take(&mut wanted.known));
    let mut further = wanted.further.take();
    let (mut here, mut failed, mut not_listed, mut undecided) = (Vec::new(), Vec::new(), None, 0);
    while !left.is_empty() {
        let (mut running, known) = (Vec::new(), mem::take(&mut known));
        let mut downloads = Downloads::new(&peer.downloader, &left, known, options, progress);
        let listing = list(further.take().map(|pages| (pages, downloads.further())), progress);
        let downloading = async {
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
                peer.library.ask_again(done.iter().map(|done| &done.record.name));
                let is_undecided = |done: &&Downloaded| peer.library.is_up_to_commands(&done.record);
                undecided += done.iter().filter(is_undecided).count();
                answer.rows_of(&done, DownloadedRow::newest).await?;
                here.extend(done.into_iter().map(|done| done.record.name.clone()));
            }
            Ok::<_, Failure>(())
        };
        let (listed, downloaded) =
            answer.reporting(progress, async { tokio::join!(listing, downloading) }).await;
        downloaded?;
        let not_all = |why| Failure { message: format!("not all that matches is listed: {why}"), ..why };
        not_listed = not_listed.or(listed.err().map(not_all));
        for name in &running {
            until_free(peer, name, answer).await;
        }
        left = running;
    }
    if options.output.is_none() && undecided > 0 {
        answer.send(left_to_commands(&format!("{undecided} of these versions"), "stay")).await?;
    }
    let gone = peer.library.blocking(move |library| library.gone(here)).await;
    let gone_count = gone.len();
    gone.iter().for_each(|(_, why)| job.failed(why));
    failed.extend(gone.into_iter().map(|(name, why)| FailedRow { name, why }));
    match not_listed {
        Some(why) if failed.is_empty() => return Err(why),
        Some(why) => {
            job.failed(&why);
            answer.send(Reply::Note(why.message)).await?;
        }
        None => {}
    }
    Ok(Done::with(outcome_of(&failed), &json!({ "failed": failed, "gone": gone_count })))
}

/// Sends the names of the pages, whose total is told once it is of all.
async fn list(
    further: Option<(Pages, mpsc::Sender<Vec<Located>>)>,
    progress: &Progress,
) -> Result<(), Failure> {
    let Some((mut pages, names)) = further else { return Ok(()) };
    let mut bytes = progress.total();
    progress.set_total(0);
    loop {
        let page = pages.next().await?;
        if page.is_empty() {
            progress.set_total(bytes);
            return Ok(());
        }
        bytes += page.iter().map(|(_, found)| found.bytes()).sum::<u64>();
        if names.send(page).await.is_err() {
            return Ok(());
        }
    }
}

/// Downloads the only file that is selected. If nobody shares it, and files are shared below the folder of that name, these are
/// selected instead, and it returns false.
async fn get_one(
    peer: &PeerHandle,
    wanted: &mut WantedFiles,
    job: &Job,
    answer: &Answer,
) -> Result<bool, Failure> {
    let (progress, options) = (&job.progress, &wanted.options);
    let [name] = wanted.names.as_slice() else { return Ok(false) };
    let download = || peer.download(name, options.clone(), progress);
    let failure = match once_free(peer, name, progress, answer, download).await {
        Err(failure) if failure.reason == Reason::NotFound => failure,
        ended => {
            let done = ended?;
            peer.library.ask_again([name]);
            if options.output.is_none() && peer.library.is_up_to_commands(&done.record) {
                let version = format!("version {}", done.record.version);
                answer.send(left_to_commands(&version, "stays")).await?;
            }
            answer.row(&DownloadedRow::newest(&done)).await?;
            return Ok(true);
        }
    };
    let origin = options.origin_of(name).map(str::to_owned);
    let folder = Pattern { origin, ..Word::Name(name.clone()).pattern() };
    let network = (options.ttl_hops, &options.via);
    let below = async {
        let pages = Pages::of(peer, &folder, network, Some(answer)).ok()?;
        let mut pages = pages.filter(|_| options.version.is_none())?;
        Some((pages.next().await.ok().filter(|first| !first.is_empty())?, pages))
    };
    let below = below.await;
    if below.is_some() && options.output.is_some() {
        let help =
            format!("it is a folder: get {name}/ takes what is in it, with -o FOLDER/ into one folder");
        return Err(Failure::missing(format!("nobody shares a file {name}; {help}")));
    }
    let Some((first, further)) = below else {
        return Err(match similar(peer, name, options.ttl_hops).await {
            Some(other) => Failure::missing(format!("{failure}; did you mean {other}?")),
            None => failure,
        });
    };
    wanted.select(first, further);
    wanted.options.origin = folder.origin;
    answer.send(Reply::Many).await?;
    Ok(false)
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

/// Downloads `name`, once no other download of it runs.
pub(super) async fn once_free<D: Future<Output = Result<Downloaded, Failure>>>(
    peer: &PeerHandle,
    name: &FileName,
    progress: &Arc<Progress>,
    answer: &Answer,
    download: impl Fn() -> D,
) -> Result<Downloaded, Failure> {
    loop {
        match answer.reporting(progress, download()).await {
            Err(Failure { reason: Reason::AlreadyRunning, .. }) => until_free(peer, name, answer).await,
            ended => return ended,
        }
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
