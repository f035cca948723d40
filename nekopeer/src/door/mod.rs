//! The door of a data folder: a local socket at which the peer that runs there takes commands.
//!
//! Only the process that holds the lock of the data folder opens the [`Door`]. Everyone else who wants
//! something done there [`knock`]s. A connection carries one command: the peer sends its [`Facts`], the caller
//! the command and its input, the peer the answer. If the caller leaves, the command is interrupted.

mod caller;
mod facts;
mod frames;
mod place;
mod server;
#[cfg(test)]
mod tests;

use std::{io, path::PathBuf};

use nekoproto::codec;
use serde::{Deserialize, Serialize};

pub(crate) use self::{
    caller::{Caller, knock},
    facts::Facts,
    server::{Door, Ending},
};
use crate::commands::Command;

/// What a caller sends.
#[derive(Debug, Serialize, Deserialize)]
enum Request {
    /// The command; the first request.
    Command(Box<Command>),
    /// The next bytes of its input.
    Input(#[serde(with = "serde_bytes")] Vec<u8>),
    /// The input is complete.
    InputEnd,
    /// The input cannot be read to its end.
    InputFailed(String),
}

/// Why nothing can be asked at the door.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DoorError {
    /// Nobody listens.
    #[error("no peer takes commands at {0}")]
    NobodyThere(PathBuf),
    /// The peer runs as another user.
    #[error(
        "the peer of {0} belongs to another user: {1}; run this as that user, or with another --data-dir"
    )]
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

/// Encodes at most `limit` bytes.
fn encode<T: Serialize>(value: &T, limit: usize) -> io::Result<bytes::Bytes> {
    let mut bytes = Vec::new();
    codec::encode_into(&mut bytes, value, limit as u64)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    Ok(bytes.into())
}

fn decode<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> io::Result<T> {
    codec::decode(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
