//! Lists the files to publish, and their names.

use std::{
    cmp::Ordering,
    collections::HashSet,
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use nekoproto::FileName;
use walkdir::DirEntry;

use super::{
    PublishOutcome,
    error::{PublishError, bad_name, same_name},
    tree::{Base, PublishedTree},
};
use crate::{
    failure::{Failure, FailureList},
    library::Library,
    rules::{
        Filter, Ignores, Rules, RulesError, SkipCause, Skipped,
        links::{Links, cause},
    },
    sets,
    storage::catalogue::ENTRIES_AT_ONCE,
};

#[derive(Debug)]
pub(crate) struct NamedFile {
    pub(crate) name: FileName,
    pub(crate) path: PathBuf,
    pub(crate) size: u64,
}

/// The same in few bytes, since there may be very many.
#[derive(Debug)]
pub(crate) struct Listed {
    name: FileName,
    at: At,
    pub(super) size: u64,
    /// The user names it, and not its folder: it is published even if its name was unshared.
    pub(super) is_named: bool,
}

#[derive(Debug)]
enum At {
    Path(Box<Path>),
    /// At the path that is its name, below this folder.
    Below(Arc<Path>),
}

impl Listed {
    pub(super) fn new(name: FileName, path: &Path, size: u64) -> Self {
        Self { name, at: At::Path(path.into()), size, is_named: true }
    }

    fn path(&self) -> PathBuf {
        match &self.at {
            At::Path(path) => path.to_path_buf(),
            At::Below(folder) => folder.join(self.name.as_path()),
        }
    }

    pub(crate) fn named(self) -> NamedFile {
        NamedFile { path: self.path(), name: self.name, size: self.size }
    }
}

/// The files at `paths`, including those in folders, by name; of folders those that the rules let be published, or all without
/// rules. What is skipped in a folder, or cannot be shared, goes to `outcome`.
pub(super) fn list_files(
    library: &Library,
    paths: Vec<PathBuf>,
    name: Option<&FileName>,
    rules: Option<&Rules>,
    outcome: &mut PublishOutcome,
) -> Result<Vec<Listed>, PublishError> {
    let (mut files, mut faults) = (Vec::new(), Vec::new());
    for path in paths {
        let tree = match PublishedTree::of(library, &path, name, rules) {
            Ok(tree) => tree,
            Err(error) => {
                faults.push(error);
                continue;
            }
        };
        if tree.is_excluded() {
            let is_folder = matches!(tree.base, Base::Folder(_));
            let is_published = is_published(library, &tree, tree.root(), is_folder);
            let (path, cause) = (tree.root().to_owned(), SkipCause::Excluded);
            outcome.skipped.push(Skipped { path, cause, is_folder, is_published });
            continue;
        }
        let before = files.len();
        list_tree(library, &tree, &mut files, outcome)?;
        outcome.missing.extend(missing(library, &tree, &files[before..]));
    }
    match faults.len() {
        0 => {}
        1 => return Err(faults.remove(0)),
        _ => {
            let mut all = FailureList::default();
            faults.iter().for_each(|fault| all.push(Failure::of(fault)));
            all.into_result()?;
        }
    }
    outcome.missing.sort_unstable();
    outcome.missing.dedup(); // a folder may have been named beside one above it
    each_once(&mut files)?;
    let mut failed = HashSet::new();
    outcome.failed.retain(|(path, _)| failed.insert(path.clone()));
    Ok(files)
}

/// The same, of one tree; a file may be listed twice.
pub(crate) fn list_tree(
    library: &Library,
    tree: &PublishedTree,
    files: &mut Vec<Listed>,
    outcome: &mut PublishOutcome,
) -> Result<(), PublishError> {
    let path = tree.root();
    match &tree.base {
        Base::Folder(prefix) => list_folder(library, tree, prefix, files, outcome)?,
        Base::File(name) => {
            let unreadable = |source| PublishError::Unreadable { path: path.to_owned(), source };
            let size = std::fs::metadata(path).map_err(unreadable)?.len();
            files.push(Listed::new(name.clone(), path, size));
        }
    }
    Ok(())
}

/// The names of files in the folder of the tree, and of one that was in its place, that are published and were removed; those that
/// are `listed` are there.
fn missing(library: &Library, tree: &PublishedTree, listed: &[Listed]) -> Vec<FileName> {
    let Base::Folder(prefix) = &tree.base else { return Vec::new() };
    let start = if prefix == Path::new("") { String::new() } else { format!("{}/", prefix.display()) };
    let (catalogue, listed) =
        (&library.catalogue, listed.iter().map(|file| &file.name).collect::<HashSet<_>>());
    let is_gone_from = |name: &FileName, path: Option<&Path>| {
        let entry = catalogue.get(name).filter(|entry| catalogue.is_own(entry));
        let entry = entry.filter(|entry| path == Some(&entry.path));
        entry.is_some_and(|entry| entry.stamp.is_removed_from(&entry.path))
    };
    let is_missing = |name: &FileName| is_gone_from(name, tree.path_of(name).as_deref());
    let before = FileName::from_path(prefix).ok().filter(|name| is_gone_from(name, Some(tree.root())));
    let (mut missing, mut last) = (Vec::from_iter(before), start.clone());
    while let Ok(mut names) = catalogue.names_after(&last, ENTRIES_AT_ONCE)
        && let Some(end) = names.last()
    {
        end.as_str().clone_into(&mut last);
        names.retain(|name| name.as_str().starts_with(&start) && !listed.contains(name) && is_missing(name));
        missing.extend(names);
        if !last.starts_with(&start) {
            break;
        }
    }
    missing
}

fn each_once(files: &mut Vec<Listed>) -> Result<(), PublishError> {
    let mut by_name: Vec<usize> = (0..files.len()).collect();
    // Stable: of a name the file that is named stays first, or the first one.
    by_name.sort_by_key(|file| (&files[*file].name, !files[*file].is_named));
    let mut again = HashSet::new();
    for same in by_name.chunk_by(|a, b| files[*a].name == files[*b].name) {
        for other in &same[1..] {
            let [first, second] = [same[0], *other].map(|file| files[file].path());
            if first != second {
                return Err(same_name(&files[*other].name, &first, &second));
            }
            again.insert(*other);
        }
    }
    let mut index = 0..;
    files.retain(|_| index.next().is_none_or(|index| !again.contains(&index)));
    Ok(())
}

/// Compares names of files; numbers in them count by their value and come before text.
fn in_order(a: &OsStr, b: &OsStr) -> Ordering {
    fn parts(name: &OsStr) -> impl Iterator<Item = (bool, usize, &[u8])> {
        let parts = name.as_bytes().chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit());
        parts.map(|part| match part[0] {
            b'0'..=b'9' => {
                let value = &part[part.iter().take_while(|digit| **digit == b'0').count()..];
                (false, value.len(), value)
            }
            _ => (true, 0, part),
        })
    }
    parts(a).cmp(parts(b)).then_with(|| a.cmp(b))
}

