//! Stores the bytes of a pipe as a file in the share folder, complete or not at all.

use std::{
    io::{self, Read},
    path::PathBuf,
    sync::Arc,
};

use nekoproto::{FileName, Remedy};

use super::Publisher;
use crate::{
    download::{already_running, pipe_broke},
    failure::{Failure, FailureKind},
    library::Library,
    storage::{
        full,
        place::{Place, sync_folder},
    },
    util::progress::Progress,
};

const READ_BYTES: usize = 1024 * 1024;

#[derive(Debug)]
pub(crate) struct PlaceOfFile {
    pub(crate) path: PathBuf,
    /// Whether it is to be executable; `None`: as what is there.
    pub(crate) is_executable: Option<bool>,
}

impl Publisher {
    /// See [`PeerHandle::store`](crate::PeerHandle::store); without a place in that of `name` in the share folder.
    pub(crate) async fn store(
        &self,
        name: &FileName,
        place: Option<PlaceOfFile>,
        from: impl Read + Send + 'static,
        force: bool,
        progress: &Arc<Progress>,
    ) -> Result<PathBuf, Failure> {
        let reserved = self.library.reserve(name, progress);
        let _reserved = reserved.ok_or_else(|| already_running(name))?;
        let (name, progress) = (name.clone(), Arc::clone(progress));
        self.library.blocking(move |library| store_all(library, &name, place, from, force, &progress)).await
    }
}

fn store_all(
    library: &Library,
    name: &FileName,
    place: Option<PlaceOfFile>,
    mut from: impl Read,
    force: bool,
    progress: &Progress,
) -> Result<PathBuf, Failure> {
    let is_executable = place.as_ref().and_then(|place| place.is_executable);
    let place = place.map_or_else(|| library.share.place(name), |place| Place::anywhere(&place.path));
    let place = place?.outside(&library.data_dir)?;
    let path = place.path().to_owned();
    let before = place.stamp()?;
    let known = library.catalogue.get(name);
    let own = known.is_some_and(|entry| library.catalogue.is_own(&entry) && Some(entry.stamp) == before);
    let may_replace = own || force || library.catalogue.is_piped(name, before)?;
    if before.is_some() && !may_replace {
        let what = "exists and is not what was shared: share it";
        return Err(Failure::conflict(format!("{} {what}", path.display())).remedied(Remedy::Force));
    }
    let partial = place.partial(&library.data_dir, name)?;
    partial.clear()?;
    let mut buffer = vec![0; READ_BYTES];
    let mut at = 0;
    loop {
        if library.tasks.stop.is_cancelled() {
            partial.discard()?;
            return Err(pipe_broke(name, &io::ErrorKind::Interrupted.into()));
        }
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => {
                if let Err(error) = partial.write_at(&buffer[..read], at) {
                    partial.discard()?;
                    return Err(if error.kind == FailureKind::Full { full(&path) } else { error });
                }
                at += read as u64;
                progress.add_done(read as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                partial.discard()?;
                return Err(pipe_broke(name, &error));
            }
        }
    }
    let stamp = partial.complete(at)?;
    partial.sync()?;
    library.catalogue.note_piped(name, stamp)?;
    partial.rename(before, is_executable)?;
    sync_folder(path.parent().unwrap_or(&path));
    Ok(path)
}
