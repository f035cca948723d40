//! Lists the files to publish, and their names.

use std::{
    cmp::Ordering,
    collections::HashSet,
    ffi::OsStr,
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use nekoproto::FileName;
use walkdir::{DirEntry, WalkDir};

use super::{
    PublishOutcome,
    error::PublishError,
    tree::{Base, Tree, is_ours, may_be_shared},
};
use crate::{library::Library, sets};

/// A file to be published.
#[derive(Debug)]
pub(crate) struct NamedFile {
    pub(crate) name: FileName,
    /// An absolute path.
    pub(crate) path: PathBuf,
    /// Its size in bytes when it was listed.
    pub(crate) size: u64,
}

/// The same in few bytes, since there may be very many.
#[derive(Debug)]
pub(crate) struct Listed {
    name: FileName,
    at: At,
    pub(super) size: u64,
}

#[derive(Debug)]
enum At {
    Path(Box<Path>),
    /// At the path that is its name, below this folder.
    Below(Arc<Path>),
}

impl Listed {
    pub(super) fn new(name: FileName, path: &Path, size: u64) -> Self {
        Self { name, at: At::Path(path.into()), size }
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

/// The files at `paths`, including those in folders, by name. Files of a folder that cannot be shared go to
/// `outcome`.
pub(super) fn list_files(
    library: &Library,
    paths: Vec<PathBuf>,
    name: Option<&FileName>,
    outcome: &mut PublishOutcome,
) -> Result<Vec<Listed>, PublishError> {
    let mut files = Vec::new();
    for path in paths {
        let tree = Tree::of(library, &path, name)?;
        list_tree(library, &tree, &mut files, outcome)?;
    }
    each_once(&mut files)?;
    let mut failed = HashSet::new();
    outcome.failed.retain(|(path, _)| failed.insert(path.clone()));
    Ok(files)
}

/// The same, of one tree; a file may be listed twice.
pub(crate) fn list_tree(
    library: &Library,
    tree: &Tree,
    files: &mut Vec<Listed>,
    outcome: &mut PublishOutcome,
) -> Result<(), PublishError> {
    let path = tree.root();
    match &tree.base {
        Base::Folder(prefix) => list_folder(library, path, prefix, files, outcome)?,
        Base::File(name) => {
            let unreadable = |source| PublishError::Unreadable { path: path.to_owned(), source };
            let size = std::fs::metadata(path).map_err(unreadable)?.len();
            files.push(Listed::new(name.clone(), path, size));
        }
    }
    Ok(())
}

/// Removes those that are listed again.
fn each_once(files: &mut Vec<Listed>) -> Result<(), PublishError> {
    let mut by_name: Vec<usize> = (0..files.len()).collect();
    by_name.sort_by(|a, b| files[*a].name.cmp(&files[*b].name)); // stable: the first of a name stays first
    let mut again = HashSet::new();
    for same in by_name.chunk_by(|a, b| files[*a].name == files[*b].name) {
        for other in &same[1..] {
            let [first, second] = [same[0], *other].map(|file| files[file].path());
            if first != second {
                return Err(PublishError::SameName { name: files[*other].name.clone(), first, second });
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

/// Lists every regular file below `folder`, named by its path within it below `prefix`; links are not followed. This peer's
/// own data is skipped, and so are the folders of sets that are copies, which go to `outcome`.
fn list_folder(
    library: &Library,
    folder: &Path,
    prefix: &Path,
    files: &mut Vec<Listed>,
    outcome: &mut PublishOutcome,
) -> Result<(), PublishError> {
    let mut copies = sets::folders_of_copies(library)?;
    copies.retain(|(_, path)| path.starts_with(folder) && path != folder);
    let data_dir = &library.data_dir;
    // The prefix is the end of the folder's path, or empty.
    let base: Arc<Path> = folder.ancestors().nth(prefix.components().count()).unwrap_or(folder).into();
    // Numbers in their order: whoever waits for the last of many finds all.
    let by_name = |a: &DirEntry, b: &DirEntry| in_order(a.file_name(), b.file_name());
    let walk = WalkDir::new(folder).sort_by(by_name).into_iter();
    for found in walk.filter_entry(|entry| {
        let is_copy = || copies.iter().any(|(_, path)| entry.path() == path);
        entry.depth() == 0 || !(is_ours(entry.file_name()) || entry.path() == *data_dir || is_copy())
    }) {
        let failed =
            |path: PathBuf, source: io::Error| (path.clone(), PublishError::Unreadable { path, source });
        let (path, metadata) = match found.and_then(|entry| Ok((entry.path().to_owned(), entry.metadata()?)))
        {
            Ok(found) => found,
            Err(error) => {
                let path = error.path().unwrap_or(folder).to_owned();
                outcome.failed.push(failed(path, error.into()));
                continue;
            }
        };
        if !metadata.is_file() {
            continue;
        }
        let relative = path.strip_prefix(folder).unwrap_or(&path);
        match FileName::from_path(&prefix.join(relative)).and_then(|name| may_be_shared(library, name)) {
            Ok(name) => files.push(Listed { name, at: At::Below(Arc::clone(&base)), size: metadata.len() }),
            Err(source) => outcome.failed.push((path.clone(), PublishError::Name { path, source })),
        }
    }
    outcome.copies.extend(copies.into_iter().map(|(name, _)| name));
    Ok(())
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
