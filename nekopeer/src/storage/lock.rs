//! Locks the data folder for one process; the system releases the lock when the process ends.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read, Seek, Write},
    path::{Path, PathBuf},
};

use nekoproto::{PrivateError, open_private, private_folder};

/// Locks the data folder until dropped.
#[derive(Debug)]
pub(crate) struct DataLock {
    file: File,
    /// Whether a process has locked it before.
    pub(crate) was_used: bool,
}

/// Why the data folder cannot be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process uses it.
    #[error(
        "the data folder {path} is in use by another nekopeer{}: stop that one, or give this one another folder with --data-dir",
        .process.as_ref().map(|id| format!(" (process {id})")).unwrap_or_default()
    )]
    InUse {
        /// The folder.
        path: PathBuf,
        /// The other process, if known.
        process: Option<String>,
    },
    /// It cannot be made, or others may write to it.
    #[error(transparent)]
    Folder(#[from] PrivateError),
    /// Its lock cannot be made or written.
    #[error(
        "cannot lock the data folder {path}: {source}; this user must be able to write there, or choose another with --data-dir"
    )]
    Unusable {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// Unlocks it, since closing the file is not enough: a child that this process has just forked has it open until it
/// becomes another program.
impl Drop for DataLock {
    fn drop(&mut self) {
        let _ = self.file.unlock(); // on failure closing it has to do
    }
}

impl DataLock {
    /// Creates the folder if needed and locks it.
    ///
    /// # Errors
    /// The folder cannot be locked. It may have been created.
    pub(crate) fn take(folder: &Path) -> Result<Self, LockError> {
        let unusable = |source| LockError::Unusable { path: folder.to_owned(), source };
        private_folder(folder)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = open_private(&folder.join("lock"), &mut options).map_err(unusable)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let read = file.read_to_string(&mut text).is_ok();
                let process = read.then(|| text.trim().to_owned()).filter(|text| !text.is_empty());
                return Err(LockError::InUse { path: folder.to_owned(), process });
            }
            Err(TryLockError::Error(source)) => return Err(unusable(source)),
        }
        let was_used = file.metadata().map_err(unusable)?.len() > 0;
        file.set_len(0).and_then(|()| file.rewind()).map_err(unusable)?;
        writeln!(file, "{}", std::process::id()).map_err(unusable)?;
        Ok(Self { file, was_used })
    }

    /// The id of the process that has locked the folder; `None` if none has.
    ///
    /// # Errors
    /// The lock cannot be examined.
    pub(crate) fn holder(folder: &Path) -> io::Result<Option<u32>> {
        let mut file = match open_private(&folder.join("lock"), OpenOptions::new().read(true)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        match file.try_lock_shared() {
            Ok(()) => file.unlock().map(|()| None), // see `drop`
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                file.read_to_string(&mut text)?;
                Ok(Some(text.trim().parse().unwrap_or(0))) // it has not yet said which
            }
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_user_is_refused_by_name_until_the_first_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/.neko");
        let first = DataLock::take(&path).unwrap();
        let error = DataLock::take(&path).unwrap_err().to_string();
        assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
        assert_eq!(DataLock::holder(&path).unwrap(), Some(std::process::id()));
        drop(first);
        assert_eq!(DataLock::holder(&path).unwrap(), None);
        assert!(DataLock::take(&path).is_ok());
    }
}
