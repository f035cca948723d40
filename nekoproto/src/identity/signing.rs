//! How a node signs: an origin its records, and every node where it can be reached.

use std::net::SocketAddr;

use super::key_pair::Identity;
use crate::{
    clock,
    values::{
        List, REACH_FOR, Reach, Record, RecordError, SignedReach, SignedRecord, VerifiedReach, VerifiedRecord,
    },
};

impl Identity {
    /// States that this node can be reached at `addrs`, of which the first [`REACH_ADDRS_MAX`](crate::limits::REACH_ADDRS_MAX)
    /// count, until `expires_ms` (milliseconds since 1970).
    #[must_use]
    pub fn sign_reach(&self, addrs: impl IntoIterator<Item = SocketAddr>, expires_ms: u64) -> VerifiedReach {
        let reach = Reach { node: self.id(), addrs: List::first_of(addrs), expires_ms };
        let signature = self.sign(&reach.signed_bytes());
        VerifiedReach::signed_here(SignedReach::new(reach, signature))
    }

    /// The same until [`REACH_FOR`] from now.
    #[must_use]
    pub fn fresh_reach(&self, addrs: impl IntoIterator<Item = SocketAddr>) -> VerifiedReach {
        let lasts_ms = u64::try_from(REACH_FOR.as_millis()).unwrap_or(u64::MAX);
        self.sign_reach(addrs, clock::unix_ms().saturating_add(lasts_ms))
    }
}

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
