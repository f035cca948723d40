//! The signed record: an origin's statement of what one version of a name is.
//!
//! One type for each degree of trust: a [`Record`] is a statement, a [`SignedRecord`] has a signature that is
//! not checked yet (the form on the wire), a [`VerifiedRecord`] one that is valid, and a [`ListedRecord`] is one
//! that an indexer lists. A peer stores and acts on verified records only.

use std::{marker::PhantomData, ops::Deref, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{
    id::{ContentHash, ManifestHash, NodeId, Version},
    name::FileName,
    policy::Policy,
    signature::Signature,
};
use crate::{
    codec,
    limits::{FILE_BYTES_MAX, RECORD_BYTES_MAX},
};

/// Signed before each record, so that its signature is valid for nothing else.
const DOMAIN: &[u8] = b"nekop2p record v1\0";

/// What one version of a file is, as its origin states it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Record {
    /// The publishing node; only its key signs versions of this name.
    pub origin: NodeId,
    /// What the file is shared under.
    pub name: FileName,
    /// The origin's counter for this name.
    pub version: Version,
    /// Length of the file in bytes.
    pub size: u64,
    /// BLAKE3 of the file.
    pub content: ContentHash,
    /// BLAKE3 of the encoded list of its chunks.
    pub manifest: ManifestHash,
    /// How fresh copies must be, and whether it is a set.
    pub policy: Policy,
    /// When the origin published these bytes, in milliseconds since 1970 by its own clock; 0 if it does not say. Shown
    /// and filtered by, never compared to decide which version is newer.
    pub published_ms: u64,
}

impl Record {
    /// The version of `name` that withdraws it: no bytes, under the terms of the version before.
    #[must_use]
    pub fn withdrawal(
        origin: NodeId,
        name: FileName,
        version: Version,
        policy: Policy,
        published_ms: u64,
    ) -> Self {
        let (content, manifest) = of_no_bytes();
        Self {
            origin,
            name,
            version,
            size: 0,
            content,
            manifest,
            policy: policy.of_withdrawal(),
            published_ms,
        }
    }

    /// Whether it withdraws its name: see [`Policy::is_withdrawn`].
    #[must_use]
    pub const fn is_withdrawal(&self) -> bool {
        self.policy.is_withdrawn()
    }

    /// Whether what it states is allowed.
    pub(crate) fn check(&self) -> Result<(), RecordError> {
        if self.size > FILE_BYTES_MAX {
            return Err(RecordError::TooLarge(self.size));
        }
        if self.is_withdrawal() && (self.size, (self.content, self.manifest)) != (0, of_no_bytes()) {
            return Err(RecordError::WithdrawnWithBytes);
        }
        Ok(())
    }

    /// Whether this record replaces `other`: the same file of the same origin, a later version.
    #[must_use]
    pub fn replaces(&self, other: &Self) -> bool {
        self.same_file(other) && self.version > other.version
    }

    /// Whether both are different statements with one version number: the origin lost its counter. The same bytes under
    /// the same terms, published at another time, are no other statement.
    #[must_use]
    pub fn contradicts(&self, other: &Self) -> bool {
        let stated = |record: &Self| (record.content, record.manifest, record.policy, record.size);
        self.same_file(other) && self.version == other.version && stated(self) != stated(other)
    }

    /// Which of two statements that [contradict](Self::contradicts) each other all nodes prefer: one of the two, by
    /// nothing but what they say.
    #[must_use]
    pub fn outranks(&self, other: &Self) -> bool {
        let key = |record: &Self| {
            let policy = record.policy;
            let terms = (policy.lease_secs(), policy.ttr_secs(), policy.staleness(), policy.mode() as u8);
            let terms = (terms, policy.is_set(), policy.is_withdrawn());
            (*record.content.as_bytes(), *record.manifest.as_bytes(), terms, record.size)
        };
        key(self) > key(other)
    }

    /// Whether both speak of the same name of the same origin.
    #[must_use]
    pub fn same_file(&self, other: &Self) -> bool {
        self.origin == other.origin && self.name == other.name
    }

    /// What the origin signs. A time of 0 is left out: records that were signed before there was a time stay valid.
    pub(crate) fn signed_bytes(&self) -> Result<Vec<u8>, RecordError> {
        let mut bytes = DOMAIN.to_vec();
        codec::encode_into(&mut bytes, self, RECORD_BYTES_MAX as u64).map_err(|_| RecordError::Malformed)?;
        if self.published_ms == 0 {
            bytes.pop(); // the last field, one byte long
        }
        Ok(bytes)
    }
}

/// What a version without bytes states of them. Its encoded manifest is the number of its chunks, zero.
fn of_no_bytes() -> (ContentHash, ManifestHash) {
    let [content, manifest] = [&[][..], &[0]].map(|bytes| *blake3::hash(bytes).as_bytes());
    (ContentHash::from_bytes(content), ManifestHash::from_bytes(manifest))
}

