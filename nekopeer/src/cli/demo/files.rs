//! Real files for the demo: made, changed, compared.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufWriter, Read},
    os::unix::fs::FileExt,
    path::Path,
};

use anyhow::ensure;

const PIECE: usize = 1024 * 1024;

/// Writes `bytes` bytes that do not repeat, the same for the same seed.
pub(super) fn write_random(path: &Path, bytes: u64, seed: u64) -> std::io::Result<()> {
    let mut random = blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof();
    io::copy(&mut (&mut random).take(bytes), &mut BufWriter::with_capacity(PIECE, File::create(path)?))?;
    Ok(())
}

pub(super) fn change_middle(path: &Path, bytes: u64) -> std::io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    let len = usize::try_from(bytes).unwrap_or(PIECE);
    file.write_all_at(&vec![0xa5; len], file.metadata()?.len() / 2)
}

pub(super) fn ensure_same(one: &Path, other: &Path) -> anyhow::Result<()> {
    let hash = |path: &Path| -> io::Result<_> {
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(File::open(path)?)?;
        Ok(hasher.finalize())
    };
    ensure!(hash(one)? == hash(other)?, "{} is not {}", one.display(), other.display());
    Ok(())
}
