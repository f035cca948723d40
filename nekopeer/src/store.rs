//! Files on disk: safe places for received names, partial downloads, atomic replacement.
//!
//! A place is a handle of its folder and the last part of its name. Inside the share folder it
//! is reached through that folder's handle (cap-std), so that no symbolic link leads out of it.

use std::{
    fs::{File, TryLockError},
    io,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use cap_std::{
    ambient_authority,
    fs::{Dir, MetadataExt as _, OpenOptions},
};
use nekoproto::{ContentHash, FileName};

use crate::stamp::Stamp;

/// How the names of partial downloads begin; no shared name may.
pub const PARTIAL_PREFIX: &str = ".neko-part-";
/// Time for a download that was given up to write what it has received and let go of its partial.
const LET_GO_WITHIN: Duration = Duration::from_secs(1);
/// How often that is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(5);

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
    file: File,
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
                Ok(()) if self.is_still(&name, &file)? => return Ok(Partial { place: self, file, name }),
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
        let Self { place, file, name } = self;
        let failed = error_at(&place.path);
        file.set_len(size).map_err(&failed)?;
        file.sync_all().map_err(&failed)?;
        if place.stamp()? != replaceable {
            return Err(StoreError::ChangedMeanwhile(place.path.clone()));
        }
        place.folder.rename(&name, &place.folder, &place.file_name).map_err(&failed)?;
        let folder = place.folder.open(".").map_err(&failed)?;
        folder.sync_all().map_err(&failed)?;
        file.metadata().map(|metadata| Stamp::of(&metadata)).map_err(&failed)
    }

    /// Removes it.
    ///
    /// # Errors
    /// The system failed.
    pub fn discard(self) -> Result<(), StoreError> {
        self.place.folder.remove_file(&self.name).map_err(error_at(&self.place.path))
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
