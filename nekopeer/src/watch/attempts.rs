//! One attempt at a name: to download its newest version, or to drop its outdated copy.

use std::{panic::AssertUnwindSafe, sync::Arc};

use futures::FutureExt;
use nekoproto::{FileName, Holder, VerifiedRecord};

use super::{Reconciler, Waiter, is_up_to_date};
use crate::{
    download::{DownloadOptions, Downloaded},
    failure::{Failure, Reason},
    library::{
        Library,
        events::Event,
        status::{Removed, remove_unchanged},
    },
    sets,
    state::{choice::Target, freshness::OnStale, outdated::Ended},
    storage::catalogue::Entry,
};

/// How an attempt ended, and why it failed, if a user is to be told.
type AttemptOutcome = (Ended, Option<String>);

impl Reconciler {
    /// One attempt at a name, for those who wait for it, or as its outdated copy is to be dealt with; returns those who go
    /// on waiting. A panic in it ends this attempt alone.
    pub(super) async fn attempt(
        &self,
        name: FileName,
        mut waiting: Vec<Waiter>,
    ) -> (FileName, AttemptOutcome, Vec<Waiter>) {
        waiting.retain(|one| !one.done.is_closed());
        let options = waiting.first().map(|one| one.options.clone());
        let on_panic = if options.is_some() { Ended::Failed } else { Ended::GivenUp };
        let attempt = AssertUnwindSafe(async {
            match options {
                Some(options) => Ok((self.fetch(&name, options).await?.0, None)),
                None => self.deal_with(&name).await,
            }
        });
        let ended = tokio::select! {
            ended = attempt.catch_unwind() => ended.unwrap_or(Ok((on_panic, None))),
            () = all_gone(&mut waiting) => Ok((Ended::InUse, None)),
        };
        let outcome = ended.unwrap_or_else(|error| {
            let is_overtaken = error.reason == Reason::Overtaken;
            match (waiting.is_empty(), is_overtaken) {
                (false, true) => return (Ended::InUse, None), // another command has refreshed or deregistered it
                (true, _) if !self.library.is_outdated(&name) => return (Ended::Done, None), // deregistered meanwhile
                _ => {}
            }
            let may_pass = error.may_pass;
            let one = waiting.iter().position(|one| !one.lasts).filter(|_| !may_pass);
            let waits = error.reason == Reason::NotFound && !waiting.is_empty();
            let help = if waits { "; follow waits for it" } else { "" };
            let why = (one.is_none() || waiting.len() > 1).then(|| format!("{error}{help}"));
            one.map(|one| waiting.swap_remove(one).done.send(Err(error)));
            let how = match waiting.is_empty() {
                _ if may_pass => Ended::Failed,
                true => Ended::GivenUp,
                false => Ended::Blocked,
            };
            (how, why)
        });
        if matches!(outcome.0, Ended::Done | Ended::Outdated) {
            waiting.drain(..).for_each(|one| drop(one.done.send(Ok(())))); // it may have gone
        }
        (name, outcome, waiting)
    }

    async fn deal_with(&self, name: &FileName) -> Result<AttemptOutcome, Failure> {
        let (library, asked) = (&self.library, name.clone());
        let preference = library.blocking(move |library| library.preference(&asked)).await;
        match preference.on_stale.unwrap_or(self.downloader.on_stale) {
            OnStale::Keep => Ok((Ended::GivenUp, None)),
            _ if library.hook_runs_for(name).is_some() => Ok((Ended::InUse, None)), // what stands there is up to a command
            OnStale::Drop => Ok(self.drop_copy(name).await),
            OnStale::Refetch => {
                let Some(newest) = library.wanted(name) else { return Ok((Ended::Done, None)) };
                let origin = Some(newest.origin.to_string()); // whatever becomes of the copy meanwhile
                let options = DownloadOptions { origin, ..DownloadOptions::default() };
                let (how, done) = self.fetch(name, options).await?;
                let Some(done) = done else { return Ok((how, None)) };
                let (version, bytes_moved) = (done.record.version, done.bytes_moved);
                if how == Ended::Failed {
                    return Ok((how, Some(format!("only version {version} can be found"))));
                }
                if !done.was_here {
                    library.tell(Event::Refreshed { name: name.clone(), version, bytes_moved });
                }
                Ok((how, None))
            }
        }
    }

