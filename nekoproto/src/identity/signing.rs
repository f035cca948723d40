//! How an origin signs its records.

use super::key_pair::Identity;
use crate::{
    limits::FILE_BYTES_MAX,
    values::{Record, RecordError, SignedRecord, VerifiedRecord},
};

impl Record {
    /// Signs this record with the origin's key.
    ///
    /// # Errors
    /// `identity` is not the origin, or the file is larger than any file may be.
    pub fn sign(self, identity: &Identity) -> Result<VerifiedRecord, RecordError> {
        if self.origin != identity.id() {
            return Err(RecordError::NotTheOrigin);
        }
        if self.size > FILE_BYTES_MAX {
            return Err(RecordError::TooLarge(self.size));
        }
        let signature = identity.sign(&self.signed_bytes()?);
        Ok(VerifiedRecord::checked_before(SignedRecord::new(self, signature)))
    }
}
