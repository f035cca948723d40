//! Values to bytes and back, always within a limit. The only file that names bincode.
//!
//! Variable-length integers, little-endian; trailing bytes are an error.

use std::io;

use bincode::Options;
use serde::{Serialize, de::DeserializeOwned};

use crate::limits::FRAME_BYTES_MAX;

/// Capacity for an encoded message, in bytes; enough for most. Growing the buffer in steps costs more than
/// the encoding.
const MESSAGE_BYTES_USUAL: usize = 512;

/// Bytes that are not a value of the type, or a value that does not fit its limit.
#[derive(Debug, thiserror::Error)]
#[error("malformed message: {0}")]
pub struct CodecError(#[from] bincode::Error);

fn options(limit: u64) -> impl Options {
    bincode::DefaultOptions::new().with_limit(limit)
}

/// Encodes `value` into a new vector of at most [`FRAME_BYTES_MAX`].
///
/// # Errors
/// The value does not fit a frame.
pub fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, CodecError> {
    let mut bytes = Vec::with_capacity(MESSAGE_BYTES_USUAL);
    append(&mut bytes, value)?;
    if bytes.len() > FRAME_BYTES_MAX {
        return Err(CodecError(Box::new(bincode::ErrorKind::SizeLimit)));
    }
    Ok(bytes)
}

/// Writes `value` to `out`, at most `limit` bytes. After a failure `out` may hold a part of it.
///
/// # Errors
/// The value does not fit the limit, or `out` failed.
pub fn encode_into<T: Serialize>(out: impl io::Write, value: &T, limit: u64) -> Result<(), CodecError> {
    Ok(options(limit).serialize_into(out, value)?)
}

/// Writes `value` to `out` without a limit, for values that their types bound. A limit has bincode count the
/// bytes first, which takes nearly as long as writing them.
pub(crate) fn append<T: Serialize>(out: impl io::Write, value: &T) -> Result<(), CodecError> {
    Ok(bincode::DefaultOptions::new().serialize_into(out, value)?)
}

/// Decodes exactly one value from all of `bytes`.
///
/// # Errors
/// The bytes are too few, too many, or break a rule of the type.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    // Needs no limit: nothing is read past the end of `bytes`, and no memory is reserved for lengths that they
    // only claim.
    Ok(bincode::DefaultOptions::new().deserialize(bytes)?)
}
