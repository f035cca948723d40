//! What stands in the place of a set's folder, and whether it may be replaced: not what somebody else put or changed there.

use std::{collections::HashSet, fs, path::Path};

use nekoproto::FileName;
use tokio_util::sync::CancellationToken;
use walkdir::WalkDir;

use super::{error::SetError, fold::is_executable_at};
use crate::{
    content::{
        stamp::{Looker, open_file},
        whole::hash_of,
    },
    library::Library,
    storage::{
        catalogue::{Entry, Tree},
        place::Place,
        tree::FolderId,
    },
};

/// Where the folder of a set may stand.
pub(super) struct Standing {
    pub(super) place: Place,
    /// The folder that is there.
    pub(super) there: Option<FolderId>,
    /// Which version that is.
    pub(super) tree: Option<Tree>,
}

/// What is in the place of the set `name`, which is `output` or below the share folder. Blocking.
pub(super) fn standing(
    library: &Library,
    name: &FileName,
    output: Option<&Path>,
    force: bool,
) -> Result<Standing, SetError> {
    let place = match output {
        Some(path) => Place::anywhere(path)?,
        None => library.share.place(name)?,
    };
    let place = place.outside(&library.data_dir)?;
    let there = place.folder_id()?;
    let known = library.catalogue.trees(name)?.filter(|trees| trees.path() == place.path());
    let tree = there.and_then(|there| known?.of(there).cloned());
    match (&there, &tree) {
        (Some(_), None) if !force => return Err(SetError::Exists(place.path().to_owned())),
        (Some(_), Some(tree)) if !force => unchanged(place.path(), tree, &library.tasks.stop)?,
        _ => {}
    }
    Ok(Standing { place, there, tree })
}

/// Whether the set `name` may be unfolded to `output`, or below the share folder. Blocking.
pub(crate) fn check_place(
    library: &Library,
    name: &FileName,
    output: Option<&Path>,
    force: bool,
) -> Result<(), SetError> {
    standing(library, name, output, force).map(drop)
}

/// Whether the folder at `path` has the files of `tree`, with their executable bits, and nothing else.
pub(super) fn unchanged(path: &Path, tree: &Tree, stop: &CancellationToken) -> Result<(), SetError> {
    let mut looker = Looker::default();
    for file in &tree.files {
        let at = path.join(file.path.as_path());
        let changed = || SetError::Changed(at.clone());
        let stamp = looker.stamp(&at).map_err(|_| changed())?;
        if stamp != file.stamp
            && !is_executable_at(&at).is_ok_and(|is_executable| is_executable == file.is_executable)
        {
            return Err(changed());
        }
        if !file.stamp.is_moved_to(&stamp) {
            // Its time may have changed and its bytes not.
            let same_size = Some(at.as_path()).filter(|_| stamp.size() == file.stamp.size());
            let hash = same_size.and_then(|at| hash_of(&mut open_file(at).ok()?, stop).ok().flatten());
            hash.filter(|hash| *hash == file.content).ok_or_else(changed)?;
        }
    }
    let folders: HashSet<&Path> =
        tree.files.iter().flat_map(|file| file.path.as_path().ancestors().skip(1)).collect();
    for found in WalkDir::new(path) {
        let found = found.map_err(|error| SetError::Changed(error.path().unwrap_or(path).to_owned()))?;
        let relative = found.path().strip_prefix(path).unwrap_or(path);
        let is_known = match found.file_type().is_dir() {
            true => folders.contains(relative),
            false => FileName::from_path(relative).is_ok_and(|name| tree.file(&name).is_some()),
        };
        if !is_known {
            return Err(SetError::Changed(found.into_path()));
        }
    }
    Ok(())
}

/// Whether the folder of `entry`, a copy of a set, if nobody changed it; whether it is gone. Blocking.
pub(crate) fn remove_folder(library: &Library, entry: &Entry) -> bool {
    let Ok(Some(trees)) = library.catalogue.trees(&entry.record.name) else { return true };
    let path = trees.path();
    let Ok(there) = FolderId::of(path) else { return true };
    let is_unchanged = trees.of(there).is_some_and(|tree| unchanged(path, tree, &library.tasks.stop).is_ok());
    is_unchanged && fs::remove_dir_all(path).is_ok()
}
