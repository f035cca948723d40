//! The files that are transferred: made from a seed, changed, and held against what arrived.
//! Everything here blocks.

use std::{
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::FileExt,
    path::Path,
};

use blake3::{Hash, OutputReader};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::scenario::{Bulk, Change, How};

/// Bytes made, read or written at once.
const BLOCK_BYTES: usize = 1 << 20;
/// Bytes at either end of a sparse file that are no hole.
const EDGE_BYTES: u64 = 64 << 10;

/// Makes a file at `path`.
pub(crate) fn make(path: &Path, bulk: Bulk, seed: u64) -> io::Result<()> {
    let mut random = random(seed);
    let mut file = File::create(path)?;
    if !bulk.sparse {
        return write_random(&mut file, &mut random, bulk.size);
    }
    file.set_len(bulk.size)?;
    let edge = EDGE_BYTES.min(bulk.size);
    write_random(&mut file, &mut random, edge)?;
    file.seek(SeekFrom::Start(bulk.size - edge))?;
    write_random(&mut file, &mut random, edge)
}

/// Bytes without end that follow from `seed`.
fn random(seed: u64) -> OutputReader {
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof()
}

fn write_random(out: &mut impl Write, random: &mut OutputReader, bytes: u64) -> io::Result<()> {
    let mut block = vec![0; usize::try_from(bytes).unwrap_or(BLOCK_BYTES).min(BLOCK_BYTES)];
    let mut left = bytes;
    while left > 0 {
        let len = usize::try_from(left).unwrap_or(BLOCK_BYTES).min(block.len());
        random.fill(&mut block[..len]);
        out.write_all(&block[..len])?;
        left -= len as u64;
    }
    Ok(())
}

/// Makes `count` files in the new folder `folder`; returns their names, in order.
pub(crate) fn make_small(
    folder: &Path,
    count: usize,
    (least, most): (u64, u64),
    seed: u64,
) -> io::Result<Vec<String>> {
    fs::create_dir_all(folder)?;
    let (mut lengths, mut random) = (StdRng::seed_from_u64(seed), random(seed));
    (0..count)
        .map(|n| {
            let name = format!("{n:07}.bin");
            let bytes = lengths.random_range(least..=most);
            write_random(&mut File::create(folder.join(&name))?, &mut random, bytes)?;
            Ok(name)
        })
        .collect()
}

/// Changes the file at `path` as `change` says; the places are spread evenly over it.
pub(crate) fn change(path: &Path, change: Change, seed: u64) -> io::Result<()> {
    let size = fs::metadata(path)?.len();
    let mut chance = StdRng::seed_from_u64(seed);
    let each = change.bytes_each(size);
    let step = size / change.places.max(1);
    // Somewhere within each step, so that chunks are not hit at the same place every time.
    let room = step.saturating_sub(each).max(1);
    let places: Vec<u64> = (0..change.places).map(|n| n * step + chance.random_range(0..room)).collect();
    match change.how {
        How::InPlace => overwrite(path, &places, each, &mut random(seed)),
        How::Insert => insert(path, &places, each, &mut random(seed)),
    }
}

fn overwrite(path: &Path, places: &[u64], each: u64, random: &mut OutputReader) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).open(path)?;
    for place in places {
        file.seek(SeekFrom::Start(*place))?;
        write_random(&mut file, random, each)?;
    }
    Ok(())
}

fn insert(path: &Path, places: &[u64], each: u64, random: &mut OutputReader) -> io::Result<()> {
    let fresh = path.with_extension("fresh");
    let (mut old, mut new) = (File::open(path)?, File::create(&fresh)?);
    let mut at = 0;
    for place in places {
        io::copy(&mut Read::by_ref(&mut old).take(place - at), &mut new)?;
        write_random(&mut new, random, each)?;
        at = *place;
    }
    io::copy(&mut old, &mut new)?;
    fs::rename(fresh, path)
}

