//! Moves complete files to their places and catalogues them, one or many at once.

use std::{
    collections::HashSet,
    iter::zip,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use nekoproto::{FileName, Manifest, VerifiedRecord};
use tokio_util::sync::CancellationToken;

use crate::{
    content::stamp::{Stamp, now_ns},
    download::plan::Landing,
    failure::Failure,
    storage::{
        catalogue::{Catalogue, Entry, StoredCopy, ToPlace},
        partial::Partial,
        place::sync_folder,
    },
};

/// A file that is complete and verified in its partial file, whose stamp its entry has.
pub(crate) struct Complete<'a> {
    pub(crate) copy: StoredCopy,
    pub(crate) partial: Partial,
    pub(crate) manifest: &'a Manifest,
    pub(crate) landing: &'a Landing,
    /// Cancelled if it is not wanted any more.
    pub(crate) stop: &'a CancellationToken,
}

impl Complete<'_> {
    fn name(&self) -> &FileName {
        &self.copy.entry.record.name
    }

    fn to_place(&self) -> ToPlace<'_> {
        ToPlace { copy: &self.copy, passed_over: self.landing.passed_over, stop: self.stop }
    }
}

/// Moves each file to its place, durably, and catalogues it; returns what became of each. The version that it replaces is
/// kept before if the reader wants that, and its file must still have the expected stamp. One transaction before the
/// moves marks the files as this peer's in case of a crash; one after them stores the entries. Blocking.
pub(crate) fn put_in_place(catalogue: &Catalogue, files: Vec<Complete<'_>>) -> Vec<Result<Entry, Failure>> {
    let names: Vec<FileName> = files.iter().map(|file| file.name().clone()).collect();
    place_all(catalogue, files).unwrap_or_else(|error| {
        if names.len() == 1 {
            return vec![Err(error)];
        }
        names.iter().map(|name| Err(error.for_one(name, "cannot be stored"))).collect()
    })
}

fn place_all(
    catalogue: &Catalogue,
    files: Vec<Complete<'_>>,
) -> Result<Vec<Result<Entry, Failure>>, Failure> {
    // Durable before they are noted as complete.
    match &files[..] {
        [one] => one.partial.sync()?,
        many => Partial::sync_all(many.iter().map(|file| &file.partial))?,
    }
    let keep = |file: &Complete<'_>| match file.landing.replaceable {
        Some(_) => catalogue.keep_before(file.name(), file.manifest),
        None => Ok(false),
    };
    let kept: Vec<_> = files.iter().map(keep).collect();
    let wanted = zip(&files, &kept).filter(|(_, kept)| kept.is_ok());
    let placing = catalogue.place(wanted.map(|(file, _)| file.to_place()))?;
    let (mut moved, mut copies, mut folders) = (Vec::new(), Vec::with_capacity(files.len()), HashSet::new());
    for (Complete { mut copy, partial, manifest, landing, .. }, kept) in zip(files, kept) {
        let place = |keeps| {
            placing.check(&copy.entry.record.name)?;
            let before = catalogue.entry(&copy.entry.record.name)?;
            let before = before.filter(|before| before.path == copy.entry.path);
            let was_executable = before.map_or(Ok(false), |before| catalogue.is_executable(&before))?;
            let is_executable = manifest.is_executable();
            let change = (is_executable != was_executable).then_some(is_executable);
            Ok((partial.rename(landing.replaceable, change)?, keeps))
        };
        moved.push(kept.and_then(place).map(|(stamp, keeps)| {
            copy.entry.stamp = stamp;
            folders.extend(copy.entry.path.parent().map(Path::to_owned));
            let entry = copy.entry.clone();
            copies.push(copy);
            (entry, keeps)
        }));
    }
    folders.iter().for_each(|folder| sync_folder(folder));
    let mut stored = catalogue.put_copies(copies)?.into_iter();
    let ended = moved.into_iter().map(|moved| {
        let (entry, keeps) = moved?;
        stored.next().unwrap_or(Ok(()))?; // one for each that was moved
        if keeps && let Err(error) = catalogue.trim_kept(&entry.record.name) {
            tracing::warn!(%error, "earlier versions are kept longer than wanted"); // until the next one
        }
        Ok(entry)
    });
    Ok(ended.collect())
}

pub(crate) fn copy_entry(
    record: VerifiedRecord,
    origin_addr: Option<SocketAddr>,
    stamp: Stamp,
    path: PathBuf,
) -> Entry {
    Entry { record, path, stamp, hashed_at_ns: now_ns(), newest: None, origin_addr }
}
