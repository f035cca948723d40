//! The tables of the catalogue's database that several files use, and the number of its format.

use nekoproto::Label;

use super::{
    entry::{Entry, PassedOver, Placed},
    row::{Definition, TableRow},
};
use crate::{content::stamp::Stamp, state::readers::LastHeard};

/// Number of the stored format; changes with it.
pub(super) const SCHEMA: u64 = 9;
/// A format that is read once, and rewritten: it had a table for each [`kind`](super::row::kind) of the index.
pub(super) const SCHEMA_BEFORE: u64 = 8;

/// A [kind] of key, a key, and the name of an entry that has it.
pub(super) type IndexKey = (u8, u128, &'static str);
/// `schema` and `node`: identify this database.
pub(super) const META: Definition<&str, &[u8]> = Definition::new("meta");
/// Name -> its entry.
pub(super) const FILES: Definition<&str, TableRow<Entry>> = Definition::new("files");
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
pub(super) const PASSING: Definition<&str, TableRow<PassedOver>> = Definition::new("passing");
/// Name -> stamp of a file that came from a pipe and is not published yet.
pub(super) const PIPED: Definition<&str, TableRow<Stamp>> = Definition::new("piped");
/// Name and origin -> the last entry of a copy that is held no more.
pub(super) const FLOORS: Definition<(&str, &[u8; 32]), TableRow<Entry>> = Definition::new("floors");
/// Name and reader -> what that said last.
pub(super) const HEARD: Definition<(&str, &[u8; 32]), TableRow<LastHeard>> = Definition::new("heard");
/// A reader -> what people call it.
pub(super) const LABELS: Definition<&[u8; 32], TableRow<Label>> = Definition::new("labels");
/// Name and sequence number -> an earlier version of a copy that is kept, and the manifest of its pack.
pub(super) const KEPT: Definition<(&str, u64), (Placed, &[u8])> = Definition::new("kept");
/// Name -> path of the folder of a set, and what is there.
pub(super) const TREES: Definition<&str, (&[u8], &[u8])> = Definition::new("trees");
