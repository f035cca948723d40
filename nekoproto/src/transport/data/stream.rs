//! [`DataStream`]: messages of a data connection, with raw bytes between them.

use std::{
    fs::File,
    io,
    ops::Range,
    time::{Duration, Instant},
};

use serde::{Serialize, de::DeserializeOwned};
use tokio::time::timeout;

use super::{hang_up::HangUp, wire::Wire};
use crate::{
    codec,
    limits::{DATA_MESSAGE_BYTES_MAX, STALL_TIMEOUT},
    transport::{error::DataError, node_io::NodeIo, places::Presence},
};

/// A data connection: messages and raw bytes, moved by the calling thread, which may block. A wait ends
/// after [`STALL_TIMEOUT`] without a single byte; slow progress does not end it.
#[derive(Debug)]
pub struct DataStream {
    wire: Wire,
    presence: Presence,
}

impl DataStream {
    /// Takes the socket of `io` from the runtime. It counts as busy but in [`message_begins`](Self::message_begins).
    ///
    /// # Errors
    /// The runtime cannot release the socket.
    pub fn new(io: NodeIo) -> io::Result<Self> {
        let NodeIo { io, presence, .. } = io;
        Ok(Self { wire: Wire::new(io, STALL_TIMEOUT)?, presence })
    }

    /// Replaces [`STALL_TIMEOUT`] by `stall`.
    #[must_use]
    pub fn with_stall(mut self, stall: Duration) -> Self {
        self.wire.stall = stall;
        self
    }

    /// From now on no wait lasts past `deadline`, whatever the progress; `None` removes the deadline.
    pub fn end_at(&mut self, deadline: Option<Instant>) {
        self.wire.deadline = deadline;
    }

    /// A handle to end this stream from another thread.
    #[must_use]
    pub fn hang_up(&self) -> HangUp {
        HangUp(self.wire.socket())
    }

    /// Whether bytes of a further message have arrived.
    pub fn has_bytes(&mut self) -> bool {
        self.wire.has_bytes()
    }

    /// Waits for a message to begin, without blocking a thread.
    ///
    /// # Errors
    /// Nothing arrived within `patience`, or the stream is no longer usable.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn message_begins(&mut self, patience: Duration) -> Result<(), DataError> {
        if self.has_bytes() {
            return Ok(());
        }
        self.presence.set_busy(false);
        let begun = timeout(patience, self.wire.readable()).await.map_err(|_| DataError::Stalled)?;
        self.presence.used();
        self.presence.set_busy(true);
        Ok(begun?)
    }

    /// Sends one message.
    ///
    /// # Errors
    /// The stream is no longer usable.
    pub fn send<T: Serialize>(&mut self, message: &T) -> Result<(), DataError> {
        self.send_with(message, &[])
    }

    /// Sends one message and a few raw bytes after it in one write.
    ///
    /// # Errors
    /// The stream is no longer usable.
    pub fn send_with<T: Serialize>(&mut self, message: &T, raw: &[u8]) -> Result<(), DataError> {
        let mut bytes = Vec::with_capacity(64 + raw.len());
        bytes.extend_from_slice(&[0; 4]);
        codec::encode_into(&mut bytes, message, DATA_MESSAGE_BYTES_MAX as u64)?;
        let len = u32::try_from(bytes.len() - 4).unwrap_or(u32::MAX);
        bytes[..4].copy_from_slice(&len.to_be_bytes());
        bytes.extend_from_slice(raw);
        self.wire.write_all(&bytes)
    }

    /// Receives one message; waits up to `patience` for its beginning.
    ///
    /// # Errors
    /// The stream is no longer usable.
    pub fn receive<T: DeserializeOwned>(&mut self, patience: Duration) -> Result<T, DataError> {
        let mut len = [0; 4];
        let until = Instant::now() + patience;
        self.fill(&mut len, |_| until)?;
        let len = u32::from_be_bytes(len);
        let fits = usize::try_from(len).is_ok_and(|len| len <= DATA_MESSAGE_BYTES_MAX);
        if !fits {
            return Err(DataError::TooLong(len));
        }
        let mut bytes = vec![0; len as usize];
        // A message is short: one stall timeout covers all of it.
        let until = Instant::now() + self.wire.stall;
        self.fill(&mut bytes, |_| until)?;
        Ok(codec::decode(&bytes)?)
    }

    /// Sends raw bytes.
    ///
    /// # Errors
    /// The stream is no longer usable.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), DataError> {
        self.wire.write_all(bytes)
    }

    /// Sends `range` of `file` as raw bytes.
    ///
    /// # Errors
    /// The stream is no longer usable; a file shorter than the range is `UnexpectedEof`.
    pub fn send_file(&mut self, file: &File, range: Range<u64>) -> Result<(), DataError> {
        self.wire.send_file(file, range)
    }

    /// Receives some raw bytes, at least one.
    ///
    /// # Errors
    /// The stream is no longer usable; its end is `UnexpectedEof`.
    pub fn receive_some(&mut self, buffer: &mut [u8]) -> Result<usize, DataError> {
        match self.wire.read(buffer, Some(Instant::now() + self.wire.stall))? {
            0 if !buffer.is_empty() => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            read => Ok(read),
        }
    }

    /// Receives the raw bytes that have arrived, without waiting; possibly none.
    ///
    /// # Errors
    /// The stream is no longer usable.
    pub fn receive_ready(&mut self, buffer: &mut [u8]) -> Result<usize, DataError> {
        self.wire.read_ready(buffer)
    }

    /// Fills `buffer` with raw bytes.
    ///
    /// # Errors
    /// The stream is no longer usable; an early end is `UnexpectedEof`.
    pub fn receive_bytes(&mut self, buffer: &mut [u8]) -> Result<(), DataError> {
        self.fill(buffer, |stall| Instant::now() + stall)
    }

    fn fill(&mut self, buffer: &mut [u8], until: impl Fn(Duration) -> Instant) -> Result<(), DataError> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.wire.read(&mut buffer[filled..], Some(until(self.wire.stall)))? {
                0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                read => filled += read,
            }
        }
        Ok(())
    }
}
