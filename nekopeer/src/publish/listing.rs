//! Lists the files to publish, and their names.

use std::{
    collections::HashSet,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use alphanumeric_sort::compare_os_str;
use nekoproto::{FileName, NameError};
use walkdir::{DirEntry, WalkDir};

use super::{PublishOutcome, error::PublishError};
use crate::library::Library;

/// A file to be published.
#[derive(Debug)]
pub(super) struct NamedFile {
    pub(super) name: FileName,
    /// An absolute path.
    pub(super) path: PathBuf,
    /// Its size in bytes when it was listed.
    pub(super) size: u64,
}

/// The same in few bytes, since there may be very many.
#[derive(Debug)]
pub(super) struct Listed {
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

    pub(super) fn named(self) -> NamedFile {
        NamedFile { path: self.path(), name: self.name, size: self.size }
    }
}

/// The files at `paths`, including those in folders, by name. Files of a folder that cannot be shared go to
/// `outcome`.
///
/// # Errors
/// A path cannot be published as requested.
pub(super) fn list_files(
    library: &Library,
    paths: Vec<PathBuf>,
    name: Option<&FileName>,
    outcome: &mut PublishOutcome,
) -> Result<Vec<Listed>, PublishError> {
    let mut files = Vec::new();
    let root = library.share.root();
    let known = |name: FileName| may_be_shared(library, name);
    for path in paths {
        let unreadable = |source| PublishError::Unreadable { path: path.clone(), source };
        let metadata = std::fs::metadata(&path).map_err(unreadable)?;
        let absolute = path.canonicalize().map_err(unreadable)?;
        if absolute.starts_with(&library.data_dir) {
            return Err(PublishError::OwnData(path));
        }
        match (name, metadata.is_dir()) {
            (Some(_), true) => return Err(PublishError::NameForFolder(path)),
            (None, true) => {
                let prefix = absolute.strip_prefix(root).ok().map(Path::to_owned);
                let prefix = prefix.or_else(|| absolute.file_name().map(PathBuf::from)).unwrap_or_default();
                list_folder(library, &absolute, &prefix, &mut files, outcome);
            }
            (Some(name), false) => {
                let name = known(name.clone());
                let name = name.map_err(|source| PublishError::Name { path: path.clone(), source })?;
                files.push(Listed::new(name, &absolute, metadata.len()));
            }
            (None, false) => {
                let relative = absolute.strip_prefix(root).ok().map(Path::to_owned);
                let relative = relative.or_else(|| path.file_name().map(PathBuf::from));
                let name = FileName::from_path(&relative.unwrap_or_default())
                    .and_then(known)
                    .map_err(|source| PublishError::Name { path: path.clone(), source })?;
                files.push(Listed::new(name, &absolute, metadata.len()));
            }
        }
    }
    each_once(&mut files)?;
    let mut failed = HashSet::new();
    outcome.failed.retain(|(path, _)| failed.insert(path.clone()));
    Ok(files)
}

/// `name`, if it may be a new one or was published here before.
///
/// # Errors
/// See [`FileName::check_new`].
pub(super) fn may_be_shared(library: &Library, name: FileName) -> Result<FileName, NameError> {
    let is_known = || library.catalogue.get(&name).is_some();
    match name.check_new() {
        Err(error) if !is_known() => Err(error),
        _ => Ok(name),
    }
}

/// Removes those that are listed again.
///
/// # Errors
/// Two different files have one name.
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

/// Lists every regular file below `folder`, named by its path within it below `prefix`; links are not followed,
/// this peer's own data is skipped.
fn list_folder(
    library: &Library,
    folder: &Path,
    prefix: &Path,
    files: &mut Vec<Listed>,
    outcome: &mut PublishOutcome,
) {
    let data_dir = &library.data_dir;
    let is_ours = |name: &std::ffi::OsStr| {
        name.as_encoded_bytes().starts_with(nekoproto::name::RESERVED_PREFIX.as_bytes())
    };
    // The prefix is the end of the folder's path, or empty.
    let base: Arc<Path> = folder.ancestors().nth(prefix.components().count()).unwrap_or(folder).into();
    // Numbers in their order: whoever waits for the last of many finds all.
    let by_name = |a: &DirEntry, b: &DirEntry| compare_os_str(a.file_name(), b.file_name());
    let walk = WalkDir::new(folder).sort_by(by_name).into_iter();
    for found in walk.filter_entry(|entry| {
        entry.depth() == 0 || !(is_ours(entry.file_name()) || entry.path() == *data_dir)
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
}
