//! Files on disk: safe places for received names, partial downloads, atomic replacement.
//!
//! A place is a handle of its folder and the last part of its name. Inside the share folder it
//! is reached through that folder's handle (cap-std), so that no symbolic link leads out of it.

use std::{
    collections::HashMap,
    fs::{File, TryLockError},
    io,
    ops::Range,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use cap_std::{
    ambient_authority,
    fs::{Dir, MetadataExt as _, OpenOptions},
};
use nekoproto::{ContentHash, FileName};
use unicode_normalization::UnicodeNormalization;

use crate::stamp::Stamp;

/// How the names of partial downloads begin; no shared name may.
pub const PARTIAL_PREFIX: &str = ".neko-part-";
/// Time for a download that was given up to write what it has received and let go of its partial.
const LET_GO_WITHIN: Duration = Duration::from_secs(1);
/// Zeros written at once where no hole can be made.
const ZEROS_BYTES: usize = 64 * 1024;
/// How often that is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Entries of a folder among which names are sought that are the same elsewhere. That many take some
/// milliseconds; a folder with more is not searched to its end.
const LOOK_ALIKES_AMONG: usize = 16 * 1024;

/// Why a file cannot be stored. What stood there before still stands.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A symbolic link leads out of the share folder.
    #[error("{0} would leave the share folder: a symbolic link leads out of it")]
    Escapes(PathBuf),
    /// The disk is full, or a quota or file size limit is reached.
    #[error("no space is left to write {0}: free some and try again, what is there already is kept")]
    Full(PathBuf),
    /// Another process downloads the same file to the same place.
    #[error("{0} is being downloaded by another process")]
    Busy(PathBuf),
    /// A folder stands in the way, or the path names none.
    #[error("{0} is not a place for a file")]
    NotAPlace(PathBuf),
    /// Somebody changed or made the file meanwhile.
    #[error("{0} was changed meanwhile and is left as it is")]
    ChangedMeanwhile(PathBuf),
    /// Anything else.
    #[error("cannot use {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// The folder that files are shared from and downloaded to.
#[derive(Debug)]
pub struct ShareFolder {
    root: PathBuf,
    handle: Dir,
}

/// Where a file belongs.
#[derive(Debug)]
pub struct Place {
    folder: Dir,
    file_name: PathBuf,
    path: PathBuf,
}

/// A download on its way, beside its place. Dropping it leaves it there, to go on with later.
#[derive(Debug)]
pub struct Partial {
    place: Place,
    file: Arc<File>,
    name: PathBuf,
}

fn error_at(path: &Path) -> impl Fn(io::Error) -> StoreError + '_ {
    use io::ErrorKind as Kind;
    move |source| match source.kind() {
        Kind::StorageFull | Kind::QuotaExceeded | Kind::FileTooLarge => StoreError::Full(path.to_owned()),
        // cap-std's own refusal, not the system's
        Kind::PermissionDenied if source.raw_os_error().is_none() => StoreError::Escapes(path.to_owned()),
        _ => StoreError::Io { path: path.to_owned(), source },
    }
}

