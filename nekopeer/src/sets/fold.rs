//! From a folder to the one file of a set: all of one moment, or an error.

use std::{
    collections::{HashMap, HashSet},
    fs::{File, Metadata},
    io::{self, Read as _, Write},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use nekoproto::{ContentHash, FileName, Remedy};
use tokio_util::sync::CancellationToken;
use walkdir::DirEntry;

use super::{
    error::{SET_FILES_MAX, not_written, stopped, too_many_files},
    index::{Index, Member},
};
use crate::{
    content::stamp::{Stamp, open_file},
    failure::{Failure, FailureKind, FailureList},
    rules::{
        Filter, Ignores, RulesError, Skipped,
        links::{Links, cause},
    },
    util::progress::Progress,
};

const READ_BYTES: usize = 1024 * 1024;
const EXECUTABLE: u32 = 0o111;

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
    disks: HashSet<u64>,
    /// Why no set can be made of it.
    faults: FailureList,
}

impl FolderFiles {
    /// Fails with all that is wrong with it, also of the files that were found.
    fn check_all(mut self) -> Result<(), Failure> {
        let unread = |file: &FoundFile| Some(unreadable(&file.at)(open_file(&file.at).err()?));
        self.files.iter().filter_map(unread).for_each(|fault| self.faults.push(fault));
        self.faults.into_result()
    }
}

/// What is in a folder, as far as it says whether the folder changed.
#[derive(Debug)]
pub(crate) struct Fingerprint {
    /// Of the paths and stamps of the files of which [`fold`] would make a set, or of why it would make none.
    pub(crate) hash: blake3::Hash,
    /// The number of file systems, if all could be looked at.
    pub(crate) disks: Option<usize>,
    /// The files, where they are.
    pub(crate) files: HashMap<PathBuf, Stamp>,
}

pub(crate) fn fingerprint(filter: &Filter) -> Fingerprint {
    let (mut hasher, found) = (blake3::Hasher::new(), find(filter));
    let found = found.and_then(|FolderFiles { files, disks, faults, .. }| {
        faults.into_result().map(|()| (Some(disks.len()), files))
    });
    let (disks, found) = found.unwrap_or_else(|error| {
        hasher.update(error.to_string().as_bytes());
        (None, Vec::new())
    });
    for file in &found {
        hasher.update(format!("{file:?}").as_bytes());
    }
    let files = found.into_iter().map(|file| (file.at, file.stamp)).collect();
    Fingerprint { hash: hasher.finalize(), disks, files }
}

/// Writes the set of all files below the filter's folder to `out`, but for what it skips, which is returned too. A link to a
/// file of the folder counts as a file. `None` if something changed meanwhile. Blocking.
pub(super) fn fold(
    filter: &Filter,
    out: &mut impl Write,
    progress: &Progress,
    stop: &CancellationToken,
) -> Result<Option<(Index, Vec<Skipped>)>, Failure> {
    let found = find(filter)?;
    if !found.faults.is_empty() {
        return found.check_all().map(|()| None);
    }
    progress.set_total(progress.done() + 2 * found.files.iter().map(|file| file.stamp.size()).sum::<u64>());
    let mut members = Vec::with_capacity(found.files.len());
    let mut buffer = vec![0; READ_BYTES];
    for file in &found.files {
        let content = match copy(file, out, &mut buffer, progress, stop) {
            Ok(Some(content)) => content,
            Ok(None) => return Ok(None),
            Err(error) if error.kind == FailureKind::Invalid => return found.check_all().and(Err(error)),
            Err(error) => return Err(error),
        };
        let (path, size, is_executable) = (file.path.clone(), file.stamp.size(), file.is_executable);
        members.push(Member { path, size, is_executable, content });
    }
    let again = find(filter)?;
    if !again.faults.is_empty() || again.files != found.files {
        return Ok(None);
    }
    let index = Index::new(members)?;
    index.write(out)?;
    Ok(Some((index, found.skipped)))
}

fn find(filter: &Filter) -> Result<FolderFiles, Failure> {
    let folder = filter.root.as_path();
    let unread = |error: walkdir::Error| {
        let path = error.path().unwrap_or(folder).to_owned();
        unreadable(&path)(cause(error))
    };
    let (mut found, mut ignores) = (FolderFiles::default(), Ignores::new());
    let (walk, mut links) = Links::walk(filter);
    let mut walk = walk.into_iter();
    while let Some(entry) = walk.next() {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                found.faults.push(match (links.broken(&error), error.path()) {
                    (Some(what), Some(path)) => not_a_file(path, what),
                    _ => unread(error),
                });
                continue;
            }
        };
        let (path, kind) = (entry.path(), entry.file_type());
        let own = (entry.depth() > 0 && filter.is_own(path)).then(|| filter.skips_own(path));
        let is_own = own.is_some();
        let cause = own.map_or_else(|| filter.skips_in_folder(path, kind.is_dir(), &mut ignores), Ok)?;
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
        let target = match links.target(&entry) {
            Ok(target) => target,
            Err(what) => {
                found.faults.push(not_a_file(path, what));
                if kind.is_dir() {
                    walk.skip_current_dir();
                }
                continue;
            }
        };
        if kind.is_dir() {
            match filter.enter(path, &mut ignores) {
                Ok(()) => drop(found.disks.insert(entry.metadata().map_err(unread)?.dev())),
                Err(RulesError::Unreadable { path, source }) => {
                    found.faults.push(unreadable(&path)(source));
                    walk.skip_current_dir();
                }
                Err(error) => return Err(error.into()),
            }
            continue;
        }
        match member(filter, &entry, target, unread) {
            Ok(file) => found.files.push(file),
            Err(error) => found.faults.push(error),
        }
    }
    if found.files.len() > SET_FILES_MAX {
        return Err(too_many_files(found.files.len())); // before any is read
    }
    found.files.sort_unstable_by(|a, b| a.path.as_path().cmp(b.path.as_path()));
    Ok(found)
}

