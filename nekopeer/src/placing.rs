//! Where a download may stand, and putting it there: nothing of a user's is ever overwritten unasked.

use std::{path::PathBuf, sync::Arc};

use nekoproto::{ContentHash, FileName, VerifiedRecord};

use crate::{
    DownloadError, DownloadOptions,
    assemble::{AssembleError, Assembly},
    catalogue::Entry,
    shared::Shared,
    stamp::{Stamp, now_ns},
    store::{Place, StoreError},
};

/// What stands in the place of a download.
#[derive(Debug)]
pub(crate) enum Standing {
    /// Exactly the version wanted.
    Wanted(PathBuf),
    /// Nothing, or a file that may be replaced: the one with this stamp and no other.
    Replaceable(Option<Stamp>),
}

/// The place for `name`: where the options say, else in the share folder.
pub(crate) async fn place_for(
    shared: &Arc<Shared>,
    name: &FileName,
    options: &DownloadOptions,
) -> Result<Place, StoreError> {
    let (output, name) = (options.output.clone(), name.clone());
    shared
        .blocking(move |shared| match output {
            Some(path) => Place::anywhere(&path),
            None => shared.share.place(&name),
        })
        .await
}

/// Looks at what stands in the place of `record`. A file that is neither an untouched copy of
/// ours nor has the same bytes is an error, unless it may be replaced.
pub(crate) async fn standing(
    shared: &Arc<Shared>,
    record: &VerifiedRecord,
    options: &DownloadOptions,
) -> Result<Standing, DownloadError> {
    let place = place_for(shared, &record.name, options).await?;
    let (record, force) = (record.clone(), options.force);
    shared
        .blocking(move |shared| {
            let stamp = place.stamp()?;
            let here = shared.catalogue.get(&record.name);
            let here = here.filter(|entry| entry.path == place.path() && Some(entry.stamp) == stamp);
            match here {
                Some(entry) if entry.record == record => Ok(Standing::Wanted(place.path().to_owned())),
                Some(_) => Ok(Standing::Replaceable(stamp)), // an untouched older copy
                None if force || !place.is_taken()? => Ok(Standing::Replaceable(stamp)),
                None if stamp.is_some() && is_ours(shared, &place, &record)? => {
                    Ok(Standing::Replaceable(stamp))
                }
                None => Err(DownloadError::Exists(place.path().to_owned())),
            }
        })
        .await
}

/// Whether the uncatalogued file in `place` has the wanted bytes (then all its chunks are taken
/// from it), or is a download of ours that was interrupted between its renaming and its entry
/// into the catalogue: its partial is still noted, and was named after these bytes.
fn is_ours(shared: &Shared, place: &Place, record: &VerifiedRecord) -> Result<bool, DownloadError> {
    let mut whole = blake3::Hasher::new();
    let hashed = whole.update_reader(place.open()?).map(|_| ());
    hashed.map_err(|source| StoreError::Io { path: place.path().to_owned(), source })?;
    let content = ContentHash::from_bytes(*whole.finalize().as_bytes());
    let noted = shared.catalogue.partial(&record.name)?;
    Ok(content == record.content || noted.is_some_and(|noted| noted == place.partial_path(&content)))
}

/// Checks the complete file, puts it in its place and enters it into the catalogue. What stood
/// there must still have the stamp `replaceable`.
///
/// # Cancel safety
/// Safe: once begun it goes on to its end.
pub(crate) async fn put_in_place(
    shared: &Arc<Shared>,
    assembly: Assembly,
    entry: impl FnOnce(Stamp, PathBuf) -> Entry + Send + 'static,
    record: VerifiedRecord,
    manifest: Vec<u8>,
    replaceable: Option<Stamp>,
) -> Result<Entry, DownloadError> {
    shared
        .blocking(move |shared| {
            shared.catalogue.may_hold(&record)?;
            let (stamp, path) = assembly.finish(&record, replaceable).map_err(|error| match error {
                AssembleError::WrongContent => DownloadError::OriginLies(record.name.clone()),
                AssembleError::Store(error) => error.into(),
            })?;
            let entry = entry(stamp, path);
            shared.catalogue.put_copy(entry.clone(), &manifest)?;
            shared.catalogue.note_partial(&record.name, None)?;
            Ok(entry)
        })
        .await
}

/// The entry of a fresh copy.
pub(crate) fn copy_entry(
    record: VerifiedRecord,
    origin_addr: Option<std::net::SocketAddr>,
) -> impl FnOnce(Stamp, PathBuf) -> Entry + Send + 'static {
    move |stamp, path| Entry { record, path, stamp, hashed_at_ns: now_ns(), newest: None, origin_addr }
}