/// Lists the regular files below the folder of `tree` that its rules let be published, named by their paths within it below
/// `prefix`; links are followed if the rules say so. This peer's own data is left out, and so are the folders of sets that are copies, which
/// go to `outcome` with all else that is left out.
fn list_folder(
    library: &Library,
    tree: &PublishedTree,
    prefix: &Path,
    files: &mut Vec<Listed>,
    outcome: &mut PublishOutcome,
) -> Result<(), PublishError> {
    let (folder, filter) = (tree.root(), &tree.filter);
    let mut copies = sets::folders_of_copies(library)?;
    copies.retain(|(_, path)| path.starts_with(folder) && path != folder);
    // The prefix is the end of the folder's path, unless a link leads there.
    let base = Some(folder).filter(|folder| folder.ends_with(prefix));
    let base =
        base.and_then(|folder| folder.ancestors().nth(prefix.components().count())).map(Arc::<Path>::from);
    // Numbers in their order: whoever waits for the last of many finds all.
    let by_name = |a: &DirEntry, b: &DirEntry| in_order(a.file_name(), b.file_name());
    let mut ignores = Ignores::new();
    let (walk, mut links) = Links::walk(filter);
    let mut walk = walk.sort_by(by_name).into_iter();
    while let Some(found) = walk.next() {
        let entry = match found {
            Ok(entry) => entry,
            Err(error) => {
                match links.broken(&error).and(error.path()) {
                    Some(link) => outcome.skipped.push(skipped_link(link, false)),
                    None => outcome.failed.push(unreadable(folder, error)),
                }
                continue;
            }
        };
        let (path, is_folder) = (entry.path(), entry.file_type().is_dir());
        let is_left_out = match look(filter, &entry, &mut ignores) {
            Ok(Some(cause)) => {
                let is_published = is_published(library, tree, path, is_folder);
                outcome.skipped.push(Skipped { path: path.to_owned(), cause, is_folder, is_published });
                true
            }
            Ok(None) => filter.is_own(path) || copies.iter().any(|(_, copy)| path == copy),
            Err(error) => {
                outcome.failed.push((path.to_owned(), error.into()));
                true
            }
        };
        let target = links.target(&entry);
        if target.is_err() && !is_left_out {
            outcome.skipped.push(skipped_link(path, is_folder));
        }
        let is_left_out = is_left_out || target.is_err();
        if is_left_out && is_folder {
            walk.skip_current_dir();
        }
        if is_left_out || is_folder {
            continue;
        }
        let size = match entry.metadata() {
            Ok(metadata) => metadata.len(),
            Err(error) => {
                outcome.failed.push(unreadable(folder, error));
                continue;
            }
        };
        let relative = path.strip_prefix(folder).unwrap_or(path);
        match FileName::from_path(&prefix.join(relative)) {
            Ok(name) => {
                let at = match (target, &base) {
                    (Ok(None), Some(base)) => At::Below(Arc::clone(base)),
                    (target, _) => At::Path(target.ok().flatten().as_deref().unwrap_or(path).into()),
                };
                files.push(Listed { name, at, size, is_named: false });
            }
            Err(error) => outcome.failed.push((path.to_owned(), bad_name(path, &error))),
        }
    }
    outcome.copies.extend(copies.into_iter().map(|(name, _)| name));
    Ok(())
}

