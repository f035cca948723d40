//! Sets: folders that are published as one version each.
//!
//! A set is one file in the data folder, published, moved, kept and checked as any other; [`index`] says what is in it. Where
//! it is held, its files are also in a folder in its place, which changes to the next version at once: the new folder is
//! made beside and exchanged with the old one, which stays elsewhere for a while, for whoever has it open.

mod error;
mod fold;
mod index;
mod other_kind;
mod replaced;
mod stage;
mod standing;
mod unfold;

use std::{
    collections::HashSet,
    fs::{self, File, TryLockError},
    io::{self, BufWriter, IntoInnerError},
    path::{Path, PathBuf},
    sync::Arc,
    thread::sleep,
    time::Duration,
};

use nekoproto::{FileName, private_folder};
use tempfile::NamedTempFile;
use tokio_util::sync::CancellationToken;

pub(crate) use self::{
    error::is_folder,
    fold::{Fingerprint, fingerprint},
    other_kind::{makes_way, put_where_other_kind_was},
    standing::{check_place, remove_folder},
};
use self::{
    error::{not_read, not_written},
    index::Index,
    replaced::Replaced,
    stage::{OLD_KEPT, Stage, remove_stages},
    standing::{Standing, is_file, standing},
};
use crate::{
    content::stamp::{Looker, Stamp, open_file},
    failure::Failure,
    library::Library,
    rules::{Filter, Skipped},
    storage::{
        DIGITS,
        catalogue::{Entry, Tree, Trees},
        digits, error_at,
        file_id::FileId,
        flock::is_unknown,
        place::{Place, sync_folder},
    },
    util::progress::Progress,
};

const FILES: &str = "sets";
/// Attempts at a folder that changes while it is read, and the pause before the next.
const TRIES: u32 = 5;
/// Publishing what was read takes less.
const KEPT_UNLOCKED: Duration = Duration::from_secs(3600);
const RETRY_AFTER: Duration = Duration::from_millis(200);
/// What the name of a file that is not complete begins with.
const TEMPORARY: &str = "making-";
fn files(library: &Library) -> Result<PathBuf, Failure> {
    let folder = library.data_dir.join(FILES);
    private_folder(&folder).map_err(|error| error_at(&folder)(io::Error::other(error)))?;
    Ok(folder)
}

/// The place of the one file of a set that is held. Blocking.
pub(crate) fn place_of_file(library: &Library, name: &FileName) -> Result<Place, Failure> {
    Place::anywhere(&files(library)?.join(digits(name)))
}

#[derive(Debug)]
pub(crate) struct Folded {
    pub(crate) path: PathBuf,
    /// Nobody removes it until this is closed.
    pub(crate) file: File,
    /// What of the folder is not in it.
    pub(crate) skipped: Vec<Skipped>,
}

/// Makes the one file of a set of the filter's folder, without what that skips, to be published as `name`. The one that is
/// published stays. Blocking.
pub(crate) fn fold(
    library: &Library,
    name: &FileName,
    filter: &Filter,
    progress: &Progress,
    stop: &CancellationToken,
) -> Result<Folded, Failure> {
    let files = files(library)?;
    for attempt in 0..TRIES {
        if attempt > 0 {
            sleep(RETRY_AFTER);
        }
        let mut out = BufWriter::new(NamedTempFile::with_prefix_in(TEMPORARY, &files).map_err(not_written)?);
        let Some((index, skipped)) = fold::fold(filter, &mut out, progress, stop)? else { continue };
        // The index has the hash of each file: what has the same is the same.
        let path = files.join(format!("{}-{}", digits(name), index.digits()?));
        if let Some(there) = published(library, name, &path)? {
            return Ok(Folded { path, file: there, skipped });
        }
        let file = out.into_inner().map_err(IntoInnerError::into_error).map_err(not_written)?;
        file.as_file().sync_all().and_then(|()| keep_there(file.as_file())).map_err(not_written)?;
        let file = file.persist(&path).map_err(|error| not_written(error.error))?;
        sync_folder(&files);
        return Ok(Folded { path, file, skipped });
    }
    let help = "share the folder when nothing is writing there";
    Err(Failure::new(format!("{} keeps changing: {help}", filter.root.display())))
}

