//! [`List`], a vector that cannot be longer than its bound, built or decoded.

use std::{fmt, marker::PhantomData, ops::Deref};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// At most `MAX` items. Decoding refuses a longer list before it reads the items.
#[derive(Clone, PartialEq, Eq)]
pub struct List<T, const MAX: usize>(Vec<T>);

/// More items than the list may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at most {max} items fit, these are {len}")]
pub struct TooMany {
    /// How many there were.
    pub len: usize,
    /// How many fit.
    pub max: usize,
}

impl<T, const MAX: usize> List<T, MAX> {
    /// The empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// The first `MAX` of `items`; the rest is dropped.
    pub fn first_of(items: impl IntoIterator<Item = T>) -> Self {
        Self(items.into_iter().take(MAX).collect())
    }

    /// The items as a vector.
    #[must_use]
    pub fn into_vec(self) -> Vec<T> {
        self.0
    }
}

impl<T, const MAX: usize> TryFrom<Vec<T>> for List<T, MAX> {
    type Error = TooMany;

    fn try_from(items: Vec<T>) -> Result<Self, TooMany> {
        if items.len() <= MAX { Ok(Self(items)) } else { Err(TooMany { len: items.len(), max: MAX }) }
    }
}

impl<T, const MAX: usize> Default for List<T, MAX> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, const MAX: usize> Deref for List<T, MAX> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T, const MAX: usize> IntoIterator for List<T, MAX> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<T: fmt::Debug, const MAX: usize> fmt::Debug for List<T, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: Serialize, const MAX: usize> Serialize for List<T, MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for List<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<T, const MAX: usize>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const MAX: usize> de::Visitor<'de> for Visitor<T, MAX> {
            type Value = List<T, MAX>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "at most {MAX} items")
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                let claimed = items.size_hint().unwrap_or(0);
                if claimed > MAX {
                    return Err(de::Error::invalid_length(claimed, &self));
                }
                let mut list = Vec::with_capacity(claimed);
                while let Some(item) = items.next_element()? {
                    if list.len() == MAX {
                        return Err(de::Error::invalid_length(MAX + 1, &self));
                    }
                    list.push(item);
                }
                Ok(List(list))
            }
        }
        deserializer.deserialize_seq(Visitor(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_over_its_bound_is_refused_on_both_ways_in() {
        let five = vec![1u8, 2, 3, 4, 5];
        let encoded = crate::codec::encode(&five).unwrap();
        assert!(crate::codec::decode::<List<u8, 4>>(&encoded).is_err());
        assert_eq!(crate::codec::decode::<List<u8, 5>>(&encoded).unwrap().into_vec(), five);
        assert_eq!(List::<u8, 4>::try_from(five), Err(TooMany { len: 5, max: 4 }));
    }

    #[test]
    fn a_claimed_length_of_billions_is_refused_at_once() {
        let encoded = crate::codec::encode(&u64::MAX).unwrap();
        assert!(crate::codec::decode::<List<u8, 5>>(&encoded).is_err());
    }
}
