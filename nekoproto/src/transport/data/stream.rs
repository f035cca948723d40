//! [`DataStream`]: messages of a data connection, with raw bytes between them.

use std::{
    fs::File,
    io,
    ops::Range,
    time::{Duration, Instant},
};

use serde::{Serialize, de::DeserializeOwned};
use tokio::{io::Interest, time::timeout};

use super::{hang_up::HangUp, wire::Wire};
use crate::{
    codec,
    limits::{DATA_MESSAGE_BYTES_MAX, HELLO_BYTES_MAX, STALL_TIMEOUT},
    transport::{error::DataError, handshake::HelloReader, node_io::NodeIo, slots::Activity},
};

/// Time for a refusal to come from an end that has closed the connection.
const REFUSED_WITHIN: Duration = Duration::from_millis(500);

/// A data connection: messages and raw bytes, moved by the calling thread, which may block. A wait ends
/// after [`STALL_TIMEOUT`] without a single byte; slow progress does not end it.
#[derive(Debug)]
pub struct DataStream {
    wire: Wire,
    /// The other end's hello, which comes before its first message.
    hello: Option<HelloReader>,
    /// The part of a message that has arrived, its length included.
    arrived: Vec<u8>,
    activity: Activity,
}

impl DataStream {
    /// Takes the socket of `io` from the runtime. It counts as busy but while
    /// [`next_message`](Self::next_message) waits.
    ///
    /// # Errors
    /// The runtime cannot release the socket.
    pub fn new(io: NodeIo) -> io::Result<Self> {
        let NodeIo { io, activity, pending, .. } = io;
        let hello = pending.map(|pending| pending.hello);
        Ok(Self { wire: Wire::new(io, STALL_TIMEOUT)?, hello, arrived: Vec::new(), activity })
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

    /// For the end that receives requests only: between two requests the stream takes no buffer.
    #[must_use]
    pub const fn for_requests(mut self) -> Self {
        self.wire.receive_requests();
        self
    }

    /// Whether bytes of a further message have arrived.
    pub fn has_bytes(&mut self) -> bool {
        !self.arrived.is_empty() || self.wire.has_bytes()
    }

    /// Takes the next message if all of it has arrived. Does not wait.
    ///
    /// # Errors
    /// The stream is no longer usable; its end is `UnexpectedEof`.
    pub fn receive_arrived<T: DeserializeOwned>(&mut self) -> Result<Option<T>, DataError> {
        let mut piece = [0; 512];
        loop {
            let (has_len, wanted) = match self.arrived.first_chunk() {
                Some(len) => (true, 4 + message_len(*len)?),
                None => (false, 4),
            };
            if self.arrived.len() == wanted && has_len {
                let message = codec::decode(&self.arrived[4..])?;
                self.arrived = Vec::new();
                return Ok(Some(message));
            }
            let room = piece.len().min(wanted - self.arrived.len());
            match self.read(&mut piece[..room], None) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(read) => self.arrived.extend_from_slice(&piece[..read]),
                Err(DataError::Stalled) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits for the next message without blocking a thread: up to `idle` for its beginning, and up to `within` for the
    /// rest. A stream that waits takes one descriptor, and memory only for what has arrived.
    ///
    /// # Errors
    /// It did not arrive in time, or the stream is no longer usable.
    ///
    /// # Cancel safety
    /// Safe: what has arrived is kept.
    pub async fn next_message<T: DeserializeOwned>(
        &mut self,
        idle: Duration,
        within: Duration,
    ) -> Result<T, DataError> {
        let mut until = Instant::now() + idle;
        let mut has_begun = false;
        loop {
            if let Some(message) = self.receive_arrived()? {
                self.activity.used();
                self.activity.set_busy(true);
                return Ok(message);
            }
            self.activity.set_busy(false);
            if !has_begun && self.has_bytes() {
                has_begun = true;
                until = until.min(Instant::now() + within);
            }
            self.wire.release();
            self.ready(Interest::READABLE, until.saturating_duration_since(Instant::now())).await?;
        }
    }

    /// Waits until the socket takes bytes, without blocking a thread.
    ///
    /// # Errors
    /// It took none within `patience`, or the stream is no longer usable.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn takes_more(&mut self, patience: Duration) -> Result<(), DataError> {
        self.wire.release();
        self.ready(Interest::WRITABLE, patience).await
    }

    async fn ready(&self, interest: Interest, patience: Duration) -> Result<(), DataError> {
        Ok(timeout(patience, self.wire.ready(interest)).await.map_err(|_| DataError::Stalled)??)
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
        let mut bytes = encoded(message, raw.len())?;
        bytes.extend_from_slice(raw);
        self.send_bytes(&bytes)
    }

    /// Receives one message; waits up to `patience` for its beginning.
    ///
    /// # Errors
    /// The stream is no longer usable.
    pub fn receive<T: DeserializeOwned>(&mut self, patience: Duration) -> Result<T, DataError> {
        let mut len = [0; 4];
        let until = Instant::now() + patience;
        self.fill(&mut len, |_| until)?;
        let mut bytes = vec![0; message_len(len)?];
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
        let stall = self.wire.stall;
        let sent = self.wire.write(bytes, stall).and_then(|sent| self.all_sent(sent == bytes.len()));
        sent.map_err(|error| self.refusal().unwrap_or(error))
    }

    /// Why the other end refused this connection, if it did: where it closed it before all was sent, that can still be read.
    fn refusal(&mut self) -> Option<DataError> {
        self.hello.as_ref()?;
        let soon = Instant::now() + REFUSED_WITHIN;
        self.read(&mut [0], Some(soon)).err().filter(|error| matches!(error, DataError::Hello(_)))
    }

    /// Sends `range` of `file` as raw bytes.
    ///
    /// # Errors
    /// The stream is no longer usable; a file shorter than the range is `UnexpectedEof`.
    pub fn send_file(&mut self, file: &File, range: Range<u64>) -> Result<(), DataError> {
        let (stall, len) = (self.wire.stall, range.end.saturating_sub(range.start));
        let sent = self.wire.send_file(file, range, stall)?;
        self.all_sent(sent == len)
    }

    fn all_sent(&mut self, all: bool) -> Result<(), DataError> {
        let stall = self.wire.stall;
        if all && self.wire.flush(stall)? { Ok(()) } else { Err(DataError::Stalled) }
    }

    /// Sends raw bytes until the socket takes none for `patience`; returns the number sent. Under TLS the last of them
    /// may wait for [`flush_some`](Self::flush_some).
    ///
    /// # Errors
    /// The stream is no longer usable.
    pub fn send_some(&mut self, bytes: &[u8], patience: Duration) -> Result<usize, DataError> {
        self.wire.write(bytes, patience)
    }

    /// As [`send_some`](Self::send_some), with `range` of `file`.
    ///
    /// # Errors
    /// The stream is no longer usable; a file shorter than the range is `UnexpectedEof`.
    pub fn send_file_some(
        &mut self,
        file: &File,
        range: Range<u64>,
        patience: Duration,
    ) -> Result<u64, DataError> {
        self.wire.send_file(file, range, patience)
    }

    /// Sends what is encrypted already; false if the socket takes nothing for `patience`.
    ///
    /// # Errors
    /// The stream is no longer usable.
    pub fn flush_some(&mut self, patience: Duration) -> Result<bool, DataError> {
        self.wire.flush(patience)
    }

    /// Receives some raw bytes, at least one.
    ///
    /// # Errors
    /// The stream is no longer usable; its end is `UnexpectedEof`.
    pub fn receive_some(&mut self, buffer: &mut [u8]) -> Result<usize, DataError> {
        let until = Instant::now() + self.wire.stall;
        match self.read(buffer, Some(until))? {
            0 if !buffer.is_empty() => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            read => Ok(read),
        }
    }

    /// Receives the raw bytes that have arrived, without waiting; possibly none.
    ///
    /// # Errors
    /// The stream is no longer usable.
    pub fn receive_ready(&mut self, buffer: &mut [u8]) -> Result<usize, DataError> {
        match self.read(buffer, None) {
            Err(DataError::Stalled) => Ok(0),
            read => read,
        }
    }

    /// Fills `buffer` with raw bytes.
    ///
    /// # Errors
    /// The stream is no longer usable; an early end is `UnexpectedEof`.
    pub fn receive_bytes(&mut self, buffer: &mut [u8]) -> Result<(), DataError> {
        self.fill(buffer, |stall| Instant::now() + stall)
    }

    /// Reads at least one byte behind the other end's hello, as [`Wire::read`].
    fn read(&mut self, buffer: &mut [u8], until: Option<Instant>) -> Result<usize, DataError> {
        while let Some(hello) = &mut self.hello {
            let Some(wanted) = hello.wanted()? else {
                hello.hello()?;
                self.hello = None;
                break;
            };
            let mut piece = [0; HELLO_BYTES_MAX];
            let room = wanted.min(piece.len());
            match self.wire.read(&mut piece[..room], until)? {
                0 => return Ok(0),
                read => hello.received.extend_from_slice(&piece[..read]),
            }
        }
        self.wire.read(buffer, until)
    }

    fn fill(&mut self, buffer: &mut [u8], until: impl Fn(Duration) -> Instant) -> Result<(), DataError> {
        let mut filled = 0;
        while filled < buffer.len() {
            let until = until(self.wire.stall);
            match self.read(&mut buffer[filled..], Some(until))? {
                0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                read => filled += read,
            }
        }
        Ok(())
    }
}

/// `message` with its length before it, and room for `more` bytes.
///
/// # Errors
/// It is longer than a message may be.
pub fn encoded<T: Serialize>(message: &T, more: usize) -> Result<Vec<u8>, DataError> {
    let mut bytes = Vec::with_capacity(64 + more);
    bytes.extend_from_slice(&[0; 4]);
    codec::encode_into(&mut bytes, message, DATA_MESSAGE_BYTES_MAX as u64)?;
    let len = u32::try_from(bytes.len() - 4).unwrap_or(u32::MAX);
    bytes[..4].copy_from_slice(&len.to_be_bytes());
    Ok(bytes)
}

fn message_len(len: [u8; 4]) -> Result<usize, DataError> {
    let len = u32::from_be_bytes(len);
    let fits = usize::try_from(len).ok().filter(|len| *len <= DATA_MESSAGE_BYTES_MAX);
    fits.ok_or(DataError::TooLong(len))
}