    /// Downloads the newest version that can be found. It may be none: news of a version may arrive before an
    /// indexer lists it.
    async fn fetch(
        &self,
        name: &FileName,
        mut options: DownloadOptions,
    ) -> Result<(Ended, Option<Downloaded>), Failure> {
        let (library, asked) = (&self.library, name.clone());
        let look = move |library: &Arc<Library>| {
            let held = library.catalogue.entry(&asked)?;
            let look = |held: Arc<Entry>| {
                let (is_done, told) = (is_up_to_date(library, &held), told(library, &held));
                // If the newest is passed over, what is held is what is to come back.
                let newest = held.newest.as_ref().filter(|newest| !newest.is_withdrawal());
                let stays = newest.is_some() && library.wanted(&asked).is_none();
                (is_done, sets::output_of(library, &held), told, held.record.version, stays)
            };
            Ok::<_, Failure>(held.map(look))
        };
        let (mut newest, mut version) = (None, None);
        match library.blocking(look).await? {
            Some((true, ..)) => return Ok((Ended::Done, None)),
            Some((_, output, told, held, stays)) => {
                options.output = output; // a copy elsewhere stays there
                if stays {
                    // Of those that are out none is wanted, unless there is one that was not heard of yet.
                    let found = self.downloader.find(name, &options).await.ok();
                    let reader = library.catalogue.reader(name)?;
                    newest = found.filter(|found| !reader.passes_over(&found.record));
                    options.version = newest.is_none().then_some(held);
                }
                newest = newest.or(told.filter(|told| options.takes(&told.record)));
                version = Some(held);
            }
            None => {}
        }
        match self.downloader.refetch(name, newest, options).await {
            Ok(done) if library.wanted(name).is_none() => Ok((Ended::Done, Some(done))),
            Ok(done) if Some(done.record.version) > version => Ok((Ended::Outdated, Some(done))),
            Ok(done) => Ok((Ended::Failed, Some(done))),
            Err(Failure { reason: Reason::AlreadyRunning, .. }) => Ok((Ended::InUse, None)),
            Err(error) => Err(error),
        }
    }

    /// Deletes the file, if it is still an outdated copy that nobody changed, and stops offering it.
    pub(super) async fn drop_copy(&self, name: &FileName) -> AttemptOutcome {
        let library = &self.library;
        // A running download may be of the newer version, which must not be dropped.
        let Some(_reserved) = library.reserve(name, &Arc::default()) else { return (Ended::InUse, None) };
        let dropped = {
            let name = name.clone();
            library.blocking(move |library| remove(library, &name)).await
        };
        match dropped {
            Ok(Some(Removed::Gone)) => {
                library.forget([name]);
                self.indexers.withdraw(std::slice::from_ref(name)).await;
                library.tell(Event::Dropped(name.clone()));
                (Ended::Done, None)
            }
            Ok(None) => (Ended::Done, None),
            Ok(Some(Removed::Changed)) => {
                (Ended::GivenUp, Some("the outdated copy was changed and is kept".to_owned()))
            }
            Ok(Some(Removed::Unreachable)) => {
                (Ended::Failed, Some("the outdated copy cannot be removed now".to_owned()))
            }
            Err(error) => (Ended::Failed, Some(error.to_string())),
        }
    }
}

/// The later version of `held` that is known, at its origin. Blocking.
fn told(library: &Library, held: &Entry) -> Option<Target> {
    let newest = library.wanted(&held.record.name)?;
    let origin = Holder::new(newest.origin, held.origin_addr?);
    Some(Target::new(newest, vec![origin]))
}

/// Returns when nobody waits any more, if anybody did.
async fn all_gone(waiting: &mut [Waiter]) {
    for one in waiting.iter_mut() {
        one.done.closed().await;
    }
    if waiting.is_empty() {
        std::future::pending::<()>().await;
    }
}

