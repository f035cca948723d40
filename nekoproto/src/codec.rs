//! The one place that names bincode: how a value becomes bytes and back, always within a limit.
//!
//! Variable-length integers, little-endian; trailing bytes are an error.

use std::io;

use bincode::Options;
use serde::{Serialize, de::DeserializeOwned};

use crate::limits::FRAME_BYTES_MAX;

/// Bytes that most messages need: memory that grows step by step costs more than the encoding.
const MESSAGE_BYTES_USUAL: usize = 512;

/// Bytes that are no such value, or a value that does not fit its limit.
#[derive(Debug, thiserror::Error)]
#[error("malformed message: {0}")]
pub struct CodecError(#[from] bincode::Error);

fn options(limit: u64) -> impl Options {
    bincode::DefaultOptions::new().with_limit(limit)
}

/// Encodes `value` into fresh bytes, at most a frame of them.
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

/// Writes `value` to `out`, at most `limit` bytes. A failure may leave a part of it in `out`.
///
/// # Errors
/// The value does not fit the limit, or `out` failed.
pub fn encode_into<T: Serialize>(out: impl io::Write, value: &T, limit: u64) -> Result<(), CodecError> {
    Ok(options(limit).serialize_into(out, value)?)
}

/// Writes `value` to `out`, however long it is; for values whose types bound them. Counting the bytes
/// before, as a limit needs it, takes nearly as long as writing them.
///
/// # Errors
/// `out` failed, or the value cannot be encoded.
pub(crate) fn append<T: Serialize>(out: impl io::Write, value: &T) -> Result<(), CodecError> {
    Ok(bincode::DefaultOptions::new().serialize_into(out, value)?)
}

/// Decodes exactly one value from all of `bytes`.
///
/// # Errors
/// The bytes are too few, too many, or break a rule of the type.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    // No limit to count against: nothing is read past the end of the bytes, and nothing is reserved for
    // what they only claim to hold.
    Ok(bincode::DefaultOptions::new().deserialize(bytes)?)
}
