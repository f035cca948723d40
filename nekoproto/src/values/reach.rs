//! Where a node can be reached, as it says itself and signs.
//!
//! One type for each degree of trust, as for records: a [`Reach`] is a statement, a [`SignedReach`] has a signature
//! that is not checked yet (the form on the wire), a [`VerifiedReach`] one that is valid.

use std::{net::SocketAddr, ops::Deref, sync::Arc, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{id::NodeId, list::List, signature::Signature};
use crate::{
    codec,
    limits::{REACH_ADDRS_MAX, REACH_BYTES_MAX},
};

/// Signed before each statement, so that its signature is valid for nothing else.
const DOMAIN: &[u8] = b"nekop2p reach v1\0";

/// How long a fresh statement is valid.
pub const REACH_FOR: Duration = Duration::from_secs(24 * 3600);
/// How far the clocks of two nodes may be apart.
pub const CLOCKS_APART_MAX: Duration = Duration::from_secs(12 * 3600);

/// Where a node can be reached, as it states itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reach {
    /// The node; a connection to it must prove this key.
    pub node: NodeId,
    /// Its addresses.
    pub addrs: List<SocketAddr, REACH_ADDRS_MAX>,
    /// The end of the statement in milliseconds since 1970, by the node's clock.
    pub expires_ms: u64,
}

impl Reach {
    /// What the node signs.
    pub(crate) fn signed_bytes(&self) -> Vec<u8> {
        let mut bytes = DOMAIN.to_vec();
        #[expect(
            clippy::expect_used,
            reason = "the list of addresses is bounded, all else has a fixed length"
        )]
        codec::encode_into(&mut bytes, self, REACH_BYTES_MAX as u64)
            .expect("REACH_BYTES_MAX is an upper bound");
        bytes
    }
}

/// Why a statement is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReachError {
    /// The signature is not the node's: the statement was invented or changed.
    #[error("the statement is not signed by the node that it is of")]
    Forged,
    /// It ended more than [`CLOCKS_APART_MAX`] ago.
    #[error("the statement has expired")]
    Expired,
}

/// A statement with a signature that is not checked yet: the form on the wire. A clone copies a pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedReach(Arc<Signed>);

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Signed {
    reach: Reach,
    signature: Signature,
}

impl SignedReach {
    pub(crate) fn new(reach: Reach, signature: Signature) -> Self {
        Self(Arc::new(Signed { reach, signature }))
    }

    /// The statement; must not be acted on before [`verify`](Self::verify).
    #[must_use]
    pub fn unverified(&self) -> &Reach {
        &self.0.reach
    }

    /// The signature.
    #[must_use]
    pub fn signature(&self) -> &Signature {
        &self.0.signature
    }

    /// The same for clones of one value.
    pub(crate) fn place_in_memory(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// Checks the signature. Takes 30 to 45 us.
    ///
    /// # Errors
    /// The statement is refused; whoever sent it did not check it either.
    pub fn verify(self) -> Result<VerifiedReach, ReachError> {
        let Signed { reach, signature } = &*self.0;
        if signature.is_by(&reach.node, &reach.signed_bytes()) {
            Ok(VerifiedReach(self))
        } else {
            Err(ReachError::Forged)
        }
    }
}

impl Serialize for SignedReach {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SignedReach {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Signed::deserialize(deserializer).map(|signed| Self(Arc::new(signed)))
    }
}

/// A statement whose signature is valid. A clone copies a pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedReach(SignedReach);

impl VerifiedReach {
    /// For a statement that this node has just signed.
    pub(crate) const fn signed_here(reach: SignedReach) -> Self {
        Self(reach)
    }

    /// The form on the wire.
    #[must_use]
    pub const fn signed(&self) -> &SignedReach {
        &self.0
    }

    /// The form on the wire, moved out.
    #[must_use]
    pub fn into_signed(self) -> SignedReach {
        self.0
    }

    /// Whether it may still be true at `now_ms` by the clock of this node, which may be [`CLOCKS_APART_MAX`] off.
    ///
    /// # Errors
    /// It has expired.
    pub fn check_end(&self, now_ms: u64) -> Result<(), ReachError> {
        let apart = u64::try_from(CLOCKS_APART_MAX.as_millis()).unwrap_or(u64::MAX);
        if self.expires_ms.saturating_add(apart) > now_ms { Ok(()) } else { Err(ReachError::Expired) }
    }

    /// Whether it can have been signed just now: its end is [`REACH_FOR`] from `now_ms`, give or take
    /// [`CLOCKS_APART_MAX`].
    #[must_use]
    pub fn is_fresh(&self, now_ms: u64) -> bool {
        let left = u128::from(self.expires_ms.saturating_sub(now_ms));
        left.abs_diff(REACH_FOR.as_millis()) <= CLOCKS_APART_MAX.as_millis()
    }
}

impl Deref for VerifiedReach {
    type Target = Reach;

    fn deref(&self) -> &Reach {
        self.0.unverified()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Identity;

    const HOUR_MS: u64 = 3600 * 1000;
    const NOW_MS: u64 = 1_795_000_000_000;

    fn reach(node: &Identity) -> Reach {
        let addrs = List::first_of([4000, 4001].map(|port| SocketAddr::from(([127, 0, 0, 1], port))));
        Reach { node: node.id(), addrs, expires_ms: NOW_MS + 24 * HOUR_MS }
    }

    #[test]
    fn any_changed_statement_is_forged() {
        let (node, other) = (Identity::from_seed(&[1; 32]), Identity::from_seed(&[2; 32]));
        let good = node.sign_reach(reach(&node).addrs.to_vec(), reach(&node).expires_ms);
        let bytes = codec::encode(good.signed()).unwrap();
        assert_eq!(codec::decode::<SignedReach>(&bytes).unwrap().verify(), Ok(good.clone()));
        let changes: [fn(&mut Reach, &Identity); 3] = [
            |reach, _| reach.addrs = List::first_of([SocketAddr::from(([192, 0, 2, 1], 80))]),
            |reach, _| reach.expires_ms += 1,
            |reach, other| reach.node = other.id(),
        ];
        for change in changes {
            let mut forged = reach(&node);
            change(&mut forged, &other);
            let forged = SignedReach::new(forged, *good.signed().signature());
            assert_eq!(forged.verify(), Err(ReachError::Forged));
        }
    }

    #[test]
    fn clocks_may_be_half_a_day_apart() {
        let node = Identity::from_seed(&[1; 32]);
        let reach = node.sign_reach(Vec::new(), NOW_MS + 24 * HOUR_MS);
        let cases = [(0, true), (12, true), (13, false)];
        for (hours, fresh) in cases {
            assert_eq!(reach.is_fresh(NOW_MS + hours * HOUR_MS), fresh, "{hours} hours ahead");
            assert_eq!(reach.is_fresh(NOW_MS - hours * HOUR_MS), fresh, "{hours} hours behind");
        }
        assert_eq!(reach.check_end(NOW_MS + 35 * HOUR_MS), Ok(()));
        assert_eq!(reach.check_end(NOW_MS + 36 * HOUR_MS), Err(ReachError::Expired));
    }
}