fn skipped_link(path: &Path, is_folder: bool) -> Skipped {
    Skipped { path: path.to_owned(), cause: SkipCause::Link, is_folder, is_published: false }
}

fn unreadable(folder: &Path, error: walkdir::Error) -> (PathBuf, PublishError) {
    let path = error.path().unwrap_or(folder).to_owned();
    (path.clone(), PublishError::Unreadable { path, source: cause(error) })
}

/// Why what was found is skipped, if it is; an error is about all that is in a folder.
fn look(filter: &Filter, entry: &DirEntry, ignores: &mut Ignores) -> Result<Option<SkipCause>, RulesError> {
    let (path, kind) = (entry.path(), entry.file_type());
    if entry.depth() > 0 && filter.is_own(path) {
        return Ok(filter.skips_own(path));
    }
    if let Some(cause) = filter.skips_in_folder(path, kind.is_dir(), ignores)? {
        return Ok(Some(cause));
    }
    if kind.is_dir() {
        return filter.enter(path, ignores).map(|()| None);
    }
    Ok(match kind.is_file() {
        true => None,
        false if kind.is_symlink() => Some(SkipCause::Link),
        false => Some(SkipCause::NotAFile),
    })
}

/// Whether something at `path`, or below it, is published.
fn is_published(library: &Library, tree: &PublishedTree, path: &Path, is_folder: bool) -> bool {
    let catalogue = &library.catalogue;
    let is_own = |name: &FileName| {
        let entry = catalogue.get(name).filter(|entry| catalogue.is_own(entry));
        entry.is_some_and(|entry| entry.path.starts_with(path))
    };
    match tree.name_of(path) {
        Some(Ok(name)) if is_folder => {
            let below = catalogue.names_below(&name, ENTRIES_AT_ONCE).unwrap_or_default();
            below.iter().any(is_own)
        }
        Some(Ok(name)) => is_own(&name),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_are_in_their_order() {
        let ordered =
            ["", "1", "2b", "10a", "a", "a01", "a1", "a2", "a002b", "a10", "a99999999999999999999999", "b0"];
        let mut names = ordered.map(OsStr::new);
        names.reverse();
        names.sort_by(|a, b| in_order(a, b));
        assert_eq!(names, ordered.map(OsStr::new));
    }
}
