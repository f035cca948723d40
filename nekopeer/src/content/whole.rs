//! Reads whole files for their hash, and ranges of several files, one after the other, into one buffer.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::FileExt,
    sync::Arc,
};

use nekoproto::{ByteRange, ContentHash};
use tokio_util::sync::CancellationToken;

const READ_BYTES: usize = 1024 * 1024;

/// The hash of all that `file` has; `None` if `stop` came first. Blocking.
pub(crate) fn hash_of(file: &mut impl Read, stop: &CancellationToken) -> io::Result<Option<ContentHash>> {
    let (mut whole, mut buffer) = (blake3::Hasher::new(), vec![0; READ_BYTES]);
    while !stop.is_cancelled() {
        match file.read(&mut buffer)? {
            0 => return Ok(Some(ContentHash::from_bytes(*whole.finalize().as_bytes()))),
            read => whole.update(&buffer[..read]),
        };
    }
    Ok(None)
}

/// All bytes of `parts`. Blocking.
///
/// # Errors
/// A part is not there in full, or cannot be read.
pub(crate) fn read_parts(parts: &[(Arc<File>, ByteRange)]) -> io::Result<Vec<u8>> {
    let len = parts.iter().map(|(_, range)| range.len).sum::<u64>();
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
    let mut rest = bytes.as_mut_slice();
    for (file, range) in parts {
        let (now, later) = rest.split_at_mut(usize::try_from(range.len).unwrap_or(usize::MAX));
        file.read_exact_at(now, range.offset)?;
        rest = later;
    }
    Ok(bytes)
}
