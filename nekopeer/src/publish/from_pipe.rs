//! Stores the bytes of a pipe as a file in the share folder, complete or not at all.

use std::{
    io::{self, Read},
    path::PathBuf,
    sync::Arc,
};

use nekoproto::{ContentHash, FileName};

use super::Publisher;
use crate::{
    download::{DownloadError, LookAlikes},
    library::Library,
    storage::StoreError,
    util::progress::Progress,
};

/// Bytes per read.
const READ_BYTES: usize = 1024 * 1024;

impl Publisher {
    /// See [`PeerHandle::store`](crate::PeerHandle::store).
    pub(crate) async fn store(
        &self,
        name: &FileName,
        from: impl Read + Send + 'static,
        force: bool,
        progress: &Arc<Progress>,
    ) -> Result<PathBuf, DownloadError> {
        let reserved = self.library.reserve(name, progress);
        let _reserved = reserved.ok_or_else(|| DownloadError::AlreadyRunning(name.clone()))?;
        let (name, progress) = (name.clone(), Arc::clone(progress));
        self.library.blocking(move |library| store_all(library, &name, from, force, &progress)).await
    }
}

fn store_all(
    library: &Library,
    name: &FileName,
    mut from: impl Read,
    force: bool,
    progress: &Progress,
) -> Result<PathBuf, DownloadError> {
    if !force {
        LookAlikes::default().refuse(&library.share, name)?;
    }
    let place = library.share.place(name)?;
    let path = place.path().to_owned();
    let before = place.stamp()?;
    let known = library.catalogue.get(name);
    let own = known.is_some_and(|entry| library.catalogue.is_own(&entry) && Some(entry.stamp) == before);
    if place.is_taken()? && !own && !force {
        return Err(DownloadError::NotPublished(path));
    }
    // The content hash is not known yet; zeros keep this partial file apart from those of downloads.
    let partial = place.partial(&ContentHash::from_bytes([0; 32]))?;
    partial.clear()?;
    let mut buffer = vec![0; READ_BYTES];
    let mut at = 0;
    loop {
        if library.tasks.stop.is_cancelled() {
            partial.discard()?;
            return Err(DownloadError::Pipe { name: name.clone(), why: io::ErrorKind::Interrupted.into() });
        }
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => {
                if let Err(error) = partial.write_at(&buffer[..read], at) {
                    partial.discard()?;
                    return Err(error.into());
                }
                at += read as u64;
                progress.add_done(read as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => {
                partial.discard()?;
                return Err(DownloadError::Pipe { name: name.clone(), why });
            }
        }
    }
    partial.commit(at, before).map_err(|error: StoreError| error.into()).map(|_| path)
}
