//! Why a file cannot be stored. The file that was there is unchanged.

use std::{io, path::Path};

use nekoproto::Remedy;

use crate::failure::{Failure, FailureKind, is_full};

/// What neither a user nor a download removes, such as /dev/full.
pub(super) const DEVICE: &str = "a device";

/// Says of the system's error for `path` what to do.
pub(crate) fn error_at(path: &Path) -> impl Fn(io::Error) -> Failure + '_ {
    use io::ErrorKind as Kind;
    move |error| match error.kind() {
        _ if is_full(&error) => full(path),
        // an error of cap-std, not of the system
        Kind::PermissionDenied if error.raw_os_error().is_none() => {
            let why = "would leave the share folder: a symbolic link leads out of it, remove that";
            Failure::invalid(format!("{} {why}", path.display())).remedied(Remedy::Output)
        }
        kind => {
            let kind = match kind {
                // A file stands where a folder is needed, or the other way round.
                Kind::NotADirectory | Kind::IsADirectory | Kind::AlreadyExists => FailureKind::Conflict,
                Kind::InvalidFilename => FailureKind::Invalid,
                _ => FailureKind::Failed,
            };
            Failure::with(kind, format!("cannot use {}: {error}", path.display())).passing()
        }
    }
}

pub(crate) fn stopped(path: &Path) -> Failure {
    error_at(path)(io::ErrorKind::Interrupted.into())
}

/// The disk is full, or a quota or file size limit is reached.
pub(crate) fn full(path: &Path) -> Failure {
    let what = "free some and try again, what is there already is kept";
    Failure::with(FailureKind::Full, format!("no space is left to write {}: {what}", path.display()))
}

/// Something that is no file has this path. It is left as it is.
pub(super) fn not_a_place(path: &Path, what: &str) -> Failure {
    let help = if what == DEVICE { "" } else { ": move it away" };
    Failure::conflict(format!("{} is {what}, no file{help}", path.display())).remedied(Remedy::Output)
}

/// What is there was changed or created during the download.
pub(super) fn changed_meanwhile(path: &Path) -> Failure {
    let what = "was changed meanwhile and is left as it is: move it away and run this again";
    Failure::conflict(format!("{} {what}", path.display()))
}

/// The path of a place does not lead to the folder any more that was opened.
pub(crate) fn folder_away(path: &Path) -> Failure {
    let (path, what) = (path.display(), "was moved or replaced by another program meanwhile");
    let received = "and what was received with it";
    Failure::conflict(format!("the folder of {path} {what}, {received}: run this again")).passing()
}