/// Has nobody remove `file` until it is closed; where no file can be locked, for [`KEPT_UNLOCKED`].
fn keep_there(file: &File) -> io::Result<()> {
    file.lock_shared().or_else(|error| if is_unknown(&error) { Ok(()) } else { Err(error) })
}

/// Whether somebody may have [kept](keep_there) it.
fn is_kept_there(file: &File) -> bool {
    match file.try_lock() {
        Err(TryLockError::Error(error)) if is_unknown(&error) => {
            let changed = file.metadata().and_then(|metadata| metadata.modified());
            changed.is_ok_and(|at| at.elapsed().is_ok_and(|age| age < KEPT_UNLOCKED))
        }
        locked => locked.is_err(),
    }
}

/// The file at `path`, which nobody removes until it is closed, if that is published as `name`, unchanged.
fn published(library: &Library, name: &FileName, path: &Path) -> Result<Option<File>, Failure> {
    let Ok(file) = File::open(path) else { return Ok(None) };
    keep_there(&file).map_err(not_read)?;
    let entry = library.catalogue.entry(name)?.filter(|entry| entry.path == path);
    let is_it = entry.is_some_and(|entry| Looker::default().stamp(path).ok() == Some(entry.stamp));
    Ok(is_it.then_some(file))
}

/// Notes that what is published as `name` is `folder`, if it is, and removes the files of its other versions. Blocking.
pub(crate) fn note_published(library: &Library, name: &FileName, folder: &Path) -> Result<(), Failure> {
    let _replacing = library.catalogue.replacing(name);
    let own = library.catalogue.entry(name)?.filter(|entry| library.catalogue.is_own(entry));
    if own.is_some_and(|own| own.record.policy.is_set()) {
        library.catalogue.set_trees(name, Some(&Trees { path: folder.to_owned(), trees: Vec::new() }))?;
    }
    remove_files(library, name);
    Ok(())
}

/// What was published or held as `names` is not any more: removes the files of those that are no sets again. Their folders
/// stay. Blocking.
pub(crate) fn forget(library: &Library, names: &[FileName]) {
    let in_use: HashSet<String> = [FILES, stage::STAGES]
        .iter()
        .flat_map(|folder| fs::read_dir(library.data_dir.join(folder)).into_iter().flatten().flatten())
        .filter_map(|entry| Some(entry.file_name().to_str()?.get(..DIGITS)?.to_owned()))
        .collect();
    let has_trees = |name| library.catalogue.place_of_trees(name).is_ok_and(|place| place.is_some());
    names.iter().filter(|name| in_use.contains(&digits(name)) || has_trees(name)).for_each(|name| {
        forget_one(library, name);
    });
}

fn forget_one(library: &Library, name: &FileName) {
    let _replacing = library.catalogue.replacing(name);
    let Ok(entry) = library.catalogue.entry(name) else { return };
    if entry.is_some_and(|entry| entry.record.policy.is_set()) {
        return;
    }
    remove_files(library, name);
    remove_stages(library, name);
    if let Err(error) = library.catalogue.set_trees(name, None) {
        tracing::warn!(%name, %error, "it stays noted where a set was unfolded"); // until the name is a set again
    }
}

/// Removes the files of `name` that are neither in the catalogue nor about to be published.
fn remove_files(library: &Library, name: &FileName) {
    let (prefix, folder) = (digits(name), library.data_dir.join(FILES));
    for file in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = file.path();
        let is_its = file.file_name().as_encoded_bytes().starts_with(prefix.as_bytes());
        let Some(locked) = File::open(&path).ok().filter(|file| is_its && !is_kept_there(file)) else {
            continue;
        };
        // Whoever published it unlocked it after that.
        if library.catalogue.entry(name).is_ok_and(|entry| entry.is_none_or(|entry| entry.path != path)) {
            drop(fs::remove_file(path)); // or the next time
        }
        drop(locked);
    }
}

