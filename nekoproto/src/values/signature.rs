//! [`Signature`], by which a node's word is known to be its own.

use ed25519_dalek::VerifyingKey;
use serde::{Deserialize, Serialize};

use super::id::NodeId;

/// An Ed25519 signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Signature(#[serde(with = "serde_bytes")] [u8; 64]);

impl Signature {
    pub(crate) const fn from_bytes(bytes: [u8; 64]) -> Self {
        Self(bytes)
    }

    /// The first eight bytes: they tell the records of a table apart, and prove nothing.
    #[must_use]
    pub const fn mark(&self) -> [u8; 8] {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        [a, b, c, d, e, f, g, h]
    }

    /// Whether `node` signed `message` with this.
    pub(crate) fn is_by(&self, node: &NodeId, message: &[u8]) -> bool {
        let signature = ed25519_dalek::Signature::from_bytes(&self.0);
        VerifyingKey::from_bytes(node.as_bytes())
            .is_ok_and(|key| key.verify_strict(message, &signature).is_ok())
    }
}
