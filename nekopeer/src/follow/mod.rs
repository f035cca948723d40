//! Follows names: [`watch`](crate::watch) brings the newest version of each to its place, a command is run on it, and
//! where that fails the version before is put back.
//!
//! What stands in its place is looked at before anything is said of its version: what the user changed is no version.
//! What a command accepted, and which versions are passed over, is recorded durably: a command that was interrupted is
//! run again on the same version, one that ended is not.

mod hook;
mod output;

use std::{
    collections::HashMap,
    convert::Infallible,
    future::pending,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt, stream::FuturesUnordered};
use nekoproto::{FileName, NodeId, Version, transport::Backoff};
use tokio::{
    sync::{Notify, broadcast::error::RecvError, mpsc},
    time::timeout,
};

pub(crate) use self::{hook::Hook, output::PRINTED_WAITING_MAX};
use crate::{
    download::{DownloadOptions, own},
    failure::{Failure, Reason},
    library::{
        Library,
        events::Event,
        hooks::{FollowerHook, HookListing, RefusedOutcome, RefusedVersion},
    },
    storage::catalogue::Entry,
    watch::{Reconciler, is_up_to_date},
};

pub(crate) const FOLLOWED_MAX: usize = 64;
/// Files that one command follows, with those of folders and globs.
pub(crate) const FOLLOWED_FILES_MAX: usize = 10_000;
pub(crate) const KEEP_MAX: u32 = 1000;
/// Interval between two looks at a name of which no news comes.
const LOOK_EVERY: Duration = Duration::from_secs(30);
const RETRY_MIN: Duration = Duration::from_millis(500);
const RETRY_MAX: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Follower {
    pub(crate) reconciler: Arc<Reconciler>,
    pub(crate) hook: Option<Hook>,
    pub(crate) printed: mpsc::Sender<Event>,
    /// How many earlier versions are kept, `None`: as many as before; and how many bytes for them at most.
    pub(crate) keep: Option<u32>,
    pub(crate) keep_max: Option<u64>,
    pub(crate) options: DownloadOptions,
}

/// Names that are followed from now on, and the first digits of their origin's id if one is meant.
pub(crate) type NewNames = (Vec<FileName>, Option<String>);

struct FollowState {
    /// Whose file was last in its place: another's does not take it, even if that is gone.
    origin: Option<NodeId>,
    told: Option<Version>,
    /// Where it was: another command may download it to another place, where it is followed from then on.
    place: Option<PathBuf>,
    /// Its command, listed with what it refused.
    hook: Option<HookListing>,
    /// The last version that its command accepted, and its origin.
    accepted: Option<(NodeId, Version)>,
}

impl FollowState {
    fn accepted_of(&self, origin: &NodeId) -> Option<Version> {
        self.accepted.filter(|(accepted, _)| accepted == origin).map(|(_, version)| version)
    }

    fn refused(&self) -> Option<RefusedVersion> {
        self.hook.as_ref()?.refused()
    }

    fn set_refused(&self, refused: Option<RefusedVersion>) {
        self.hook.iter().for_each(|listing| listing.change(|hook| hook.refused = refused.clone()));
    }
}

impl Follower {
    /// Follows all of `names`, and those that come `later`, until the peer stops, each by itself: what needs the user is told,
    /// and tried again. Of a name that `is_alone` it ends this before the first version, while the user is there.
    ///
    /// # Cancel safety
    /// Safe: a running command is killed, and is run again by the next follower.
    pub(crate) async fn follow(
        &self,
        names: Vec<FileName>,
        is_alone: bool,
        mut later: mpsc::Receiver<NewNames>,
    ) -> Result<Infallible, Failure> {
        let (mut following, mut news) = (FuturesUnordered::new(), self.reconciler.library.events());
        let (mut batch, mut wakers) = (Some((names, None)), HashMap::<FileName, Arc<Notify>>::new());
        loop {
            if let Some((names, origin)) = batch.take() {
                self.keep_versions(names.clone()).await?;
                for name in names {
                    let wake = Arc::<Notify>::default();
                    wakers.insert(name.clone(), Arc::clone(&wake));
                    following.push(self.follow_one(name, origin.clone(), is_alone, wake));
                }
            }
            batch = tokio::select! {
                Some(ended) = following.next() => return ended,
                Some(more) = later.recv() => Some(more),
                event = news.recv() => {
                    match event {
                        Ok(event) if event.replaces_version() => {
                            event.name().and_then(|name| wakers.get(name)).into_iter().for_each(|wake| wake.notify_one());
                        }
                        Ok(_) => {}
                        Err(RecvError::Lagged(_)) => wakers.values().for_each(|wake| wake.notify_one()),
                        Err(RecvError::Closed) => pending().await, // the peer has ended
                    }
                    None
                }
            };
        }
    }

