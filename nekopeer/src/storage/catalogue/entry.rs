//! One entry of the catalogue, and its stored form: a row.

use std::{ffi::OsString, net::SocketAddr, os::unix::ffi::OsStringExt, path::PathBuf};

use nekoproto::{Manifest, NodeId, SignedRecord, VerifiedRecord, Version, codec};
use serde::{Deserialize, Serialize};

use crate::content::stamp::Stamp;

/// Bytes of the checksum that a row begins with.
const SUM_BYTES: usize = 16;

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

/// A downloaded file.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    /// What it is, and where.
    pub entry: Entry,
    /// Its encoded manifest.
    pub manifest: Vec<u8>,
    /// The hashes of its segments, see [`outboard`](crate::content::outboard); none for small files.
    pub outboard: Vec<u8>,
}

/// Versions that do not take the place by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PassedOver {
    /// Those of this origin,
    pub(crate) origin: NodeId,
    /// up to this one.
    pub(crate) version: Version,
    pub(crate) why: Why,
}

/// Why a version is passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Why {
    /// The command of a follower failed on it.
    Failed,
    /// The user went back to an earlier one.
    RolledBack,
}

impl Entry {
    /// Whether the user unshared it by its name.
    pub(crate) fn is_unshared(&self) -> bool {
        self.record.is_withdrawal() && self.path.as_os_str().is_empty()
    }

    /// Whether its manifest is stored: a small file's follows from its record.
    pub(super) fn stores_manifest(&self) -> bool {
        Manifest::implied_by(&self.record).is_none()
    }
}

/// The stored form. A change to it requires a new number in `schema`.
#[derive(Serialize, Deserialize)]
struct StoredEntry {
    record: SignedRecord,
    path: Vec<u8>,
    stamp: Stamp,
    hashed_at_ns: i128,
    newest: Option<SignedRecord>,
    origin_addr: Option<SocketAddr>,
}

/// The row of `entry`: a checksum, then the stored form.
pub(super) fn to_row(entry: &Entry) -> Result<Vec<u8>, codec::CodecError> {
    let stored = codec::encode(&StoredEntry {
        record: entry.record.to_signed(),
        path: entry.path.clone().into_os_string().into_vec(),
        stamp: entry.stamp,
        hashed_at_ns: entry.hashed_at_ns,
        newest: entry.newest.as_ref().map(VerifiedRecord::to_signed),
        origin_addr: entry.origin_addr,
    })?;
    let mut row = sum(&stored).to_vec();
    row.extend(stored);
    Ok(row)
}

/// The entry in the row of `name`; `None` if the row is damaged.
///
/// Its signatures are not checked: they were before it was stored, and the checksum shows that it is still what
/// was stored. It is no protection against whoever can write to the data folder; they hold this node's key
/// too, and a record that they invent is refused by every node that it is sent to.
pub(super) fn from_row(name: &str, row: &[u8]) -> Option<Entry> {
    let (expected, stored) = row.split_at_checked(SUM_BYTES)?;
    let stored: StoredEntry = (sum(stored) == expected).then(|| codec::decode(stored).ok())??;
    (stored.record.unverified().name.as_str() == name).then(|| Entry {
        record: stored.record.verified_when_stored(),
        path: PathBuf::from(OsString::from_vec(stored.path)),
        stamp: stored.stamp,
        hashed_at_ns: stored.hashed_at_ns,
        newest: stored.newest.map(SignedRecord::verified_when_stored),
        origin_addr: stored.origin_addr,
    })
}

fn sum(stored: &[u8]) -> [u8; SUM_BYTES] {
    let mut sum = [0; SUM_BYTES];
    sum.copy_from_slice(&blake3::hash(stored).as_bytes()[..SUM_BYTES]);
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A damaged row is none, and one that is taken is the same when it is written again. The checksum is made right:
    /// no fuzzing would find it.
    #[test]
    fn catalogue_rows() {
        testkit::fuzz("catalogue_rows", |stored: &[u8]| {
            let row = [&sum(stored)[..], stored].concat();
            let Ok(decoded) = codec::decode::<StoredEntry>(stored) else { return };
            let name = decoded.record.unverified().name.clone();
            let entry = from_row(name.as_str(), &row).unwrap();
            let again = to_row(&entry).ok(); // one that is larger than a frame is not written
            assert!(again.is_none_or(|again| from_row(name.as_str(), &again) == Some(entry)));
        });
    }
}