/// Why a record is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The signature is not the origin's: the record was invented or changed.
    #[error("the record is not signed by its origin")]
    Forged,
    /// A node other than the origin was to sign.
    #[error("only the origin signs its records")]
    NotTheOrigin,
    /// The stated size is larger than any file may be.
    #[error("a file has at most {FILE_BYTES_MAX} bytes, this one states {0}")]
    TooLarge(u64),
    /// It withdraws its name, and states bytes.
    #[error("a version that unshares its name has no bytes")]
    WithdrawnWithBytes,
    /// The record is longer than its limit.
    #[error("the record is too long")]
    Malformed,
}

/// A record with a signature that is not checked yet: the form on the wire.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SignedRecord {
    record: Record,
    signature: Signature,
}

impl SignedRecord {
    /// A record as it came, with whatever signature: nothing is checked.
    #[must_use]
    pub const fn new(record: Record, signature: Signature) -> Self {
        Self { record, signature }
    }

    /// The statement; must not be acted on before [`verify`](Self::verify).
    #[must_use]
    pub const fn unverified(&self) -> &Record {
        &self.record
    }

    /// The signature; it also identifies the record.
    #[must_use]
    pub const fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Lists the record without checking its signature if `node` is its origin. `node` must be the other end of
    /// the authenticated connection over which the record arrived: an origin is the authority on its own files.
    ///
    /// # Errors
    /// `node` is not the origin, or what is stated is not allowed; the record is returned.
    #[expect(clippy::result_large_err, reason = "the caller gets the record back and verifies it")]
    pub fn said_by(self, node: &NodeId) -> Result<ListedRecord, Self> {
        if self.record.origin != *node || self.record.check().is_err() {
            return Err(self);
        }
        Ok(ListedRecord::checked_before(self))
    }

    /// Accepts the record without checking its signature: for a record that was verified before it was stored
    /// on this node's own disk, where a checksum shows changed bytes.
    #[must_use]
    pub fn verified_when_stored(self) -> VerifiedRecord {
        VerifiedRecord::checked_before(self)
    }

    /// Checks the signature and what is stated. Takes 30 to 45 us.
    ///
    /// # Errors
    /// The record is refused; its sender did not check it either.
    pub fn verify(self) -> Result<VerifiedRecord, RecordError> {
        self.record.check()?;
        if !self.signature.is_by(&self.record.origin, &self.record.signed_bytes()?) {
            return Err(RecordError::Forged);
        }
        Ok(VerifiedRecord::checked_before(self))
    }
}

/// A record, and why it is believed: see [`VerifiedRecord`] and [`ListedRecord`]. A clone copies a pointer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TrustedRecord<Trust>(Arc<SignedRecord>, PhantomData<Trust>);

/// A record whose signature is valid.
pub type VerifiedRecord = TrustedRecord<Verified>;

/// A record that an indexer may list and hand on: its signature is valid, or its origin itself sent it over a
/// connection on which it proved its key. Whoever receives it from the indexer verifies it: a signature that
/// is not valid harms its origin's own file alone.
pub type ListedRecord = TrustedRecord<Listed>;

/// The signature of the record is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verified {}

/// The record may be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Listed {}

impl<Trust> TrustedRecord<Trust> {
    /// For a record known to be worth this trust.
    pub(crate) fn checked_before(record: SignedRecord) -> Self {
        Self(Arc::new(record), PhantomData)
    }

    /// The form on the wire.
    #[must_use]
    pub fn to_signed(&self) -> SignedRecord {
        SignedRecord::clone(&self.0)
    }

    /// The form on the wire, moved out if this is the only clone.
    #[must_use]
    pub fn into_signed(self) -> SignedRecord {
        Arc::unwrap_or_clone(self.0)
    }

    /// The form on the wire, by reference.
    #[must_use]
    pub fn signed(&self) -> &SignedRecord {
        &self.0
    }
}

impl<Trust> Deref for TrustedRecord<Trust> {
    type Target = Record;

    fn deref(&self) -> &Record {
        &self.0.record
    }
}

impl From<VerifiedRecord> for ListedRecord {
    fn from(record: VerifiedRecord) -> Self {
        Self(record.0, PhantomData)
    }
}

