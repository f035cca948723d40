//! One entry of the catalogue, and its stored form: a row.

use std::{ffi::OsString, net::SocketAddr, os::unix::ffi::OsStringExt, path::PathBuf};

use nekoproto::{
    ContentHash, FileName, Manifest, ManifestHash, NodeId, Policy, RecordError, Signature, SignedRecord,
    VerifiedRecord, Version, codec,
};
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

impl Entry {
    /// Whether its manifest is stored: a small file's follows from its record.
    pub(super) fn stores_manifest(&self) -> bool {
        Manifest::implied_by(&self.record).is_none()
    }
}

/// The stored form. A change to it requires a new schema number in `schema`.
#[derive(Serialize, Deserialize)]
struct StoredEntry<Signed = SignedRecord> {
    record: Signed,
    path: Vec<u8>,
    stamp: Stamp,
    hashed_at_ns: i128,
    newest: Option<Signed>,
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
    (stored.record.unverified().name.as_str() == name)
        .then(|| stored.into_entry(|record| Ok(record.verified_when_stored())).ok())?
}

/// A record as it was before it stated when it was published, and its signature.
type Untimed = ((NodeId, FileName, Version, u64, ContentHash, ManifestHash, Policy), Signature);

/// The entry in a row of schema 1, which had no checksum and whose signatures were checked whenever it was read. `None`
/// if it is damaged.
pub(super) fn from_row_without_sum(row: &[u8]) -> Option<Entry> {
    codec::decode::<StoredEntry<Untimed>>(row).ok()?.timed()?.into_entry(SignedRecord::verify).ok()
}

/// The row of schemas from 4 on of a row of schema 2 or 3, whose records do not state when they were published. `None` if it is
/// damaged.
pub(super) fn row_of_untimed(row: &[u8]) -> Option<Vec<u8>> {
    let (expected, stored) = row.split_at_checked(SUM_BYTES)?;
    let stored: StoredEntry<Untimed> = (sum(stored) == expected).then(|| codec::decode(stored).ok())??;
    to_row(&stored.timed()?.into_entry(|record| Ok(record.verified_when_stored())).ok()?).ok()
}

impl StoredEntry<Untimed> {
    /// The same with records of no stated time, whose signatures stay valid.
    fn timed(self) -> Option<StoredEntry> {
        let Self { record, path, stamp, hashed_at_ns, newest, origin_addr } = self;
        let timed = |(record, signature): Untimed| -> Option<SignedRecord> {
            codec::decode(&codec::encode(&(record, 0u64, signature)).ok()?).ok()
        };
        let newest = match newest {
            Some(newest) => Some(timed(newest)?),
            None => None,
        };
        Some(StoredEntry { record: timed(record)?, path, stamp, hashed_at_ns, newest, origin_addr })
    }
}

impl StoredEntry {
    fn into_entry(
        self,
        check: impl Fn(SignedRecord) -> Result<VerifiedRecord, RecordError>,
    ) -> Result<Entry, RecordError> {
        Ok(Entry {
            record: check(self.record)?,
            path: PathBuf::from(OsString::from_vec(self.path)),
            stamp: self.stamp,
            hashed_at_ns: self.hashed_at_ns,
            newest: self.newest.map(check).transpose()?,
            origin_addr: self.origin_addr,
        })
    }
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
            from_row_without_sum(stored);
            row_of_untimed(&row);
            let Ok(decoded) = codec::decode::<StoredEntry>(stored) else { return };
            let name = decoded.record.unverified().name.clone();
            let entry = from_row(name.as_str(), &row).unwrap();
            let again = to_row(&entry).ok(); // one that is larger than a frame is not written
            assert!(again.is_none_or(|again| from_row(name.as_str(), &again) == Some(entry)));
        });
    }
}