/// Removes the file and its entry, if the entry is that of an outdated copy at that moment, otherwise `None`: the name may have
/// been deregistered and published meanwhile. Blocking.
fn remove(library: &Library, name: &FileName) -> Result<Option<Removed>, Failure> {
    library.settle_placing(name)?;
    let replacing = library.catalogue.replacing(name);
    let reader = library.catalogue.reader(name)?;
    let mut removed = None;
    let is_removed = library.catalogue.remove_if(name, |entry| {
        // One that the user put back is wanted although it is outdated.
        let is_unwanted = |newest: &VerifiedRecord| newest.is_withdrawal() || !reader.passes_over(newest);
        let outdated = entry.filter(|entry| {
            !library.catalogue.is_own(entry) && entry.newest.as_ref().is_some_and(is_unwanted)
        });
        let Some(entry) = outdated else { return false };
        let may_delete = !entry.record.policy.is_set() || sets::remove_folder(library, entry);
        removed = Some(if may_delete { remove_unchanged(entry) } else { Removed::Changed });
        removed == Some(Removed::Gone)
    });
    drop(replacing);
    if is_removed? {
        sets::forget(library, std::slice::from_ref(name));
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use testkit::goods;

    use super::*;
    use crate::{
        Config, Peer, PublishOptions,
        storage::catalogue::{CommandId, model_tests::copy_of},
    };

    /// Its exit code decides what stands there.
    #[tokio::test]
    async fn copy_is_not_dropped_while_the_command_of_a_follower_runs_on_it() {
        let (folder, path) = testkit::temp_path("a");
        std::fs::write(&path, b"1").unwrap();
        let version = |n: u8| goods::of_content(1, "a", n.into(), n);
        let mut copy = copy_of(version(1), &path);
        copy.entry.newest = Some(version(2));
        let config = Config { on_stale: OnStale::Drop, ..Config::new(folder.path()) };
        let peer = Peer::spawn(config).await.unwrap();
        let (reconciler, name) = (&peer.reconciler, FileName::new("a").unwrap());
        peer.library.catalogue.put_copy(copy).unwrap();
        let hook = peer.library.list_hook(&name, CommandId([0; 32]), &Arc::default());
        hook.change(|hook| hook.runs_since = Some(Instant::now()));
        assert_eq!(reconciler.attempt(name.clone(), Vec::new()).await.1, (Ended::InUse, None));
        assert!(path.exists());
        drop(hook);
        assert_eq!(reconciler.attempt(name.clone(), Vec::new()).await.1, (Ended::Done, None));
        assert!(!path.exists());
    }

    /// Deregistered and published meanwhile, a copy is the user's own file.
    #[tokio::test]
    async fn file_that_was_published_meanwhile_is_not_deleted_nor_one_gone_that_cannot_be_looked_at() {
        let (folder, inner) = testkit::temp_path("d");
        std::fs::create_dir(&inner).unwrap();
        std::fs::write(inner.join("a"), b"mine").unwrap();
        let peer = Peer::spawn(Config::new(folder.path())).await.unwrap();
        peer.publish(vec![inner.clone()], PublishOptions::default(), &Arc::default()).await.unwrap();
        let name = FileName::new("d/a").unwrap();
        let entry = peer.library.catalogue.get(&name).unwrap();
        let dropped = peer.library.blocking(move |library| remove(library, &name)).await.unwrap();
        assert_eq!(dropped, None);
        assert_eq!((std::fs::read(&entry.path).unwrap(), peer.files().await.len()), (b"mine".to_vec(), 1));
        std::fs::rename(&inner, folder.path().join("away")).unwrap();
        std::os::unix::fs::symlink(&inner, &inner).unwrap();
        assert_eq!(remove_unchanged(&entry), Removed::Unreachable);
        std::fs::remove_file(&inner).unwrap();
        assert_eq!(remove_unchanged(&entry), Removed::Gone);
    }
}
