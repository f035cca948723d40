//! Follows names: the newest version of each takes its place, a command is run on it, and where that fails the version
//! before is put back.
//!
//! What a command accepted, and which versions are passed over, is recorded durably: a command that was interrupted is
//! run again on the same version, one that ended is not.

mod hook;

use std::{convert::Infallible, sync::Arc, time::Duration};

use futures::{StreamExt, stream::FuturesUnordered};
use nekoproto::{FileName, Version, transport::Backoff};
use tokio::{
    sync::broadcast::{self, error::RecvError},
    time::{sleep, timeout},
};

pub(crate) use self::hook::Hook;
use self::hook::Told;
use crate::{
    download::{DownloadError, DownloadOptions, Downloader},
    library::{Library, events::Event},
    sets,
    storage::catalogue::{CatalogueError, Entry, PassedOver, Reader, Why},
    util::progress::Progress,
};

/// Names that one command follows.
pub(crate) const FOLLOWED_MAX: usize = 64;
/// Earlier versions of a name that are kept at most.
pub(crate) const KEEP_MAX: u32 = 1000;
/// Interval between two looks at a name of which no news comes.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// Minimum and maximum pause before a failed download is repeated, or a name that nobody offers is looked for again.
const RETRY_MIN: Duration = Duration::from_millis(500);
const RETRY_MAX: Duration = Duration::from_secs(10);

/// Follows names for one command.
#[derive(Debug)]
pub(crate) struct Follower {
    pub(crate) library: Arc<Library>,
    pub(crate) downloader: Arc<Downloader>,
    /// What is run on each new version.
    pub(crate) hook: Option<Hook>,
    /// How many earlier versions are kept; `None`: as many as before.
    pub(crate) keep: Option<u32>,
    pub(crate) options: DownloadOptions,
}

/// What a step found.
enum Step {
    /// The newest known version is in its place, and the command has seen it.
    Settled,
    /// Something changed: it is to be looked at again at once.
    Again,
    /// News of a version came before an indexer lists it.
    Later,
    /// It failed, and may succeed later.
    Failed(DownloadError),
}

impl Follower {
    /// Follows all of `names` until the peer stops.
    ///
    /// # Cancel safety
    /// Safe: a running command is killed, and is run again by the next follower.
    pub(crate) async fn follow(&self, names: Vec<FileName>) -> Result<Infallible, DownloadError> {
        let least = u32::from(self.hook.is_some()); // the version before is put back if the command fails
        for name in names.clone() {
            let keep = self.keep;
            let note = move |library: &Arc<Library>| {
                library.catalogue.change_readers([&name], |reader| {
                    reader.keep = keep.unwrap_or(reader.keep).max(least);
                })?;
                library.catalogue.trim_kept(&name)
            };
            self.library.blocking(note).await?;
        }
        let mut following: FuturesUnordered<_> = names.iter().map(|name| self.follow_one(name)).collect();
        match following.next().await {
            Some(ended) => ended,
            None => std::future::pending().await,
        }
    }

    async fn follow_one(&self, name: &FileName) -> Result<Infallible, DownloadError> {
        let mut news = self.library.events();
        let mut retry = Backoff::new(RETRY_MIN, RETRY_MAX);
        let (mut told, mut is_begun, mut is_failing) = (None, false, false);
        loop {
            let pause = match self.step(name, &mut told).await {
                Ok(Step::Again) => continue,
                Ok(Step::Settled) => {
                    retry.reset();
                    (is_begun, is_failing) = (true, false);
                    LOOK_EVERY
                }
                Ok(Step::Later) => retry.pause(rand::random()),
                // Before the first version the user is still there, and hears what to do.
                Err(error) | Ok(Step::Failed(error)) if !is_begun && !error.may_pass() => return Err(error),
                Err(error) | Ok(Step::Failed(error)) => {
                    if !std::mem::replace(&mut is_failing, true) {
                        self.library.tell(Event::Failed { name: name.clone(), why: error.to_string() });
                    }
                    if error.may_pass() { retry.pause(rand::random()) } else { LOOK_EVERY }
                }
            };
            drop(timeout(pause, until_news(&mut news, name)).await);
        }
    }

