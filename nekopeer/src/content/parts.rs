//! Reads ranges of several files, one after the other, into one buffer.

use std::{fs::File, io, os::unix::fs::FileExt, sync::Arc};

use nekoproto::ByteRange;

/// All bytes of `parts`. Blocking.
///
/// # Errors
/// A part is not there in full, or cannot be read.
pub(crate) fn read(parts: &[(Arc<File>, ByteRange)]) -> io::Result<Vec<u8>> {
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
