//! Where a download may stand, and putting it there: nothing of a user's is ever overwritten unasked.

use std::{
    collections::{HashMap, hash_map::Entry},
    path::{Path, PathBuf},
    sync::Arc,
};

use nekoproto::{ContentHash, FileName, VerifiedRecord};

use crate::{
    DownloadError, DownloadOptions,
    assemble::{AssembleError, Assembly},
    catalogue,
    shared::Shared,
    stamp::{Stamp, now_ns},
    store::{Place, StoreError, folded},
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
/// ours nor has the same bytes is an error, unless it may be replaced; so is, in the share folder, one
/// whose name other file systems take for the same.
pub(crate) async fn standing(
    shared: &Arc<Shared>,
    record: &VerifiedRecord,
    options: &DownloadOptions,
) -> Result<Standing, DownloadError> {
    if options.output.is_none() && !options.force {
        refuse_look_alike(shared, &record.name).await?; // before the folders of the place are made
    }
    let (record, options) = (record.clone(), options.clone());
    shared.blocking(move |shared| standing_at(shared, &record, &options)).await
}

/// As [`standing`], blocking; names that look alike are not looked for.
pub(crate) fn standing_at(
    shared: &Shared,
    record: &VerifiedRecord,
    options: &DownloadOptions,
) -> Result<Standing, DownloadError> {
    let place = match &options.output {
        Some(path) => Place::anywhere(path)?,
        None => shared.share.place(&record.name)?,
    };
    let stamp = place.stamp()?;
    let here = shared.catalogue.get(&record.name);
    let here = here.filter(|entry| entry.path == place.path() && Some(entry.stamp) == stamp);
    match here {
        Some(entry) if entry.record == *record => Ok(Standing::Wanted(place.path().to_owned())),
        Some(_) => Ok(Standing::Replaceable(stamp)), // an untouched older copy
        None if options.force || !place.is_taken()? => Ok(Standing::Replaceable(stamp)),
        None if stamp.is_some() && is_ours(shared, &place, record)? => Ok(Standing::Replaceable(stamp)),
        None => Err(DownloadError::Exists(place.path().to_owned())),
    }
}

/// Which names of many look like one that is there, or like another of them: each folder is read once.
#[derive(Debug, Default)]
pub(crate) struct LookAlikes {
    /// Of each folder, relative to the share folder: its entries by what file systems may take them for.
    folders: HashMap<PathBuf, HashMap<String, PathBuf>>,
}

impl LookAlikes {
    /// Refuses `name` if it looks like another, and takes note of it otherwise. Blocking.
    pub(crate) fn refuse(
        &mut self,
        shared: &Shared,
        name: &FileName,
        options: &DownloadOptions,
    ) -> Result<(), DownloadError> {
        if options.force || options.output.is_some() {
            return Ok(());
        }
        let path = name.as_path();
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        if !self.folders.contains_key(&folder) {
            if let Some(existing) = shared.share.look_alike(name)? {
                return Err(DownloadError::Collides { name: name.clone(), existing });
            }
            let entries = shared.share.entries_by_look(&folder)?;
            self.folders.insert(folder.clone(), entries);
        }
        let Some(own) = path.file_name().map(PathBuf::from) else { return Ok(()) };
        let Some(entries) = self.folders.get_mut(&folder) else { return Ok(()) };
        match entries.entry(folded(&own.to_string_lossy())) {
            Entry::Occupied(known) if *known.get() != own => {
                let existing = shared.share.root().join(folder).join(known.get());
                Err(DownloadError::Collides { name: name.clone(), existing })
            }
            Entry::Occupied(_) => Ok(()),
            Entry::Vacant(free) => {
                free.insert(own);
                Ok(())
            }
        }
    }
}

async fn refuse_look_alike(shared: &Arc<Shared>, name: &FileName) -> Result<(), DownloadError> {
    let name = name.clone();
    shared
        .blocking(move |shared| match shared.share.look_alike(&name)? {
            Some(existing) => Err(DownloadError::Collides { name, existing }),
            None => Ok(()),
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
/// there must still have the stamp `replaceable`. A file that is damaged comes back, to be mended.
///
/// # Cancel safety
/// Safe: once begun it goes on to its end.
pub(crate) async fn put_in_place(
    shared: &Arc<Shared>,
    assembly: Assembly,
    entry: impl FnOnce(Stamp, PathBuf) -> catalogue::Entry + Send + 'static,
    record: VerifiedRecord,
    manifest: Vec<u8>,
    replaceable: Option<Stamp>,
) -> Result<Result<catalogue::Entry, Box<Assembly>>, DownloadError> {
    shared
        .blocking(move |shared| {
            shared.catalogue.may_hold(&record)?;
            let (stamp, path, outline) = match assembly.finish(&record, replaceable) {
                Ok(finished) => finished,
                Err(AssembleError::Damaged(assembly, _)) => return Ok(Err(assembly)),
                Err(AssembleError::WrongContent) => {
                    return Err(DownloadError::OriginLies(record.name.clone()));
                }
                Err(AssembleError::Store(error)) => return Err(error.into()),
            };
            let entry = entry(stamp, path);
            shared.catalogue.put_copy(catalogue::Copy { entry: entry.clone(), manifest, outline })?;
            Ok(Ok(entry))
        })
        .await
}

/// The entry of a fresh copy.
pub(crate) fn copy_entry(
    record: VerifiedRecord,
    origin_addr: Option<std::net::SocketAddr>,
) -> impl FnOnce(Stamp, PathBuf) -> catalogue::Entry + Send + 'static {
    move |stamp, path| catalogue::Entry {
        record,
        path,
        stamp,
        hashed_at_ns: now_ns(),
        newest: None,
        origin_addr,
    }
}