impl ShareFolder {
    /// Opens the folder at `root`, which is made if need be.
    ///
    /// # Errors
    /// The folder cannot be used.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        let failed = error_at(root);
        std::fs::create_dir_all(root).map_err(&failed)?;
        let root = root.canonicalize().map_err(&failed)?;
        let handle = Dir::open_ambient_dir(&root, ambient_authority()).map_err(&failed)?;
        Ok(Self { root, handle })
    }

    /// Its absolute path.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The place of `name`; its folders are made.
    ///
    /// # Errors
    /// The place is not inside the share folder, or cannot be made.
    pub fn place(&self, name: &FileName) -> Result<Place, StoreError> {
        let path = self.root.join(name.as_path());
        let failed = error_at(&path);
        let relative = name.as_path();
        let not_a_place = || StoreError::NotAPlace(path.clone());
        let file_name = PathBuf::from(relative.file_name().ok_or_else(not_a_place)?);
        let folder = match relative.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            Some(parent) => match self.handle.open_dir(parent) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.handle.create_dir_all(parent).map_err(&failed)?;
                    self.handle.open_dir(parent).map_err(&failed)?
                }
                opened => opened.map_err(&failed)?,
            },
            None => self.handle.try_clone().map_err(&failed)?,
        };
        Ok(Place { folder, file_name, path: path.clone() })
    }

    /// The file or folder that keeps `name` from being a name of its own on file systems that do not
    /// tell upper from lower case, or one Unicode form of a letter from another: it differs from a part
    /// of `name` in nothing else. None where `name` itself is there.
    ///
    /// Only the first 16 384 entries of a folder are looked at.
    ///
    /// # Errors
    /// A part of `name` is no folder, or leads out of the share folder.
    pub fn look_alike(&self, name: &FileName) -> Result<Option<PathBuf>, StoreError> {
        let whole = self.root.join(name.as_path());
        let failed = error_at(&whole);
        let (mut folder, mut path) = (self.handle.try_clone().map_err(&failed)?, self.root.clone());
        let mut parts = name.as_str().split('/').peekable();
        while let Some(part) = parts.next() {
            match folder.symlink_metadata(part) {
                Ok(_) if parts.peek().is_none() => break,
                Ok(_) => folder = folder.open_dir(part).map_err(&failed)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let found = entry_like(&folder, part).map_err(&failed)?;
                    return Ok(found.map(|found| path.join(found)));
                }
                Err(error) => return Err(failed(error)),
            }
            path.push(part);
        }
        Ok(None)
    }

    /// What is in `folder`, a path within, by what other file systems may take it for. A folder that is
    /// not there has nothing in it; of very many entries only some are looked at.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn entries_by_look(&self, folder: &Path) -> Result<HashMap<String, PathBuf>, StoreError> {
        let path = self.root.join(folder);
        let opened = if folder.as_os_str().is_empty() {
            self.handle.try_clone()
        } else {
            self.handle.open_dir(folder)
        };
        let opened = match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(HashMap::new()),
            opened => opened.map_err(error_at(&path))?,
        };
        let mut entries = HashMap::new();
        for entry in opened.entries().map_err(error_at(&path))?.take(LOOK_ALIKES_AMONG) {
            let name = entry.map_err(error_at(&path))?.file_name();
            entries.insert(folded(&name.to_string_lossy()), PathBuf::from(name));
        }
        Ok(entries)
    }
}

/// The entry of `folder` whose name is the same as `name` where case and Unicode form do not count.
fn entry_like(folder: &Dir, name: &str) -> io::Result<Option<String>> {
    let wanted = folded(name);
    for entry in folder.entries()?.take(LOOK_ALIKES_AMONG) {
        let Ok(found) = entry?.file_name().into_string() else { continue }; // no shared name is like it
        let is_like = if found.is_ascii() {
            found.eq_ignore_ascii_case(&wanted) // most are, and need no memory to be compared
        } else {
            folded(&found) == wanted
        };
        if is_like {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// In lower case, each letter in its composed form.
pub(crate) fn folded(name: &str) -> String {
    name.to_lowercase().nfc().collect()
}

impl Place {
    /// A place that the user named, anywhere. Its folder must exist.
    ///
    /// # Errors
    /// There is no such folder, or the path names none.
    pub fn anywhere(path: &Path) -> Result<Self, StoreError> {
        let failed = error_at(path);
        let path = std::path::absolute(path).map_err(&failed)?;
        let (Some(parent), Some(file_name)) = (path.parent(), path.file_name()) else {
            return Err(StoreError::NotAPlace(path));
        };
        let folder = Dir::open_ambient_dir(parent, ambient_authority()).map_err(error_at(parent))?;
        Ok(Self { folder, file_name: PathBuf::from(file_name), path: path.clone() })
    }

    /// The absolute path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The stamp of the file that stands there now, if any. A symbolic link is looked at, not
    /// followed.
    ///
    /// # Errors
    /// A folder stands there, or it cannot be told.
    pub fn stamp(&self) -> Result<Option<Stamp>, StoreError> {
        match self.folder.symlink_metadata(&self.file_name) {
            Ok(metadata) if metadata.is_dir() => Err(StoreError::NotAPlace(self.path.clone())),
            Ok(metadata) if metadata.is_symlink() => Ok(None),
            Ok(_) => self.open().and_then(|file| {
                file.metadata().map(|metadata| Some(Stamp::of(&metadata))).map_err(error_at(&self.path))
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error_at(&self.path)(error)),
        }
    }

    /// Whether anything stands there.
    ///
    /// # Errors
    /// It cannot be told.
    pub fn is_taken(&self) -> Result<bool, StoreError> {
        match self.folder.symlink_metadata(&self.file_name) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error_at(&self.path)(error)),
        }
    }

    /// Opens the file that stands there, for reading.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn open(&self) -> Result<File, StoreError> {
        self.folder.open(&self.file_name).map(cap_std::fs::File::into_std).map_err(error_at(&self.path))
    }

    fn partial_name(&self, content: &ContentHash) -> PathBuf {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.file_name.as_os_str().as_encoded_bytes()).update(content.as_bytes());
        let digest = hasher.finalize().to_hex();
        PathBuf::from(format!("{PARTIAL_PREFIX}{}", &digest[..32]))
    }

    /// Where a partial download of `content` for this place lies, if there is one.
    #[must_use]
    pub fn partial_path(&self, content: &ContentHash) -> PathBuf {
        self.path.with_file_name(self.partial_name(content))
    }

    /// The partial download of `content` for this place: the one that is there, or an empty one.
    ///
    /// # Errors
    /// It cannot be made, or another process is at it. Blocks for up to a second to find out.
    pub fn partial(self, content: &ContentHash) -> Result<Partial, StoreError> {
        let name = self.partial_name(content);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true);
        let until = Instant::now() + LET_GO_WITHIN;
        loop {
            let file = self.folder.open_with(&name, &options).map_err(error_at(&self.path))?.into_std();
            match file.try_lock() {
                Ok(()) if self.is_still(&name, &file)? => {
                    return Ok(Partial { place: self, file: Arc::new(file), name });
                }
                Ok(()) => {} // whoever had it put it in its place, or removed it
                Err(TryLockError::WouldBlock) if Instant::now() >= until => {
                    return Err(StoreError::Busy(self.path));
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOOK_EVERY),
                Err(TryLockError::Error(source)) => return Err(error_at(&self.path)(source)),
            }
        }
    }

    /// Whether `name` in this folder is the open `file`.
    fn is_still(&self, name: &Path, file: &File) -> Result<bool, StoreError> {
        let open = file.metadata().map_err(error_at(&self.path))?;
        match self.folder.symlink_metadata(name) {
            Ok(there) => Ok((there.dev(), there.ino()) == (open.dev(), open.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error_at(&self.path)(error)),
        }
    }
}