    /// Has as many versions of `names` kept from now on as was said.
    async fn keep_versions(&self, noted: Vec<FileName>) -> Result<(), Failure> {
        let least = u32::from(self.hook.is_some()); // the version before is put back if the command fails
        let (keep, keep_max) = (self.keep, self.keep_max);
        let note = move |library: &Arc<Library>| {
            library.catalogue.change_readers(&noted, |reader| {
                if let Some(keep) = keep {
                    (reader.keep, reader.keep_max) = (keep, keep_max);
                }
                reader.keep = reader.keep.max(least);
            })?;
            noted.iter().try_for_each(|name| library.catalogue.trim_kept(name))
        };
        self.reconciler.library.blocking(note).await
    }

    async fn follow_one(
        &self,
        name: FileName,
        origin: Option<String>,
        is_alone: bool,
        wake: Arc<Notify>,
    ) -> Result<Infallible, Failure> {
        let (name, library) = (&name, &self.reconciler.library);
        let hook = self.hook.as_ref().map(|hook| library.list_hook(name, hook.id(), &wake));
        let mut retry = Backoff::new(RETRY_MIN, RETRY_MAX);
        let accepted = match &self.hook {
            Some(hook) => library.catalogue.reader(name)?.accepted_by(hook.id()),
            None => None,
        };
        let mut seen = FollowState { origin: None, told: None, place: None, hook, accepted };
        let (mut is_begun, mut told) = (!is_alone, None);
        loop {
            // In a place of its own: most of thousands wait.
            let pause = match Box::pin(self.step(name, origin.as_ref(), &mut seen, is_begun)).await {
                Ok(false) => continue,
                Ok(true) => {
                    retry.reset();
                    (is_begun, told) = (true, None);
                    LOOK_EVERY
                }
                Err(error) if !is_begun && !error.may_pass => return Err(error),
                Err(error) => {
                    let refused = seen.refused().filter(|refused| refused.outcome == RefusedOutcome::NotYet);
                    let why = match refused {
                        Some(RefusedVersion { record, why, .. }) => {
                            let stays = "it stays in its place until the one before can be put back";
                            format!("version {}: {why}; {stays}: {error}", record.version)
                        }
                        None if error.reason == Reason::NotFound => format!("{error}; follow waits for it"),
                        None => error.to_string(),
                    };
                    if told.as_ref().is_none_or(|told| *told != why && !error.may_pass) {
                        library.tell(Event::Failed { name: name.clone(), why: why.clone() });
                    }
                    told = Some(why);
                    if error.may_pass { retry.pause(rand::random()) } else { LOOK_EVERY }
                }
            };
            drop(timeout(pause, wake.notified()).await);
        }
    }

