//! One entry of the catalogue, and its stored form.

use std::{ffi::OsString, net::SocketAddr, os::unix::ffi::OsStringExt, path::PathBuf};

use nekoproto::{RecordError, SignedRecord, VerifiedRecord};
use serde::{Deserialize, Serialize};

use crate::content::stamp::Stamp;

/// A file that this peer publishes, or holds a copy of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The record of the version.
    pub record: VerifiedRecord,
    /// The absolute path of the file.
    pub path: PathBuf,
    /// Its stamp when its bytes matched the record.
    pub stamp: Stamp,
    /// When these bytes were read or written, by [`crate::content::stamp::now_ns`].
    pub hashed_at_ns: i128,
    /// The newest later version known.
    pub newest: Option<VerifiedRecord>,
    /// The last known address of the origin; `None` for own files.
    pub origin_addr: Option<SocketAddr>,
}

/// The stored form. A change to it requires a new schema number in `tables`.
#[derive(Serialize, Deserialize)]
pub(super) struct StoredEntry {
    record: SignedRecord,
    path: Vec<u8>,
    stamp: Stamp,
    hashed_at_ns: i128,
    newest: Option<SignedRecord>,
    origin_addr: Option<SocketAddr>,
}

impl From<&Entry> for StoredEntry {
    fn from(entry: &Entry) -> Self {
        Self {
            record: entry.record.to_signed(),
            path: entry.path.clone().into_os_string().into_vec(),
            stamp: entry.stamp,
            hashed_at_ns: entry.hashed_at_ns,
            newest: entry.newest.as_ref().map(VerifiedRecord::to_signed),
            origin_addr: entry.origin_addr,
        }
    }
}

impl TryFrom<StoredEntry> for Entry {
    type Error = RecordError;

    fn try_from(stored: StoredEntry) -> Result<Self, RecordError> {
        Ok(Self {
            record: stored.record.verify()?,
            path: PathBuf::from(OsString::from_vec(stored.path)),
            stamp: stored.stamp,
            hashed_at_ns: stored.hashed_at_ns,
            newest: stored.newest.map(SignedRecord::verify).transpose()?,
            origin_addr: stored.origin_addr,
        })
    }
}
