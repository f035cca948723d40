//! [`DataStream`]: requests and replies of the data stream, with raw bytes between them.

use std::{
    fs::File,
    io,
    net::{Shutdown, TcpStream},
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

use serde::{Serialize, de::DeserializeOwned};
use tokio::time::timeout;

use super::{io::Io, wire::Wire};
use crate::{
    codec::{self, CodecError},
    limits::{DATA_MESSAGE_BYTES_MAX, STALL_TIMEOUT},
};

/// Why a data stream is no longer usable.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The connection broke or ended.
    #[error("the connection broke: {0}")]
    Io(#[from] io::Error),
    /// Nothing moved for too long.
    #[error("nothing came for too long")]
    Stalled,
    /// A message longer than any may be.
    #[error("a message of {0} bytes is over the limit")]
    TooLong(u32),
    /// A message that breaks a rule.
    #[error(transparent)]
    Malformed(#[from] CodecError),
}

/// A data connection: messages and raw bytes, moved by the calling thread, which may block. Every wait
/// ends after [`STALL_TIMEOUT`] without progress; a node that is slow but moves is waited for.
#[derive(Debug)]
pub struct DataStream {
    wire: Wire,
}

/// Ends a data stream from another thread.
#[derive(Clone, Debug)]
pub struct HangUp(Arc<TcpStream>);

impl HangUp {
    /// Ends it: whoever reads or writes it finds it closed, at once.
    pub fn now(&self) {
        drop(self.0.shutdown(Shutdown::Both)); // closed already: as wanted
    }

    /// Ends it when the guard is dropped: a thread that waits in the stream does not outlive the task that
    /// waits for the thread.
    #[must_use]
    pub const fn on_drop(self) -> HangUpOnDrop {
        HangUpOnDrop(Some(self))
    }
}

/// Ends a data stream when it is dropped.
#[derive(Debug)]
pub struct HangUpOnDrop(Option<HangUp>);

impl HangUpOnDrop {
    /// The stream stays open.
    pub fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for HangUpOnDrop {
    fn drop(&mut self) {
        self.0.iter().for_each(HangUp::now);
    }
}

impl DataStream {
    /// Carries messages over `io`, which is taken from the runtime.
    ///
    /// # Errors
    /// The system does not give the socket away.
    pub fn new(io: Io) -> io::Result<Self> {
        Ok(Self { wire: Wire::new(io, STALL_TIMEOUT)? })
    }

    /// Waits at most `stall` for a single byte to move.
    #[must_use]
    pub fn with_stall(mut self, stall: Duration) -> Self {
        self.wire.stall = stall;
        self
    }

    /// From now on nothing is waited for past `deadline`, however well it moves; `None` lifts that.
    pub fn end_at(&mut self, deadline: Option<Instant>) {
        self.wire.deadline = deadline;
    }

    /// What ends this stream from another thread.
    #[must_use]
    pub fn hang_up(&self) -> HangUp {
        HangUp(self.wire.socket())
    }

    /// Whether some bytes of a further message are here already.
    pub fn has_bytes(&mut self) -> bool {
        self.wire.has_bytes()
    }

    /// Waits for a message to begin, without a thread.
    ///
    /// # Errors
    /// Nothing came within `patience`, or the stream is not usable any more.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn message_begins(&mut self, patience: Duration) -> Result<(), DataError> {
        if self.has_bytes() {
            return Ok(());
        }
        Ok(timeout(patience, self.wire.readable()).await.map_err(|_| DataError::Stalled)??)
    }

    /// Sends one message.
    ///
    /// # Errors
    /// The stream is not usable any more.
    pub fn send<T: Serialize>(&mut self, message: &T) -> Result<(), DataError> {
        self.send_with(message, &[])
    }

    /// Sends one message and a few raw bytes behind it at once.
    ///
    /// # Errors
    /// The stream is not usable any more.
    pub fn send_with<T: Serialize>(&mut self, message: &T, raw: &[u8]) -> Result<(), DataError> {
        let mut bytes = Vec::with_capacity(64 + raw.len());
        bytes.extend_from_slice(&[0; 4]);
        codec::encode_into(&mut bytes, message, DATA_MESSAGE_BYTES_MAX as u64)?;
        let len = u32::try_from(bytes.len() - 4).unwrap_or(u32::MAX);
        bytes[..4].copy_from_slice(&len.to_be_bytes());
        bytes.extend_from_slice(raw);
        self.wire.write_all(&bytes)
    }

    /// Receives one message; waits for its beginning as long as `patience`.
    ///
    /// # Errors
    /// The stream is not usable any more.
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
        // A message is short: all of it is due within one stall, not each of its bytes.
        let until = Instant::now() + self.wire.stall;
        self.fill(&mut bytes, |_| until)?;
        Ok(codec::decode(&bytes)?)
    }

    /// Sends raw bytes.
    ///
    /// # Errors
    /// The stream is not usable any more.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), DataError> {
        self.wire.write_all(bytes)
    }

    /// Sends `range` of `file` as raw bytes.
    ///
    /// # Errors
    /// The stream is not usable any more; a file that has become too short is `UnexpectedEof`.
    pub fn send_file(&mut self, file: &File, range: Range<u64>) -> Result<(), DataError> {
        self.wire.send_file(file, range)
    }

    /// Receives some raw bytes, at least one.
    ///
    /// # Errors
    /// The stream is not usable any more; its end is `UnexpectedEof`.
    pub fn receive_some(&mut self, buffer: &mut [u8]) -> Result<usize, DataError> {
        match self.wire.read(buffer, Some(Instant::now() + self.wire.stall))? {
            0 if !buffer.is_empty() => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            read => Ok(read),
        }
    }

    /// Receives the raw bytes that are here already, without waiting; perhaps none.
    ///
    /// # Errors
    /// The stream is not usable any more.
    pub fn receive_ready(&mut self, buffer: &mut [u8]) -> Result<usize, DataError> {
        self.wire.read_ready(buffer)
    }

    /// Fills `buffer` with raw bytes.
    ///
    /// # Errors
    /// The stream is not usable any more; an early end is `UnexpectedEof`.
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