/// BLAKE3 of the file at `path`, read in blocks.
pub(crate) fn hash(path: &Path) -> io::Result<Hash> {
    let mut hasher = blake3::Hasher::new();
    let mut file = File::open(path)?;
    let mut block = vec![0; BLOCK_BYTES];
    loop {
        match file.read(&mut block)? {
            0 => return Ok(hasher.finalize()),
            read => hasher.update(&block[..read]),
        };
    }
}

/// Whether the file at `path` has this hash; one that is not there has not.
pub(crate) fn is_right(path: &Path, hash_of_source: &Hash) -> io::Result<bool> {
    match hash(path) {
        Ok(hash) => Ok(hash == *hash_of_source),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Flips a bit of those bytes of `piece` that lie at one of `places`, which are in order; the piece begins
/// at `offset` of the file. This is how a hostile holder corrupts chunks.
pub(crate) fn corrupt(piece: &mut [u8], offset: u64, places: &[u64]) {
    let end = offset + piece.len() as u64;
    let from = places.partition_point(|place| *place < offset);
    for place in places[from..].iter().take_while(|place| **place < end) {
        if let Some(byte) = usize::try_from(place - offset).ok().and_then(|at| piece.get_mut(at)) {
            *byte ^= 1;
        }
    }
}

/// Reads `len` bytes at `offset` of `file`.
pub(crate) fn read_at(file: &File, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Bulk = Bulk { size: 3 << 20, sparse: false };

    #[test]
    fn a_wrong_file_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let [source, arrived] = ["source", "arrived"].map(|name| folder.path().join(name));
        make(&source, PLAIN, 1).unwrap();
        let expected = hash(&source).unwrap();
        assert!(!is_right(&arrived, &expected).unwrap(), "nothing arrived");
        fs::copy(&source, &arrived).unwrap();
        assert!(is_right(&arrived, &expected).unwrap());
        let file = fs::OpenOptions::new().write(true).open(&arrived).unwrap();
        let byte = read_at(&File::open(&source).unwrap(), 2_000_000, 1).unwrap()[0];
        file.write_all_at(&[byte ^ 1], 2_000_000).unwrap();
        assert!(!is_right(&arrived, &expected).unwrap(), "one bit is wrong");
        file.write_all_at(&[byte], 2_000_000).unwrap();
        file.set_len(PLAIN.size - 1).unwrap();
        assert!(!is_right(&arrived, &expected).unwrap(), "it is cut off");
    }

    #[test]
    fn the_same_seed_makes_the_same_file() {
        let folder = tempfile::tempdir().unwrap();
        let hashes = [(1, false), (1, false), (2, false), (1, true)].map(|(seed, sparse)| {
            let path = folder.path().join("file");
            make(&path, Bulk { sparse, ..PLAIN }, seed).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().len(), PLAIN.size);
            hash(&path).unwrap()
        });
        assert!(hashes[0] == hashes[1] && hashes[0] != hashes[2] && hashes[0] != hashes[3]);
    }

    #[test]
    fn as_much_changes_as_was_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        make(&path, PLAIN, 1).unwrap();
        let before = fs::read(&path).unwrap();
        let by = |how| Change { percent: 1.0, places: 10, how };
        let changed_bytes = by(How::InPlace).bytes_each(PLAIN.size) * 10;
        change(&path, by(How::InPlace), 2).unwrap();
        let after = fs::read(&path).unwrap();
        let other = before.iter().zip(&after).filter(|(a, b)| a != b).count() as u64;
        // One byte in 256 is replaced by the same.
        assert!(other <= changed_bytes && other > changed_bytes * 95 / 100, "{other} of {changed_bytes}");
        change(&path, by(How::Insert), 3).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), PLAIN.size + changed_bytes);
    }

    #[test]
    fn only_the_chosen_places_of_a_piece_are_corrupted() {
        let mut piece = vec![0; 10];
        corrupt(&mut piece, 100, &[5, 99, 100, 104, 109, 110]);
        assert_eq!(piece, [1, 0, 0, 0, 1, 0, 0, 0, 0, 1]);
    }
}
