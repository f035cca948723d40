//! [`Skipped`]: what in a folder is not published, and why; [`RulesError`]: why that is not known.

use std::{fmt, io, path::PathBuf};

use nekoproto::Remedy;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// Why it is not known what in a folder is published.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// A glob that the user excludes is none.
    #[error("{glob:?} is no glob that can be excluded: {why}")]
    Glob {
        /// The glob.
        glob: String,
        /// What is wrong with it.
        why: String,
    },
    /// A folder cannot be looked into, so that it is not known what is in it.
    #[error("cannot read {path}: {source}; nothing in it is shared, make it readable")]
    Unreadable {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// An ignore file cannot be read.
    #[error("{path} cannot be followed, and nothing in its folder is shared: {why}; mend it")]
    IgnoreFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

impl From<RulesError> for Failure {
    fn from(error: RulesError) -> Self {
        let remedy = matches!(error, RulesError::Unreadable { .. }).then_some(Remedy::Exclude);
        Self { remedy, ..Self::invalid(error.to_string()) }
    }
}

/// Why something is not published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SkipCause {
    /// Its name begins with a dot.
    Hidden,
    /// It is a symbolic link.
    Link,
    /// A `.nekoignore` file names it.
    Ignored,
    /// The user excluded it.
    Excluded,
    /// It is neither a file nor a folder.
    NotAFile,
    /// The peer was told to keep it to itself.
    Secret,
}

impl fmt::Display for SkipCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hidden => "hidden",
            Self::Link => "a link",
            Self::Ignored => ".nekoignore names it",
            Self::Excluded => "a glob excludes it",
            Self::NotAFile => "neither a file nor a folder",
            Self::Secret => "this peer keeps it secret",
        })
    }
}

/// Something in a folder that is not published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Where it is.
    pub path: PathBuf,
    /// Why.
    pub cause: SkipCause,
    /// It is a folder: what is below it is not listed.
    pub is_folder: bool,
    /// It, or something below it, was published before and stays published as it was.
    pub is_published: bool,
}
