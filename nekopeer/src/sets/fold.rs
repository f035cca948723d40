//! From a folder to the one file of a set: all of one moment, or an error.

use std::{
    collections::HashSet,
    fs::{File, Metadata},
    io::{self, Read as _, Write},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use nekoproto::{ContentHash, FileName};
use tokio_util::sync::CancellationToken;
use walkdir::WalkDir;

use super::{
    error::{SET_FILES_MAX, not_written, stopped, too_many_files},
    index::{Index, Member},
};
use crate::{
    content::stamp::{Stamp, open_file},
    failure::{Failure, FailureKind},
    rules::{Filter, Ignores, Skipped},
    util::progress::Progress,
};

const READ_BYTES: usize = 1024 * 1024;
const EXECUTABLE: u32 = 0o111;

/// Whether the file at `path`, which is no link, is executable. Blocking.
pub(super) fn is_executable_at(path: &Path) -> io::Result<bool> {
    path.symlink_metadata().map(|metadata| is_executable(&metadata))
}

fn is_executable(metadata: &Metadata) -> bool {
    metadata.permissions().mode() & EXECUTABLE != 0
}

#[derive(Debug, PartialEq, Eq)]
struct FoundFile {
    path: FileName,
    /// Where its bytes are: elsewhere in the folder, if it is a link.
    at: PathBuf,
    stamp: Stamp,
    is_executable: bool,
}

#[derive(Debug, Default)]
struct FolderFiles {
    /// The files that the filter does not skip, by path.
    files: Vec<FoundFile>,
    skipped: Vec<Skipped>,
    /// The file systems of the folders.
    disks: HashSet<u64>,
}

/// What is in a folder, as far as it says whether the folder changed.
#[derive(Debug)]
pub(crate) struct Fingerprint {
    /// Of the paths and stamps of the files of which [`fold`] would make a set, or of why it would make none.
    pub(crate) hash: blake3::Hash,
    /// The number of file systems, if all could be looked at.
    pub(crate) disks: Option<usize>,
}

pub(crate) fn fingerprint(folder: &Path, filter: &Filter) -> Fingerprint {
    let (mut hasher, found) = (blake3::Hasher::new(), find(folder, filter));
    match &found {
        Ok(found) => found.files.iter().for_each(|file| {
            hasher.update(format!("{file:?}").as_bytes());
        }),
        Err(error) => {
            hasher.update(error.to_string().as_bytes());
        }
    }
    Fingerprint { hash: hasher.finalize(), disks: found.ok().map(|found| found.disks.len()) }
}

/// Writes the set of all files below `folder`, an absolute path without links, to `out`, but for what the filter skips, which is
/// returned too. A link to a file of the folder counts as a file. `None` if something changed meanwhile. Blocking.
pub(super) fn fold(
    folder: &Path,
    filter: &Filter,
    out: &mut impl Write,
    (progress, stop): (&Progress, &CancellationToken),
) -> Result<Option<(Index, Vec<Skipped>)>, Failure> {
    let FolderFiles { files, skipped, .. } = find(folder, filter)?;
    progress.set_total(progress.done() + 2 * files.iter().map(|file| file.stamp.size()).sum::<u64>());
    let mut members = Vec::with_capacity(files.len());
    let mut buffer = vec![0; READ_BYTES];
    for file in &files {
        let content = copy(file, out, &mut buffer, (progress, stop))?;
        let Some(content) = content else { return Ok(None) };
        let (path, size, is_executable) = (file.path.clone(), file.stamp.size(), file.is_executable);
        members.push(Member { path, size, is_executable, content });
    }
    if find(folder, filter)?.files != files {
        return Ok(None);
    }
    let index = Index::new(members)?;
    index.write(out)?;
    Ok(Some((index, skipped)))
}

fn find(folder: &Path, filter: &Filter) -> Result<FolderFiles, Failure> {
    let failed = |error: walkdir::Error| {
        let path = error.path().unwrap_or(folder).to_owned();
        unreadable(&path)(error.into())
    };
    let (mut found, mut ignores) = (FolderFiles::default(), Ignores::new());
    let mut walk = WalkDir::new(folder).into_iter();
    while let Some(entry) = walk.next() {
        let entry = entry.map_err(failed)?;
        let (path, kind) = (entry.path(), entry.file_type());
        let is_own = entry.depth() > 0 && filter.is_own(path);
        let cause = if is_own { None } else { filter.skips_in_folder(path, kind.is_dir(), &mut ignores)? };
        if let Some(cause) = cause {
            let (path, is_folder) = (path.to_owned(), kind.is_dir());
            found.skipped.push(Skipped { path, cause, is_folder, is_published: false });
        }
        if is_own || cause.is_some() {
            if kind.is_dir() {
                walk.skip_current_dir();
            }
            continue;
        }
        let (at, metadata) = match kind {
            kind if kind.is_dir() => {
                filter.enter(path, &mut ignores)?;
                found.disks.insert(entry.metadata().map_err(failed)?.dev());
                continue;
            }
            kind if kind.is_symlink() => target(folder, filter, path)?,
            _ => (path.to_owned(), entry.metadata().map_err(failed)?),
        };
        if !metadata.is_file() {
            return Err(not_a_file(path, "neither a file nor a folder"));
        }
        let relative = path.strip_prefix(folder).unwrap_or(path);
        let named = FileName::from_path(relative).map_err(|error| {
            Failure::invalid(format!("{} cannot be in a set: {error}; rename it", path.display()))
        })?;
        let is_executable = is_executable(&metadata);
        found.files.push(FoundFile { path: named, at, stamp: Stamp::of(&metadata), is_executable });
    }
    if found.files.len() > SET_FILES_MAX {
        return Err(too_many_files(found.files.len())); // before any is read
    }
    found.files.sort_unstable_by(|a, b| a.path.as_path().cmp(b.path.as_path()));
    Ok(found)
}

/// Something in the folder is neither a file nor a folder, or a link that leads nowhere or out of it.
fn not_a_file(path: &Path, what: &str) -> Failure {
    Failure::invalid(format!("{} is {what}: a set has files only, move it away", path.display()))
}

/// Something in the folder cannot be read.
fn unreadable(path: &Path) -> impl Fn(io::Error) -> Failure + '_ {
    move |error| {
        let is_gone = error.kind() == io::ErrorKind::NotFound;
        let kind = if is_gone { FailureKind::NoSuchPath } else { FailureKind::Invalid };
        Failure::with(kind, format!("cannot read {}: {error}", path.display()))
    }
}

