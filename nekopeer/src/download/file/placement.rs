//! Moves complete files to their places and catalogues them, one or many at once.

use std::{
    collections::{HashMap, HashSet},
    iter::zip,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use nekoproto::{FileName, Manifest, VerifiedRecord};
use tokio_util::sync::CancellationToken;

use crate::{
    content::stamp::{Stamp, now_ns},
    download::plan::Landing,
    failure::Failure,
    storage::{
        catalogue::{Catalogue, Entry, StoredCopy, ToPlace},
        folder::OpenFolder,
        folder_away,
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
        many => Partial::sync_all(many.iter().map(|file| (&file.partial, file.copy.entry.stamp)))?,
    }
    let keep = |file: &Complete<'_>| match file.landing.replaceable {
        Some(_) => catalogue.keep_before(file.name(), file.manifest),
        None => Ok(false),
    };
    let kept: Vec<_> = files.iter().map(keep).collect();
    let wanted = zip(&files, &kept).filter(|(_, kept)| kept.is_ok());
    let placing = catalogue.place(wanted.map(|(file, _)| file.to_place()))?;
    let folders: HashMap<PathBuf, Arc<OpenFolder>> = files.iter().map(|file| file.partial.folder()).collect();
    let before = away(&folders);
    let moving = zip(files, kept).map(|(Complete { mut copy, partial, manifest, landing, .. }, kept)| {
        let keeps = kept?;
        placing.check(&copy.entry.record.name)?;
        refuse_away(&before, &copy.entry.path)?;
        let replaced =
            landing.replaceable.map(|_| catalogue.entry(&copy.entry.record.name)).transpose()?.flatten();
        let replaced = replaced.filter(|replaced| replaced.path == copy.entry.path);
        let was_executable = replaced.map_or(Ok(false), |replaced| catalogue.is_executable(&replaced))?;
        let is_executable = manifest.is_executable();
        let change = (is_executable != was_executable).then_some(is_executable);
        copy.entry.stamp = partial.move_in(landing.replaceable, change)?;
        Ok((copy, keeps))
    });
    let moved: Vec<Result<_, Failure>> = moving.collect();
    folders.keys().for_each(|folder| sync_folder(folder));
    let (after, mut copies) = (away(&folders), Vec::with_capacity(moved.len()));
    let there = moved.into_iter().map(|moved| {
        let (copy, keeps) = moved?;
        refuse_away(&after, &copy.entry.path)?;
        let entry = copy.entry.clone();
        copies.push(copy);
        Ok((entry, keeps))
    });
    let there: Vec<Result<_, Failure>> = there.collect();
    let mut stored = catalogue.put_copies(copies)?.into_iter();
    let ended = there.into_iter().map(|there| {
        let (entry, keeps) = there?;
        stored.next().unwrap_or(Ok(()))?; // one for each that was moved
        if keeps && let Err(error) = catalogue.trim_kept(&entry.record.name) {
            tracing::warn!(%error, "earlier versions are kept longer than wanted"); // until the next one
        }
        Ok(entry)
    });
    Ok(ended.collect())
}

/// Those whose path does not lead to them any more.
fn away(folders: &HashMap<PathBuf, Arc<OpenFolder>>) -> HashSet<&Path> {
    folders.iter().filter(|(_, folder)| !folder.is_there()).map(|(path, _)| path.as_path()).collect()
}

fn refuse_away(away: &HashSet<&Path>, path: &Path) -> Result<(), Failure> {
    if path.parent().is_some_and(|folder| away.contains(folder)) { Err(folder_away(path)) } else { Ok(()) }
}

pub(crate) fn copy_entry(
    record: VerifiedRecord,
    origin_addr: Option<SocketAddr>,
    stamp: Stamp,
    path: PathBuf,
) -> Entry {
    Entry { record, path, stamp, hashed_at_ns: now_ns(), newest: None, origin_addr }
}