    /// Waits for the newest version to be in its place, or runs the command on what is there. Whether nothing is left to do.
    async fn step(
        &self,
        name: &FileName,
        origin: Option<&String>,
        seen: &mut FollowState,
        is_begun: bool,
    ) -> Result<bool, Failure> {
        let (catalogue, library) = (&self.reconciler.library.catalogue, &self.reconciler.library);
        let held = catalogue.entry(name)?;
        if held.as_ref().is_some_and(|held| catalogue.is_own(held)) {
            return Err(own(name));
        }
        seen.origin = held.as_ref().map(|held| held.record.origin).or(seen.origin);
        if let Some(refused) = seen.refused() {
            let is_there = held.as_ref().is_some_and(|held| held.record == refused.record);
            match (refused.outcome, is_there) {
                (RefusedOutcome::NotYet, true) => {
                    return Box::pin(self.put_back(refused, seen)).await.map(|()| false);
                }
                (RefusedOutcome::Stays, true) | (RefusedOutcome::PutBack(_), false) => {}
                // What has taken its place since, or has come back, or is still to come, has its turn next.
                (RefusedOutcome::NotYet, false) => {
                    let why = format!("version {}: {}", refused.record.version, refused.why);
                    library.tell(Event::Failed { name: name.clone(), why });
                    seen.set_refused(None);
                }
                (RefusedOutcome::Stays, false) | (RefusedOutcome::PutBack(_), true) => seen.set_refused(None),
            }
        }
        let looked_at = name.clone();
        let look = move |library: &Arc<Library>| match held.filter(|held| is_up_to_date(library, held)) {
            // A file that was moved or touched has another entry since it was compared.
            Some(held) => Ok(library.catalogue.entry(&looked_at)?.filter(|now| now.record == held.record)),
            None => Ok::<_, Failure>(None),
        };
        let Some(held) = library.blocking(look).await? else {
            let mut options = DownloadOptions { unattended: true, ..self.options.clone() };
            options.origin = options
                .origin
                .or_else(|| origin.cloned())
                .or_else(|| seen.origin.map(|origin| origin.to_string()));
            return self.reconciler.bring(name, options, is_begun).await.map(|()| false);
        };
        let place = library.shown_path(&held);
        if seen.place.replace(place.clone()).is_some_and(|before| before != place) {
            let place = place.display();
            let why = format!("is followed at {place} from now on, where another command brought it");
            library.tell(Event::Failed { name: name.clone(), why });
        }
        let is_new = seen.accepted != Some((held.record.origin, held.record.version));
        match &self.hook {
            Some(hook) if is_new && seen.refused().is_none_or(|refused| refused.record != held.record) => {
                Box::pin(self.run(hook, &held, seen)).await?;
                Ok(false)
            }
            _ => {
                let version = held.record.version;
                if seen.told.replace(version) != Some(version) && (self.hook.is_none() || !is_new) {
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

    async fn run(&self, hook: &Hook, held: &Entry, seen: &mut FollowState) -> Result<(), Failure> {
        let record = &held.record;
        let previous = seen.accepted_of(&record.origin);
        seen.told = None; // whoever put it back in its place waits for the answer
        let (library, name) = (&self.reconciler.library, record.name.clone());
        let is_waited_for = library.accepted_instead(record).is_some(); // its origin was told of an earlier one
        let change = |change: fn(&mut FollowerHook)| seen.hook.iter().for_each(|hook| hook.change(change));
        change(|hook| hook.runs_since = Some(Instant::now()));
        // Who puts back an earlier version sees that it runs, or has done so.
        if library.catalogue.get(&name).is_none_or(|now| now.record != *record) {
            change(|hook| hook.runs_since = None);
            return Ok(());
        }
        change(|hook| (hook.runs, hook.refused) = (hook.runs + 1, None));
        let ended =
            hook.run(record, &library.shown_path(held), previous, &self.printed, &library.tasks).await;
        change(|hook| hook.runs_since = None);
        let Err(why) = ended else {
            let (command, origin, version) = (hook.id(), record.origin, record.version);
            seen.accepted = Some((origin, version));
            let note = move |library: &Arc<Library>| {
                library.catalogue.change_readers([&name], |reader| reader.accept(command, origin, version))
            };
            library.blocking(note).await?;
            library.freed.notify_waiters(); // who waits for the answer
            if is_waited_for {
                let (peers, accepted) = (Arc::clone(&self.reconciler.peers), record.clone());
                library.tasks.spawn_until_stop(async move { drop(peers.confirm(vec![accepted]).await) });
            }
            return Ok(());
        };
        let outcome = RefusedOutcome::NotYet;
        seen.set_refused(Some(RefusedVersion { record: record.clone(), why, outcome }));
        Ok(())
    }

    /// Puts the version that was accepted last in the place of `refused`. An error that may pass leaves that to be done.
    async fn put_back(&self, mut refused: RefusedVersion, seen: &mut FollowState) -> Result<(), Failure> {
        let (record, mut put_back) = (refused.record.clone(), None);
        let (name, version) = (&record.name, record.version);
        // Not what another command that runs has not accepted; one that begins judges by itself what stands there.
        let least = self.reconciler.library.least_accepted(&record, false).map(|least| least.version);
        let previous = seen.accepted_of(&record.origin).map(|own| least.unwrap_or(own).min(own));
        if let Some(previous) = previous {
            let progress = Arc::default();
            match self.reconciler.downloader.restore(name, Some(previous), Some(&record), &progress).await {
                Ok(done) => {
                    put_back = Some(done.record.version);
                    seen.told = put_back;
                }
                Err(Failure { reason: Reason::AlreadyRunning, .. }) => {
                    self.reconciler.library.until_free(name).await;
                    return Ok(());
                }
                Err(Failure { reason: Reason::Overtaken, .. }) => return Ok(()),
                Err(error) if error.may_pass => return Err(error),
                Err(error) => refused.why = format!("{}; it stays in its place: {error}", refused.why),
            }
        }
        refused.outcome = put_back.map_or(RefusedOutcome::Stays, RefusedOutcome::PutBack);
        let why = refused.why.clone();
        seen.set_refused(Some(refused));
        self.reconciler.library.tell(Event::Refused { name: name.clone(), version, put_back, why });
        Ok(())
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
        let config =
            Config { indexers: vec![silent.local_addr().unwrap().into()], ..Config::new(folder.path()) };
        let peer = Peer::spawn(config).await.unwrap();
        let (reconciler, printed) = (Arc::clone(&peer.reconciler), mpsc::channel(1).0);
        let (keep, keep_max, options) = (None, None, DownloadOptions::default());
        let follower = Follower { reconciler, hook: None, printed, keep, keep_max, options };
        let names = (0..FOLLOWED_MAX).map(|n| FileName::new(&format!("f{n}")).unwrap()).collect();
        let (mut following, mut tried) =
            (pin!(follower.follow(names, false, mpsc::channel(1).1)), HashSet::new());
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