/// The file that `entry`, which is no folder, is in a set; if a link was followed there, it is at `followed`.
fn member(
    filter: &Filter,
    entry: &DirEntry,
    followed: Option<PathBuf>,
    unread: impl Fn(walkdir::Error) -> Failure,
) -> Result<FoundFile, Failure> {
    let path = entry.path();
    let relative = path.strip_prefix(&filter.root).unwrap_or(path);
    let named = FileName::from_path(relative).map_err(|error| {
        let message = format!("{} cannot be in a set: {error}; rename it", path.display());
        Failure::invalid(message).remedied(Remedy::Exclude)
    })?;
    let (at, metadata) = match entry.file_type().is_symlink() {
        true => target(filter, path)?,
        false => (followed.unwrap_or_else(|| path.to_owned()), entry.metadata().map_err(unread)?),
    };
    if !metadata.is_file() {
        return Err(not_a_file(path, "neither a file nor a folder"));
    }
    let is_executable = is_executable(&metadata);
    Ok(FoundFile { path: named, at, stamp: Stamp::of(&metadata), is_executable })
}

/// Something in the folder is neither a file nor a folder, or a link that leads nowhere or out of it.
fn not_a_file(path: &Path, what: &str) -> Failure {
    let message = format!("{} is {what}: a set has files only, move it away", path.display());
    Failure::invalid(message).remedied(Remedy::Exclude)
}

fn unreadable(path: &Path) -> impl Fn(io::Error) -> Failure + '_ {
    move |error| {
        let is_gone = error.kind() == io::ErrorKind::NotFound;
        let kind = if is_gone { FailureKind::NoSuchPath } else { FailureKind::Invalid };
        let message = format!("cannot read {}: {error}; make it readable", path.display());
        Failure { remedy: (!is_gone).then_some(Remedy::Exclude), ..Failure::with(kind, message) }
    }
}

/// The file of the folder that the link at `path` leads to.
fn target(filter: &Filter, path: &Path) -> Result<(PathBuf, Metadata), Failure> {
    let not_a_file = |what| not_a_file(path, what);
    // Only who asks for it has such a link followed.
    let unfollowed = |what| {
        let why = format!("{} is {what}, and such links are not followed", path.display());
        Failure::invalid(why).remedied(Remedy::FollowLinks)
    };
    let at = path.canonicalize().map_err(|_| not_a_file("a link that leads nowhere"))?;
    let metadata = at.metadata().map_err(|_| not_a_file("a link that leads nowhere"))?;
    if metadata.is_dir() {
        return Err(unfollowed("a link to a folder, which is no file"));
    }
    if !metadata.is_file() {
        return Err(not_a_file("a link to something that is no file"));
    }
    if !at.starts_with(&filter.root) || filter.is_own(&at) {
        return Err(unfollowed("a link out of the folder"));
    }
    Ok((at, metadata))
}

/// Copies the bytes of `file`; returns their hash, or `None` if it is not as it was found.
fn copy(
    file: &FoundFile,
    out: &mut impl Write,
    buffer: &mut [u8],
    progress: &Progress,
    stop: &CancellationToken,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_wrong_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        ["a", "c"].iter().for_each(|name| std::fs::create_dir(path(name)).unwrap());
        std::fs::write(path("b"), "").unwrap();
        let found = |names: &[&str]| {
            let stamp = Stamp::of(&folder.path().metadata().unwrap()); // a file could be opened, as root
            let file = |name: &&str| FoundFile {
                path: FileName::new(name).unwrap(),
                at: path(name),
                stamp,
                is_executable: false,
            };
            FolderFiles { files: names.iter().map(file).collect(), ..FolderFiles::default() }
        };
        let mut all = found(&["a", "b", "c"]);
        all.faults.push(not_a_file(&path("pipe"), "neither a file nor a folder"));
        let failure = all.check_all().unwrap_err();
        assert!(["/a: ", "/c: ", "/pipe "].iter().all(|path| failure.message.contains(path)), "{failure}");
        assert!(!failure.message.contains("/b: "), "{failure}");
        assert_eq!(failure.remedy, Some(Remedy::Exclude));
        found(&["b"]).check_all().unwrap();
    }
}