impl Partial {
    /// Where it lies now.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.place.path.with_file_name(&self.name)
    }

    /// Where it will stand.
    #[must_use]
    pub fn target(&self) -> &Path {
        &self.place.path
    }

    /// Empties it.
    ///
    /// # Errors
    /// The system failed.
    pub fn clear(&self) -> Result<(), StoreError> {
        self.file.set_len(0).map_err(error_at(&self.place.path))
    }

    /// The open file, to be read by others while it is being written.
    #[must_use]
    pub fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    /// Another handle of it, to be read by others: it does not hold the lock.
    ///
    /// # Errors
    /// The system failed.
    pub fn reopen(&self) -> Result<Arc<File>, StoreError> {
        let opened = self.place.folder.open(&self.name).map(cap_std::fs::File::into_std);
        opened.map(Arc::new).map_err(error_at(&self.place.path))
    }

    /// Takes it out of its folder: it is gone when nobody has it open any more.
    ///
    /// # Errors
    /// The system failed.
    pub fn unlink(&self) -> Result<(), StoreError> {
        self.place.folder.remove_file(&self.name).map_err(error_at(&self.place.path))
    }

    /// Makes durable what was written so far.
    ///
    /// # Errors
    /// The system failed.
    pub fn sync(&self) -> Result<(), StoreError> {
        self.file.sync_data().map_err(error_at(&self.place.path))
    }

    /// Whether any of `range` was ever written. Where the file system cannot tell, it is said to be.
    #[must_use]
    pub fn is_written(&self, range: Range<u64>) -> bool {
        match rustix::fs::seek(&*self.file, rustix::fs::SeekFrom::Data(range.start)) {
            Ok(data) => data < range.end,
            Err(rustix::io::Errno::NXIO) => false, // nothing but a hole up to the end
            Err(_) => true,
        }
    }

    /// Makes `range` a hole, which reads as zeros, or writes the zeros.
    ///
    /// # Errors
    /// `Full`, or the system failed.
    pub fn write_zeros(&self, range: Range<u64>) -> Result<(), StoreError> {
        use rustix::fs::{FallocateFlags, fallocate};
        if range.end <= self.bytes()? && !self.is_written(range.clone()) {
            return Ok(());
        }
        if range.end > self.bytes()? {
            // Its last byte, and not a length: others write further on meanwhile, and must not be cut off.
            self.write_at(&[0], range.end - 1)?;
        }
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if fallocate(&*self.file, hole, range.start, range.end - range.start).is_ok() {
            return Ok(());
        }
        let zeros = vec![0; ZEROS_BYTES];
        let mut at = range.start;
        while at < range.end {
            let len = usize::try_from(range.end - at).unwrap_or(ZEROS_BYTES).min(ZEROS_BYTES);
            self.write_at(&zeros[..len], at)?;
            at += len as u64;
        }
        Ok(())
    }

    /// Bytes from its beginning to the last one written.
    ///
    /// # Errors
    /// The system failed.
    pub fn bytes(&self) -> Result<u64, StoreError> {
        self.file.metadata().map(|metadata| metadata.len()).map_err(error_at(&self.place.path))
    }

    /// Fills `buffer` from `offset`.
    ///
    /// # Errors
    /// There are not so many bytes.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), StoreError> {
        self.file.read_exact_at(buffer, offset).map_err(error_at(&self.place.path))
    }

    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    /// `Full`, or the system failed; some of the bytes may have been written.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), StoreError> {
        self.file.write_all_at(bytes, offset).map_err(error_at(&self.place.path))
    }

    /// Cuts it to `size`, makes it durable, and puts it in its place at once, where nothing but the
    /// file with the stamp `replaceable` may stand.
    ///
    /// # Errors
    /// What stood in its place still stands there.
    pub fn commit(self, size: u64, replaceable: Option<Stamp>) -> Result<Stamp, StoreError> {
        let failed = error_at(&self.place.path);
        self.file.set_len(size).map_err(&failed)?;
        self.file.sync_all().map_err(&failed)?;
        let folder = self.place.folder.try_clone().map_err(&failed)?;
        drop(failed);
        let path = self.place.path.clone();
        let stamp = self.commit_synced(size, replaceable)?;
        folder.open(".").and_then(|folder| folder.sync_all()).map_err(error_at(&path))?;
        Ok(stamp)
    }

    /// As [`commit`](Self::commit), for a file that is durable already; its folder is not made so.
    ///
    /// # Errors
    /// What stood in its place still stands there.
    pub fn commit_synced(self, size: u64, replaceable: Option<Stamp>) -> Result<Stamp, StoreError> {
        let Self { place, file, name } = self;
        let failed = error_at(&place.path);
        if file.metadata().map_err(&failed)?.len() != size {
            file.set_len(size).map_err(&failed)?;
        }
        if place.stamp()? != replaceable {
            return Err(StoreError::ChangedMeanwhile(place.path.clone()));
        }
        place.folder.rename(&name, &place.folder, &place.file_name).map_err(&failed)?;
        file.metadata().map(|metadata| Stamp::of(&metadata)).map_err(&failed)
    }

    /// Makes many durable at once: each file system that they are on is told to write all it has.
    ///
    /// # Errors
    /// The system failed; some may be durable.
    pub fn sync_all<'a>(partials: impl Iterator<Item = &'a Self>) -> Result<(), StoreError> {
        let mut devices = Vec::new();
        for partial in partials {
            let failed = error_at(&partial.place.path);
            let device = partial.file.metadata().map_err(&failed)?.dev();
            if !devices.contains(&device) {
                devices.push(device);
                rustix::fs::syncfs(&*partial.file).map_err(io::Error::from).map_err(&failed)?;
            }
        }
        Ok(())
    }

    /// Removes it.
    ///
    /// # Errors
    /// The system failed.
    pub fn discard(self) -> Result<(), StoreError> {
        match self.place.folder.remove_file(&self.name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()), // gone already: as wanted
            removed => removed.map_err(error_at(&self.place.path)),
        }
    }
}

