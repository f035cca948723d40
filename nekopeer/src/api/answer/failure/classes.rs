//! What follows from each error, and what helps.

use std::io;

use crate::{
    failure::{
        Class, Classified,
        FailureKind::{Conflict, Failed, Invalid, NoSuchPath, NotFound},
    },
    publish::PublishError,
};

impl Classified for PublishError {
    fn class(&self) -> Class {
        let kind = match self {
            Self::Catalogue(failure) | Self::Set(failure) | Self::NotStored { source: failure, .. } => {
                return (failure.kind, failure.remedy);
            }
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
