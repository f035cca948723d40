//! The destination of a download: an existing file of the user's is not overwritten unless forced.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use nekoproto::{Record, Remedy, VerifiedRecord};
use tokio_util::sync::CancellationToken;

use crate::{
    content::{stamp::Stamp, whole::hash_of},
    download::{
        Downloader,
        file::room::refuse_too_large,
        plan::{DownloadRun, Landing},
    },
    failure::Failure,
    library::Library,
    sets,
    storage::{
        error_at,
        place::{FolderCache, Place, make_said_folder},
        stopped,
    },
};

/// What a download finds in its place.
#[derive(Debug)]
pub(crate) enum Destination {
    UpToDate(PathBuf),
    /// Nothing, or a file that may be replaced, identified by its stamp.
    Replaceable(Option<Stamp>),
    /// A file where a set is to come, or the reverse, which [makes way](sets::makes_way).
    OtherKind,
}

impl Downloader {
    /// Examines the place of `record`. A file that is neither an unchanged copy of this peer's nor has the
    /// same bytes is an error unless it may be replaced, and so is a disk without room.
    pub(in crate::download) async fn destination(
        &self,
        record: &VerifiedRecord,
        landing: &Landing,
        work: &DownloadRun<'_>,
    ) -> Result<Destination, Failure> {
        let (record, output, force) = (record.clone(), landing.output.clone(), work.options.force);
        let stop = work.stop.child_token();
        let _stop = stop.clone().drop_guard();
        let look = move |library: &Arc<Library>| {
            destination(library, &record, output.as_deref(), force, &mut FolderCache::default(), &stop)
        };
        self.library.blocking(look).await
    }
}

/// The place of the file of `record`: at `output`, otherwise in the share folder; of a set in the data folder. Blocking.
pub(crate) fn place_for(library: &Library, record: &Record, output: Option<&Path>) -> Result<Place, Failure> {
    place_in(&mut FolderCache::default(), library, record, output)
}

/// The same; a folder that is in `folders` is not opened again.
pub(in crate::download) fn place_in(
    folders: &mut FolderCache,
    library: &Library,
    record: &Record,
    output: Option<&Path>,
) -> Result<Place, Failure> {
    if record.policy.is_set() {
        return sets::place_of_file(library, &record.name);
    }
    let name = &record.name;
    folders.place(library.path_for(name, output), || library.open_place(name, output))
}

/// As [`Downloader::destination`], blocking.
pub(crate) fn destination(
    library: &Library,
    record: &VerifiedRecord,
    output: Option<&Path>,
    force: bool,
    folders: &mut FolderCache,
    stop: &CancellationToken,
) -> Result<Destination, Failure> {
    output.map_or(Ok(()), make_said_folder)?;
    library.settle_placing(&record.name)?;
    let place = place_in(folders, library, record, output)?;
    let refuse_too_large = || {
        let partial = place.partial_path(&library.data_dir, &record.name);
        if force { Ok(()) } else { refuse_too_large(place.path(), &partial, record.size) }
    };
    let held = library.catalogue.get(&record.name);
    if held.as_ref().is_some_and(|held| sets::makes_way(library, held, record, output)) {
        return refuse_too_large().map(|()| Destination::OtherKind);
    }
    if record.policy.is_set() {
        sets::check_place(library, &record.name, output, force)?;
    }
    let stamp = match place.stamp() {
        // Where files were dropped, their folders are left.
        Err(_) if output.is_none() => {
            place.remove_empty_folders();
            place.stamp()?
        }
        stamp => stamp?,
    };
    let known = held.as_ref().filter(|entry| entry.path == place.path());
    let unchanged = known.filter(|entry| Some(entry.stamp) == stamp);
    if unchanged.is_none_or(|entry| entry.record != *record) {
        refuse_too_large()?;
    }
    match unchanged {
        Some(entry) if entry.record == *record => Ok(Destination::UpToDate(place.path().to_owned())),
        Some(_) => Ok(Destination::Replaceable(stamp)), // an unchanged older copy
        None if force || stamp.is_none() || record.policy.is_set() => Ok(Destination::Replaceable(stamp)),
        None => {
            // Its time or its mode may have changed and its bytes not; or the name was downloaded to another place since.
            let is_copy = known.is_some();
            let known = held.iter().map(|entry| &entry.record).chain([record]);
            let same_size = known.filter(|known| stamp.is_some_and(|stamp| stamp.size() == known.size));
            match has_bytes_of(&place, same_size.collect(), stop)? {
                true => Ok(Destination::Replaceable(stamp)),
                false => {
                    let what = match is_copy {
                        true => "was changed here since it came",
                        false => "exists and is not a copy from here",
                    };
                    let message = format!("{} {what}: move it away", place.path().display());
                    Err(Failure::conflict(message).remedied(Remedy::Force))
                }
            }
        }
    }
}

/// Whether the file in `place` has the bytes of one of `records`; then all its chunks are reused.
fn has_bytes_of(
    place: &Place,
    records: Vec<&VerifiedRecord>,
    stop: &CancellationToken,
) -> Result<bool, Failure> {
    if records.is_empty() {
        return Ok(false);
    }
    let hash = hash_of(&mut place.open()?, stop).map_err(error_at(place.path()))?;
    let hash = hash.ok_or_else(|| stopped(place.path()))?;
    Ok(records.iter().any(|record| hash == record.content))
}
