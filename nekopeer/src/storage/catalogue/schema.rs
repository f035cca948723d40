//! The tables of the catalogue's database, their rows, and the number of their format.

use std::{fmt::Debug, marker::PhantomData};

use nekoproto::codec;
use redb::{TableDefinition, TypeName, Value};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    entry::{Entry, PassedOver},
    reader::Reader,
    untold::Untold,
};
use crate::{content::stamp::Stamp, state::readers::LastHeard};

/// Number of the stored format; changes with it.
pub(super) const SCHEMA: u64 = 9;
/// A format that is read once, and rewritten: it had a table for each [`kind`] of the index.
pub(super) const SCHEMA_BEFORE: u64 = 8;

/// What a row contains; in the database it is bytes, and `None` if these are damaged.
#[derive(Debug)]
pub(super) struct Row<V>(PhantomData<V>);

/// What can be stored in a [`Row`].
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

impl<V: Stored> Value for Row<V> {
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

/// A table of key and value.
pub(super) type Definition<K, V> = TableDefinition<'static, K, V>;
/// A [kind] of key, a key, and the name of an entry that has it.
pub(super) type IndexKey = (u8, u128, &'static str);
/// Row, encoded manifest and outboard of a copy.
pub(super) type Placed = (Row<Entry>, &'static [u8], &'static [u8]);

/// Kinds of keys by which entries are found.
pub(super) mod kind {
    /// The content of one with a file.
    pub(in super::super) const CONTENT: u8 = 0;
    /// Its manifest.
    pub(in super::super) const MANIFEST: u8 = 1;
    /// Its size, if its manifest is stored.
    pub(in super::super) const SIZE: u8 = 2;
    /// When one that withdraws its name was published.
    pub(in super::super) const WITHDRAWN: u8 = 3;
}

/// `schema` and `node`: identify this database.
pub(super) const META: Definition<&str, &[u8]> = Definition::new("meta");
/// Name -> its entry.
pub(super) const FILES: Definition<&str, Row<Entry>> = Definition::new("files");
/// The keys of each entry.
pub(super) const INDEX: Definition<IndexKey, ()> = Definition::new("index");
/// Name -> its last version number; never removed.
pub(super) const VERSIONS: Definition<&str, u64> = Definition::new("versions");
/// Name -> average chunk length of its last version, in bytes; never removed.
pub(super) const AVERAGES: Definition<&str, u32> = Definition::new("averages");
/// Hash -> encoded manifest, unless the record implies it.
pub(super) const MANIFESTS: Definition<&[u8; 32], &[u8]> = Definition::new("manifests");
/// Hash of a manifest -> outboard of its file.
pub(super) const OUTBOARDS: Definition<&[u8; 32], &[u8]> = Definition::new("outlines");
/// Name -> a copy that is about to be moved to its place.
pub(super) const PLACING: Definition<&str, Placed> = Definition::new("placing");
/// Name -> which versions are passed over once the copy that is about to be moved is in its place.
pub(super) const PASSING: Definition<&str, Row<PassedOver>> = Definition::new("passing");
/// Name -> stamp of a file that came from a pipe and is not published yet.
pub(super) const PIPED: Definition<&str, Row<Stamp>> = Definition::new("piped");
/// Name and origin -> the last entry of a copy that is held no more.
pub(super) const FLOORS: Definition<(&str, &[u8; 32]), Row<Entry>> = Definition::new("floors");
/// Name and reader -> what that said last.
pub(super) const HEARD: Definition<(&str, &[u8; 32]), Row<LastHeard>> = Definition::new("heard");
/// Name -> the version published here that not every indexer has listed.
pub(super) const UNTOLD: Definition<&str, Row<Untold>> = Definition::new("untold");
/// Name -> what the reader here wants of it.
pub(super) const READERS: Definition<&str, Row<Reader>> = Definition::new("readers");
/// Name and sequence number -> an earlier version of a copy that is kept, and the manifest of its pack.
pub(super) const KEPT: Definition<(&str, u64), (Placed, &[u8])> = Definition::new("kept");
/// Name -> path of the folder of a set, and what is there.
pub(super) const TREES: Definition<&str, (&[u8], &[u8])> = Definition::new("trees");

/// The first half of a hash as a key. Two hashes with the same half share it; the entries tell them apart.
pub(super) fn half(hash: &[u8; 32]) -> u128 {
    u128::from_be_bytes(*hash.first_chunk().unwrap_or(&[0; 16])) // 16 of 32 are there
}