#[cfg(test)]
pub(crate) use self::tests::record as testing;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        identity::Identity,
        values::{Mode, Staleness},
    };

    pub(crate) fn record(origin: &Identity, version: u64) -> Record {
        Record {
            origin: origin.id(),
            name: FileName::new("a").unwrap(),
            version: Version::new(version).unwrap(),
            size: 7,
            content: ContentHash::from_bytes([1; 32]),
            manifest: ManifestHash::from_bytes([2; 32]),
            policy: Policy::default(),
            published_ms: 1_795_000_000_000,
        }
    }

    fn identities() -> [Identity; 2] {
        [1, 2].map(|seed| Identity::from_seed(&[seed; 32]))
    }

    #[test]
    fn only_the_origin_itself_is_believed_without_a_look_at_the_signature() {
        let [origin, other] = identities();
        let signed = record(&origin, 3).sign(&origin).unwrap().to_signed();
        assert!(signed.clone().said_by(&origin.id()).is_ok());
        assert_eq!(signed.clone().said_by(&other.id()), Err(signed.clone()));
        let mut too_large = signed;
        too_large.record.size = FILE_BYTES_MAX + 1;
        assert!(too_large.said_by(&origin.id()).is_err());
    }

    #[test]
    fn withdrawal_is_a_version_without_bytes() {
        let [origin, _] = identities();
        let file = record(&origin, 3);
        let withdrawal = Record::withdrawal(file.origin, file.name.clone(), file.version, file.policy, 7);
        let implied = super::super::manifest::Manifest::implied_by(&withdrawal);
        assert_eq!(implied.unwrap().0.size(), 0, "the manifest of no bytes");
        let signed = withdrawal.clone().sign(&origin).unwrap();
        assert!(signed.contradicts(&file), "other than a file of that number");
        let bytes = codec::encode(signed.signed()).unwrap();
        assert_eq!(codec::decode::<SignedRecord>(&bytes).unwrap().verify(), Ok(signed));
        let changes: [fn(&mut Record); 3] = [
            |r| r.size = 1,
            |r| r.content = ContentHash::from_bytes([3; 32]),
            |r| r.manifest = ManifestHash::from_bytes([3; 32]),
        ];
        for change in changes {
            let mut record = withdrawal.clone();
            change(&mut record);
            assert_eq!(record.clone().sign(&origin), Err(RecordError::WithdrawnWithBytes));
            let signature = origin.sign(&record.signed_bytes().unwrap());
            let signed = SignedRecord::new(record, signature);
            assert_eq!(signed.clone().verify(), Err(RecordError::WithdrawnWithBytes));
            assert!(signed.said_by(&origin.id()).is_err());
        }
    }

    #[test]
    fn signed_record_verifies_after_the_wire_and_any_changed_statement_is_forged() {
        let [origin, other] = identities();
        let good = record(&origin, 3).sign(&origin).unwrap();
        let bytes = codec::encode(good.signed()).unwrap();
        assert_eq!(codec::decode::<SignedRecord>(&bytes).unwrap().verify(), Ok(good.clone()));
        assert_eq!(record(&origin, 1).sign(&other), Err(RecordError::NotTheOrigin));
        let changes: [fn(&mut Record); 8] = [
            |r| r.version = Version::new(4).unwrap(),
            |r| r.name = FileName::new("b").unwrap(),
            |r| r.size += 1,
            |r| r.content = ContentHash::from_bytes([3; 32]),
            |r| r.origin = Identity::from_seed(&[2; 32]).id(),
            |r| r.policy = Policy::new(Mode::Pull, 1, 1, Staleness::Bounded).unwrap(),
            |r| r.published_ms += 1,
            |r| r.published_ms = 0,
        ];
        for change in changes {
            let mut forged = good.to_signed();
            change(&mut forged.record);
            assert_eq!(forged.verify(), Err(RecordError::Forged));
        }
    }

    #[test]
    fn the_same_bytes_published_at_another_time_contradict_nothing() {
        let [origin, _] = identities();
        let first = record(&origin, 3);
        let again = Record { published_ms: 0, ..first.clone() };
        assert!(!first.contradicts(&again) && !again.outranks(&first) && !first.outranks(&again));
        assert!(first.contradicts(&Record { size: 8, ..first.clone() }));
        assert!(again.sign(&origin).unwrap().into_signed().verify().is_ok(), "a time need not be stated");
    }

    #[test]
    fn a_size_past_the_limit_is_refused_even_when_signed() {
        let [origin, _] = identities();
        let record = Record { size: FILE_BYTES_MAX + 1, ..record(&origin, 1) };
        let signature = origin.sign(&record.signed_bytes().unwrap());
        let signed = SignedRecord { record, signature };
        assert_eq!(signed.verify(), Err(RecordError::TooLarge(FILE_BYTES_MAX + 1)));
    }

    proptest! {
        #[test]
        fn only_a_later_version_of_the_same_file_replaces(a in 1..9u64, b in 1..9u64, same in any::<bool>()) {
            let [one, two] = identities();
            let (first, second) = (record(&one, a), record(if same { &one } else { &two }, b));
            prop_assert_eq!(second.replaces(&first), same && b > a);
            prop_assert!(!(first.replaces(&second) && second.replaces(&first)));
        }
    }
}
