//! Finds equal chunks of a manifest by binary search: chunk numbers sorted by hash, four bytes each.

use nekoproto::{ChunkHash, Manifest};

/// The indices of the chunks that `counts`, equal chunks side by side in the order of the file. A manifest may have a
/// million: their hashes are not copied.
pub(crate) fn by_hash(manifest: &Manifest, counts: impl Fn(usize) -> bool) -> Vec<u32> {
    let chunks = manifest.chunks();
    let mut sorted: Vec<u32> = (0..u32::try_from(chunks.len()).unwrap_or(u32::MAX))
        .filter(|index| counts(*index as usize))
        .collect();
    sorted.sort_unstable_by_key(|index| (chunks[*index as usize].hash, *index));
    sorted
}

/// Those of `sorted`, which are [by hash](by_hash), with this one.
pub(crate) fn equal_to<'a>(hash: &ChunkHash, sorted: &'a [u32], manifest: &Manifest) -> &'a [u32] {
    let hash_of = |index: &u32| &manifest.chunks()[*index as usize].hash;
    let start = sorted.partition_point(|index| hash_of(index) < hash);
    let len = sorted[start..].partition_point(|index| hash_of(index) == hash);
    &sorted[start..start + len]
}
