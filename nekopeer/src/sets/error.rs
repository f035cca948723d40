//! Why a folder cannot be a set, or a set not unfolded. What is in the folder's place is as before.

use std::{fmt::Display, io, path::Path};

use nekoproto::{FileName, Remedy};

use crate::failure::{Failure, FailureKind, is_full};

pub(crate) const SET_FILES_MAX: usize = 100_000;

pub(super) fn bad(what: impl Display) -> Failure {
    Failure::invalid(format!("it is no valid set: {what}"))
}

pub(super) fn too_many_files(files: usize) -> Failure {
    let most = format!("a set has at most {SET_FILES_MAX}: share parts of it as sets of their own");
    bad(format_args!("it has {files} files, and {most}"))
}

pub(super) fn long_index() -> Failure {
    bad("the paths of its files are too long together: share parts of it as sets of their own")
}

pub(super) fn no_index() -> Failure {
    bad("it has no list of its files, or not a valid one")
}

pub(super) fn not_written(error: io::Error) -> Failure {
    let kind = if is_full(&error) { FailureKind::Full } else { FailureKind::Failed };
    Failure::with(kind, format!("the set cannot be stored in the data folder: {error}")).passing()
}

pub(super) fn not_read(error: io::Error) -> Failure {
    Failure::new(format!("the set's file in the data folder cannot be read: {error}")).passing()
}

pub(super) fn changed(path: &Path) -> Failure {
    let what = "was changed or put there by another program: move it away";
    Failure::conflict(format!("{} {what}", path.display())).remedied(Remedy::Force)
}

pub(crate) fn is_folder(name: &FileName) -> Failure {
    Failure::conflict(format!("{name} is a set, which is a folder: nekopeer get {name} brings it"))
}

pub(super) fn stopped() -> Failure {
    Failure::new("the peer is stopping").passing()
}
