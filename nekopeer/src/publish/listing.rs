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
    name: Option<FileName>,
    outcome: &mut PublishOutcome,
) -> Result<Vec<NamedFile>, PublishError> {
    let mut files = Vec::new();
    for path in paths {
        let unreadable = |source| PublishError::Unreadable { path: path.clone(), source };
        let metadata = std::fs::metadata(&path).map_err(unreadable)?;
        let absolute = path.canonicalize().map_err(unreadable)?;
        if absolute.starts_with(&library.data_dir) {
            return Err(PublishError::OwnData(path));
        }
        match (&name, metadata.is_dir()) {
            (Some(_), true) => return Err(PublishError::NameForFolder(path)),
            (None, true) => list_folder(&absolute, &library.data_dir, &mut files, outcome),
            (Some(name), false) => {
                files.push(NamedFile { name: name.clone(), path: absolute, stamp: Stamp::of(&metadata) });
            }
            (None, false) => {
                let relative = absolute.strip_prefix(library.share.root()).ok().map(Path::to_owned);
                let relative = relative.or_else(|| path.file_name().map(PathBuf::from));
                let name = FileName::from_path(&relative.unwrap_or_default())
                    .map_err(|source| PublishError::Name { path: path.clone(), source })?;
                files.push(NamedFile { name, path: absolute, stamp: Stamp::of(&metadata) });
            }
        }
    }
    let mut seen: HashMap<&FileName, &Path> = HashMap::with_capacity(files.len());
    for NamedFile { name, path, .. } in &files {
        if let Some(first) = seen.insert(name, path).filter(|first| first != path) {
            let (name, first, second) = (name.clone(), first.to_owned(), path.clone());
            return Err(PublishError::SameName { name, first, second });
        }
    }
    Ok(files)
}

/// Lists every regular file below `folder`; links are not followed, this peer's own data is skipped.
fn list_folder(folder: &Path, data_dir: &Path, files: &mut Vec<NamedFile>, outcome: &mut PublishOutcome) {
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
        match FileName::from_path(relative) {
            Ok(name) => files.push(NamedFile { name, path, stamp: Stamp::of(&metadata) }),
            Err(source) => outcome.failed.push((path.clone(), PublishError::Name { path, source })),
        }
    }
}