/// Brings the folder of the set `name` to the version that is held; returns its path, and whether it was not there already. The
/// name has to be reserved.
///
/// # Cancel safety
/// Safe: once started it runs to its end.
pub(crate) async fn bring_to_place(
    library: &Arc<Library>,
    name: &FileName,
    output: Option<PathBuf>,
    force: bool,
    stop: &CancellationToken,
) -> Result<(PathBuf, bool), Failure> {
    let (name, stop) = (name.clone(), stop.clone());
    let unfold = move |library: &Arc<Library>| unfold(library, &name, output.as_deref(), force, &stop);
    let (path, is_changed) = library.blocking(unfold).await?;
    if is_changed {
        sweep_later(library);
    }
    Ok((path, is_changed))
}

/// Removes the folders that were replaced by now, once whoever has one open had time to read it.
pub(crate) fn sweep_later(library: &Arc<Library>) {
    let owner = Arc::clone(library);
    library.tasks.spawn_until_stop(async move {
        tokio::time::sleep(OLD_KEPT).await;
        owner.blocking(|library| sweep_replaced(library)).await;
    });
}

/// As [`bring_to_place`]; whether the folder was not there before. Blocking.
fn unfold(
    library: &Library,
    name: &FileName,
    output: Option<&Path>,
    force: bool,
    stop: &CancellationToken,
) -> Result<(PathBuf, bool), Failure> {
    let damaged = || {
        let what = "the set's file in the data folder was changed or is missing";
        Failure::new(format!("{what}: get {name} again"))
    };
    let _replacing = library.catalogue.replacing(name); // one that was dropped may still end
    let entry = library.catalogue.entry(name)?.ok_or_else(damaged)?;
    let Standing { place, there, tree, is_whole } = standing(library, name, output, force)?;
    let path = place.path().to_owned();
    if is_whole && tree.as_ref().is_some_and(|tree| tree.content == entry.record.content) {
        return Ok((path, false));
    }
    let file = open_file(&entry.path).map_err(|_| damaged())?;
    if Stamp::of(&file.metadata().map_err(not_read)?) != entry.stamp {
        return Err(damaged());
    }
    let index = Index::read(&file, entry.record.size)?;
    let stage = Stage::of(library, name, &place);
    let new = stage.new_folder()?;
    let put = || {
        let before = tree.as_ref().map(|tree| (path.as_path(), tree));
        let files = unfold::unfold(&file, &index, &new, before, stop)?;
        let made = Tree { content: entry.record.content, folder: FileId::of(&new)?, files };
        let replaced = tree.clone().map(|tree| Replaced { place: path.clone(), tree, forced: force });
        stage.exchange(made.folder, replaced.as_ref())?;
        // Noted before it is there, so that it is known whose it is whenever the process ends.
        let trees = Trees { path: path.clone(), trees: tree.iter().cloned().chain([made]).collect() };
        library.catalogue.set_trees(name, Some(&trees))?;
        if force && is_file(&path) {
            fs::remove_file(&path).map_err(error_at(&path))?;
        }
        place.put_folder(&new, there)
    };
    let put = put();
    stage.end();
    stage.sweep();
    put.map(|()| (path, true))
}

/// Removes what a process had not completed or removed when it ended, and the files of names that are sets no more. To be called
/// before anything else uses the data folder. Blocking.
pub(crate) fn sweep(library: &Library) {
    let files = fs::read_dir(library.data_dir.join(FILES)).into_iter().flatten().flatten();
    for file in files.filter(|file| file.file_name().as_encoded_bytes().starts_with(TEMPORARY.as_bytes())) {
        drop(fs::remove_file(file.path())); // or the next start does
    }
    Stage::all(library).iter().for_each(Stage::end);
    sweep_replaced(library);
    let names = names(library);
    names.iter().filter_map(|name| library.catalogue.get(name)).for_each(|held| note_moved(library, &held));
    forget(library, &names);
}

