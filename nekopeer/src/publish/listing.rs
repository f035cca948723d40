//! Lists the files to publish, and their names.

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
};

use nekoproto::FileName;
use walkdir::WalkDir;

use super::{PublishOutcome, error::PublishError};
use crate::{content::stamp::Stamp, library::Library};

/// A file to be published.
#[derive(Debug)]
pub(super) struct NamedFile {
    pub(super) name: FileName,
    /// An absolute path.
    pub(super) path: PathBuf,
    /// Its stamp when it was listed.
    pub(super) stamp: Stamp,
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
) -> Result<Vec<NamedFile>, PublishError> {
    let mut files = Vec::new();
    let root = library.share.root();
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
                list_folder(&absolute, &prefix, &library.data_dir, &mut files, outcome);
            }
            (Some(name), false) => {
                files.push(NamedFile { name: name.clone(), path: absolute, stamp: Stamp::of(&metadata) });
            }
            (None, false) => {
                let relative = absolute.strip_prefix(root).ok().map(Path::to_owned);
                let relative = relative.or_else(|| path.file_name().map(PathBuf::from));
                let name = FileName::from_path(&relative.unwrap_or_default())
                    .map_err(|source| PublishError::Name { path: path.clone(), source })?;
                files.push(NamedFile { name, path: absolute, stamp: Stamp::of(&metadata) });
            }
        }
    }
    each_once(files)
}

/// The files without those that are listed again.
///
/// # Errors
/// Two different files have one name.
fn each_once(files: Vec<NamedFile>) -> Result<Vec<NamedFile>, PublishError> {
    let mut seen: HashMap<FileName, PathBuf> = HashMap::with_capacity(files.len());
    let mut once = Vec::with_capacity(files.len());
    for file in files {
        match seen.get(&file.name) {
            None => {
                seen.insert(file.name.clone(), file.path.clone());
                once.push(file);
            }
            Some(first) if *first == file.path => {}
            Some(first) => {
                let (name, first, second) = (file.name, first.clone(), file.path);
                return Err(PublishError::SameName { name, first, second });
            }
        }
    }
    Ok(once)
}

/// Lists every regular file below `folder`, named by its path within it below `prefix`; links are not followed,
/// this peer's own data is skipped.
fn list_folder(
    folder: &Path,
    prefix: &Path,
    data_dir: &Path,
    files: &mut Vec<NamedFile>,
    outcome: &mut PublishOutcome,
) {
    let is_ours = |name: &std::ffi::OsStr| {
        name.as_encoded_bytes().starts_with(nekoproto::name::RESERVED_PREFIX.as_bytes())
    };
    let walk = WalkDir::new(folder).sort_by_file_name().into_iter();
    for found in walk
        .filter_entry(|entry| entry.depth() == 0 || !(is_ours(entry.file_name()) || entry.path() == data_dir))
    {
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
        match FileName::from_path(&prefix.join(relative)) {
            Ok(name) => files.push(NamedFile { name, path, stamp: Stamp::of(&metadata) }),
            Err(source) => outcome.failed.push((path.clone(), PublishError::Name { path, source })),
        }
    }
}
