//! [`Signature`], by which a node's word is known to be its own.

use std::cell::Cell;

use ed25519_dalek::VerifyingKey;
use serde::{Deserialize, Serialize};

use super::id::NodeId;

thread_local! {
    /// The key that this thread used last: many records in a row are of one origin, and its point takes a tenth of a check.
    static LAST: Cell<Option<VerifyingKey>> = const { Cell::new(None) };
}

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

    pub(crate) fn is_by(&self, node: &NodeId, message: &[u8]) -> bool {
        let signature = ed25519_dalek::Signature::from_bytes(&self.0);
        key_of(node).is_some_and(|key| key.verify_strict(message, &signature).is_ok())
    }
}

/// The key that `node` is; `None` if it is none.
fn key_of(node: &NodeId) -> Option<VerifyingKey> {
    let last = LAST.get().filter(|key| key.as_bytes() == node.as_bytes());
    let key = last.or_else(|| VerifyingKey::from_bytes(node.as_bytes()).ok());
    LAST.set(key.or(LAST.get()));
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Identity;

    #[test]
    fn the_key_of_one_node_does_not_serve_for_another() {
        let [one, other] = [1, 2].map(|n| Identity::from_seed(&[n; 32]));
        let no_key = NodeId::from_bytes([2; 32]);
        for node in [&one, &other, &one] {
            assert_eq!(key_of(&node.id()).map(|key| *key.as_bytes()), Some(*node.id().as_bytes()));
            assert_eq!(key_of(&no_key), None);
        }
    }
}