/// Notes where the file of a set is, if the data folder was moved with all that is in it. Blocking.
fn note_moved(library: &Library, held: &Entry) {
    let moved = held.path.file_name().map(|name| library.data_dir.join(FILES).join(name));
    let is_it = |path: &PathBuf| *path != held.path && Looker::default().stamp(path).ok() == Some(held.stamp);
    if let Some(path) = moved.filter(is_it)
        && let Err(error) = library.catalogue.restamp(held, path, held.stamp, held.hashed_at_ns)
    {
        tracing::warn!(name = %held.record.name, %error, "the file of a set that was moved is not found");
    }
}

fn names(library: &Library) -> Vec<FileName> {
    library.catalogue.sets().unwrap_or_else(|error| {
        tracing::error!(%error, "the sets here are not looked at");
        Vec::new()
    })
}

/// Removes the replaced folders that nobody needs any more; whether any is left. Blocking.
fn sweep_replaced(library: &Library) -> bool {
    Stage::all(library).into_iter().fold(false, |is_left, stage| is_left | stage.sweep())
}

/// Brings each set that is held to its place, if a process ended before that. Blocking.
pub(crate) fn settle(library: &Arc<Library>) {
    for name in names(library) {
        let Some(held) = library.catalogue.get(&name).filter(|held| !is_in_place(library, held)) else {
            continue;
        };
        let Some(_reserved) = library.reserve(&name, &Arc::default()) else { continue }; // a download brings it there
        let (output, stop) = (output_of(library, &held), &library.tasks.stop);
        if let Err(error) = unfold(library, &name, output.as_deref(), false, stop) {
            tracing::warn!(%name, %error, "the folder of a set is not the version that is held");
        }
    }
}

/// Whether `held` is in its place: of a copy of a set the folder is of its version. Blocking.
pub(crate) fn is_in_place(library: &Library, held: &Entry) -> bool {
    if !held.record.policy.is_set() || library.catalogue.is_own(held) {
        return true;
    }
    let Ok(Some(trees)) = library.catalogue.trees(&held.record.name) else { return false };
    let tree = FileId::of(&trees.path).ok().and_then(|there| trees.of(there));
    tree.is_some_and(|tree| tree.content == held.record.content)
}

/// Whether the folder of `held`, a copy of a set, is of its version and nobody changed it. Each file is looked at. Blocking.
pub(crate) fn is_as_it_came(library: &Library, held: &Entry) -> Result<(), Failure> {
    let (name, output) = (&held.record.name, output_of(library, held));
    let standing = standing(library, name, output.as_deref(), false)?;
    let missing = || {
        format!("{} is missing, lacks a file, or is of another version", library.shown_path(held).display())
    };
    if standing.is_whole && is_in_place(library, held) { Ok(()) } else { Err(Failure::new(missing())) }
}

/// Where a copy is to be downloaded to so that it stays where it is; `None`: to its place in the share folder. Blocking.
pub(crate) fn output_of(library: &Library, entry: &Entry) -> Option<PathBuf> {
    Some(library.shown_path(entry)).filter(|path| *path != library.share.path_of(&entry.record.name))
}

/// The folders that sets of other origins were unfolded to, by name: their files are parts of copies. Blocking.
pub(crate) fn folders_of_copies(library: &Library) -> Result<Vec<(FileName, PathBuf)>, Failure> {
    let catalogue = &library.catalogue;
    let mut folders = Vec::new();
    for name in catalogue.sets()? {
        if catalogue.entry(&name)?.is_some_and(|entry| !catalogue.is_own(&entry)) {
            folders.extend(catalogue.place_of_trees(&name)?.map(|folder| (name, folder)));
        }
    }
    Ok(folders)
}

#[cfg(test)]
mod tests;
