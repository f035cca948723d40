//! Locks the data folder for one process; the system releases the lock when the process ends.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read, Seek, Write},
    path::Path,
};

use nekoproto::{Remedy, open_private, private_folder};

use super::flock::{HeldLock, holder_beside, is_unknown, try_lock};
use crate::failure::{Failure, FailureKind, is_full};

/// Second line of the lock file once there is a catalogue.
const HAS_CATALOGUE: &str = "catalogue";
/// More than the lock file has.
const TEXT_BYTES_MAX: u64 = 64;
/// Prefix of the files that are renamed when they are complete; what has it when a process starts is left from a killed
/// one, and may be a key.
const LEFTOVER_PREFIX: &str = ".tmp";

#[derive(Debug)]
pub(crate) struct DataLock {
    file: File,
    _held: HeldLock,
    /// Whether a peer has run in it that had its catalogue.
    pub(crate) had_catalogue: bool,
}

/// Another process uses the data folder, if known which.
pub(crate) fn in_use(folder: &Path, process: Option<&str>) -> Failure {
    let process = process.map(|id| format!(" (process {id})")).unwrap_or_default();
    let message =
        format!("the data folder {} is in use by another nekopeer{process}: stop that one", folder.display());
    Failure::with(FailureKind::Busy, message).remedied(Remedy::DataDir)
}

/// The lock of the data folder cannot be made or written.
pub(crate) fn unusable(folder: &Path) -> impl Fn(io::Error) -> Failure + '_ {
    move |error| {
        let message = format!("cannot lock the data folder {}: {error}", folder.display());
        match is_full(&error) {
            true => {
                let message = format!("{message}; free some space, what is there is kept");
                Failure::with(FailureKind::Full, message)
            }
            false => Failure::new(format!("{message}; this user must be able to write there"))
                .remedied(Remedy::DataDir),
        }
    }
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
    pub(crate) fn take(folder: &Path) -> Result<Self, Failure> {
        let unusable = unusable(folder);
        private_folder(folder)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let path = folder.join("lock");
        let mut file = open_private(&path, &mut options).map_err(&unusable)?;
        let held = match try_lock(&file, &path) {
            Ok(held) => held,
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let read = file.read_to_string(&mut text).is_ok();
                return Err(in_use(folder, read.then(|| process_in(&text)).filter(|text| !text.is_empty())));
            }
            Err(TryLockError::Error(source)) => return Err(unusable(source)),
        };
        let mut text = String::new();
        (&mut file).take(TEXT_BYTES_MAX).read_to_string(&mut text).map_err(&unusable)?;
        let mut lock = Self { file, _held: held, had_catalogue: text.lines().nth(1) == Some(HAS_CATALOGUE) };
        lock.write().and_then(|()| remove_leftovers(folder)).map_err(&unusable)?;
        Ok(lock)
    }

    /// Notes that the catalogue is there: from now on it is lost if it is missing.
    pub(crate) fn note_catalogue(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.had_catalogue, true) {
            true => Ok(()),
            false => self.write(),
        }
    }

    /// Writes in one piece that is as long as the one before, so that a kill leaves one or the other.
    fn write(&mut self) -> io::Result<()> {
        let marker = if self.had_catalogue { HAS_CATALOGUE } else { "" };
        let text = format!("{:<10}\n{marker:<9}\n", std::process::id());
        self.file.rewind()?;
        self.file.write_all(text.as_bytes())?;
        self.file.set_len(text.len() as u64)
    }

    /// The id of the process that has locked the folder; `None` if none has.
    pub(crate) fn holder(folder: &Path) -> io::Result<Option<u32>> {
        let path = folder.join("lock");
        let mut file = match open_private(&path, OpenOptions::new().read(true)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        match file.try_lock_shared() {
            Ok(()) => file.unlock().map(|()| None), // see `drop`
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                file.read_to_string(&mut text)?;
                Ok(Some(process_in(&text).parse().unwrap_or(0))) // it has not yet said which
            }
            Err(TryLockError::Error(error)) if is_unknown(&error) => Ok(holder_beside(&path)),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

fn process_in(text: &str) -> &str {
    text.lines().next().unwrap_or_default().trim()
}

fn remove_leftovers(folder: &Path) -> io::Result<()> {
    for entry in folder.read_dir()? {
        let entry = entry?;
        let is_left = entry.file_name().as_encoded_bytes().starts_with(LEFTOVER_PREFIX.as_bytes());
        if is_left && entry.file_type()?.is_file() {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_process_left_is_removed_and_a_catalogue_is_missed_once_it_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let kept = ["peer.key", "other.tmp"];
        for name in kept.into_iter().chain([".tmpAb12cD", ".tmpQ7xYz2"]) {
            std::fs::write(folder.path().join(name), "secret").unwrap();
        }
        for _ in 0..2 {
            assert!(!DataLock::take(folder.path()).unwrap().had_catalogue, "the first start was killed");
        }
        let left = folder.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name());
        let mut left: Vec<_> = left.filter(|name| name != "lock").collect();
        left.sort();
        assert_eq!(left, ["other.tmp", "peer.key"]);
        DataLock::take(folder.path()).unwrap().note_catalogue().unwrap();
        for _ in 0..2 {
            assert!(DataLock::take(folder.path()).unwrap().had_catalogue);
        }
    }

    #[test]
    fn full_disk_is_no_matter_of_permissions() {
        let said = |kind: io::ErrorKind| unusable(Path::new("folder"))(kind.into()).to_string();
        assert!(said(io::ErrorKind::StorageFull).contains("free some space"));
        assert!(said(io::ErrorKind::PermissionDenied).contains("must be able to write"));
    }

    #[test]
    fn a_second_user_is_refused_by_name_until_the_first_is_gone() {
        let (_folder, path) = testkit::temp_path("a/.neko");
        let first = DataLock::take(&path).unwrap();
        let error = DataLock::take(&path).unwrap_err().to_string();
        assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
        assert_eq!(DataLock::holder(&path).unwrap(), Some(std::process::id()));
        drop(first);
        assert_eq!(DataLock::holder(&path).unwrap(), None);
        assert!(DataLock::take(&path).is_ok());
    }
}
