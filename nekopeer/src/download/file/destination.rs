//! Where a download may stand: nothing of a user's is overwritten unasked.

use std::{path::PathBuf, sync::Arc};

use nekoproto::{ContentHash, FileName, VerifiedRecord};

use super::look_alikes::refuse_look_alike;
use crate::{
    content::stamp::Stamp,
    download::{DownloadOptions, Downloader, error::DownloadError},
    library::Library,
    storage::{StoreError, place::Place},
};

/// What stands in the place of a download.
#[derive(Debug)]
pub(crate) enum Destination {
    /// Exactly the version wanted.
    UpToDate(PathBuf),
    /// Nothing, or a file that may be replaced: the one with this stamp and no other.
    Replaceable(Option<Stamp>),
}

impl Downloader {
    /// Looks at what stands in the place of `record`. A file that is neither an untouched copy of
    /// ours nor has the same bytes is an error, unless it may be replaced; so is, in the share folder, one
    /// whose name other file systems take for the same.
    pub(in crate::download) async fn destination(
        &self,
        record: &VerifiedRecord,
        options: &DownloadOptions,
    ) -> Result<Destination, DownloadError> {
        let (record, options) = (record.clone(), options.clone());
        let look = move |library: &Arc<Library>| {
            if options.output.is_none() && !options.force {
                refuse_look_alike(&library.share, &record.name)?; // before folders are made
            }
            destination(library, &record, &options)
        };
        self.library.blocking(look).await
    }
}

/// The place for `name`: where the options say, else in the share folder. Blocking.
pub(crate) fn place_for(
    library: &Library,
    name: &FileName,
    options: &DownloadOptions,
) -> Result<Place, StoreError> {
    match &options.output {
        Some(path) => Place::anywhere(path),
        None => library.share.place(name),
    }
}

/// As [`Downloader::destination`], blocking; names that look alike are not looked for.
pub(crate) fn destination(
    library: &Library,
    record: &VerifiedRecord,
    options: &DownloadOptions,
) -> Result<Destination, DownloadError> {
    let place = place_for(library, &record.name, options)?;
    let stamp = place.stamp()?;
    let here = library.catalogue.get(&record.name);
    let here = here.filter(|entry| entry.path == place.path() && Some(entry.stamp) == stamp);
    match here {
        Some(entry) if entry.record == *record => Ok(Destination::UpToDate(place.path().to_owned())),
        Some(_) => Ok(Destination::Replaceable(stamp)), // an untouched older copy
        None if options.force || !place.is_taken()? => Ok(Destination::Replaceable(stamp)),
        None if stamp.is_some() && is_ours(library, &place, record)? => Ok(Destination::Replaceable(stamp)),
        None => Err(DownloadError::Exists(place.path().to_owned())),
    }
}

/// Whether the uncatalogued file in `place` has the wanted bytes (then all its chunks are taken
/// from it), or is a download of ours that was interrupted between its renaming and its entry
/// into the catalogue: its partial is still noted, and was named after these bytes.
fn is_ours(library: &Library, place: &Place, record: &VerifiedRecord) -> Result<bool, DownloadError> {
    let mut whole = blake3::Hasher::new();
    let hashed = whole.update_reader(place.open()?).map(|_| ());
    hashed.map_err(|source| StoreError::Io { path: place.path().to_owned(), source })?;
    let content = ContentHash::from_bytes(*whole.finalize().as_bytes());
    let noted = library.catalogue.partial(&record.name)?;
    Ok(content == record.content || noted.is_some_and(|noted| noted == place.partial_path(&content)))
}
