//! Why a publish fails.

use std::{
    io,
    path::{Path, PathBuf},
};

use nekoproto::{FileName, NameError, Remedy};

use crate::{
    failure::{
        Failure,
        FailureKind::{Invalid, NoSuchPath},
        Reason, in_one_line,
    },
    rules::RulesError,
};

/// Why a path cannot be published.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The path does not exist or cannot be read.
    #[error("cannot read {path}: {}", unreadable(.path, .source))]
    Unreadable {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The catalogue cannot store it, nor the others of its batch.
    #[error("{path} is not shared: {source}")]
    NotStored {
        /// The path.
        path: PathBuf,
        /// Why.
        source: Failure,
    },
    /// Anything else.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// It is not known what in the folder is published.
    #[error(transparent)]
    Rules(#[from] RulesError),
}

fn unreadable(path: &Path, source: &io::Error) -> String {
    match source.kind() {
        io::ErrorKind::NotFound if path.is_symlink() => "it is a link to nowhere".to_owned(),
        _ => source.to_string(),
    }
}

pub(crate) fn bad_name(path: &Path, error: &NameError) -> PublishError {
    let why = format!("{} cannot be shared: {error}; give it another name", path.display());
    Failure::invalid(why).because(Reason::Unfit).into()
}

pub(crate) fn same_name(name: &FileName, first: &Path, second: &Path) -> PublishError {
    let (both, help) =
        (format!("{} and {}", first.display(), second.display()), "share each under a name of its own");
    Failure::conflict(format!("{both} would both be shared as {name}: {help}")).because(Reason::Unfit).into()
}

impl From<PublishError> for Failure {
    fn from(error: PublishError) -> Self {
        Self::of(&error)
    }
}

impl Failure {
    pub(crate) fn of(error: &PublishError) -> Self {
        use PublishError as Of;
        let (kind, remedy) = match error {
            Of::Failed(failure) | Of::NotStored { source: failure, .. } => (failure.kind, failure.remedy),
            Of::Unreadable { source, .. } => match source.kind() {
                // Nothing can stand at a path that is too long, either.
                io::ErrorKind::NotFound | io::ErrorKind::InvalidFilename => (NoSuchPath, None),
                _ => (Invalid, None),
            },
            Of::Rules(RulesError::Unreadable { .. }) => (Invalid, Some(Remedy::Exclude)),
            Of::Rules(_) => (Invalid, None),
        };
        Self { remedy, ..Self::with(kind, in_one_line(error)) }
    }
}
