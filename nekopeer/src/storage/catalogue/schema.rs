//! The tables of the catalogue's database, the number of their format, and whose they are.

use redb::TableDefinition;

/// Number of the stored format; changes with it.
pub(super) const SCHEMA: u64 = 8;

/// The first half of a hash. Two hashes with the same half share a key in an index; the entries tell them apart.
pub(super) type HalfHash = [u8; 16];
/// Row, encoded manifest and outboard of a copy.
pub(super) type Placed = (&'static [u8], &'static [u8], &'static [u8]);
/// A table of key and value.
pub(super) type Definition<K, V> = TableDefinition<'static, K, V>;

/// `schema` and `node`: identify this database.
pub(super) const META: Definition<&str, &[u8]> = Definition::new("meta");
/// Name -> row of its entry.
pub(super) const FILES: Definition<&str, &[u8]> = Definition::new("files");
/// Content and name of each entry.
pub(super) const CONTENTS: Definition<(&HalfHash, &str), ()> = Definition::new("contents");
/// Manifest and name of each entry.
pub(super) const MANIFEST_USERS: Definition<(&HalfHash, &str), ()> = Definition::new("manifest users");
/// Size and name of each entry whose manifest is stored.
pub(super) const SIZES: Definition<(u64, &str), ()> = Definition::new("sizes");
/// Name -> its last version number; never removed.
pub(super) const VERSIONS: Definition<&str, u64> = Definition::new("versions");
/// Name -> average chunk length of its last version, in bytes; never removed.
pub(super) const AVERAGES: Definition<&str, u32> = Definition::new("averages");
/// Hash -> encoded manifest, unless the record implies it.
pub(super) const MANIFESTS: Definition<&[u8; 32], &[u8]> = Definition::new("manifests");
/// Of the format before: name -> path of its partial download.
pub(super) const PARTIALS: Definition<&str, &[u8]> = Definition::new("partials");
/// Name -> row, manifest and outboard of a copy that is about to be moved to its place.
pub(super) const PLACING: Definition<&str, Placed> = Definition::new("placing");
/// Name -> which versions are passed over once the copy that is about to be moved is in its place.
pub(super) const PASSING: Definition<&str, &[u8]> = Definition::new("passing");
/// Name -> stamp of a file that came from a pipe and is not published yet.
pub(super) const PIPED: Definition<&str, &[u8]> = Definition::new("piped");
/// Name and origin -> row of the last entry of a copy that is held no more.
pub(super) const FLOORS: Definition<(&str, &[u8; 32]), &[u8]> = Definition::new("floors");
/// Name and reader -> what that said last.
pub(super) const HEARD: Definition<(&str, &[u8; 32]), &[u8]> = Definition::new("heard");
/// Hash of a manifest -> outboard of its file.
pub(super) const OUTBOARDS: Definition<&[u8; 32], &[u8]> = Definition::new("outlines");
/// Of the format before: path of a partial download -> its checkpoint.
pub(super) const PROGRESS: Definition<&[u8], &[u8]> = Definition::new("progress");
/// Name -> the version published here that not every indexer has listed.
pub(super) const UNTOLD: Definition<&str, &[u8]> = Definition::new("untold");
/// Name -> what the reader here wants of it.
pub(super) const READERS: Definition<&str, &[u8]> = Definition::new("readers");
/// Name and sequence number -> an earlier version of a copy that is kept, and the manifest of its pack.
pub(super) const KEPT: Definition<(&str, u64), (Placed, &[u8])> = Definition::new("kept");
/// Time and name of each version here that withdraws its name: the oldest first.
pub(super) const WITHDRAWN: Definition<(u64, &str), ()> = Definition::new("withdrawn");
/// Name -> path of the folder of a set, and what is there.
pub(super) const TREES: Definition<&str, (&[u8], &[u8])> = Definition::new("trees");

pub(super) fn half(hash: &[u8; 32]) -> &HalfHash {
    hash.first_chunk().unwrap_or(&[0; 16]) // 16 of 32 are there
}
