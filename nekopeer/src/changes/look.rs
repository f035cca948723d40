//! Looks at files: at one, and at all of some trees, compared with what is published. All of it blocks.

use std::{
    collections::{HashMap, HashSet},
    fs::symlink_metadata,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use nekoproto::FileName;

use crate::{
    content::stamp::{Looker, Stamp, is_missing},
    failure::Failure,
    library::Library,
    publish::{
        PublishError, PublishOutcome, bad_name,
        listing::{NamedFile, list_tree},
        same_name,
        tree::PublishedTree,
    },
    rules::Ignores,
    sets,
    state::changes::Look,
};

#[derive(Debug, PartialEq, Eq)]
pub(super) enum At {
    /// A file that may be published, or the place of one that is.
    Look(Look<Stamp>),
    /// A folder, or the place of one whose files are published: a rescan shows what became of these.
    Folder,
    /// Nothing that is to be published or withdrawn.
    Other,
}

#[derive(Debug, Default)]
pub(super) struct Scan {
    pub(super) changed: Vec<(PathBuf, Stamp)>,
    pub(super) missing: Vec<PathBuf>,
    pub(super) failed: Vec<(PathBuf, PublishError)>,
}

/// The names that the file at `path` has in these trees, each once.
pub(super) fn names_of(trees: &[PublishedTree], path: &Path) -> Vec<FileName> {
    let mut names: Vec<FileName> = trees.iter().filter_map(|tree| tree.name_of(path)?.ok()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

pub(super) fn look(library: &Library, trees: &[PublishedTree], path: &Path) -> At {
    let names = names_of(trees, path);
    if names.iter().any(|name| library.is_in_use(name)) {
        return At::Look(Look::Busy);
    }
    let is_published = || names.iter().any(|name| is_published(library, name, path));
    let has_below = |name| library.catalogue.names_below(name, 1).map_or(true, |below| !below.is_empty());
    match symlink_metadata(path) {
        Ok(found) if found.is_file() => At::Look(Look::File(Stamp::of(&found))),
        // The file was replaced by a folder.
        Ok(found) if found.is_dir() && is_published() => At::Look(Look::Missing),
        Ok(found) if found.is_dir() => At::Folder,
        Err(error) if is_missing(&error) && is_published() => At::Look(Look::Missing),
        Err(error) if is_missing(&error) && names.iter().any(has_below) => At::Folder,
        Ok(_) | Err(_) => At::Other,
    }
}

/// What is at `path`, which is in a set with these files as it was published last: what was never in it is not missed.
pub(super) fn look_in_set(files: &HashMap<PathBuf, Stamp>, path: &Path) -> At {
    match symlink_metadata(path) {
        Ok(found) if found.is_dir() => At::Folder,
        Ok(found) => At::Look(Look::File(Stamp::of(&found))),
        Err(_) if files.contains_key(path) => At::Look(Look::Missing),
        Err(_) => At::Other,
    }
}

fn is_published(library: &Library, name: &FileName, path: &Path) -> bool {
    let entry = library.catalogue.get(name);
    entry.is_some_and(|entry| library.catalogue.is_own(&entry) && entry.path == path)
}

/// The names under which the file at `path`, which is gone, is still published.
pub(super) fn to_withdraw(library: &Library, trees: &[PublishedTree], path: &Path) -> Vec<FileName> {
    let is_removed = |name: &FileName| {
        let entry = library.catalogue.get(name).filter(|_| is_published(library, name, path));
        entry.is_some_and(|entry| entry.stamp.is_removed_from(path))
    };
    let mut names = names_of(trees, path);
    names.retain(is_removed);
    names
}

/// The file at `path` under each of its names, but where the rules skip it.
pub(super) fn to_publish(
    library: &Library,
    trees: &[PublishedTree],
    path: &Path,
    stamp: Stamp,
    ignores: &mut Ignores,
) -> Vec<Result<(NamedFile, Stamp), PublishError>> {
    // The part of a copy, as the folder of a set is, is nothing to publish.
    let copies = sets::folders_of_copies(library).unwrap_or_default();
    let is_part = |tree: &PublishedTree, folder: &Path| path.starts_with(folder) && folder != tree.root();
    let mut named = |tree: &PublishedTree| {
        if copies.iter().any(|(_, folder)| is_part(tree, folder)) {
            return None;
        }
        let name = tree.name_of(path)?.map_err(|error| bad_name(path, &error));
        match tree.filter.skips(path, false, ignores) {
            Ok(Some(_)) => return None,
            Ok(None) => {}
            Err(error) => return Some(Err(error.into())),
        }
        Some(name.and_then(|name| {
            let other = library.catalogue.get(&name).filter(|entry| entry.path != path);
            let is_theirs = |first: &Path| names_of(trees, first).contains(&name) && first.exists();
            match other.filter(|entry| library.catalogue.is_own(entry) && is_theirs(&entry.path)) {
                Some(entry) => Err(same_name(&name, &entry.path, path)),
                None => Ok((NamedFile { name, path: path.to_owned(), size: stamp.size() }, stamp)),
            }
        }))
    };
    let mut seen = HashSet::new();
    let mut files: Vec<_> = trees.iter().filter_map(&mut named).collect();
    files.retain(|file| file.as_ref().map_or(true, |(file, _)| seen.insert(file.name.clone())));
    files
}

/// Compares what is in these trees with what is published. A file is missing only if the file system that it was on is there:
/// that of the tree, or one on which another file is as it was published.
pub(super) fn scan(library: &Library, trees: &[PublishedTree]) -> Result<Scan, Failure> {
    let (mut scan, mut looker) = (Scan::default(), Looker::default());
    // The file systems that the files were on: the number of one that is not mounted is given to the next.
    let mut there = HashSet::new();
    for tree in trees {
        there.extend(symlink_metadata(tree.root()).map(|root| root.dev()));
        let (mut listed, mut outcome) = (Vec::new(), PublishOutcome::default());
        if list_tree(library, tree, &mut listed, &mut outcome).is_err() {
            continue; // a file that is gone is found below
        }
        scan.failed.extend(outcome.failed);
        for file in listed {
            if library.tasks.stop.is_cancelled() {
                return Ok(Scan::default());
            }
            let file = file.named();
            let Ok(stamp) = looker.stamp(&file.path) else { continue };
            let entry = library.catalogue.get_stated(&file.name);
            if entry.as_ref().is_some_and(|entry| entry.is_unshared()) {
                continue;
            }
            let is_known = entry.is_some_and(|entry| entry.path == file.path && entry.stamp == stamp);
            if is_known {
                there.insert(stamp.device);
            } else if !library.is_in_use(&file.name) {
                scan.changed.push((file.path, stamp));
            }
        }
    }
    for page in library.catalogue.pages() {
        for entry in page?.into_iter().flatten().filter(|entry| library.catalogue.is_own(entry)) {
            let is_theirs = names_of(trees, &entry.path).contains(&entry.record.name);
            let is_there = there.contains(&entry.stamp.device);
            if is_theirs && is_there && entry.stamp.is_removed_from(&entry.path) {
                scan.missing.push(entry.path);
            }
        }
    }
    Ok(scan)
}
