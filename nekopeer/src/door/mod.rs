//! The door of a data folder: a local socket at which the peer that runs there takes commands, over HTTP.
//!
//! Only the process that holds the lock of the data folder opens the [`Door`]. Everyone else who wants something done
//! there [`knock`]s. The body of a request is a line of JSON, the command, and then its input; that of the answer is a line
//! for each [`Reply`](crate::api::Reply). If the caller leaves, the command is interrupted. Where no peer runs, the same
//! router is called in the process.

mod caller;
mod facts;
mod lines;
mod place;
mod router;
mod server;
#[cfg(test)]
mod tests;

use std::{io, path::PathBuf};

use nekoproto::Remedy;

pub(crate) use self::{
    caller::{Caller, knock},
    facts::Facts,
    server::Door,
};
use crate::api::{Class, Classified, FailureKind};

/// Why nothing can be asked at the door.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DoorError {
    #[error("no peer takes commands at {0}")]
    NobodyThere(PathBuf),
    #[error("the peer of {0} belongs to another user: {1}; run this as that user")]
    NotAllowed(PathBuf, io::Error),
    /// The peer is of another version of the program.
    #[error(
        "the running peer of {0} is another version of nekopeer: end it with that version, or by a signal"
    )]
    OtherVersion(PathBuf),
    /// The socket failed.
    #[error(
        "the running peer of {0} cannot be asked: {1}; run this again, and end the peer by a signal if it stays so"
    )]
    Broken(PathBuf, io::Error),
}

impl Classified for DoorError {
    fn class(&self) -> Class {
        match self {
            Self::NotAllowed(..) => (FailureKind::Conflict, Some(Remedy::DataDir)),
            Self::NobodyThere(_) | Self::OtherVersion(_) | Self::Broken(..) => (FailureKind::Failed, None),
        }
    }
}
