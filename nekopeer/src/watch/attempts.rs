//! One attempt at an outdated copy: to download the newest version in its place, or to drop it.

use std::sync::Arc;

use nekoproto::{FileName, VerifiedRecord};

use super::Watch;
use crate::{
    download::{DownloadError, DownloadOptions, Downloaded},
    library::{
        Library,
        events::Event,
        status::{Condition, on_disk},
    },
    sets,
    state::outdated::Ended,
    storage::catalogue::{CatalogueError, Entry},
    util::progress::Progress,
};

/// How an attempt ended, and why it failed, if a user is to be told.
type Outcome = (Ended, Option<String>);

impl Watch {
    /// Downloads the newest version that can be found. It may be none: news of a version may arrive before an
    /// indexer lists it.
    pub(super) async fn refetch(&self, name: &FileName) -> Outcome {
        let library = &self.library;
        if library.wanted(name).is_none() {
            return (Ended::Done, None);
        }
        let held = library.catalogue.get(name).map(|entry| entry.record.version);
        match self.refetch_once(name).await {
            Ok(done) if Some(done.record.version) > held => {
                let (version, bytes_moved) = (done.record.version, done.bytes_moved);
                library.tell(Event::Refreshed { name: name.clone(), version, bytes_moved });
                (if library.is_outdated(name) { Ended::Outdated } else { Ended::Done }, None)
            }
            Ok(done) => (Ended::Failed, Some(format!("only version {} can be found", done.record.version))),
            Err(DownloadError::AlreadyRunning(_)) => (Ended::InUse, None),
            Err(_) if !library.is_outdated(name) => (Ended::Done, None), // it was deregistered meanwhile
            Err(error) if error.may_pass() => (Ended::Failed, Some(error.to_string())),
            Err(error) => (Ended::GivenUp, Some(error.to_string())),
        }
    }

    async fn refetch_once(&self, name: &FileName) -> Result<Downloaded, DownloadError> {
        // A copy that was downloaded to another place stays there.
        let held = self.library.catalogue.get(name);
        let output = held.and_then(|held| sets::output_of(&self.library, &held));
        let options = DownloadOptions { output, ..DownloadOptions::default() };
        self.downloader.download(name, options, &Arc::new(Progress::default())).await
    }

    /// Deletes the file, if it is still an outdated copy that nobody changed, and stops offering it.
    pub(super) async fn drop_copy(&self, name: &FileName) -> Outcome {
        let library = &self.library;
        // A running download may be of the newer version, which must not be dropped.
        let Some(_reserved) = library.reserve(name, &Arc::default()) else { return (Ended::InUse, None) };
        let dropped = {
            let name = name.clone();
            library.blocking(move |library| remove(library, &name)).await
        };
        match dropped {
            Ok(Dropped::Gone) => {
                library.forget([name]);
                self.indexers.withdraw(std::slice::from_ref(name)).await;
                library.tell(Event::Dropped(name.clone()));
                (Ended::Done, None)
            }
            Ok(Dropped::NotOutdated) => (Ended::Done, None),
            Ok(Dropped::Changed) => {
                (Ended::GivenUp, Some("the outdated copy was changed and is kept".to_owned()))
            }
            Ok(Dropped::Unreachable) => {
                (Ended::Failed, Some("the outdated copy cannot be removed now".to_owned()))
            }
            Err(error) => (Ended::Failed, Some(error.to_string())),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Dropped {
    Gone,
    NotOutdated,
    Changed,
    /// Its file cannot be looked at or removed: its disk is not mounted, say.
    Unreachable,
}

/// Removes the file and its entry, if the entry is that of an outdated copy at that moment: the name may have been
/// deregistered and published meanwhile. Blocking.
fn remove(library: &Library, name: &FileName) -> Result<Dropped, CatalogueError> {
    library.settle_placing(name)?;
    let replacing = library.catalogue.replacing(name);
    let reader = library.catalogue.reader(name)?;
    let mut dropped = Dropped::NotOutdated;
    let is_removed = library.catalogue.remove_if(name, |entry| {
        // One that the user put back is wanted although it is outdated.
        let is_unwanted = |newest: &VerifiedRecord| newest.is_withdrawal() || !reader.passes_over(newest);
        let outdated = entry.filter(|entry| {
            !library.catalogue.is_own(entry) && entry.newest.as_ref().is_some_and(is_unwanted)
        });
        let Some(entry) = outdated else { return false };
        let may_delete = !entry.record.policy.is_set() || sets::remove_folder(library, entry);
        dropped = if may_delete { delete(entry) } else { Dropped::Changed };
        dropped == Dropped::Gone
    });
    drop(replacing);
    if is_removed? {
        sets::forget(library, name);
    }
    Ok(dropped)
}

/// Deletes the file of `entry`, unless somebody changed it. If it is gone, an earlier attempt was interrupted.
fn delete(entry: &Entry) -> Dropped {
    let is_gone = match on_disk(entry) {
        None => std::fs::remove_file(&entry.path).is_ok(),
        Some(Condition::Missing) => entry.stamp.is_removed_from(&entry.path),
        Some(_) => return Dropped::Changed,
    };
    if is_gone { Dropped::Gone } else { Dropped::Unreachable }
}

#[cfg(test)]
mod tests {
    use crate::{Config, Peer, PublishOptions};

    use super::*;

    /// Deregistered and published meanwhile, a copy is the user's own file.
    #[tokio::test]
    async fn file_that_was_published_meanwhile_is_not_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, b"mine").unwrap();
        let peer = Peer::spawn(Config::new(folder.path())).await.unwrap();
        peer.publish(vec![path.clone()], PublishOptions::default(), &Arc::default()).await.unwrap();
        let name = FileName::new("a").unwrap();
        let dropped = peer.library.blocking(move |library| remove(library, &name)).await.unwrap();
        assert_eq!(dropped, Dropped::NotOutdated);
        assert_eq!((std::fs::read(path).unwrap(), peer.files().await.len()), (b"mine".to_vec(), 1));
    }

    #[tokio::test]
    async fn file_that_cannot_be_looked_at_is_not_gone() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("d");
        std::fs::create_dir(&inner).unwrap();
        std::fs::write(inner.join("a"), b"mine").unwrap();
        let peer = Peer::spawn(Config::new(folder.path())).await.unwrap();
        peer.publish(vec![inner.clone()], PublishOptions::default(), &Arc::default()).await.unwrap();
        let entry = peer.library.catalogue.get(&FileName::new("d/a").unwrap()).unwrap();
        std::fs::rename(&inner, folder.path().join("away")).unwrap();
        std::os::unix::fs::symlink(&inner, &inner).unwrap();
        assert_eq!(delete(&entry), Dropped::Unreachable);
        std::fs::remove_file(&inner).unwrap();
        assert_eq!(delete(&entry), Dropped::Gone);
    }
}
