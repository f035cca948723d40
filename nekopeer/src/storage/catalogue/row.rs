//! [`TableRow`]: a typed value of a table; and the keys of the index.

use std::{fmt::Debug, marker::PhantomData};

use nekoproto::codec;
use redb::{TableDefinition, TypeName, Value};
use serde::{Serialize, de::DeserializeOwned};

/// What a row contains; in the database it is bytes, and `None` if these are damaged.
#[derive(Debug)]
pub(super) struct TableRow<V>(PhantomData<V>);

pub(super) trait Stored: Debug + Sized + 'static {
    fn to_bytes(&self) -> Vec<u8>;
    fn of_bytes(bytes: &[u8]) -> Option<Self>;
}

impl<V: Serialize + DeserializeOwned + Debug + 'static> Stored for V {
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        codec::encode_into(&mut bytes, self, u64::MAX).map_or_else(|_| Vec::new(), |()| bytes) // memory takes it
    }

    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        codec::decode(bytes).ok()
    }
}

impl<V: Stored> Value for TableRow<V> {
    type SelfType<'a> = Option<V>;
    type AsBytes<'a> = Vec<u8>;

    fn fixed_width() -> Option<usize> {
        None
    }

    fn from_bytes<'a>(bytes: &'a [u8]) -> Option<V>
    where
        Self: 'a,
    {
        V::of_bytes(bytes)
    }

    fn as_bytes<'a, 'b: 'a>(row: &'a Option<V>) -> Vec<u8>
    where
        Self: 'b,
    {
        row.as_ref().map_or_else(Vec::new, V::to_bytes)
    }

    fn type_name() -> TypeName {
        <&[u8]>::type_name()
    }
}

pub(super) type Definition<K, V> = TableDefinition<'static, K, V>;
/// Kinds of keys by which entries are found.
pub(super) mod kind {
    /// The content of one with a file.
    pub(in super::super) const CONTENT: u8 = 0;
    pub(in super::super) const MANIFEST: u8 = 1;
    /// Its size, if its manifest is stored.
    pub(in super::super) const SIZE: u8 = 2;
    /// When one that withdraws its name was published.
    pub(in super::super) const WITHDRAWN: u8 = 3;
}

/// The first half of a hash as a key. Two hashes with the same half share it; the entries tell them apart.
pub(super) fn half(hash: &[u8; 32]) -> u128 {
    u128::from_be_bytes(*hash.first_chunk().unwrap_or(&[0; 16])) // 16 of 32 are there
}
