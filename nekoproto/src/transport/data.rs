//! [`DataStream`]: requests and replies of the data stream, with raw bytes between them.

use std::{io, time::Duration};

use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, BufReader},
    time::timeout,
};

use super::io::Io;
use crate::{
    codec::{self, CodecError},
    limits::{DATA_MESSAGE_BYTES_MAX, STALL_TIMEOUT},
};

/// Small reads (messages) are gathered; a read into a larger buffer goes straight through.
const READ_BUFFER_BYTES: usize = 16 * 1024;

/// Why a data stream is no longer usable.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The connection broke or ended.
    #[error("the connection broke: {0}")]
    Io(#[from] io::Error),
    /// Nothing moved for [`STALL_TIMEOUT`].
    #[error("nothing came for {} s", STALL_TIMEOUT.as_secs())]
    Stalled,
    /// A message longer than any may be.
    #[error("a message of {0} bytes is over the limit")]
    TooLong(u32),
    /// A message that breaks a rule.
    #[error(transparent)]
    Malformed(#[from] CodecError),
}

/// A data connection: messages and raw bytes. Every wait ends after [`STALL_TIMEOUT`] without
/// progress; a node that is slow but moves is waited for.
#[derive(Debug)]
pub struct DataStream {
    io: BufReader<Io>,
}

impl DataStream {
    /// Carries messages over `io`.
    #[must_use]
    pub fn new(io: Io) -> Self {
        Self { io: BufReader::with_capacity(READ_BUFFER_BYTES, io) }
    }

    /// Sends one message.
    ///
    /// # Errors
    /// The stream is not usable any more.
    pub async fn send<T: Serialize>(&mut self, message: &T) -> Result<(), DataError> {
        let mut bytes = vec![0; 4];
        codec::encode_into(&mut bytes, message, DATA_MESSAGE_BYTES_MAX as u64)?;
        let len = u32::try_from(bytes.len() - 4).unwrap_or(u32::MAX);
        bytes[..4].copy_from_slice(&len.to_be_bytes());
        self.send_bytes(&bytes).await?;
        self.flush().await
    }

    /// Receives one message; waits for its beginning as long as `patience`.
    ///
    /// # Errors
    /// The stream is not usable any more.
    pub async fn receive<T: DeserializeOwned>(&mut self, patience: Duration) -> Result<T, DataError> {
        let len = timeout(patience, self.io.read_u32()).await.map_err(|_| DataError::Stalled)??;
        let fits = usize::try_from(len).is_ok_and(|len| len <= DATA_MESSAGE_BYTES_MAX);
        if !fits {
            return Err(DataError::TooLong(len));
        }
        let mut bytes = vec![0; len as usize];
        // A message is short: all of it is due within one stall, not each of its bytes.
        timeout(STALL_TIMEOUT, self.receive_bytes(&mut bytes)).await.map_err(|_| DataError::Stalled)??;
        Ok(codec::decode(&bytes)?)
    }

    /// Sends raw bytes, unflushed.
    ///
    /// # Errors
    /// The stream is not usable any more.
    pub async fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), DataError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let writing = self.io.get_mut().write(rest);
            let written = timeout(STALL_TIMEOUT, writing).await.map_err(|_| DataError::Stalled)??;
            if written == 0 {
                return Err(io::Error::from(io::ErrorKind::WriteZero).into());
            }
            rest = &rest[written..];
        }
        Ok(())
    }

    /// Makes sure that all that was sent leaves.
    ///
    /// # Errors
    /// The stream is not usable any more.
    pub async fn flush(&mut self) -> Result<(), DataError> {
        Ok(timeout(STALL_TIMEOUT, self.io.get_mut().flush()).await.map_err(|_| DataError::Stalled)??)
    }

    /// Fills `buffer` with raw bytes.
    ///
    /// # Errors
    /// The stream is not usable any more; an early end is `UnexpectedEof`.
    pub async fn receive_bytes(&mut self, buffer: &mut [u8]) -> Result<(), DataError> {
        let mut filled = 0;
        while filled < buffer.len() {
            let reading = self.io.read(&mut buffer[filled..]);
            match timeout(STALL_TIMEOUT, reading).await.map_err(|_| DataError::Stalled)?? {
                0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                read => filled += read,
            }
        }
        Ok(())
    }
}
