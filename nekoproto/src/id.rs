//! Ids and counters: [`NodeId`], [`NodeTag`], [`MsgId`], [`ContentHash`], [`ManifestHash`], [`Version`].
//!
//! Each type keeps its rule when it is decoded, so a value that exists is a value that is allowed.

use std::{fmt, num::NonZeroU64, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{fixed_list::Fixed, hex};

/// Text that is no id: not exactly the hexadecimal digits of 32 bytes.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("expected 64 hexadecimal digits")]
pub struct NotAnId;

/// Makes a 32-byte id that is shown and read as hexadecimal.
macro_rules! id_of_32_bytes {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(#[serde(with = "crate::fixed")] [u8; 32]);

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

            /// The first ten hexadecimal digits: enough for people to tell ids apart.
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
    /// A node's Ed25519 public key. Whether the bytes are a point on the curve shows when they
    /// are used to verify something; bytes that are none verify nothing.
    NodeId
}
id_of_32_bytes! {
    /// BLAKE3 of a whole file: what `b3sum FILE` prints.
    ContentHash
}
id_of_32_bytes! {
    /// BLAKE3 of an encoded [`Manifest`](crate::Manifest).
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
pub struct NodeTag(#[serde(with = "crate::fixed")] [u8; 8]);

impl Fixed<8> for NodeTag {
    fn to_array(self) -> [u8; 8] {
        self.0
    }

    fn from_array(bytes: [u8; 8]) -> Self {
        Self(bytes)
    }
}

/// Identifies one query or invalidation on its way through the indexers: 128 random bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MsgId(#[serde(with = "crate::fixed")] [u8; 16]);

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

    /// The low bits, for choosing a shard.
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
/// It alone orders the versions of a file; no clock takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Version(NonZeroU64);

impl Version {
    /// The version of a first publish.
    pub const FIRST: Self = Self(NonZeroU64::MIN);

    /// The version with this number; `None` for 0, which is no version.
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

    /// The version that follows; `None` when the counter is used up.
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

    #[test]
    fn id_reads_back_what_it_shows() {
        let id = ContentHash::from_bytes(std::array::from_fn(|i| u8::try_from(i * 7).unwrap()));
        assert_eq!(id.to_string().parse(), Ok(id));
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
