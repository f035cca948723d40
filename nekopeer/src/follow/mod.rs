//! Follows names: [`watch`](crate::watch) brings the newest version of each to its place, a command is run on it, and
//! where that fails the version before is put back.
//!
//! What a command accepted, and which versions are passed over, is recorded durably: a command that was interrupted is
//! run again on the same version, one that ended is not.

mod hook;

use std::{convert::Infallible, sync::Arc, time::Duration};

use futures::{StreamExt, stream::FuturesUnordered};
use nekoproto::{FileName, Version, transport::Backoff};
use tokio::{
    sync::broadcast::{self, error::RecvError},
    time::timeout,
};

pub(crate) use self::hook::Hook;
use self::hook::Told;
use crate::{
    download::{DownloadError, DownloadOptions, Downloader},
    library::{Library, events::Event},
    storage::catalogue::{CatalogueError, Entry, PassedOver, Reader, Why},
    util::progress::Progress,
};

/// Names that one command follows.
pub(crate) const FOLLOWED_MAX: usize = 64;
/// Earlier versions of a name that are kept at most.
pub(crate) const KEEP_MAX: u32 = 1000;
/// Interval between two looks at a name of which no news comes.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// Minimum and maximum pause after a failure.
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
            let pause = match self.step(name, &mut told, is_begun).await {
                Ok(false) => continue,
                Ok(true) => {
                    retry.reset();
                    (is_begun, is_failing) = (true, false);
                    LOOK_EVERY
                }
                // Before the first version the user is still there, and hears what to do.
                Err(error) if !is_begun && !error.may_pass() => return Err(error),
                Err(error) => {
                    if !std::mem::replace(&mut is_failing, true) {
                        self.library.tell(Event::Failed { name: name.clone(), why: error.to_string() });
                    }
                    if error.may_pass() { retry.pause(rand::random()) } else { LOOK_EVERY }
                }
            };
            drop(timeout(pause, until_news(&mut news, name)).await);
        }
    }

    /// Waits for the newest version to be in its place, or runs the command on what is there. Whether nothing is left to do.
    async fn step(
        &self,
        name: &FileName,
        told: &mut Option<Version>,
        is_begun: bool,
    ) -> Result<bool, DownloadError> {
        let (catalogue, library) = (&self.library.catalogue, &self.library);
        let held = catalogue.entry(name)?;
        if held.as_ref().is_some_and(|held| catalogue.is_own(held)) {
            return Err(DownloadError::Own(name.clone()));
        }
        let Some(held) = held.filter(|held| library.is_up_to_date(held)) else {
            return library.bring(name, self.options.clone(), is_begun).await.map(|()| false);
        };
        let reader = catalogue.reader(name)?;
        let previous = reader.accepted_of(&held.record.origin);
        let is_new = previous != Some(held.record.version);
        match &self.hook {
            Some(hook) if is_new && !reader.refused(&held.record) => {
                self.run(hook, &held, previous).await?;
                Ok(false)
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
                Ok(true)
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

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, pin::pin};

    use crate::{Config, Peer};

    use super::*;

    /// Downloads that hang, as of an indexer that takes connections and answers nothing: each may block a thread.
    #[tokio::test]
    async fn however_many_names_are_followed_few_are_downloaded_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let config = Config { indexers: vec![silent.local_addr().unwrap()], ..Config::new(folder.path()) };
        let peer = Peer::spawn(config).await.unwrap();
        let (library, downloader) = (Arc::clone(&peer.library), Arc::clone(&peer.downloader));
        let options = DownloadOptions::default();
        let follower = Follower { library, downloader, hook: None, keep: None, options };
        let names = (0..FOLLOWED_MAX).map(|n| FileName::new(&format!("f{n}")).unwrap()).collect();
        let (mut following, mut tried) = (pin!(follower.follow(names)), HashSet::new());
        while tried.len() < 12 {
            tokio::select! {
                biased;
                ended = &mut following => panic!("{ended:?}"),
                () = tokio::task::yield_now() => {}
            }
            let running = peer.library.writing();
            assert!(running.len() <= 6, "{} at once", running.len());
            tried.extend(running.into_iter().map(|(name, _)| name));
        }
    }
}
