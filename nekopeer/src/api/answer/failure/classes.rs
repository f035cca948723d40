//! What follows from each error, and what helps.

use std::io;

use nekoproto::{Refusal, Remedy};

use super::{
    Class, Classified,
    FailureKind::{Away, Busy, Conflict, Failed, Full, Invalid, NoSuchPath, NotFound},
};
use crate::{
    download::DownloadError,
    indexers::SearchError,
    peer::StartError,
    publish::PublishError,
    reading::ReadError,
    sets::SetError,
    storage::{StoreError, catalogue::CatalogueError, is_full, lock::LockError},
};

impl Classified for DownloadError {
    fn class(&self) -> Class {
        let kind = match self {
            Self::Search(error) => return error.class(),
            Self::NobodyAsked { source, .. } => return source.class(),
            Self::NotStored { source, .. } => return source.class(),
            Self::Store(error) => return error.class(),
            Self::Catalogue(error) => return error.class(),
            Self::Set(error) => return error.class(),
            Self::NotKept { .. } => return (NotFound, Some(Remedy::Keep)),
            Self::Exists(_) | Self::NotPublished(_) => return (Conflict, Some(Remedy::Force)),
            Self::NotFound { .. }
            | Self::NobodyKeeps { .. }
            | Self::Withdrawn { .. }
            | Self::OriginGone { .. }
            | Self::NotOfOrigin { .. } => NotFound,
            Self::Pipe { why, .. } => match why.kind() {
                // What was to be stored did not come to its end.
                io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => Invalid,
                _ => Failed,
            },
            Self::Ambiguous { .. } | Self::Own(_) => Conflict,
            Self::AlreadyRunning(_) | Self::Judged(_) => Busy,
            Self::Older { .. } | Self::Unconfirmed(_) | Self::SourcesExhausted { .. } => Away,
            Self::OriginLies(_) => Failed,
        };
        (kind, None)
    }
}

impl Classified for ReadError {
    fn class(&self) -> Class {
        let kind = match self {
            Self::Download(error) => return error.class(),
            Self::Changed(_) => Conflict,
            Self::PastBound(_) => Away,
            Self::NoDisk(_) => Full,
            Self::Busy | Self::TooSlow | Self::Ending => Busy,
        };
        (kind, None)
    }
}

impl Classified for PublishError {
    fn class(&self) -> Class {
        let kind = match self {
            Self::Catalogue(error) => return error.class(),
            Self::Set(error) => return error.class(),
            Self::NotStored { source, .. } => return source.class(),
            Self::NotRegistered(_) => NotFound,
            Self::Unreadable { source, .. } => match source.kind() {
                // Nothing can stand at a path that is too long, either.
                io::ErrorKind::NotFound | io::ErrorKind::InvalidFilename => NoSuchPath,
                _ => Invalid,
            },
            Self::NameForFolder(_) | Self::SameName { .. } => Conflict,
            Self::Chunk(_) => Failed,
            Self::Name { .. } | Self::OwnData(_) | Self::Policy(_) | Self::Rules(_) => Invalid,
        };
        (kind, None)
    }
}

impl Classified for SearchError {
    fn class(&self) -> Class {
        match self {
            Self::NoIndexer => (Away, Some(Remedy::Indexer)),
            Self::Unreachable { why, .. } => (Away, why.remedy.or(Some(Remedy::Indexer))),
            Self::Refused(Refusal::Busy) => (Busy, None),
            Self::Refused(_) => (Failed, None),
            Self::Pattern(_) => (Invalid, None),
        }
    }
}

impl Classified for StoreError {
    fn class(&self) -> Class {
        let kind = match self {
            Self::Escapes(_) | Self::InDataFolder(_) => return (Invalid, Some(Remedy::Output)),
            Self::NotAFolder(_) | Self::NotAPlace { .. } => return (Conflict, Some(Remedy::Output)),
            Self::Full(_) | Self::FullDownload { .. } | Self::TooLarge { .. } => Full,
            Self::Busy(_) => Busy,
            Self::ChangedMeanwhile(_) | Self::Swapped(_) | Self::FolderMoved(_) => Conflict,
            Self::Io { source, .. } => match source.kind() {
                // A file stands where a folder is needed, or the other way round.
                io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory | io::ErrorKind::AlreadyExists => {
                    Conflict
                }
                io::ErrorKind::InvalidFilename => Invalid,
                _ => Failed,
            },
        };
        (kind, None)
    }
}

impl Classified for SetError {
    fn class(&self) -> Class {
        let kind = match self {
            Self::Store(error) => return error.class(),
            Self::Catalogue(error) => return error.class(),
            Self::Write(source) if is_full(source) => Full,
            Self::Exists(_) | Self::Changed(_) => return (Conflict, Some(Remedy::Force)),
            Self::IsFolder(_) => Conflict,
            Self::Unreadable { source, .. } if source.kind() == io::ErrorKind::NotFound => NoSuchPath,
            Self::KeepsChanging(_) | Self::Write(_) | Self::Read(_) | Self::Damaged(_) | Self::Stopped => {
                Failed
            }
            Self::NotAFolder(_)
            | Self::NotOne(_)
            | Self::NotAFile { .. }
            | Self::Name { .. }
            | Self::Unreadable { .. }
            | Self::Several { .. }
            | Self::Rules(_)
            | Self::Bad(_) => Invalid,
        };
        (kind, None)
    }
}

impl Classified for CatalogueError {
    fn class(&self) -> Class {
        match self {
            Self::Full(_) => (Full, None),
            Self::CopyOfOther { .. } => (Conflict, None),
            Self::OtherFormat { .. } | Self::Exposed(_) => (Failed, Some(Remedy::DataDir)),
            _ => (Failed, None),
        }
    }
}

impl Classified for StartError {
    fn class(&self) -> Class {
        match self {
            Self::Lock(error) => error.class(),
            Self::Catalogue(error) => error.class(),
            Self::Store(error) => error.class(),
            Self::Listen { .. } => (Conflict, Some(Remedy::Listen)),
            Self::Http { .. } => (Conflict, Some(Remedy::Http)),
            Self::Identity(_) | Self::Endpoint(_) | Self::Token(_) => (Failed, None),
        }
    }
}

impl Classified for LockError {
    fn class(&self) -> Class {
        match self {
            Self::InUse { .. } => (Busy, Some(Remedy::DataDir)),
            Self::Unusable { source, .. } if is_full(source) => (Full, None),
            Self::Folder(_) | Self::Unusable { .. } => (Failed, Some(Remedy::DataDir)),
        }
    }
}
