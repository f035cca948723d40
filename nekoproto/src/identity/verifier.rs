//! [`Verifier`]: checks a record's signature once, however often the record arrives.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::values::{RecordError, Signature, SignedRecord, VerifiedRecord};

/// Records in one generation; at most about 1.5 KiB each.
const GENERATION_MAX: usize = 8 * 1024;

/// Remembers verified records, so that a record costs one signature check and not one per message.
///
/// Two generations: a full young one replaces the old one, and records not used since are forgotten with
/// the old one.
#[derive(Debug, Default)]
pub struct Verifier {
    known: Mutex<Generations>,
}

#[derive(Debug, Default)]
struct Generations {
    young: HashMap<Signature, VerifiedRecord>,
    old: HashMap<Signature, VerifiedRecord>,
}

impl Verifier {
    /// Checks `signed`, or finds that the same record was checked before: all of it is compared, not only
    /// its signature.
    ///
    /// # Errors
    /// The record is not to be believed.
    pub fn verify(&self, signed: SignedRecord) -> Result<VerifiedRecord, RecordError> {
        let known = self.known.lock().get(signed.signature());
        if let Some(known) = known.filter(|known| *known.signed() == signed) {
            return Ok(known);
        }
        let verified = signed.verify()?;
        self.known.lock().insert(verified.clone());
        Ok(verified)
    }
}

impl Generations {
    fn get(&mut self, signature: &Signature) -> Option<VerifiedRecord> {
        if let Some(known) = self.young.get(signature) {
            return Some(known.clone());
        }
        let known = self.old.remove(signature)?;
        self.insert(known.clone());
        Some(known)
    }

    fn insert(&mut self, record: VerifiedRecord) {
        if self.young.len() >= GENERATION_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(*record.signed().signature(), record);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        identity::Identity,
        values::{ContentHash, FileName, ManifestHash, Policy, Record, Version},
    };

    fn record(version: u64) -> VerifiedRecord {
        let origin = Identity::from_seed(&[1; 32]);
        let record = Record {
            origin: origin.id(),
            name: FileName::new("a").unwrap(),
            version: Version::new(version).unwrap(),
            size: 1,
            content: ContentHash::from_bytes([0; 32]),
            manifest: ManifestHash::from_bytes([0; 32]),
            policy: Policy::default(),
            published_ms: 1_795_000_000_000,
        };
        record.sign(&origin).unwrap()
    }

    #[test]
    fn a_known_signature_does_not_carry_another_statement() {
        let verifier = Verifier::default();
        verifier.verify(record(1).to_signed()).unwrap();
        let mut bytes = crate::codec::encode(record(1).signed()).unwrap();
        let version_at = 33 + 2; // the origin and the name "a", each with its length
        assert_eq!(bytes[version_at], 1);
        bytes[version_at] = 9;
        let forged: SignedRecord = crate::codec::decode(&bytes).unwrap();
        assert_eq!(forged.signature(), record(1).signed().signature());
        assert_eq!(verifier.verify(forged), Err(RecordError::Forged));
    }

    #[test]
    fn memory_is_bounded() {
        let mut generations = Generations::default();
        let one = record(1);
        for n in 0..3 * GENERATION_MAX {
            let mut bytes = [0; 64];
            bytes[..8].copy_from_slice(&n.to_le_bytes());
            generations.young.insert(Signature::from_bytes(bytes), one.clone());
            if generations.young.len() >= GENERATION_MAX {
                generations.insert(one.clone());
            }
        }
        assert!(generations.young.len() + generations.old.len() <= 2 * GENERATION_MAX + 1);
    }
}
