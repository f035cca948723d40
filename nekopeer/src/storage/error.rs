//! Why a file cannot be stored.

use std::{
    io,
    path::{Path, PathBuf},
};

/// What neither a user nor a download removes, such as /dev/full.
pub(super) const DEVICE: &str = "a device";
const GIB: f64 = (1 << 30) as f64;

/// Why a file cannot be stored. The file that was there is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A symbolic link leads out of the share folder.
    #[error("{0} would leave the share folder: a symbolic link leads out of it, remove that")]
    Escapes(PathBuf),
    /// It would be among the files of the program itself.
    #[error("{0} would lie in the data folder of this peer, which is for its own files")]
    InDataFolder(PathBuf),
    /// The disk is full, or a quota or file size limit is reached.
    #[error("no space is left to write {0}: free some and try again, what is there already is kept")]
    Full(PathBuf),
    /// As `Full`, of a download: its partial file is kept, so that the download resumes.
    #[error(
        "no space is left to write {path}: free some and run it again to go on; or remove {partial}, which keeps {} KiB of it",
        .bytes.div_ceil(1024)
    )]
    FullDownload {
        /// The file.
        path: PathBuf,
        /// The partial file.
        partial: PathBuf,
        /// What the partial file takes of the disk, in bytes.
        bytes: u64,
    },
    /// The file is larger than what is free on the disk.
    #[error(
        "{path} has {:.1} GiB, and {:.1} GiB of its disk are free: free some, or force it, if most of it is zeros",
        *.size as f64 / GIB, *.free as f64 / GIB
    )]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
        /// The free bytes.
        free: u64,
    },
    /// Another process is downloading the same file to the same place.
    #[error("{0} is being downloaded by another process: wait for it, or choose another place")]
    Busy(PathBuf),
    /// Something that is no file has this path. It is left as it is.
    #[error("{path} is {what}, no file{}", if *.what == DEVICE { "" } else { ": remove it" })]
    NotAPlace {
        /// The path.
        path: PathBuf,
        /// What is there.
        what: &'static str,
    },
    /// Something that is no folder has the path of a set's folder. It is left as it is.
    #[error("{0} is no folder, and a set is one: remove it")]
    NotAFolder(PathBuf),
    /// Another program removed the partial file, wrote into it, or put something else in its place, which is left as it
    /// is.
    #[error("{0} was removed, replaced or changed by another program meanwhile: run this again")]
    Swapped(PathBuf),
    /// Another program moved the folder of the file, or put something else in its place.
    #[error(
        "the folder of {0} was moved or replaced by another program meanwhile, and what was received with it: run this again"
    )]
    FolderMoved(PathBuf),
    /// The existing file was changed or created during the download.
    #[error("{0} was changed meanwhile and is left as it is: move it away and run this again")]
    ChangedMeanwhile(PathBuf),
    /// Any other error.
    #[error("cannot use {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl StoreError {
    pub(crate) fn at(path: &Path, source: io::Error) -> Self {
        error_at(path)(source)
    }

    pub(crate) fn stopped(path: &Path) -> Self {
        Self::Io { path: path.to_owned(), source: io::ErrorKind::Interrupted.into() }
    }
}

/// Maps the system's error for `path` to the variant that tells the user what to do.
pub(super) fn error_at(path: &Path) -> impl Fn(io::Error) -> StoreError + '_ {
    move |source| match source.kind() {
        _ if is_full(&source) => StoreError::Full(path.to_owned()),
        // an error of cap-std, not of the system
        io::ErrorKind::PermissionDenied if source.raw_os_error().is_none() => {
            StoreError::Escapes(path.to_owned())
        }
        _ => StoreError::Io { path: path.to_owned(), source },
    }
}

/// Whether the disk is full, or a quota or file size limit is reached.
pub(crate) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(error.kind(), Kind::StorageFull | Kind::QuotaExceeded | Kind::FileTooLarge)
}
