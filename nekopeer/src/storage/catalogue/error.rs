//! Why an operation of the catalogue fails. The database is as before.

use std::{
    io::{self, ErrorKind},
    path::Path,
};

use nekoproto::FileName;

use crate::{
    failure::{Failure, Reason, is_full},
    storage::error::full,
};

/// A version that is about to be replaced cannot be kept at `path`. It stays in its place.
pub(super) fn not_kept(path: &Path, error: io::Error) -> Failure {
    if is_full(&error) {
        return full(path);
    }
    let path = path.display();
    let message =
        format!("cannot keep the version before at {path}: {error}; the newer one waits until that works");
    Failure::new(message).passing()
}

/// The database contains something that this program did not write.
pub(super) fn damaged(path: &Path, what: impl Into<String>) -> Failure {
    let (path, what) = (path.display(), what.into());
    let message = format!(
        "the catalogue {path} is damaged ({what}): run nekopeer repair, which rebuilds it from the files and from what \
         indexers know, or restore the data folder from a copy"
    );
    Failure::new(message).because(Reason::Damaged(what))
}

/// The database failed. If the disk is full, the next operation tries again.
pub(super) fn database(path: &Path, error: impl Into<redb::Error>) -> Failure {
    match error.into() {
        redb::Error::Io(error) if is_full(&error) => full(path),
        error if is_damage(&error) => damaged(path, error.to_string()),
        error => {
            let help = "run this again, and if it stays so restore the data folder from a copy";
            Failure::new(format!("the catalogue {} failed: {error}; {help}", path.display())).passing()
        }
    }
}

/// The name was published or deregistered here, or got a later version, during the download.
pub(crate) fn overtaken(name: &FileName) -> Failure {
    let what = "was shared, unshared or refreshed here meanwhile; what was downloaded is no copy of it: run this again";
    Failure::new(format!("{name} {what}")).because(Reason::Overtaken)
}

pub(super) fn versions_used_up(name: &FileName) -> Failure {
    Failure::new(format!("no version number is left for {name}: share it under another name"))
}

/// Whether the file is not what the database wrote. Its lock is poisoned by a panic that damage caused.
fn is_damage(error: &redb::Error) -> bool {
    use redb::Error as Of;
    match error {
        Of::Io(error) => matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof),
        Of::Corrupted(_) | Of::LockPoisoned(_) | Of::RepairAborted | Of::UpgradeRequired(_) => true,
        Of::TableDoesNotExist(_) | Of::TableIsMultimap(_) | Of::TableTypeMismatch { .. } => true,
        Of::TypeDefinitionChanged { .. } => true,
        _ => false,
    }
}