/// The file of the folder that the link at `path` leads to.
fn target(folder: &Path, filter: &Filter, path: &Path) -> Result<(PathBuf, Metadata), Failure> {
    let leads_nowhere = |_| not_a_file(path, "a link that leads nowhere");
    let at = path.canonicalize().map_err(leads_nowhere)?;
    let metadata = at.metadata().map_err(leads_nowhere)?;
    if !metadata.is_file() {
        return Err(not_a_file(path, "a link to something that is no file"));
    }
    if !at.starts_with(folder) || filter.is_own(&at) {
        return Err(not_a_file(path, "a link out of the folder"));
    }
    Ok((at, metadata))
}

/// Copies the bytes of `file`; returns their hash, or `None` if it is not as it was found.
fn copy(
    file: &FoundFile,
    out: &mut impl Write,
    buffer: &mut [u8],
    (progress, stop): (&Progress, &CancellationToken),
) -> Result<Option<ContentHash>, Failure> {
    let unreadable = unreadable(&file.at);
    let is_as_found = |open: &File| Ok(Stamp::of(&open.metadata()?) == file.stamp);
    let mut open = match open_file(&file.at) {
        Ok(open) => open,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    if !is_as_found(&open).map_err(&unreadable)? {
        return Ok(None);
    }
    let (mut hasher, mut left) = (blake3::Hasher::new(), file.stamp.size());
    while left > 0 {
        if stop.is_cancelled() {
            return Err(stopped());
        }
        let most = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let read = open.read(&mut buffer[..most]).map_err(&unreadable)?;
        if read == 0 {
            return Ok(None);
        }
        hasher.update(&buffer[..read]);
        out.write_all(&buffer[..read]).map_err(not_written)?;
        progress.add_done(read as u64);
        left -= read as u64;
    }
    let is_same = is_as_found(&open).map_err(&unreadable)?;
    Ok(is_same.then(|| ContentHash::from_bytes(*hasher.finalize().as_bytes())))
}