    /// Brings the newest version to its place, or runs the command on what is there.
    async fn step(&self, name: &FileName, told: &mut Option<Version>) -> Result<Step, DownloadError> {
        let (catalogue, library) = (&self.library.catalogue, &self.library);
        let held = catalogue.entry(name)?;
        if held.as_ref().is_some_and(|held| catalogue.is_own(held)) {
            return Err(DownloadError::Own(name.clone()));
        }
        let is_away = held.as_ref().is_some_and(|held| !sets::is_in_place(library, held));
        let wants_newer = library.wanted(name).is_some() || is_away;
        let Some(held) = held.filter(|_| !wants_newer) else {
            let progress = Arc::new(Progress::default());
            // A copy that was downloaded to another place stays there.
            let output = library.blocking({
                let name = name.clone();
                move |library| sets::output_of(library, &*library.catalogue.get(&name)?)
            });
            let options = DownloadOptions { output: output.await, ..self.options.clone() };
            return Ok(match self.downloader.download(name, options, &progress).await {
                Ok(done) if done.was_here && wants_newer && !is_away => Step::Later,
                Ok(_) => Step::Again,
                Err(DownloadError::AlreadyRunning(_)) => {
                    library.until_free(name).await;
                    Step::Again
                }
                Err(DownloadError::Catalogue(CatalogueError::Overtaken(_))) => {
                    sleep(RETRY_MIN).await; // it was deregistered, or refreshed by another command
                    Step::Again
                }
                Err(error) => Step::Failed(error),
            });
        };
        let reader = catalogue.reader(name)?;
        let previous = reader.accepted_of(&held.record.origin);
        let is_new = previous != Some(held.record.version);
        match &self.hook {
            Some(hook) if is_new && !reader.refused(&held.record) => {
                self.run(hook, &held, previous).await?;
                Ok(Step::Again)
            }
            _ => {
                let version = held.record.version;
                if told.replace(version) != Some(version) && (self.hook.is_none() || !is_new) {
                    library.tell(Event::Followed { name: name.clone(), version });
                    if let Some(withdrawal) = held.newest.as_ref().filter(|newest| newest.is_withdrawal()) {
                        let version = Some(withdrawal.version);
                        library.tell(Event::Withdrawn { name: name.clone(), version });
                    }
                }
                Ok(Step::Settled)
            }
        }
    }

    /// Runs the command on the version that is in its place. If it fails, the one that was accepted last is put back.
    async fn run(&self, hook: &Hook, held: &Entry, previous: Option<Version>) -> Result<(), DownloadError> {
        let record = &held.record;
        let (name, version) = (&record.name, record.version);
        let path = self.library.shown_path(held);
        let about = Told { name, version, path: &path, previous };
        let judged = self.library.judged.begin(name);
        let ended = hook.run(about).await;
        drop(judged);
        let Err(failure) = ended else {
            let accepted = Some((record.origin, version));
            return self.note(name, move |reader| reader.accepted = accepted).await;
        };
        let progress = Arc::new(Progress::default());
        let restored = match previous {
            Some(previous) => {
                let restoring = self.downloader.restore(name, Some(previous), Some(record), &progress);
                restoring.await.map(|done| Some(done.record.version))
            }
            None => Ok(None),
        };
        if matches!(restored, Err(DownloadError::Catalogue(CatalogueError::Overtaken(_)))) {
            // A later one is there already, and its turn is next.
            self.library
                .tell(Event::Failed { name: name.clone(), why: format!("version {version}: {failure}") });
            return Ok(());
        }
        let why = match &restored {
            Err(error) => format!("{failure}; it stays in its place: {error}"),
            Ok(_) => failure.to_string(),
        };
        if !matches!(restored, Ok(Some(_))) {
            let passed = PassedOver { origin: record.origin, version, why: Why::Failed };
            self.note(name, move |reader| reader.passed_over = Some(passed)).await?;
        }
        let put_back = restored.ok().flatten();
        self.library.tell(Event::Refused { name: name.clone(), version, put_back, why });
        Ok(())
    }

    async fn note(
        &self,
        name: &FileName,
        change: impl FnMut(&mut Reader) + Send + 'static,
    ) -> Result<(), DownloadError> {
        let name = name.clone();
        Ok(self.library.blocking(move |library| library.catalogue.change_readers([&name], change)).await?)
    }
}

/// Waits for an event about `name`, or one that was missed.
async fn until_news(news: &mut broadcast::Receiver<Event>, name: &FileName) {
    loop {
        match news.recv().await {
            Ok(Event::Invalidated { name: about, .. } | Event::Refreshed { name: about, .. })
                if about == *name =>
            {
                return;
            }
            Ok(Event::RolledBack { name: about, .. } | Event::Dropped(about)) if about == *name => return,
            Ok(_) => {}
            Err(RecvError::Lagged(_)) => return,
            Err(RecvError::Closed) => std::future::pending().await, // the peer has ended
        }
    }
}
