//! Real files for the demo: made, changed, hashed.

use std::{
    fs::{File, OpenOptions},
    io::{BufWriter, Write},
    os::unix::fs::FileExt,
    path::Path,
};

use nekoproto::ContentHash;
use rand::{Rng, SeedableRng, rngs::StdRng};

const PIECE: usize = 1024 * 1024;

/// Writes `bytes` random bytes, the same for the same seed.
pub(super) fn write_random(path: &Path, bytes: u64, seed: u64) -> std::io::Result<()> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut file = BufWriter::with_capacity(PIECE, File::create(path)?);
    let mut piece = vec![0; PIECE];
    let mut left = bytes;
    while left > 0 {
        rng.fill_bytes(&mut piece);
        let len = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
        file.write_all(&piece[..len])?;
        left -= len as u64;
    }
    file.flush()
}

/// Overwrites `bytes` in the middle of the file.
pub(super) fn change_middle(path: &Path, bytes: u64) -> std::io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    let len = usize::try_from(bytes).unwrap_or(PIECE);
    file.write_all_at(&vec![0xa5; len], file.metadata()?.len() / 2)
}

/// What `b3sum` prints for the file.
pub(super) fn hash_file(path: &Path) -> std::io::Result<ContentHash> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(path)?)?;
    Ok(ContentHash::from_bytes(*hasher.finalize().as_bytes()))
}
