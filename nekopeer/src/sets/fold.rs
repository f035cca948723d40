//! From a folder to the one file of a set: all of one moment, or an error.

use std::{
    fs::{File, Metadata},
    io::{self, Read as _, Write},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use nekoproto::{ContentHash, FileName, name::RESERVED_PREFIX};
use tokio_util::sync::CancellationToken;
use walkdir::{DirEntry, WalkDir};

use super::{
    error::{BadSet, SET_FILES_MAX, SetError},
    index::{Index, Member},
};
use crate::{
    content::stamp::{Stamp, open_file},
    util::progress::Progress,
};

/// Bytes per read.
const READ_BYTES: usize = 1024 * 1024;
/// Permission bits by which a file is executable.
const EXECUTABLE: u32 = 0o111;

/// Whether the file at `path`, which is no link, is executable. Blocking.
pub(super) fn is_executable_at(path: &Path) -> io::Result<bool> {
    path.symlink_metadata().map(|metadata| is_executable(&metadata))
}

fn is_executable(metadata: &Metadata) -> bool {
    metadata.permissions().mode() & EXECUTABLE != 0
}

/// A file of the folder, as it was found.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    path: FileName,
    /// Where its bytes are: elsewhere in the folder, if it is a link.
    at: PathBuf,
    stamp: Stamp,
    is_executable: bool,
}

/// Writes the set of all files below `folder`, an absolute path without links, to `out`; what is below `without` is left
/// out. A link to a file of the folder counts as a file. `None` if something changed meanwhile. Blocking.
pub(super) fn fold(
    folder: &Path,
    without: &Path,
    out: &mut impl Write,
    (progress, stop): (&Progress, &CancellationToken),
) -> Result<Option<Index>, SetError> {
    let found = list(folder, without)?;
    progress.set_total(progress.done() + 2 * found.iter().map(|file| file.stamp.size()).sum::<u64>());
    let mut members = Vec::with_capacity(found.len());
    let mut buffer = vec![0; READ_BYTES];
    for file in &found {
        let content = copy(file, out, &mut buffer, (progress, stop))?;
        let Some(content) = content else { return Ok(None) };
        let (path, size, is_executable) = (file.path.clone(), file.stamp.size(), file.is_executable);
        members.push(Member { path, size, is_executable, content });
    }
    if list(folder, without)? != found {
        return Ok(None);
    }
    let index = Index::new(members)?;
    index.write(out)?;
    Ok(Some(index))
}

/// All files below `folder`, by path.
fn list(folder: &Path, without: &Path) -> Result<Vec<Found>, SetError> {
    let is_ours =
        |entry: &DirEntry| entry.file_name().as_encoded_bytes().starts_with(RESERVED_PREFIX.as_bytes());
    let is_part = |entry: &DirEntry| entry.depth() == 0 || !(is_ours(entry) || entry.path() == without);
    let mut files = Vec::new();
    for entry in WalkDir::new(folder).into_iter().filter_entry(is_part) {
        let unreadable = |error: walkdir::Error| {
            let path = error.path().unwrap_or(folder).to_owned();
            SetError::Unreadable { path, source: error.into() }
        };
        let entry = entry.map_err(unreadable)?;
        let (at, metadata) = match entry.file_type() {
            kind if kind.is_dir() => continue,
            kind if kind.is_symlink() => target(folder, without, entry.path())?,
            _ => (entry.path().to_owned(), entry.metadata().map_err(unreadable)?),
        };
        if !metadata.is_file() {
            let what = "neither a file nor a folder";
            return Err(SetError::NotAFile { path: entry.into_path(), what });
        }
        let relative = entry.path().strip_prefix(folder).unwrap_or(entry.path());
        let named = FileName::from_path(relative);
        let path = named.map_err(|source| SetError::Name { path: entry.path().to_owned(), source })?;
        let is_executable = is_executable(&metadata);
        files.push(Found { path, at, stamp: Stamp::of(&metadata), is_executable });
    }
    if files.len() > SET_FILES_MAX {
        return Err(BadSet::TooManyFiles(files.len()).into()); // before any is read
    }
    files.sort_unstable_by(|a, b| a.path.as_path().cmp(b.path.as_path()));
    Ok(files)
}

/// The file of the folder that the link at `path` leads to.
fn target(folder: &Path, without: &Path, path: &Path) -> Result<(PathBuf, Metadata), SetError> {
    let not_a_file = |what| SetError::NotAFile { path: path.to_owned(), what };
    let at = path.canonicalize().map_err(|_| not_a_file("a link that leads nowhere"))?;
    let metadata = at.metadata().map_err(|_| not_a_file("a link that leads nowhere"))?;
    if !metadata.is_file() {
        return Err(not_a_file("a link to something that is no file"));
    }
    if !at.starts_with(folder) || at.starts_with(without) {
        return Err(not_a_file("a link out of the folder"));
    }
    Ok((at, metadata))
}

/// Copies the bytes of `file`; returns their hash, or `None` if it is not as it was found.
fn copy(
    file: &Found,
    out: &mut impl Write,
    buffer: &mut [u8],
    (progress, stop): (&Progress, &CancellationToken),
) -> Result<Option<ContentHash>, SetError> {
    let unreadable = |source| SetError::Unreadable { path: file.at.clone(), source };
    let is_as_found = |open: &File| Ok(Stamp::of(&open.metadata()?) == file.stamp);
    let mut open = match open_file(&file.at) {
        Ok(open) => open,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    if !is_as_found(&open).map_err(unreadable)? {
        return Ok(None);
    }
    let (mut hasher, mut left) = (blake3::Hasher::new(), file.stamp.size());
    while left > 0 {
        if stop.is_cancelled() {
            return Err(SetError::Stopped);
        }
        let most = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let read = open.read(&mut buffer[..most]).map_err(unreadable)?;
        if read == 0 {
            return Ok(None);
        }
        hasher.update(&buffer[..read]);
        out.write_all(&buffer[..read]).map_err(SetError::Write)?;
        progress.add_done(read as u64);
        left -= read as u64;
    }
    let is_same = is_as_found(&open).map_err(unreadable)?;
    Ok(is_same.then(|| ContentHash::from_bytes(*hasher.finalize().as_bytes())))
}
