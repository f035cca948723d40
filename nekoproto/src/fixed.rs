//! Arrays of bytes on the wire: a length and the bytes, copied at once. Left to themselves, serde's
//! arrays are encoded byte by byte, which cost more than all else in a message.

use std::fmt;

use serde::{Deserializer, Serializer, de};

pub(crate) fn serialize<S: Serializer, const N: usize>(
    bytes: &[u8; N],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(bytes)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>, const N: usize>(
    deserializer: D,
) -> Result<[u8; N], D::Error> {
    struct Visitor<const N: usize>;
    impl<const N: usize> de::Visitor<'_> for Visitor<N> {
        type Value = [u8; N];

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{N} bytes")
        }

        fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
            bytes.try_into().map_err(|_| de::Error::invalid_length(bytes.len(), &self))
        }
    }
    deserializer.deserialize_bytes(Visitor)
}

#[cfg(test)]
mod tests {
    use crate::{ContentHash, codec};

    #[test]
    fn exactly_so_many_bytes_are_taken() {
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
}