/// Makes durable which names are in `folder`. A failure is only told: the files are whole in any case.
pub(crate) fn sync_folder(folder: &Path) {
    if let Err(error) = File::open(folder).and_then(|folder| folder.sync_all()) {
        tracing::warn!(folder = %folder.display(), %error, "cannot make a folder durable");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> FileName {
        FileName::new(text).unwrap()
    }

    fn content() -> ContentHash {
        ContentHash::from_bytes([1; 32])
    }

    #[test]
    fn a_file_appears_whole_and_its_partial_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let share = ShareFolder::open(folder.path()).unwrap();
        let partial = share.place(&name("a/b/c.bin")).unwrap().partial(&content()).unwrap();
        partial.write_at(b"world", 6).unwrap();
        partial.write_at(b"hello ", 0).unwrap();
        let target = folder.path().join("a/b/c.bin");
        assert!(!target.exists() && partial.path().exists());
        let stamp = partial.commit(11, None).unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"hello world");
        assert_eq!(Stamp::of(&std::fs::metadata(&target).unwrap()), stamp);
        assert_eq!(std::fs::read_dir(folder.path().join("a/b")).unwrap().count(), 1);
    }

    #[test]
    fn a_partial_is_found_again_and_used_by_one_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let share = ShareFolder::open(folder.path()).unwrap();
        let first = share.place(&name("a")).unwrap().partial(&content()).unwrap();
        first.write_at(b"half", 0).unwrap();
        let second = share.place(&name("a")).unwrap().partial(&content());
        assert!(matches!(second, Err(StoreError::Busy(_))));
        drop(first);
        let again = share.place(&name("a")).unwrap().partial(&content()).unwrap();
        assert_eq!(again.bytes().unwrap(), 4);
    }

    #[test]
    fn a_symbolic_link_does_not_lead_out() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::os::unix::fs::symlink(outside.path(), folder.path().join("way-out")).unwrap();
        let share = ShareFolder::open(folder.path()).unwrap();
        for text in ["way-out/a", "way-out/deeper/a"] {
            let error = share.place(&name(text)).unwrap_err();
            assert!(matches!(error, StoreError::Escapes(_)), "{text}: {error}");
        }
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_name_that_is_another_only_by_case_or_form_is_noticed_in_any_part() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("docs/deep")).unwrap();
        let files = ["docs/README.md", "docs/deep/caf\u{e9}", "docs/ΟΔΟΣ", "docs/\u{212a}"];
        files.iter().for_each(|file| std::fs::write(folder.path().join(file), b"mine").unwrap());
        let share = ShareFolder::open(folder.path()).unwrap();
        let like = |text: &str| {
            let found = share.look_alike(&name(text)).unwrap();
            found.map(|path| path.strip_prefix(share.root()).unwrap().to_str().unwrap().to_owned())
        };
        let cases = [
            ("docs/README.md", None),
            ("docs/readme.md", Some(files[0])),
            ("docs/readme.txt", None),
            ("Docs/other", Some("docs")),
            ("docs/DEEP/other", Some("docs/deep")),
            ("other/README.md", None),
            ("docs/deep/caf\u{e9}", None),
            ("docs/deep/cafe\u{301}", Some(files[1])),
            ("docs/deep/CAFE\u{301}", Some(files[1])),
            ("docs/deep/cafe", None),
            ("docs/οδος", Some(files[2])),
            ("docs/k", Some(files[3])),
        ];
        for (text, found) in cases {
            assert_eq!(like(text).as_deref(), found, "{text}");
        }
        assert!(share.look_alike(&name("docs/README.md/a")).is_err(), "a file is no folder");
        assert!(!folder.path().join("other").exists(), "nothing is made");
    }

    #[test]
    fn a_link_in_the_place_of_the_file_is_replaced_not_followed() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let victim = outside.path().join("victim");
        std::fs::write(&victim, b"precious").unwrap();
        std::os::unix::fs::symlink(&victim, folder.path().join("a")).unwrap();
        let share = ShareFolder::open(folder.path()).unwrap();
        let place = share.place(&name("a")).unwrap();
        assert_eq!(place.stamp().unwrap(), None);
        let partial = place.partial(&content()).unwrap();
        partial.write_at(b"new", 0).unwrap();
        partial.commit(3, None).unwrap();
        assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
        assert_eq!(std::fs::read(folder.path().join("a")).unwrap(), b"new");
    }

    #[test]
    fn a_file_that_appeared_or_changed_meanwhile_is_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let share = ShareFolder::open(folder.path()).unwrap();
        let path = folder.path().join("a");
        let partial = || share.place(&name("a")).unwrap().partial(&content()).unwrap();
        let fresh = partial();
        std::fs::write(&path, b"mine").unwrap();
        assert!(matches!(fresh.commit(0, None), Err(StoreError::ChangedMeanwhile(_))));
        let seen = share.place(&name("a")).unwrap().stamp().unwrap();
        std::fs::write(&path, b"mine, edited").unwrap();
        assert!(matches!(partial().commit(0, seen), Err(StoreError::ChangedMeanwhile(_))));
        assert_eq!(std::fs::read(&path).unwrap(), b"mine, edited");
    }

    #[test]
    fn a_folder_in_the_way_is_no_place() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("a")).unwrap();
        let share = ShareFolder::open(folder.path()).unwrap();
        assert!(matches!(share.place(&name("a")).unwrap().stamp(), Err(StoreError::NotAPlace(_))));
        assert!(matches!(Place::anywhere(Path::new("/")), Err(StoreError::NotAPlace(_))));
    }
}
