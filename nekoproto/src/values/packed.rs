//! [`PackedRecord`], a listed record in one allocation little larger than its bytes.

use std::fmt;

use triomphe::ThinArc;

use super::{
    id::{ContentHash, ManifestHash, NodeId, Version},
    name::FileName,
    policy::Policy,
    record::{ListedRecord, Record, SignedRecord},
    signature::Signature,
};
use crate::codec;

/// A [`ListedRecord`] for a table of a million: one allocation of about 200 bytes, where the other form
/// takes two with more than 300. A clone copies a pointer.
///
/// The bytes after the ids are the length of the numbers, the numbers, and the name.
#[derive(Clone)]
pub struct PackedRecord(ThinArc<Ids, u8>);

/// The fields of fixed length.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Ids {
    origin: NodeId,
    content: ContentHash,
    manifest: ManifestHash,
    signature: Signature,
}

/// The fields that are mostly small; the codec packs them.
type Numbers = (Version, u64, Policy, u64);

/// Upper bound of packed numbers: three of nine bytes, and a policy of two of five and two of one.
const NUMBERS_MAX: u8 = 39;

impl PackedRecord {
    /// Packs `record`.
    #[must_use]
    #[expect(clippy::expect_used, reason = "NUMBERS_MAX is the longest encoding of any numbers")]
    pub fn new(record: &ListedRecord) -> Self {
        let name = record.name.as_str().as_bytes();
        let mut bytes = Vec::with_capacity(1 + usize::from(NUMBERS_MAX) + name.len());
        bytes.push(0);
        codec::encode_into(&mut bytes, &numbers_of(record), NUMBERS_MAX.into()).expect("numbers fit");
        bytes[0] = u8::try_from(bytes.len() - 1).expect("NUMBERS_MAX is a byte");
        bytes.extend_from_slice(name);
        Self(ThinArc::from_header_and_slice(Ids::of(record.signed()), &bytes))
    }

    /// The record as it was packed.
    #[must_use]
    pub fn unpack(&self) -> ListedRecord {
        self.unpack_as(FileName::checked_before(self.name_bytes()))
    }

    /// The same where its `name` is at hand.
    #[must_use]
    pub fn unpack_as(&self, name: FileName) -> ListedRecord {
        let Ids { origin, content, manifest, signature } = *self.ids();
        let (version, size, policy, published_ms) = self.numbers();
        let record = Record { origin, name, version, size, content, manifest, policy, published_ms };
        ListedRecord::checked_before(SignedRecord::new(record, signature))
    }

    /// The name's UTF-8.
    #[must_use]
    pub fn name_bytes(&self) -> &[u8] {
        &self.0.slice[self.name_at()..]
    }

    /// Who published it.
    #[must_use]
    pub fn origin(&self) -> &NodeId {
        &self.ids().origin
    }

    /// The origin's counter.
    #[must_use]
    pub fn version(&self) -> Version {
        self.numbers().0
    }

    /// The size, and the time of publication.
    #[must_use]
    pub fn size_and_time(&self) -> (u64, u64) {
        let (_, size, _, published_ms) = self.numbers();
        (size, published_ms)
    }

    /// Lists `record` without checking its signature if it equals this one, signature included.
    ///
    /// # Errors
    /// It differs, and is returned.
    #[expect(clippy::result_large_err, reason = "the caller gets the record back and verifies it")]
    pub fn vouch(&self, record: SignedRecord) -> Result<ListedRecord, SignedRecord> {
        if self.is(&record) { Ok(ListedRecord::checked_before(record)) } else { Err(record) }
    }

    /// Whether this equals `record`, signature included.
    #[must_use]
    pub fn is(&self, record: &SignedRecord) -> bool {
        let statement = record.unverified();
        *self.ids() == Ids::of(record)
            && self.name_bytes() == statement.name.as_str().as_bytes()
            && self.numbers() == numbers_of(statement)
    }

    fn ids(&self) -> &Ids {
        &self.0.header.header
    }

    #[expect(clippy::expect_used, reason = "new() encoded the bytes, and they are immutable")]
    fn numbers(&self) -> Numbers {
        codec::decode(&self.0.slice[1..self.name_at()]).expect("packed by new()")
    }

    fn name_at(&self) -> usize {
        1 + usize::from(self.0.slice[0])
    }
}

impl Ids {
    const fn of(record: &SignedRecord) -> Self {
        let Record { origin, content, manifest, .. } = *record.unverified();
        Self { origin, content, manifest, signature: *record.signature() }
    }
}

const fn numbers_of(record: &Record) -> Numbers {
    (record.version, record.size, record.policy, record.published_ms)
}

impl fmt::Debug for PackedRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.unpack().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        Staleness,
        identity::Identity,
        limits::{FILE_BYTES_MAX, NAME_BYTES_MAX, POLICY_SECS_MAX},
        values::{Mode, testing},
    };

    fn record(name: &str, version: u64, size: u64, secs: u32) -> ListedRecord {
        let origin = Identity::from_seed(&[1; 32]);
        let name = FileName::new(name).unwrap();
        let policy = Policy::new(Mode::Pull, secs, 1, Staleness::ServeStale).unwrap();
        let record = Record { name, size, policy, ..testing(&origin, version) };
        record.sign(&origin).unwrap().into()
    }

    proptest! {
        #[test]
        fn what_is_packed_is_unpacked(
            name in "[a-zåπ]{1,80}",
            version in 1..=u64::MAX,
            size in 0..=FILE_BYTES_MAX,
            secs in 1..=POLICY_SECS_MAX,
        ) {
            let record = record(&name, version, size, secs);
            let packed = PackedRecord::new(&record);
            prop_assert_eq!(packed.unpack(), record.clone());
            prop_assert_eq!(packed.version(), record.version);
            prop_assert_eq!(packed.size_and_time(), (record.size, record.published_ms));
            prop_assert_eq!(packed.name_bytes(), name.as_bytes());
            prop_assert_eq!(packed.vouch(record.to_signed()), Ok(record));
        }
    }

    #[test]
    fn the_largest_record_fits() {
        let name = vec!["x".repeat(204); 5].join("/");
        assert_eq!(name.len(), NAME_BYTES_MAX);
        let record = record(&name, u64::MAX, FILE_BYTES_MAX, POLICY_SECS_MAX);
        assert_eq!(PackedRecord::new(&record).unpack(), record);
    }

    #[test]
    fn only_the_very_same_record_is_vouched_for() {
        let packed = PackedRecord::new(&record("a", 1, 1, 1));
        let origin = Identity::from_seed(&[1; 32]);
        let mut forged = Record::clone(&record("a", 1, 1, 1));
        forged.content = ContentHash::from_bytes([9; 32]);
        let others = [
            record("b", 1, 1, 1),
            record("a", 2, 1, 1),
            record("a", 1, 2, 1),
            record("a", 1, 1, 2),
            forged.sign(&origin).unwrap().into(),
        ];
        for other in others {
            // A signature proves nothing but the statement it was made for.
            let swapped =
                SignedRecord::new(Record::clone(&other), *record("a", 1, 1, 1).signed().signature());
            for signed in [other.to_signed(), swapped] {
                assert_eq!(packed.vouch(signed.clone()), Err(signed));
            }
        }
        assert_eq!(*packed.origin(), origin.id());
    }
}
