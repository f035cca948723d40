//! Files on disk: safe places for received names, partial downloads, atomic replacement.
//!
//! A place is a handle of its folder and the last part of its name. Inside the share folder it
//! is reached through that folder's handle (cap-std), so that no symbolic link leads out of it.

mod look_alikes;
mod partial;

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

use cap_std::{ambient_authority, fs::Dir};
use nekoproto::FileName;

pub(crate) use self::look_alikes::folded;
pub use self::partial::{PARTIAL_PREFIX, Partial};
use crate::stamp::Stamp;

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
}

/// Makes durable which names are in `folder`. A failure is only told: the files are whole in any case.
pub(crate) fn sync_folder(folder: &Path) {
    if let Err(error) = File::open(folder).and_then(|folder| folder.sync_all()) {
        tracing::warn!(folder = %folder.display(), %error, "cannot make a folder durable");
    }
}

#[cfg(test)]
mod tests {
    use nekoproto::ContentHash;

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
