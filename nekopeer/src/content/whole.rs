//! The hash of a whole file.

use std::io::{self, Read};

use nekoproto::ContentHash;
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
