//! One entry of the catalogue, and its stored form: a row.

use std::{ffi::OsString, net::SocketAddr, os::unix::ffi::OsStringExt, path::PathBuf};

use nekoproto::{Manifest, NodeId, Record, SignedRecord, VerifiedRecord, Version};
use serde::{Deserialize, Serialize};

use redb::Value;

use super::row::{Stored, TableRow, half, kind};
use crate::content::stamp::Stamp;

/// Bytes of the checksum that a row begins with.
const SUM_BYTES: usize = 16;

/// A file that this peer publishes, or holds a copy of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub record: VerifiedRecord,
    /// The absolute path of the file.
    pub path: PathBuf,
    /// Its stamp when its bytes matched the record.
    pub stamp: Stamp,
    /// When these bytes were read or written, by [`crate::content::stamp::now_ns`].
    pub hashed_at_ns: i128,
    pub newest: Option<VerifiedRecord>,
    /// The last known address of the origin; `None` for own files.
    pub origin_addr: Option<SocketAddr>,
}

/// Row, encoded manifest and outboard of a copy.
pub(super) type Placed = (TableRow<Entry>, &'static [u8], &'static [u8]);

#[derive(Clone, Debug)]
pub(crate) struct StoredCopy {
    pub entry: Entry,
    pub manifest: Vec<u8>,
    /// The hashes of its segments, see [`outboard`](crate::content::outboard); none for small files.
    pub outboard: Vec<u8>,
}

impl StoredCopy {
    /// The stored one, unless its entry is damaged.
    pub(super) fn of((entry, manifest, outboard): <Placed as Value>::SelfType<'_>) -> Option<Self> {
        Some(Self { entry: entry?, manifest: manifest.to_vec(), outboard: outboard.to_vec() })
    }
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Why {
    /// The command of a follower failed on it.
    Failed,
    RolledBack,
}

impl Entry {
    /// Whether the user unshared it by its name.
    pub(crate) fn is_unshared(&self) -> bool {
        self.record.is_withdrawal() && self.path.as_os_str().is_empty()
    }

    /// The keys by which it is found. A withdrawal has no file.
    pub(super) fn keys(&self) -> Vec<(u8, u128)> {
        let Record { content, manifest, size, published_ms, .. } = &*self.record;
        if self.record.is_withdrawal() {
            return vec![(kind::WITHDRAWN, (*published_ms).into())];
        }
        let mut keys =
            vec![(kind::CONTENT, half(content.as_bytes())), (kind::MANIFEST, half(manifest.as_bytes()))];
        keys.extend(self.stores_manifest().then(|| (kind::SIZE, (*size).into())));
        keys
    }

    /// Whether its manifest is stored: a small file's follows from its record.
    pub(super) fn stores_manifest(&self) -> bool {
        Manifest::implied_by(&self.record).is_none()
    }
}

/// The stored form. A change to it requires a new number in `schema`.
#[derive(Debug, Serialize, Deserialize)]
struct StoredEntry {
    record: SignedRecord,
    path: Vec<u8>,
    stamp: Stamp,
    hashed_at_ns: i128,
    newest: Option<SignedRecord>,
    origin_addr: Option<SocketAddr>,
}

/// A checksum, then the stored form.
///
/// The signatures are not checked when it is read: they were before it was stored, and the checksum shows that it is still
/// what was stored. It is no protection against whoever can write to the data folder; they hold this node's key
/// too, and a record that they invent is refused by every node that it is sent to.
impl Stored for Entry {
    fn to_bytes(&self) -> Vec<u8> {
        let stored = StoredEntry {
            record: self.record.to_signed(),
            path: self.path.clone().into_os_string().into_vec(),
            stamp: self.stamp,
            hashed_at_ns: self.hashed_at_ns,
            newest: self.newest.as_ref().map(VerifiedRecord::to_signed),
            origin_addr: self.origin_addr,
        };
        let stored = stored.to_bytes();
        [&sum(&stored)[..], &stored].concat()
    }

    fn of_bytes(row: &[u8]) -> Option<Self> {
        let (expected, stored) = row.split_at_checked(SUM_BYTES)?;
        let stored = (sum(stored) == expected).then(|| StoredEntry::of_bytes(stored))??;
        Some(Self {
            record: stored.record.verified_when_stored(),
            path: PathBuf::from(OsString::from_vec(stored.path)),
            stamp: stored.stamp,
            hashed_at_ns: stored.hashed_at_ns,
            newest: stored.newest.map(SignedRecord::verified_when_stored),
            origin_addr: stored.origin_addr,
        })
    }
}

fn sum(stored: &[u8]) -> [u8; SUM_BYTES] {
    *blake3::hash(stored).as_bytes().first_chunk().unwrap_or(&[0; SUM_BYTES]) // 16 of 32 are there
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A damaged row is none, and one that is taken is the same when it is written again. The checksum is made right:
    /// no fuzzing would find it.
    #[test]
    fn catalogue_rows() {
        testkit::fuzz("catalogue_rows", |stored: &[u8]| {
            if StoredEntry::of_bytes(stored).is_some() {
                let entry = Entry::of_bytes(&[&sum(stored)[..], stored].concat()).unwrap();
                assert_eq!(Entry::of_bytes(&entry.to_bytes()), Some(entry));
            }
        });
    }
}
