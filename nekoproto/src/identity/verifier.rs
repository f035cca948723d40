//! [`Verifier`]: checks a signature once, however often the record arrives.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::values::{RecordError, Signature, SignedRecord, VerifiedRecord};

/// Records in one generation; at most about 1.5 KiB each.
const GENERATION_MAX: usize = 8 * 1024;

/// Remembers verified records, so that each costs one signature check and not one per message.
///
/// Two generations: a full young one replaces the old one, and what was not used since is forgotten with the old one.
#[derive(Debug, Default)]
pub struct Verifier {
    records: Mutex<Generations>,
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
        let known = self.records.lock().get(signed.signature());
        if let Some(known) = known.filter(|known| *known.signed() == signed) {
            return Ok(known);
        }
        let verified = signed.verify()?;
        self.remember(&verified);
        Ok(verified)
    }

    /// Keeps a record that is known to be valid, such as one signed here, as if it had been checked.
    pub fn remember(&self, verified: &VerifiedRecord) {
        self.records.lock().insert(*verified.signed().signature(), verified.clone());
    }

    /// Whether the same record was checked before, so that it costs no check.
    #[must_use]
    pub fn knows(&self, signed: &SignedRecord) -> bool {
        self.records.lock().get(signed.signature()).is_some_and(|known| known.signed() == signed)
    }
}

impl Generations {
    fn get(&mut self, signature: &Signature) -> Option<VerifiedRecord> {
        if let Some(known) = self.young.get(signature) {
            return Some(known.clone());
        }
        let known = self.old.remove(signature)?;
        self.insert(*signature, known.clone());
        Some(known)
    }

    fn insert(&mut self, signature: Signature, value: VerifiedRecord) {
        if self.young.len() >= GENERATION_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(signature, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Identity;

    fn record(version: u64) -> VerifiedRecord {
        let origin = Identity::from_seed(&[1; 32]);
        crate::values::testing(&origin, version).sign(&origin).unwrap()
    }

    #[test]
    fn a_known_signature_does_not_carry_another_record() {
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
    fn what_was_signed_here_costs_no_check() {
        let verifier = Verifier::default();
        verifier.remember(&record(1));
        assert!(verifier.knows(record(1).signed()) && !verifier.knows(record(2).signed()));
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
                generations.insert(*one.signed().signature(), one.clone());
            }
        }
        assert!(generations.young.len() + generations.old.len() <= 2 * GENERATION_MAX + 1);
    }
}
