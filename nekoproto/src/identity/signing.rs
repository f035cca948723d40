//! How an origin signs its records.

use super::key_pair::Identity;
use crate::values::{Record, RecordError, SignedRecord, VerifiedRecord};

impl Record {
    /// Signs this record with the origin's key.
    ///
    /// # Errors
    /// `identity` is not the origin, or what is stated is not allowed.
    pub fn sign(self, identity: &Identity) -> Result<VerifiedRecord, RecordError> {
        if self.origin != identity.id() {
            return Err(RecordError::NotTheOrigin);
        }
        self.check()?;
        let signature = identity.sign(&self.signed_bytes()?);
        Ok(VerifiedRecord::checked_before(SignedRecord::new(self, signature)))
    }
}
