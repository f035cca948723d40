//! Ids and counters: [`NodeId`], [`NodeTag`], [`MsgId`], [`ContentHash`], [`ManifestHash`], [`ChunkHash`],
//! [`Version`].

use std::{fmt, net::SocketAddr, num::NonZeroU64, str::FromStr};

use serde::{Deserialize, Serialize};

use super::{fixed_list::Fixed, hex};

/// Text that is not an id.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("expected 64 hexadecimal digits")]
pub struct NotAnId;

/// Makes a 32-byte id that is shown and read as hexadecimal.
macro_rules! id_of_32_bytes {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(#[serde(with = "serde_bytes")] [u8; 32]);

        impl $name {
            /// Wraps the raw bytes.
            #[must_use]
            pub const fn from_bytes(bytes: [u8; 32]) -> Self {
                Self(bytes)
            }

            /// The raw bytes.
            #[must_use]
            pub const fn as_bytes(&self) -> &[u8; 32] {
                &self.0
            }

            /// The first ten hexadecimal digits, for people.
            #[must_use]
            pub fn short(&self) -> String {
                self.to_string()[..10].to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                hex::write(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "("))?;
                hex::write(&self.0[..5], f)?;
                write!(f, ")")
            }
        }

        impl FromStr for $name {
            type Err = NotAnId;

            fn from_str(text: &str) -> Result<Self, NotAnId> {
                hex::read(text).map(Self).ok_or(NotAnId)
            }
        }
    };
}

id_of_32_bytes! {
    /// A node's Ed25519 public key. Not checked to be a point on the curve: bytes that are none verify no
    /// signature.
    NodeId
}
id_of_32_bytes! {
    /// BLAKE3 of a whole file: what `b3sum FILE` prints.
    ContentHash
}
id_of_32_bytes! {
    /// BLAKE3 of an encoded [`Manifest`](super::manifest::Manifest).
    ManifestHash
}
id_of_32_bytes! {
    /// BLAKE3 of one chunk of a file.
    ChunkHash
}

impl NodeId {
    /// The tag that stands for this node in a covered set.
    #[must_use]
    pub fn tag(&self) -> NodeTag {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        NodeTag([a, b, c, d, e, f, g, h])
    }
}

/// The first eight bytes of a [`NodeId`]: four times smaller in a covered set. Two honest nodes
/// share one with probability 2^-64; making a key with a given tag takes about 2^64 tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeTag(#[serde(with = "serde_bytes")] [u8; 8]);

impl NodeTag {
    /// What stands for the node at `addr` where it is not known who it is: the same wherever it is known by that address.
    #[must_use]
    pub fn of_addr(addr: SocketAddr) -> Self {
        NodeId(*blake3::hash(addr.to_string().as_bytes()).as_bytes()).tag()
    }
}

impl fmt::Display for NodeTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex::write(&self.0, f)
    }
}

impl Fixed<8> for NodeTag {
    fn to_array(self) -> [u8; 8] {
        self.0
    }

    fn from_array(bytes: [u8; 8]) -> Self {
        Self(bytes)
    }
}

/// Identifies one query or invalidation at every indexer it reaches: 128 random bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MsgId(#[serde(with = "serde_bytes")] [u8; 16]);

impl MsgId {
    /// A fresh random id.
    #[must_use]
    pub fn random() -> Self {
        Self(rand::random())
    }

    /// The id with these 128 bits.
    #[must_use]
    pub const fn from_u128(bits: u128) -> Self {
        Self(bits.to_le_bytes())
    }

    /// The n-th id after this one.
    #[must_use]
    pub const fn nth(self, n: u128) -> Self {
        Self::from_u128(u128::from_le_bytes(self.0).wrapping_add(n))
    }

    /// The id under which the indexers know a message that `node` sends under this one: the same wherever it sends it, and
    /// no other node's, whatever that calls its own.
    #[must_use]
    pub fn sent_by(self, node: &NodeId) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.0).update(node.as_bytes());
        let mut id = [0; 16];
        hasher.finalize_xof().fill(&mut id);
        Self(id)
    }

    /// The low eight bits, to choose a shard.
    #[must_use]
    pub const fn low_bits(&self) -> u8 {
        self.0[0]
    }
}

impl fmt::Debug for MsgId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MsgId(")?;
        hex::write(&self.0, f)?;
        write!(f, ")")
    }
}

/// Counter of publishes of one (origin, name): 1 for the first, one more for each that follows.
/// It alone orders the versions of a file; clocks play no part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Version(NonZeroU64);

impl Version {
    /// The version of a first publish.
    pub const FIRST: Self = Self(NonZeroU64::MIN);

    /// The version with this number; `None` for 0.
    #[must_use]
    pub const fn new(number: u64) -> Option<Self> {
        match NonZeroU64::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// The number, at least 1.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0.get()
    }

    /// The version that follows; `None` after the largest number.
    #[must_use]
    pub const fn next(self) -> Option<Self> {
        match self.0.checked_add(1) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec;

    #[test]
    fn id_reads_back_what_it_shows() {
        let id = ContentHash::from_bytes(std::array::from_fn(|i| u8::try_from(i * 7).unwrap()));
        assert_eq!(id.to_string().parse(), Ok(id));
    }

    #[test]
    fn exactly_32_bytes_are_decoded() {
        let hash = ContentHash::from_bytes([7; 32]);
        let bytes = codec::encode(&hash).unwrap();
        assert_eq!(bytes, [&[32][..], &[7; 32]].concat());
        assert_eq!(codec::decode::<ContentHash>(&bytes).unwrap(), hash);
        for len in [0u8, 31, 33, 255] {
            let other = [&[len][..], &vec![7; len.into()]].concat();
            assert!(codec::decode::<ContentHash>(&other).is_err(), "{len}");
        }
        assert!(codec::decode::<ContentHash>(&bytes[..32]).is_err());
    }

    #[test]
    fn id_refuses_other_text() {
        for text in ["", "00", &"0".repeat(63), &"0".repeat(65), &"g".repeat(64), &"é".repeat(32)] {
            assert_eq!(text.parse::<NodeId>(), Err(NotAnId), "{text:?}");
        }
    }

    #[test]
    fn version_counts_from_one_and_ends() {
        assert_eq!(Version::new(0), None);
        assert_eq!(Version::FIRST.next(), Version::new(2));
        assert_eq!(Version::new(u64::MAX).and_then(Version::next), None);
    }
}
