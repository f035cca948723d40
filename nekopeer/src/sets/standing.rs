//! What stands in the place of a set's folder, and whether it may be replaced: not what somebody else put or changed there.

use std::{collections::HashSet, io::ErrorKind, path::Path};

use nekoproto::{FileName, Remedy};
use tokio_util::sync::CancellationToken;
use walkdir::WalkDir;

use super::{
    error::changed,
    replaced::{Replaced, is_of},
};
use crate::{
    content::stamp::Looker,
    failure::Failure,
    library::Library,
    storage::{
        catalogue::{Entry, Tree, Trees},
        file_id::FileId,
        place::Place,
    },
};

pub(super) struct Standing {
    pub(super) place: Place,
    pub(super) there: Option<FileId>,
    pub(super) tree: Option<Tree>,
    /// Whether no file of the tree is missing.
    pub(super) is_whole: bool,
}

/// What is in the place of the set `name`, which is `output` or below the share folder. Where the folder was moved, that is noted.
/// Blocking.
pub(super) fn standing(
    library: &Library,
    name: &FileName,
    output: Option<&Path>,
    force: bool,
) -> Result<Standing, Failure> {
    let place = library.open_place(name, output)?;
    let there = match place.folder_id() {
        Err(_) if force && is_file(place.path()) => None, // which is removed when the set takes its place
        there => there?,
    };
    // It may have been moved with all that is around it: nothing is where it was then.
    let is_of_place = |trees: &Trees| trees.path == place.path() || !trees.path.exists();
    let known = library.catalogue.trees(name)?.filter(is_of_place);
    let tree = there.and_then(|there| known.as_ref()?.of(there).cloned());
    if let Some(trees) = known.filter(|trees| tree.is_some() && trees.path != place.path()) {
        let path = place.path().to_owned();
        library.catalogue.set_trees(name, Some(&Trees { path, ..trees }))?;
    }
    let is_whole = match (&there, &tree) {
        (Some(_), None) if !force => {
            let message =
                format!("{} exists and is not a set from here: move it away", place.path().display());
            return Err(Failure::conflict(message).remedied(Remedy::Force));
        }
        (Some(_), Some(tree)) => match is_whole(place.path(), tree, &library.tasks.stop) {
            Err(_) if force => false,
            is_whole => is_whole?,
        },
        _ => false,
    };
    Ok(Standing { place, there, tree, is_whole })
}

/// Whether the set `name` may be unfolded to `output`, or below the share folder. Blocking.
pub(crate) fn check_place(
    library: &Library,
    name: &FileName,
    output: Option<&Path>,
    force: bool,
) -> Result<(), Failure> {
    standing(library, name, output, force).map(drop)
}

/// Whether the folder at `path` has all files of `tree`: one that is missing is no edit that could be lost. An error if it has
/// anything else.
pub(super) fn is_whole(path: &Path, tree: &Tree, stop: &CancellationToken) -> Result<bool, Failure> {
    let (mut looker, mut is_whole) = (Looker::default(), true);
    for file in &tree.files {
        let at = path.join(file.path.as_path());
        match is_of(&at, file, &mut looker, stop) {
            true => {}
            false if is_absent(&at) => is_whole = false,
            false => return Err(changed(&at)),
        }
    }
    let folders: HashSet<&Path> =
        tree.files.iter().flat_map(|file| file.path.as_path().ancestors().skip(1)).collect();
    for found in WalkDir::new(path) {
        let found = found.map_err(|error| changed(error.path().unwrap_or(path)))?;
        let relative = found.path().strip_prefix(path).unwrap_or(path);
        let is_known = match found.file_type().is_dir() {
            true => folders.contains(relative),
            false => FileName::from_path(relative).is_ok_and(|name| tree.file(&name).is_some()),
        };
        if !is_known {
            return Err(changed(found.path()));
        }
    }
    Ok(is_whole)
}

pub(super) fn is_file(at: &Path) -> bool {
    at.symlink_metadata().is_ok_and(|found| found.is_file())
}

fn is_absent(at: &Path) -> bool {
    at.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

/// Whether the folder of `entry`, a copy of a set, if nobody changed it; whether it is gone. Blocking.
pub(crate) fn remove_folder(library: &Library, entry: &Entry) -> bool {
    let Ok(trees) = library.catalogue.trees(&entry.record.name) else { return false };
    let Some(trees) = trees else { return true };
    let path = &trees.path;
    let Ok(there) = FileId::of(path) else { return trees.are_removed() };
    let Some(tree) = trees.of(there) else { return false };
    if is_whole(path, tree, &library.tasks.stop).is_err() {
        return false;
    }
    let replaced = Replaced { place: path.to_owned(), tree: tree.clone(), forced: false };
    replaced.remove(path); // what was put there just now stays
    true
}
