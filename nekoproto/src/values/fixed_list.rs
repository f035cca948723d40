//! Lists of byte arrays on the wire: the length of all of them together, then their bytes.
//! A query carries a list of tags over every hop; decoding it item by item took half the time of the whole
//! message.

use std::{fmt, marker::PhantomData};

use serde::{Deserializer, Serializer, de};

use super::list::List;

/// An item of `N` bytes.
pub(crate) trait Fixed<const N: usize>: Copy {
    fn to_array(self) -> [u8; N];
    fn from_array(bytes: [u8; N]) -> Self;
}

pub(crate) fn serialize<S: Serializer, T: Fixed<N>, const N: usize, const MAX: usize>(
    list: &List<T, MAX>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut bytes = Vec::with_capacity(list.len() * N);
    list.iter().for_each(|item| bytes.extend_from_slice(&item.to_array()));
    serializer.serialize_bytes(&bytes)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>, T: Fixed<N>, const N: usize, const MAX: usize>(
    deserializer: D,
) -> Result<List<T, MAX>, D::Error> {
    struct Visitor<T, const N: usize, const MAX: usize>(PhantomData<T>);
    impl<T: Fixed<N>, const N: usize, const MAX: usize> de::Visitor<'_> for Visitor<T, N, MAX> {
        type Value = List<T, MAX>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "at most {MAX} times {N} bytes")
        }

        fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
            match bytes.as_chunks() {
                (items, []) if items.len() <= MAX => {
                    Ok(List::first_of(items.iter().map(|item| T::from_array(*item))))
                }
                _ => Err(de::Error::invalid_length(bytes.len(), &self)),
            }
        }
    }
    deserializer.deserialize_bytes(Visitor(PhantomData))
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use crate::{
        codec,
        values::{List, NodeId, NodeTag},
    };

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Tags(#[serde(with = "crate::values::fixed_list")] List<NodeTag, 3>);

    #[test]
    fn whole_items_up_to_the_bound_are_taken() {
        let tag = |n| NodeId::from_bytes([n; 32]).tag();
        for count in 0..=3u8 {
            let tags = Tags(List::first_of((0..count).map(tag)));
            let bytes = codec::encode(&tags).unwrap();
            assert_eq!(bytes.len(), 1 + 8 * usize::from(count));
            assert_eq!(codec::decode::<Tags>(&bytes).unwrap(), tags);
        }
        for len in [1u8, 7, 9, 23, 32] {
            let bytes = [&[len][..], &vec![7; len.into()]].concat();
            assert!(codec::decode::<Tags>(&bytes).is_err(), "{len} bytes");
        }
    }
}
